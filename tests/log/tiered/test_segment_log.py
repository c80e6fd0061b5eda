"""What a manifest says of its segment's end is looked at where it would let one segment replace another."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.log.tiered import copy_of, golden, key_pairs, rows_of

import brokerless
from brokerless import Finding, Kind


@pytest.mark.parametrize("name", ["plain", "compressed", "encrypted"])
@pytest.mark.parametrize("added", [3, 40, 1 << 40])
def test_an_end_that_is_too_far_hides_no_other_segment(name: str, added: int, tmp_path: Path) -> None:
    bucket = copy_of(name, tmp_path / "bucket")
    whole = rows_of(brokerless.open(bucket, key_pairs=key_pairs()))
    manifest = next(
        each for directory in sorted(bucket.glob("*/*")) for each in sorted(directory.glob("*.rsm-manifest"))[1:2]
    )
    text = manifest.read_text()
    end = int(re.findall(r'"endOffset":(\d+)', text)[0])
    manifest.write_text(text.replace(f'"endOffset":{end}', f'"endOffset":{end + added}'))
    bucket = bucket.rename(tmp_path / "changed")
    found: list[Finding] = []
    assert rows_of(brokerless.open(bucket, key_pairs=key_pairs()), found) == whole
    (finding,) = [each for each in found if each.severity == "error"]
    assert (finding.kind, finding.expected, finding.found) == (
        Kind.REMOTE_MANIFEST_INVALID,
        f"endOffset {end}",
        str(end + added),
    )


def second_copy(bucket: Path) -> tuple[Path, Path]:
    """Another complete copy of the second segment of a partition; the logs of both."""
    manifest = next(
        each for directory in sorted(bucket.glob("*/*")) for each in sorted(directory.glob("*.rsm-manifest"))[1:2]
    )
    segment_id = manifest.name[21:43]
    for path in manifest.parent.glob(f"*{segment_id}*"):
        content = path.read_bytes()
        content = content.replace(segment_id.encode(), b"A" * 22) if path == manifest else content
        path.with_name(path.name.replace(segment_id, "A" * 22)).write_bytes(content)
    log = manifest.with_suffix(".log")
    return log, log.with_name(log.name.replace(segment_id, "A" * 22))


@pytest.mark.parametrize("name", ["plain", "compressed", "encrypted"])
@pytest.mark.parametrize("damaged", [0, 1])
@pytest.mark.parametrize("at", [0.01, 0.5, 0.99])
def test_an_intact_copy_is_read_where_a_segment_is_damaged(name: str, damaged: int, at: float, tmp_path: Path) -> None:
    """Of the two, one is read whichever is damaged, and what is damaged is named if it would be read."""
    bucket = copy_of(name, tmp_path / "bucket")
    whole = rows_of(brokerless.open(bucket, key_pairs=key_pairs()))
    logs = second_copy(bucket)
    content = bytearray(logs[damaged].read_bytes())
    content[int(len(content) * at)] ^= 1
    logs[damaged].write_bytes(content)
    found: list[Finding] = []
    log = brokerless.open(bucket, key_pairs=key_pairs())
    assert rows_of(log, found) == whole
    warnings = [each for each in found if each.severity != "info"]
    assert {(each.kind, each.file) for each in warnings} <= {(Kind.REMOTE_SEGMENT_DAMAGED, f"{logs[damaged]}")}
    assert {each.severity for each in warnings} <= {"warning"}
    assert {each.kind for each in log.verify() if each.severity != "info"} == {each.kind for each in warnings}
    assert len(log.partitions[0].records().read_all()) > 0  # which raises for errors
    first = int(logs[0].name[:20])
    place = next(each for each in log.partitions if str(logs[0].parent).endswith(f"/{each.paths[0].partition}")
                 and logs[0].parents[1].name.startswith(f"{each.paths[0].topic}-"))  # fmt: skip
    found.clear()
    rows = rows_of(place, found, start_offset=first + 1, end_offset=first + 3)
    assert [row[0] for row in rows] == [first + 1, first + 2]


@pytest.mark.parametrize("name", ["plain", "encrypted"])
def test_two_damaged_copies_are_read_as_one(name: str, tmp_path: Path) -> None:
    bucket = copy_of(name, tmp_path / "bucket")
    for at, path in enumerate(second_copy(bucket)):
        content = bytearray(path.read_bytes())
        content[len(content) // 2 + at] ^= 1
        path.write_bytes(content)
    found: list[Finding] = []
    rows_of(brokerless.open(bucket, key_pairs=key_pairs()), found)
    kinds = {each.kind for each in found if each.severity == "error"}
    assert (Kind.CHECKSUM_MISMATCH if name == "plain" else Kind.REMOTE_CHUNK_INVALID) in kinds
    assert Kind.REMOTE_SEGMENT_DAMAGED not in kinds


@pytest.mark.parametrize("damage", [0.2, 0.9, None])
@pytest.mark.parametrize("is_longer_damaged", [True, False])
def test_copies_of_a_growing_segment_are_read_as_one(
    damage: float | None, is_longer_damaged: bool, tmp_path: Path
) -> None:
    """A script has uploaded it twice; what the longer one has lost, the other has."""
    source = golden() / "killed" / "bucket"
    log = min(source.glob("killed-*/0/*.rsm-manifest")).with_suffix(".log")
    content, at = log.read_bytes(), 0
    while at < len(content) // 2:
        at += int.from_bytes(content[at + 8 : at + 12], "big") + 12
    copies = [content[:at], content]
    if damage is not None:
        changed = bytearray(copies[is_longer_damaged])
        changed[int(at * damage)] ^= 1
        copies[is_longer_damaged] = bytes(changed)
    for name, each in zip("ab", copies, strict=True):
        path = tmp_path / "t" / "0" / f"{log.name[:20]}-{name}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(each)
    found: list[Finding] = []
    opened = brokerless.open(tmp_path, layout="{topic}/{partition}/{offset}-*.log")
    rows = rows_of(opened, found)
    assert rows == rows_of(brokerless.open(log))
    damaged = [each.file for each in found if each.kind == Kind.REMOTE_SEGMENT_DAMAGED]
    is_named = damage is not None and is_longer_damaged
    assert damaged == ([str(tmp_path / "t" / "0" / f"{log.name[:20]}-b.log")] if is_named else [])
    assert [each for each in opened.verify() if each.severity == "error"] == []
