"""A broker replaces a segment's files one by one while they are checked: what is so for a moment only is not reported,
and what stays so always is."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import current_thread, main_thread
from types import SimpleNamespace

import pytest
from tests.golden import broker_data
from tests.log.whole_batches import batch, batches, with_largest
from tests.opening import replace_call

from brokerless.errors import UnreadableError
from brokerless.jobs import segment_checks
from brokerless.jobs.audit.job import audit_partition
from brokerless.jobs.verify.partition import verify_partition
from brokerless.log.directory import PartitionPath, resolve
from brokerless.log.index import readers
from brokerless.log.storage import location
from brokerless.log.storage.files import File
from brokerless.log.storage.location import Location

Found = set[tuple[str, str]]
Job = Callable[[PartitionPath], Found]
When = Callable[[str, Callable[[], object]], None]
BASE = 10
"""A segment with all kinds of files, neither the first nor the last one."""
NAME = f"{BASE:020}"
KINDS = ("log", "index", "timeindex", "txnindex")
"""In the order in which a broker renames them (``LogSegment.changeFileSuffixes``, 4.1.1)."""
JOBS = {"verify": verify_partition, "audit": lambda partition: audit_partition(partition, {}).findings}


@pytest.fixture(params=JOBS)
def job(request: pytest.FixtureRequest) -> Job:
    """Kinds of warnings and errors, and the files that they are of."""
    return lambda partition: {
        (each.kind, Path(each.file).name) for each in JOBS[request.param](partition) if each.severity != "info"
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Path(shutil.copytree(broker_data("clean") / "txn-0", tmp_path / "txn-0"))


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """All pauses, which take no time."""
    taken: list[float] = []
    monkeypatch.setattr(segment_checks, "time", SimpleNamespace(sleep=taken.append))  # not of other threads
    return taken


@pytest.fixture
def when_opened(monkeypatch: pytest.MonkeyPatch) -> When:
    """Does something when an index of this name is about to be opened for the first time."""
    waiting: dict[str, Callable[[], object]] = {}

    def open_file(location: Location) -> File:
        waiting.pop(location.name, lambda: None)()
        return real(location)

    real = replace_call(monkeypatch, readers, "open", open_file)
    return waiting.__setitem__


def listed(path: Path) -> PartitionPath:
    (partition,) = resolve(Location(str(path))).partitions
    return partition


def replacing(path: Path) -> Iterator[None]:
    """The segment is cleaned to the same, and so to files of the same sizes and times; rename by rename."""
    files = [path / f"{NAME}.{kind}" for kind in KINDS]
    for each in files:
        shutil.copy2(each, f"{each}.swap")
    for each in files:
        yield
        each.rename(f"{each}.deleted")
    for each in files:
        yield
        Path(f"{each}.swap").rename(each)


def finish(replacement: Iterator[None]) -> None:
    list(replacement)


@pytest.mark.parametrize("renames", range(2 * len(KINDS) + 1))
@pytest.mark.parametrize("kind", KINDS[1:])
def test_files_that_are_renamed_one_by_one_are_judged_when_they_are_all_there(
    kind: str, renames: int, path: Path, job: Job, when_opened: When, monkeypatch: pytest.MonkeyPatch
) -> None:
    replacement = replacing(path)
    when_opened(f"{NAME}.{kind}", lambda: [next(replacement, None) for _ in range(renames + 1)])

    def pause(_: float) -> None:
        if current_thread() is main_thread():  # others of the test process sleep as well
            finish(replacement)

    monkeypatch.setattr(segment_checks.time, "sleep", pause)
    assert job(listed(path)) == set()


def test_an_index_that_was_not_listed_but_is_there_is_not_missing(path: Path, pauses: list[float]) -> None:
    partition = listed(path)
    segments = tuple(replace(each, offset_index=None, time_index=None) for each in partition.segments)
    assert {each.kind for each in audit_partition(replace(partition, segments=segments), {}).findings} == {
        "transaction-open"
    }
    assert pauses == []


def test_an_empty_log_without_indexes_is_nothing_wrong(path: Path) -> None:
    """So a broker begins a segment."""
    log = path / f"{1000:020}.log"
    log.touch()
    missing = [each for each in audit_partition(listed(path), {}).findings if each.kind == "index-missing"]
    assert [(each.severity, each.file) for each in missing] == [("info", str(log))] * 2


def test_a_producer_snapshot_that_a_broker_writes_is_read_again(
    path: Path, job: Job, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = max(path.glob("*.snapshot"))
    content = snapshot.read_bytes()
    snapshot.write_bytes(b"")
    assert job(listed(path)) == {("producer-snapshot-corrupt", snapshot.name)}
    assert len(pauses) == 1
    monkeypatch.setattr(segment_checks.time, "sleep", lambda _: snapshot.write_bytes(content))
    assert job(listed(path)) == set()


def test_a_log_of_the_same_size_and_time_is_read_again(
    tmp_path: Path, job: Job, when_opened: When, pauses: list[float]
) -> None:
    """Or else the new index would be compared with the batches of the old log."""
    path = tmp_path / "t-0"
    write_pair(path, b"short", b"a longer value")
    write_pair(tmp_path / "new", b"a longer value", b"short")
    before = job(listed(path))
    log, index = f"{0:020}.log", f"{0:020}.index"
    when_opened(index, lambda: [(tmp_path / "new" / each).replace(path / each) for each in (log, index)])
    assert job(listed(path)) == before
    write_pair(tmp_path / "new", b"short", b"a longer value")
    when_opened(index, lambda: (tmp_path / "new" / log).replace(path / log))  # whose index it is not
    assert job(listed(path)) == {*before, ("offset-index-mismatch", index)}


def write_pair(path: Path, *values: bytes) -> None:
    """A segment of two batches, with an index entry for the second, before one of another."""
    path.mkdir(exist_ok=True)
    first, second = (batch(offset, value=value).tobytes() for offset, value in enumerate(values))
    for base, log, index in ((0, first + second, struct.pack(">ii", 1, len(first))), (2, batch(2).tobytes(), b"")):
        for name, content in (("log", log), ("index", index), ("timeindex", b"")):
            file = path / f"{base:020}.{name}"
            file.write_bytes(content)
            os.utime(file, (1_700_000_000, 1_700_000_000))


def test_what_is_found_again_in_another_file_is_reported(
    path: Path, job: Job, when_opened: When, pauses: list[float]
) -> None:
    (path / f"{NAME}.timeindex").write_bytes(b"\1" * 12)
    wrong = job(listed(path))
    assert {file for _, file in wrong} == {f"{NAME}.timeindex"}
    replacement = replacing(path)
    when_opened(f"{NAME}.timeindex", lambda: finish(replacement))
    assert job(listed(path)) == wrong


def test_made_up_inodes_hide_nothing(
    path: Path, job: Job, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(path)
    wrong = job(listed(path))
    look, numbers = location._local_entry, count(1)
    monkeypatch.setattr(
        location, "_local_entry", lambda *what: (found := look(*what)) and replace(found, identity=next(numbers))
    )
    assert wrong
    assert job(listed(path)) == wrong
    assert len(pauses) <= 3  # one for each check of the segment


def damage(path: Path) -> None:
    """Of the segment's indexes, two fit no more, and one is missing."""
    for kind in ("index", "txnindex"):
        file = path / f"{NAME}.{kind}"
        content = bytearray(file.read_bytes())
        content[7] ^= 1
        file.write_bytes(content)
    (path / f"{NAME}.timeindex").unlink()


