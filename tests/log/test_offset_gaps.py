"""A segment that is missing is damage, wherever compaction or retention does not explain it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.golden import BROKERS, broker_data
from tests.log.odd_logs import batch, log_name, numbered

import brokerless
from brokerless import DamageError, Finding
from brokerless.cli import main
from brokerless.clusters.directory_state import load_directory_state
from brokerless.jobs.audit.job import audit_partition

CLEAN = broker_data("clean")
NAME = "segments-0"
"""Segments of a topic that was only appended to: from 0, 169, 342 and 543 on."""


def missing(path: Path) -> list[tuple[str, str, int | None]]:
    """What verify says of it."""
    found = [each for each in brokerless.open(path).verify() if each.kind == "missing-segment"]
    return [(each.severity, Path(each.file).name, each.offset) for each in found]


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A log directory with one partition, whose second segment is gone."""
    shutil.copytree(CLEAN / NAME, tmp_path / "disk" / NAME)
    remove(tmp_path / "disk", 1)
    return tmp_path / "disk"


def remove(disk: Path, number: int) -> int:
    """Removes a segment, and gives its base offset."""
    log = sorted((disk / NAME).glob("*.log"))[number]
    for path in (disk / NAME).glob(f"{log.stem}.*"):
        path.unlink()
    return int(log.stem)


def following(disk: Path) -> int:
    return int(sorted((disk / NAME).glob("*.log"))[1].stem)


@pytest.mark.parametrize("broker", BROKERS)
def test_what_brokers_compacted_and_removed_is_not_missing(broker: str) -> None:
    assert missing(broker_data(broker)) == []
    for directory in broker_data(broker).iterdir():
        if directory.is_dir():
            assert missing(directory) == []


@pytest.mark.parametrize("broker", BROKERS)
def test_nor_is_it_without_the_checkpoints_of_the_log_directory(broker: str, tmp_path: Path) -> None:
    for directory in broker_data(broker).iterdir():
        if directory.is_dir() and not directory.name.startswith("__"):
            shutil.copytree(directory, tmp_path / directory.name)
    assert missing(tmp_path) == []


def test_readers_report_it_where_it_is(disk: Path) -> None:
    last = following(disk)
    log = brokerless.open(disk)

    def check(read: Callable[[Callable[[Finding], None]], list[int]], count: int) -> None:
        found: list[Finding] = []
        assert len(read(found.append)) == count
        assert [(each.kind, each.severity, each.offset, each.expected) for each in found] == [
            ("missing-segment", "error", 169, "offset 169")
        ]
        assert Path(found[0].file).name == f"{last:020}.log"

    check(lambda tell: [row for batch in log.records(on_damage=tell) for row in batch["offset"].to_pylist()], 527)
    check(lambda tell: log.segments(on_damage=tell)["baseOffset"].to_pylist(), 3)
    with pytest.raises(DamageError, match="offsets 169 to 341 are missing"):
        list(log.records())
    with pytest.raises(DamageError, match="offsets 169 to 341 are missing"):
        list(log.batches())
    with pytest.raises(DamageError, match="offsets 169 to 341 are missing"):
        log.segments()
    with pytest.raises(DamageError, match="offsets 169 to 341 are missing"):
        log.convert(disk.parent / "to", codec="zstd")
    assert missing(disk) == [("error", f"{last:020}.log", 169)]


@pytest.mark.parametrize(
    ("limits", "is_told"),
    [
        ({"end_offset": 169}, False), ({"end_offset": 170}, True), ({"start_offset": 342}, False),
        ({"start_offset": 341}, True), ({"start_offset": 200, "end_offset": 300}, True),
    ],
)  # fmt: skip
def test_only_what_is_asked_for_is_missing(disk: Path, limits: dict[str, int], is_told: bool) -> None:
    found: list[Finding] = []
    list(brokerless.open(disk).records(on_damage=found.append, **limits))  # type: ignore[arg-type]
    assert [each.kind for each in found] == ["missing-segment"] * is_told


