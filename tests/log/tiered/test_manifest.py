from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples, some_quick
from tests.log.tiered import golden
from tests.log.tiered.fuzz_manifests import run

from brokerless.log.tiered.manifest import LIMIT, dump_manifest, parse_manifest
from brokerless.values import WrongJsonError


def manifest(name: str) -> dict[str, Any]:
    return json.loads(min((golden() / name / "bucket").glob("**/*.rsm-manifest")).read_bytes())


def test_what_the_plugin_wrote() -> None:
    found = parse_manifest(json.dumps(manifest("compressed-encrypted")).encode())
    assert (found.topic, found.partition, found.start_offset, found.is_compressed) == ("epochs", 0, 0, True)
    assert found.encryption is not None
    assert found.encryption.key_id == "key2"
    assert len(found.encryption.aad) == 32
    assert not found.is_plain
    assert parse_manifest(json.dumps(manifest("plain")).encode()).is_plain


@pytest.mark.parametrize("name", ["plain", "compressed", "encrypted", "compressed-encrypted", "killed"])
def test_a_manifest_is_written_as_the_plugin_did(name: str) -> None:
    for each in (golden() / name / "bucket").glob("**/*.rsm-manifest"):
        assert dump_manifest(parse_manifest(each.read_bytes())) == each.read_bytes()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda each: each.pop("version"), "required field `version`"),
        (lambda each: each.update(version=1), "got `int` - at `..version`"),
        (lambda each: each.update(compression="yes"), "Expected `bool`, got `str` - at `..compression`"),
        (lambda each: each["encryption"].update(dataKey="key1"), "dataKey does not begin"),
        (lambda each: each["encryption"].update(dataKey="key1:?"), "dataKey is not Base64"),
        (lambda each: each["encryption"].update(aad="A" * 20_000), "aad is too long"),
        (lambda each: each["chunkIndex"].update(transformedChunkSize=4096), "sizes of chunks do not make"),
        (lambda each: each["chunkIndex"].update(finalTransformedChunkSize=1), "sizes of chunks do not make"),
        (lambda each: each["remoteLogSegmentMetadata"].update(endOffset=-1), "endOffset"),
        (lambda each: each["remoteLogSegmentMetadata"].update(segmentLeaderEpochs={}), "segmentLeaderEpochs"),
        (
            lambda each: each["remoteLogSegmentMetadata"].update(segmentLeaderEpochs={"x": 1}),
            "got `str` - at `key` in `.*LeaderEpochs`",
        ),
        (
            lambda each: each["remoteLogSegmentMetadata"]["remoteLogSegmentId"].update(id="../.."),
            "SegmentId.id`",
        ),
        (
            lambda each: each["remoteLogSegmentMetadata"]["remoteLogSegmentId"]["topicIdPartition"][
                "topicPartition"
            ].update(topic="../etc"),
            "topic is no name of a topic",
        ),
    ],
)
def test_what_is_no_manifest(change: Any, reason: str) -> None:
    found = manifest("encrypted")
    change(found)
    with pytest.raises(WrongJsonError, match=reason):
        parse_manifest(json.dumps(found).encode())


def test_chunks_that_are_too_large_to_be_held() -> None:
    found = manifest("compressed")
    found["chunkIndex"] = {
        "type": "fixed", "originalChunkSize": 1 << 30, "originalFileSize": 1 << 30, "transformedChunkSize": 9,
        "finalTransformedChunkSize": 9,
    }  # fmt: skip
    with pytest.raises(WrongJsonError, match="the most that is read"):
        parse_manifest(json.dumps(found).encode())


@pytest.mark.parametrize(("count", "seed"), some_quick([(1000, 7), (20_000, 8)]))
def test_mutated_manifests(count: int, seed: int) -> None:
    """``python -m tests.log.tiered.fuzz_manifests`` does any number of them."""
    tracemalloc.start()
    parsed, refused = run(count, seed)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert parsed > count // 50
    assert refused > count // 2
    assert peak < 200 << 20


@examples(10)
@given(st.integers(0, 2**32 - 1))
def test_manifests_that_any_seed_mutates(seed: int) -> None:
    assert sum(run(200, seed)) == 200


@pytest.mark.parametrize("text", ["[{}" + ",{}" * 900_000 + "]", '{"a":0' + ',"a":0' * 300_000 + "}", "[" * LIMIT])
def test_json_of_many_members_is_not_parsed(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("this takes seconds")

    monkeypatch.setattr("brokerless.log.tiered.manifest.from_json", refuse)
    with pytest.raises(WrongJsonError, match="more members"):
        parse_manifest(text.encode())


def test_chunks_of_a_few_bytes_are_not_read() -> None:
    """Each of them takes a call of its own: a segment of a megabyte would take minutes."""
    found = manifest("encrypted")
    size = 1 << 20
    found["chunkIndex"] = {
        "type": "fixed",
        "originalChunkSize": 1,
        "originalFileSize": size,
        "transformedChunkSize": 29,
        "finalTransformedChunkSize": 29,
    }
    with pytest.raises(WrongJsonError, match="1048576 chunks of 1 bytes; the smallest that are read have 1024"):
        parse_manifest(json.dumps(found).encode())
    found["chunkIndex"]["originalFileSize"] = 4096
    assert parse_manifest(json.dumps(found).encode()).chunks.count == 4096
