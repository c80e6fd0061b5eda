"""A commit to an object store is all or nothing, at whichever request its writer is killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem
from tests.examples import some_quick
from tests.log.whole_batches import batch, batches

import brokerless
from brokerless.api.loading import load
from brokerless.errors import BrokerlessError, UnreadableError, UnwritableError, UsageError
from brokerless.jobs.load.routing import Routing
from brokerless.log import names
from brokerless.log.checkpoint.commit_journal import GrowingPartition, Journal, last_batch, write_journal
from brokerless.log.commit.commit import discard, recover_commit
from brokerless.log.commit.job_commit import commit_staged, prepare
from brokerless.log.commit.partition_writer import NewPartition, PartitionWriter
from brokerless.log.commit.types import StagedPartition
from brokerless.log.config import LogConfig
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.location import Location

CHANGES = [(MemoryFileSystem, "pipe_file"), (MemoryFileSystem, "cp_file"), (MemoryFileSystem, "rm_file"),
           (MemoryFile, "commit")]  # fmt: skip
"""All that changes an object."""
ROWS = pa.RecordBatch.from_pydict({"value": [f"value {row}" for row in range(30)], "partition": [0, 1] * 15})
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryFileSystem]:
    store = MemoryFileSystem()
    with monkeypatch.context() as patched:
        patched.setattr(MemoryFileSystem, "store", {})
        patched.setattr(MemoryFileSystem, "pseudo_dirs", [""])
        yield store


class KilledError(OSError):
    """What a process meets in place of its end: from one call on, nothing changes any more."""


@contextmanager
def killed_after(changes: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Lets so many changes through, and none after that, not those that would tidy up either."""
    done: list[str] = []

    def limited(name: str, method: Any) -> Any:
        def call(*arguments: Any, **more: Any) -> Any:
            if len(done) >= changes:
                raise KilledError(f"killed before {name}")
            done.append(name)
            return method(*arguments, **more)

        return call

    with monkeypatch.context() as patched:
        for owner, name in CHANGES:
            patched.setattr(owner, name, limited(name, getattr(owner, name)))
        yield done


def write(topic: str, url: str = "memory://bucket/logs") -> bool:
    """Two partitions; whether that worked."""
    try:
        load([ROWS], url, Routing(topic, timestamp=1, topic_id=TOPIC_ID))
    except BrokerlessError:
        return False
    return True


def visible(url: str = "memory://bucket/logs") -> dict[str, list[int]]:
    """The offsets of each partition that a reader sees."""
    try:
        partitions = brokerless.open(url).partitions
    except UnreadableError:
        return {}
    return {
        each.name: [row for part in each.records(["offset"]) for row in part["offset"].to_pylist()]
        for each in partitions
    }


def contents(store: MemoryFileSystem) -> dict[str, bytes]:
    return {path: store.cat_file(path) for path in store.find("/bucket")}


