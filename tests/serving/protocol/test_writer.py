from __future__ import annotations

from pathlib import Path

from brokerless.format.messages.reader import decode
from brokerless.log.directory import SegmentPaths
from brokerless.log.storage.location import DirectoryEntry, Location
from brokerless.serving.protocol.tables import apis
from brokerless.serving.protocol.writer import FileRange, encode, response_head

FETCH = 1


def test_each_version_of_each_response_can_be_read_again() -> None:
    """Kafka's own classes read them in ``test_differential``."""
    for api in apis().values():
        for version in api.versions:
            (data,) = encode(api.response, version, {})
            assert isinstance(data, bytes)
            found, end = decode(api.response, version, data)
            assert end == len(data)
            assert set(found) == {
                each.name for each in api.response.fields if version in each.versions and version not in each.tagged
            }


def test_ranges_of_files_stay_ranges(tmp_path: Path) -> None:
    entry = DirectoryEntry("any", Location(str(tmp_path)), is_directory=False, size=100)
    piece = FileRange(SegmentPaths(0, entry), True, 10, 300)
    partition = {"partitionIndex": 3, "highWatermark": 9, "records": [piece, b"xyz"]}
    answer = {"responses": [{"topic": "any", "partitions": [partition, {"partitionIndex": 4, "records": []}]}]}
    for version in (4, 12):
        pieces = encode(apis()[FETCH].response, version, answer)
        assert [each for each in pieces if isinstance(each, FileRange)] == [piece]
        data = b"".join(each if isinstance(each, bytes) else b"r" * len(each) for each in pieces)
        found, end = decode(apis()[FETCH].response, version, data)
        assert end == len(data)
        records = [each["records"] for each in found["responses"][0]["partitions"]]
        assert records == [b"r" * 300 + b"xyz", b""]


def test_a_head_has_tags_where_its_version_is_flexible() -> None:
    assert response_head(7, is_flexible=False) == b"\0\0\0\7"
    assert response_head(7, is_flexible=True) == b"\0\0\0\7\0"