OF_COMPLETION = ("swap-file", "leftover-file")
"""What is reported of files that a start renames, and of those that they replace."""


@pytest.mark.parametrize("suffix", ["cleaned", "swap", "deleted"])
def test_what_a_dead_broker_left_beside_a_segment_hides_nothing(
    suffix: str, path: Path, job: Job, pauses: list[float]
) -> None:
    damage(path)
    wrong = job(listed(path))
    assert wrong
    assert pauses == []
    for kind in ("log", "index", "txnindex"):
        shutil.copy2(path / f"{NAME}.{kind}", path / f"{NAME}.{kind}.{suffix}")
    found = {(kind, name.removesuffix(".swap")) for kind, name in job(listed(path)) if kind not in OF_COMPLETION}
    assert found == wrong
    assert len(pauses) <= 3


def test_a_log_that_cannot_be_read_again_is_judged_as_it_was_read(
    path: Path, job: Job, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(path)
    wrong, partition = job(listed(path)), listed(path)
    copy = path / "copy"
    shutil.copy2(path / f"{NAME}.log", copy)
    copy.replace(path / f"{NAME}.log")

    def fail(location: Location) -> None:
        raise UnreadableError("", location.path)

    replace_call(monkeypatch, segment_checks, "open", fail)
    assert job(partition) == wrong


def test_what_is_never_the_same_twice_is_reported_in_the_end(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_checks, "TRIES", 5)
    index, times = path / f"{NAME}.index", count(1)

    def rewrite(_: float = 0) -> None:
        number = next(times)
        index.write_bytes(struct.pack(">ii", 1, number))
        os.utime(index, (number, number))  # two writes within a millisecond have one time otherwise

    monkeypatch.setattr(segment_checks.time, "sleep", rewrite)
    rewrite()
    shutil.copy2(index, f"{index}.swap")
    found = [each for each in verify_partition(listed(path)) if each.kind == "offset-index-mismatch"]
    assert [each.found for each in found] == [f"position {5}"]


def test_where_nothing_is_found_nobody_looks_again(path: Path, job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_checks, "segment_now", pytest.fail)
    assert job(listed(path)) == set()


@pytest.mark.parametrize("job", JOBS)
def test_a_header_whose_largest_timestamp_is_below_a_records_is_one_finding_for_its_file(
    job: str, tmp_path: Path
) -> None:
    """Sarama and others wrote such; by these headers, a broker passes over the records when it looks for a time."""
    time = 1_600_000_000_000
    made = [batch(each, 2, time + 10 * each) for each in range(0, 8, 2)]
    for row, largest in ((1, time), (2, -1)):
        with_largest(made[row], largest)
    own = tmp_path / "t-0"
    own.mkdir()
    (own / f"{0:020d}.log").write_bytes(batches(*made).tobytes())
    (partition,) = resolve(Location(str(own))).partitions
    found = [each for each in JOBS[job](partition) if each.kind == "timestamp-above-header"]
    assert [(each.severity, each.position, each.offset) for each in found] == [("warning", len(made[0]), 2)]
    assert (found[0].expected, found[0].found) == (f"{time} at most", str(time + 21))
    assert found[0].message.endswith("in 2 batches")