@pytest.mark.parametrize("topics", some_quick([["new"], ["old", "new"]]), ids=" ".join)
def test_a_kill_at_any_change_leaves_all_or_nothing_and_the_next_writer_settles_it(
    topics: list[str], store: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all(map(write, topics))
    after, expected = visible(), contents(store)
    before = {name: offsets for name, offsets in after.items() if name.startswith("old")}
    assert after == before | {f"new-{partition}": [*range(15)] for partition in range(2)}
    counts = {"before": 0, "after": 0}
    for number in range(1000):
        MemoryFileSystem.store.clear()
        assert all(map(write, topics[:-1]))
        with killed_after(number, monkeypatch) as done:
            is_done = write("new")
        seen = visible()
        assert seen in (before, after), (number, done)
        is_decided = any(path.endswith("/" + names.COMMIT_JOURNAL) for path in MemoryFileSystem.store)
        assert seen == before if is_decided else True
        if is_done:
            break
        counts["after" if seen == after or is_decided else "before"] += 1
        with killed_after(number % 7, monkeypatch):  # the next writer is killed as well
            write("new")
        assert visible() in (before, after), (number, done)
        write("new")
        assert visible() == after
        # Nothing is left, and a broker that gets all this has nothing to recover.
        assert contents(store) == expected, (number, done)
    assert min(counts.values()) > 10


URL = "memory://bucket/logs"
SMALL = LogConfig(segment_bytes=600, index_interval_bytes=100)
QUERY = ("a-query", 7)


def piece(partition: str, first: int, count: int, *, has_offsets: bool = False) -> StagedPartition:
    topic, _, number = partition.partition("-")
    with PartitionWriter(
        NewPartition(URL, topic, int(number), SMALL, topic_id=TOPIC_ID, may_exist=True),
        start_offset=first,
        has_offsets=has_offsets,
    ) as output:
        output.append(batches(*(batch(first + offset) for offset in range(count))))
        return output.finish()


def append() -> bool:
    """Pieces behind two partitions, and a new one; whether that worked."""
    try:
        prepare(Destination(Location(URL)))
        pieces = [
            piece("old-0", 0, 4),
            piece("old-1", 40, 2, has_offsets=True),
            piece("old-0", 0, 3),
            piece("new-0", 0, 2),
        ]
        commit_staged(URL, pieces, SMALL, QUERY)
        discard(URL, pieces)
    except BrokerlessError:
        return False
    return True


APPENDED = {"new-0": [0, 1], "old-0": [*range(22)], "old-1": [*range(15), 40, 41]}


@pytest.mark.slow(reason="a commit for each step")
def test_partitions_there_go_on_wherever_a_writer_is_killed(
    store: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert write("old")
    before, template = visible(), dict(MemoryFileSystem.store)
    assert append()
    expected = contents(store)
    assert visible() == APPENDED
    assert last_batch(Destination(Location(URL)), QUERY[0]) == QUERY[1]
    assert append()
    assert contents(store) == expected, "the batch of a query is written once"
    number, seen = 0, {"before": 0, "after": 0}
    is_done = False
    while not is_done:
        MemoryFileSystem.store.clear()
        MemoryFileSystem.store.update(template)
        with killed_after(number, monkeypatch) as done:
            is_done = append()
        assert visible() in (before, APPENDED), (number, done)
        journal = MemoryFileSystem.store.get(f"/bucket/logs/{names.COMMIT_JOURNAL}")
        is_decided = visible() == APPENDED or (journal is not None and b'"is_decided": true' in journal.getvalue())
        seen["after" if is_decided else "before"] += 1
        for killed in range(number % 4):  # who settles it is killed as well
            with killed_after(3 * killed, monkeypatch), suppress(BrokerlessError):
                recover_commit(Destination(Location(URL)))
            assert visible() in (before, APPENDED), (number, done)
        recover_commit(Destination(Location(URL)))
        assert visible() == (APPENDED if is_decided else before), (number, done)
        assert [each for each in brokerless.open(URL).verify() if each.severity != "info"] == []
        assert append()
        assert visible() == APPENDED
        assert contents(store) == expected, (number, done)
        number += 1
    assert min(seen.values()) > 5


def test_who_undoes_a_commit_says_what_was_removed(store: MemoryFileSystem, caplog: pytest.LogCaptureFixture) -> None:
    assert write("old")
    write_journal(Destination(Location(URL)), Journal.begun().grow(GrowingPartition("old", 1, 0, 0, -1)))
    recover_commit(Destination(Location(URL)))
    (message,) = caplog.messages
    assert message.startswith(f"{URL}: a commit that a stop had cut short was undone; old-1/{0:020}.log was emptied")


def test_what_does_not_fit_after_a_log_changes_nothing(store: MemoryFileSystem) -> None:
    assert write("old")
    before = contents(store)
    pieces = [piece("old-0", 0, 4), piece("old-1", 3, 2, has_offsets=True)]
    with pytest.raises(UsageError, match=r"old-1: .* offset 3, and the partition ends at 15"):
        commit_staged(URL, pieces, SMALL)
    discard(URL, pieces)
    assert contents(store) == before


def test_what_a_stop_cut_short_is_recovered_before_it_goes_on(store: MemoryFileSystem) -> None:
    """As a copy of a running broker's directory may be: no mark of a clean stop, and half a batch at the end."""
    assert write("old")
    store.rm_file(f"/bucket/logs/{names.CLEAN_SHUTDOWN}")
    log = "/bucket/logs/old-0/00000000000000000000.log"
    store.pipe_file(log, store.cat_file(log) + bytes(batch(15))[:40])
    assert append()
    assert visible() == APPENDED
    assert [finding for finding in brokerless.open(URL).verify() if finding.severity != "info"] == []
    assert not store.exists(f"/bucket/logs/{names.CLEAN_SHUTDOWN}")


def test_what_waits_for_its_deletion_but_is_not_ours_stays(store: MemoryFileSystem) -> None:
    kept = f"/bucket/logs/orders-0.{'f' * 32}-delete/00000000000000000000.log"
    store.pipe_file(kept, b"x")
    assert write("new")
    assert store.exists(kept)


def test_a_partition_that_is_there_is_not_written_to(store: MemoryFileSystem) -> None:
    assert write("new")
    before = contents(store)
    with pytest.raises(UsageError, match="memory://bucket/logs/new-0: this partition exists already"):
        load([ROWS], "memory://bucket/logs", Routing("new"))
    assert contents(store) == before


def test_what_a_storage_refuses_names_the_path(store: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("no credentials")

    monkeypatch.setattr(MemoryFileSystem, "pipe_file", refuse)
    with pytest.raises(UnwritableError, match=r"memory://bucket/logs/\S+: no credentials"):
        load([ROWS], "memory://bucket/logs", Routing("new"))


def test_readers_of_one_partition_pass_over_what_is_not_committed(
    store: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    with killed_after(1000, monkeypatch) as done:
        assert write("new")
    MemoryFileSystem.store.clear()
    with killed_after(done.index("cp_file") + 2, monkeypatch):
        assert not write("new")
    assert store.exists("/bucket/logs/new-0")
    (partition,) = brokerless.open("memory://bucket/logs/new-0").partitions
    assert [batch for batch in partition.records() if batch.num_rows] == []
    assert {finding.kind for finding in partition.verify()} == {"uncommitted"}


def test_credentials_are_not_shown() -> None:
    assert "hunter2" not in repr(Destination(Location("s3://bucket", {"secret": "hunter2"})))