@pytest.mark.parametrize("command", ["verify", "cat", "ls", "batches", "audit", "convert", "export"])
def test_commands_exit_with_1(disk: Path, command: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    more = ["--to", str(disk.parent / "to")] if command in ("convert", "export") else []
    more += ["--codec", "gzip"] if command == "convert" else []
    assert main([command, str(disk), *more]) == 1
    out, err = capfdbinary.readouterr()
    assert b"offsets 169 to 341 are missing" in (out if command in ("verify", "audit") else err)


def test_an_audit_reports_it_once(disk: Path) -> None:
    log = brokerless.open(disk)
    (partition,) = log.directory.partitions
    audit = audit_partition(partition, load_directory_state(log.directory).of(partition))
    kinds = [each.kind for each in audit.findings]
    assert kinds.count("missing-segment") == 1
    assert "offset-gap" not in kinds


EXPLAINED: dict[str, Callable[[Path], object]] = {
    "the cleaner's checkpoint": lambda disk: (disk / "cleaner-offset-checkpoint").write_text("0\n1\nsegments 0 342\n"),
    "deleted records": lambda disk: (disk / "log-start-offset-checkpoint").write_text("0\n1\nsegments 0 342\n"),
}


@pytest.mark.parametrize("how", EXPLAINED)
def test_what_explains_it(disk: Path, how: str) -> None:
    EXPLAINED[how](disk)
    assert missing(disk) == []


def test_from_the_log_start_offset_on_it_is_missing(disk: Path) -> None:
    (disk / "log-start-offset-checkpoint").write_text("0\n1\nsegments 0 300\n")
    assert missing(disk) == [("error", f"{342:020}.log", 300)]


def test_the_clusters_metadata_says_what_is_compacted(tmp_path: Path) -> None:
    """The topic ``compacted-none`` is, as the metadata of the broker that wrote it says; ``segments`` is not."""
    shutil.copytree(CLEAN / "__cluster_metadata-0", tmp_path / "__cluster_metadata-0")
    for topic in ("compacted-none", "segments"):
        shutil.copytree(CLEAN / NAME, tmp_path / f"{topic}-0")
        for path in (tmp_path / f"{topic}-0").glob(f"{169:020}.*"):
            path.unlink()
    found = [each for each in brokerless.open(tmp_path).verify() if each.kind == "missing-segment"]
    assert [Path(each.file).parent.name for each in found] == [NAME]


CLEANED = "0\n1\n{} 0 342\n"


@pytest.mark.parametrize(
    "command", [["convert", "--codec", "gzip"], ["convert", "--batch-size", "500"], ["salvage"], ["merge"]]
)
def test_what_is_written_of_a_compacted_log_explains_it_too(disk: Path, command: list[str]) -> None:
    EXPLAINED["the cleaner's checkpoint"](disk)
    to = disk.parent / "to"
    assert main([command[0], str(disk), "--to", str(to), *command[1:]]) == 0
    assert missing(to) == []
    assert (to / "cleaner-offset-checkpoint").read_text() == CLEANED.format("segments")


def test_a_hole_that_only_the_clusters_metadata_explains_is_explained_where_that_is_not(tmp_path: Path) -> None:
    shutil.copytree(CLEAN / "__cluster_metadata-0", tmp_path / "disk" / "__cluster_metadata-0")
    path = Path(shutil.copytree(CLEAN / NAME, tmp_path / "disk" / "compacted-none-0"))
    for file in path.glob(f"{169:020}.*"):
        file.unlink()
    assert main(["convert", str(path), "--to", str(tmp_path / "to"), "--codec", "lz4"]) == 0
    assert missing(tmp_path / "to") == []
    assert (tmp_path / "to" / "cleaner-offset-checkpoint").read_text() == CLEANED.format("compacted-none")


def test_a_log_without_holes_was_not_compacted(tmp_path: Path) -> None:
    assert main(["convert", str(CLEAN / NAME), "--to", str(tmp_path / "to"), "--codec", "lz4"]) == 0
    assert not (tmp_path / "to" / "cleaner-offset-checkpoint").exists()


def test_the_first_segments_are_missing_where_the_log_begins_before_them(tmp_path: Path) -> None:
    shutil.copytree(CLEAN / NAME, tmp_path / NAME)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nsegments 0 100\n")
    assert missing(tmp_path) == []
    remove(tmp_path, 0)
    assert missing(tmp_path) == [("error", f"{169:020}.log", 100)]
    found: list[Finding] = []
    list(brokerless.open(tmp_path).records(on_damage=found.append))
    assert [(each.kind, each.offset) for each in found] == [("missing-segment", 100)]
    list(brokerless.open(tmp_path).records(start_offset=169))


def test_retention_removed_the_first_segments_where_their_epochs_are_gone_too(tmp_path: Path) -> None:
    shutil.copytree(CLEAN / "retention-0", tmp_path / "retention-0")
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nretention 0 5\n")
    assert missing(tmp_path) == []


def test_a_damaged_last_batch_does_not_make_a_hole_as_well(tmp_path: Path) -> None:
    shutil.copytree(CLEAN / NAME, tmp_path / NAME)
    first = min((tmp_path / NAME).glob("*.log"))
    position = list(brokerless.open(first).batches(["position"]))[-1]["position"][-1].as_py()
    data = bytearray(first.read_bytes())
    data[position + 23 : position + 27] = (0).to_bytes(4, "big")  # its last offset
    first.write_bytes(data)
    assert missing(tmp_path) == []
    errors = [each.kind for each in brokerless.open(tmp_path).verify() if each.severity == "error"]
    assert errors[0] == "checksum-mismatch"


def test_json_has_the_offsets(disk: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["verify", "--json", str(disk)]) == 1
    lines = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    (line,) = [line for line in lines if line["kind"] == "missing-segment"]
    assert (line["offset"], line["expected"], line["found"]) == (169, "offset 169", "a segment that begins at 342")


def test_an_empty_last_segment_beside_indexes_with_entries_is_a_missing_end(tmp_path: Path) -> None:
    shutil.copytree(CLEAN / NAME, tmp_path / "disk" / NAME)
    (tmp_path / "disk" / NAME / "00000000000000000543.log").write_bytes(b"")
    log, disk = brokerless.open(tmp_path / "disk"), str(tmp_path / "disk")
    reads: list[Callable[[Callable[[Finding], None]], object]] = [
        lambda tell: list(log.records(on_damage=tell)),
        lambda tell: list(log.batches(on_damage=tell)),
        lambda tell: log.segments(on_damage=tell),
    ]
    for read in reads:
        found: list[Finding] = []
        read(found.append)
        assert [(each.kind, each.severity, each.offset) for each in found] == [("missing-log-end", "error", 543)]
    found = []
    assert list(log.records(end_offset=543, on_damage=found.append))
    assert not found
    assert [main([name, disk]) for name in ("cat", "ls", "batches")] == [1, 1, 1]
    convert = ["convert", disk, "--format", "v2", "--dry-run", "--to", str(tmp_path / "converted")]
    export = ["export", disk, "--to", str(tmp_path / "exported")]
    assert [main(convert), main(export), main(export)] == [1, 1, 1]


def test_an_empty_last_segment_without_entries_has_just_begun(tmp_path: Path) -> None:
    shutil.copytree(CLEAN / NAME, tmp_path / NAME)
    for suffix, size in ((".log", 0), (".index", 1 << 16), (".timeindex", 12 << 10)):
        (tmp_path / NAME / f"{700:020}{suffix}").write_bytes(bytes(size))
    end = brokerless.open(tmp_path).partitions[0].end_offset
    assert end is not None
    for suffix in (".log", ".index", ".timeindex"):
        (tmp_path / NAME / f"{700:020}{suffix}").rename(tmp_path / NAME / f"{end:020}{suffix}")
    found: list[Finding] = []
    list(brokerless.open(tmp_path).records(on_damage=found.append))
    assert not found


def test_offsets_that_an_earlier_segment_has_are_not_missing(tmp_path: Path) -> None:
    """The second segment ends before the first one, and the third goes on where the first ends."""
    directory = tmp_path / "odd-0"
    directory.mkdir()
    for base, data in {0: numbered(0, 30), 10: numbered(10, 20), 30: numbered(30, 40)}.items():
        (directory / log_name(base)).write_bytes(batch(base, data))
    assert missing(directory) == []
    found: list[Finding] = []
    rows = [row for each in brokerless.open(directory).records(on_damage=found.append) for row in each.to_pylist()]
    assert [row["offset"] for row in rows] == [*range(40)]
    assert [each.kind for each in found] == ["offset-overlap"]
    (directory / log_name(0)).unlink()
    assert missing(directory) == [("error", log_name(30), 20)]
