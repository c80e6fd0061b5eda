"""Manifests that the real plugin wrote, explained: the fields make up each byte, and chunks are where the object has
them."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from tests.log.tiered import golden

import brokerless
from brokerless.explanation.builder import FieldBudget
from brokerless.explanation.field import Field
from brokerless.explanation.records import RecordRange
from brokerless.explanation.remote.manifests import explain_manifest
from brokerless.log.tiered.manifest import LIMIT

MANIFESTS = sorted(golden().rglob("*.rsm-manifest"))


def transformed(fields: tuple[Field, ...]) -> Field:
    index = next(each for each in fields[0].children if each.name == "chunkIndex")
    return next(each for each in index.children if each.name == "transformedChunks")


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name[:43])
def test_each_member_of_what_the_plugin_wrote(path: Path) -> None:
    explained = brokerless.explain(path)
    assert explained.kind == "rsm-manifest"
    assert b"".join(each.raw for each in explained.fields) == path.read_bytes()
    assert not list(explained.problems())
    found = {name: each for name, each in explained.leaves() if not name.endswith((".begin", ".end", ".name"))}
    written = json.loads(path.read_bytes())
    expected: dict[str, object] = {}

    def flatten(members: dict[str, object], above: str) -> None:
        for name, value in members.items():
            if isinstance(value, dict):
                flatten(value, f"{above}.{name}")
            else:
                expected[f"{above}.{name}"] = value

    flatten(written, "manifest")
    assert {name: each.value for name, each in found.items()} == expected
    unnoted = {name.rpartition(".")[2] for name, each in found.items() if not each.note}
    assert unnoted <= {"topic", "partition"}


@pytest.mark.parametrize("limit", [1, 100])
def test_sizes_of_chunks_are_unfolded(limit: int) -> None:
    path = max((golden() / "compressed" / "bucket").rglob("*.rsm-manifest"), key=lambda each: each.stat().st_size)
    inflated = transformed(explain_manifest(path.read_bytes(), RecordRange(None, limit), FieldBudget())).inflated
    assert inflated is not None
    assert sum(each.length for each in inflated.fields) == inflated.size
    chunks = [each for each in inflated.fields if each.name.startswith("chunk[")]
    count = inflated.fields[0].value
    assert isinstance(count, int)
    assert len(chunks) == min(count - 1, limit) + 1
    stored = path.with_name(path.name.replace("rsm-manifest", "log")).stat().st_size
    assert chunks[-1].note.endswith(f"to {stored - 1} of the object")
    if limit >= count:
        assert sum(each.value for each in chunks if isinstance(each.value, int)) == stored


def test_damaged_manifests_are_explained_as_far_as_they_make_sense() -> None:
    data = (golden() / "compressed-encrypted" / "bucket").rglob("*.rsm-manifest").__next__().read_bytes()
    chosen = RecordRange(None, 100)
    randomly = random.Random(4)
    for _ in range(500):
        damaged = bytearray(data)
        for _ in range(randomly.choice([1, 1, 3])):
            damaged[randomly.randrange(len(damaged))] = randomly.randrange(256)
        cut = bytes(damaged[: randomly.randrange(1, len(damaged) + 1)])
        fields = explain_manifest(cut, chosen, FieldBudget())
        assert b"".join(each.raw for each in fields) == cut
    fields = explain_manifest(data.replace(b'"version":"1"', b'"version":"2"'), chosen, FieldBudget())
    assert fields[0].expected == "a manifest: Invalid enum value '2' - at `$.version`"
    for bomb in (b'{"a":' * 1000, b"{" + b'"a":1,' * 100_000, b" " * (LIMIT + 1), b"[" * 10_000, b""):
        assert sum(each.length for each in explain_manifest(bomb, chosen, FieldBudget())) == len(bomb)


@pytest.mark.parametrize(
    ("name", "content", "position", "text"),
    [
        (f"{0:020}-{'A' * 22}", b"{", 0, "it ends within the JSON, at byte 1"),
        ("cut", b'{"version":"1","chunkIndex":{"type":"fi', 29, "it ends within the JSON, at byte 39"),
        ("cut", b'{"version":"1",', 15, "it ends within the JSON, at byte 15"),
        ("list", b"[]", 0, "an object in JSON"),
        ("wrong", b'{"version":x}', 1, "a value in JSON"),
    ],
)
def test_what_is_called_a_manifest_is_explained_as_one(
    name: str, content: bytes, position: int, text: str, tmp_path: Path
) -> None:
    """And where its JSON stops is a problem."""
    path = tmp_path / f"{name}.rsm-manifest"
    path.write_bytes(content)
    explained = brokerless.explain(path)
    assert (explained.kind, explained.size) == ("rsm-manifest", len(content))
    ((_, problem),) = explained.problems()
    assert text in str(problem.expected)
    assert problem.position == min(position, len(content) - 1)
    assert ("cut off" in str(problem.expected)) == ("at byte" in text)


def test_an_empty_manifest_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.rsm-manifest").touch()
    with pytest.raises(brokerless.UnreadableError, match="it is empty"):
        brokerless.explain(tmp_path / "empty.rsm-manifest")
