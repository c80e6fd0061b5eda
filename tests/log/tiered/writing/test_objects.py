"""Objects appear whole, in an order in which no reader takes half of a segment for one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.log.upload.test_remote_log import FORMATS, log_of, segments_of

from brokerless.errors import UnwritableError
from brokerless.log.storage.location import Location
from brokerless.log.tiered.writing.objects import SegmentEnd, SegmentUpload, UploadPlace

TOPIC_ID = "bbMok4j9QXa8hdxXeyxm9g"
END = SegmentEnd(149, 5, ((0, 0),), {"offset": b"", "timestamp": b"", "producerSnapshot": b"x", "leaderEpoch": b"y"})


def batches() -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    _, segments, at = segments_of("plain")[0]
    return log_of(segments[at])


def place(bucket: str) -> UploadPlace:
    return UploadPlace(Location(bucket), "orders", TOPIC_ID, 0)


def names(directory: Path) -> list[str]:
    return sorted(each.name.rpartition(".")[2] for each in directory.rglob("*") if each.is_file())


def test_the_log_is_there_when_it_is_whole_and_the_manifest_comes_last(tmp_path: Path) -> None:
    upload = SegmentUpload(place(str(tmp_path)), 0, FORMATS["plain"][0])
    upload.write(batches())
    assert names(tmp_path) == ["tmp"]
    upload.finish(END)
    assert names(tmp_path) == ["indexes", "log", "rsm-manifest"]
    times = {each.suffix: each.stat().st_mtime_ns for each in (tmp_path / f"orders-{TOPIC_ID}" / "0").iterdir()}
    assert times[".log"] <= times[".indexes"] <= times[".rsm-manifest"]


def test_an_abandoned_segment_leaves_nothing(tmp_path: Path) -> None:
    upload = SegmentUpload(place(str(tmp_path)), 0, FORMATS["plain"][0])
    upload.write(batches())
    upload.abandon()
    assert not names(tmp_path)


def test_a_directory_that_cannot_be_written_to_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / f"orders-{TOPIC_ID}").write_text("")
    upload = SegmentUpload(place(str(tmp_path)), 0, FORMATS["plain"][0])
    with pytest.raises(UnwritableError, match=f"orders-{TOPIC_ID}"):
        upload.write(batches())
