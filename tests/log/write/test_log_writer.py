"""Oracle: the partitions that Kafka's brokers wrote. What they appended is appended again, and files are compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.golden import broker_data
from tests.log.whole_batches import batch, batches, marker

from brokerless.errors import RefusedError, UnwritableError, UsageError
from brokerless.format import layouts
from brokerless.format.read.batch_headers import read_headers
from brokerless.format.read.batch_scan import scan_batches
from brokerless.log import names
from brokerless.log.checkpoint.leader_epochs import load_leader_epochs
from brokerless.log.checkpoint.offset_checkpoints import PartitionOffsets, read_checkpoints
from brokerless.log.commit.log_opener import open_log
from brokerless.log.config import LogConfig
from brokerless.log.index.readers import load_time_index, load_transaction_index
from brokerless.log.producer.snapshot import load_producer_snapshot
from brokerless.log.storage.location import Location
from brokerless.log.write.log_writer import Appended, LogWriter

RESTARTED_MS = 1_795_232_270_000
"""When the golden broker was restarted, about: what it then knew of producers depends on it."""

SETTINGS = {
    "segments-0": LogConfig(segment_bytes=16384, index_interval_bytes=1024),
    "txn-0": LogConfig(segment_bytes=6000, index_interval_bytes=700),
    "txn-1": LogConfig(segment_bytes=6000, index_interval_bytes=700),
    "head-deleted-0": LogConfig(segment_bytes=5000),
    "retention-0": LogConfig(segment_bytes=3000),
    "v1-none-0": LogConfig(segment_bytes=50000, index_interval_bytes=512),
}
OLD_FORMATS = LogConfig(index_interval_bytes=512)


@dataclass(frozen=True)
class Replay:
    """A partition of a golden broker that nothing but appending and deleting its head has shaped."""

    broker: str
    name: str

    @property
    def path(self) -> Path:
        return broker_data(self.broker) / self.name

    @property
    def topic(self) -> str:
        return self.name.rpartition("-")[0]

    @property
    def partition(self) -> int:
        return int(self.name.rpartition("-")[2])

    @property
    def config(self) -> LogConfig:
        is_internal = self.name.startswith("__")
        default = OLD_FORMATS if self.broker == "old-formats" and not is_internal else LogConfig()
        return SETTINGS.get(self.name, default)

    @property
    def bases(self) -> list[int]:
        return sorted(int(path.stem) for path in self.path.glob("*.log"))

    @property
    def log(self) -> NDArray[np.uint8]:
        return np.concatenate([np.fromfile(path, np.uint8) for path in sorted(self.path.glob("*.log"))])

    def stops(self, end_offset: int) -> list[int]:
        """Where the broker was stopped: there are producer snapshots that belong to no segment."""
        snapshots = {int(path.stem) for path in self.path.glob("*.snapshot")}
        return sorted({*snapshots, end_offset} - {*self.bases} if end_offset not in self.bases else {end_offset})

    def __str__(self) -> str:
        return f"{self.broker}/{self.name}"


def replays() -> list[Replay]:
    found = [Replay(broker, path.name) for broker in ("clean", "old-formats") for path in broker_data(broker).iterdir()]
    return sorted(
        (each for each in found if list(each.path.glob("*.log")) and not each.name.startswith("compacted")), key=str
    )


def replay(each: Replay, directory: Path, *, one_by_one: bool) -> Path:
    log = each.log
    headers = read_headers(log, scan_batches(log).positions)
    end = int(headers.last_offset[-1]) + 1 if len(headers) else each.bases[0]
    row = 0
    for stop in each.stops(end):
        with open_log(
            directory, each.topic, each.partition, each.config, start_offset=each.bases[0], at_ms=RESTARTED_MS
        ) as writer:
            until = int(np.searchsorted(headers.last_offset, stop))
            step = 1 if one_by_one else max(until - row, 1)
            for first in range(row, until, step):
                writer.append(log[headers.positions[first] : headers.ends[first + step - 1]])
            row = until
    return directory / each.name


def replay_one_by_one(each: Replay) -> bool:
    return each.name in ("segments-0", "txn-0", "txn-1", "head-deleted-0", "v1-none-0", "upgraded-0")


@pytest.mark.parametrize(
    ("each", "one_by_one"),
    [(each, False) for each in replays()] + [(each, True) for each in replays() if replay_one_by_one(each)],
    ids=str,
)
def test_what_a_broker_appended_becomes_the_same_files(each: Replay, one_by_one: bool, tmp_path: Path) -> None:
    written = replay(each, tmp_path, one_by_one=one_by_one)
    kinds = (".log", ".index", ".timeindex", ".txnindex")
    assert {path.name: path.read_bytes() for path in written.iterdir() if path.suffix in kinds} == {
        path.name: path.read_bytes() for path in each.path.iterdir() if path.suffix in kinds
    }
    assert producers(written) == producers(each.path)
    checkpoint = each.path / names.LEADER_EPOCH_CHECKPOINT
    end = max(int(path.stem) for path in [*written.glob("*.snapshot"), *written.glob("*.log")])
    # A broker also notes epochs in which nothing was appended, and that the log's head went. It has no such file for a
    # topic of an old format.
    known = load_leader_epochs(Location(str(checkpoint))) if checkpoint.exists() else None
    ours = written / names.LEADER_EPOCH_CHECKPOINT
    assert (load_leader_epochs(Location(str(ours))).epochs.tolist() if ours.exists() else []) == (
        [] if known is None else known.epochs[known.start_offsets < end].tolist()
    )


def producers(directory: Path) -> dict[str, list[tuple[int, ...]]]:
    """What is in producer snapshots, by file; Kafka's order is that of a hash table."""
    found: dict[str, list[tuple[int, ...]]] = {}
    for path in directory.glob("*.snapshot"):
        each = load_producer_snapshot(Location(str(path)))
        columns = (
            each.producer_ids, each.producer_epochs, each.last_sequences, each.last_offsets, each.offset_deltas,
            each.timestamps, each.coordinator_epochs, each.current_txn_first_offsets,
        )  # fmt: skip
        found[path.name] = sorted(zip(*(column.tolist() for column in columns), strict=True))
    return found


SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogWriter]:
    with open_log(tmp_path, "orders", 0, SMALL) as writer:
        yield writer


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix != ".metadata"}


def test_an_empty_log_has_an_empty_segment(log: LogWriter, tmp_path: Path) -> None:
    assert (log.log_start_offset, log.log_end_offset, log.segments) == (0, 0, (0,))
    assert not (tmp_path / "orders-0" / "00000000000000000000.log").stat().st_size


def test_appending_nothing_is_fine(log: LogWriter) -> None:
    assert log.append(np.empty(0, np.uint8)).batches == 0
    assert log.log_end_offset == 0


def test_what_was_appended_is_reported(log: LogWriter) -> None:
    both = batches(batch(7, 3), batch(12))
    assert log.append(both) == Appended(7, 12, 2, len(both))
    assert log.log_end_offset == 13


@pytest.mark.parametrize(
    ("reason", "given"),
    [
        ("UnexpectedAppendOffsetException", batch(4)),
        ("UnexpectedAppendOffsetException", batch(3, 9)),
        ("OffsetsOutOfOrderException", batches(batch(5), batch(5))),
        ("OffsetsOutOfOrderException", batches(batch(5, 4), batch(7, 9))),
        ("CorruptRecordException", batch(5)[:-1]),
        ("CorruptRecordException", batches(batch(5), np.zeros(3, np.uint8))),
        ("RecordBatchTooLargeException", batch(5, value=bytes(500))),
        ("InvalidTxnStateException", batch(5, producer=(9, 0, 1))),
        ("InvalidRecordException", batch(5, producer=(9, 0, -1), attributes=0x30, key=b"k")),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_refusal_appends_nothing(log: LogWriter, tmp_path: Path, reason: str, given: NDArray[np.uint8]) -> None:
    log.append(batch(0, 5, producer=(9, 0, 0), attributes=layouts.TRANSACTIONAL_BIT))
    before = files(tmp_path / "orders-0")
    for refused in (given, batches(batch(5, 1), given) if reason.startswith("Corrupt") else given):
        with pytest.raises(RefusedError) as error:
            log.append(refused)
        assert error.value.reason == reason
    assert files(tmp_path / "orders-0") == before
    log.append(batch(5))


def test_a_wrong_checksum_and_an_unknown_format_are_refused(log: LogWriter) -> None:
    for at, value in ((70, 0xEE), (layouts.MAGIC_POSITION, 3), (layouts.MAGIC_POSITION, 0xFF)):
        given = batch(0, value=b"a value")
        given[at] = value
        with pytest.raises(RefusedError) as error:
            log.append(given)
        assert error.value.reason == "CorruptRecordException"


def test_a_segment_is_rolled_before_it_gets_too_large(log: LogWriter) -> None:
    size = len(batch(0))
    log.append(batches(*(batch(offset) for offset in range(20))))
    assert log.segments == tuple(range(0, 20, 400 // size))


def test_a_segment_is_rolled_when_timestamps_are_too_far_from_its_first_batch(tmp_path: Path) -> None:
    with open_log(tmp_path, "orders", 0, LogConfig(segment_ms=10)) as log:
        # 11 is more than 10 after 0, which is the first batch's largest; -5 is before it; 12 is not, 23 is after 12.
        times = [0, 10, 11, 6, -5, 21, 22]
        log.append(batches(*(batch(offset, timestamp=1000 + at) for offset, at in enumerate(times))))
        assert log.segments == (0, 2, 6)


def test_a_segment_without_timestamps_is_rolled_by_its_age(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0]
    monkeypatch.setattr("brokerless.clock.now", lambda: clock[0])
    with open_log(tmp_path, "orders", 0, LogConfig(segment_ms=10)) as log:
        for offset, now in enumerate([0, 10, 11, 21, 22]):
            clock[0] = now
            log.append(batch(offset, timestamp=-1))
        assert log.segments == (0, 2, 4)


def test_a_segment_is_rolled_when_its_time_index_is_full_but_for_the_last_entry(tmp_path: Path) -> None:
    config = LogConfig(segment_index_bytes=3 * layouts.TIME_INDEX_ENTRY.itemsize, index_interval_bytes=0)
    with open_log(tmp_path, "orders", 0, config) as log:
        log.append(batches(*(batch(offset, timestamp=offset) for offset in range(7))))
        assert log.segments == (0, 3, 6)
    index = load_time_index(Location(str(tmp_path / "orders-0" / "00000000000000000000.timeindex")), 0)
    assert index.offsets.tolist() == [1, 2]


def test_a_segment_is_rolled_when_its_offset_index_is_full(tmp_path: Path) -> None:
    config = LogConfig(segment_index_bytes=24, index_interval_bytes=0)
    with open_log(tmp_path, "orders", 0, config) as log:
        # Without new timestamps, the time index does not fill up.
        log.append(batches(*(batch(offset, timestamp=-1) for offset in range(9))))
        assert log.segments == (0, 4, 8)


def test_a_segment_is_rolled_when_offsets_are_too_far_from_its_first(log: LogWriter) -> None:
    log.append(batches(batch(0), batch(2**31 - 1), batch(2**31), batch(2**33, 2)))
    assert log.segments == (0, 2**31, 2**33)


def test_a_message_far_off_begins_a_segment_that_it_fits_into_wherever_it_begins(tmp_path: Path) -> None:
    log = np.fromfile(broker_data("old-formats") / "v1-gzip-0" / "00000000000000000000.log", np.uint8)
    first = log[: int(read_headers(log, scan_batches(log).positions).ends[0])].copy()
    # The offset of a v1 wrapper is not covered by its checksum.
    first[:8].view(">i8")[0] = 2**40
    with open_log(tmp_path, "orders", 0) as writer:
        writer.append(batch(0))
        writer.append(first)
        assert writer.segments == (0, 2**40 - (2**31 - 1))


def test_rolling_an_empty_segment_does_nothing(log: LogWriter) -> None:
    log.roll()
    log.append(batch(3))
    log.roll()
    log.roll()
    assert log.segments == (0, 4)


def test_a_segment_that_is_left_has_its_largest_timestamp_in_its_time_index(tmp_path: Path) -> None:
    path = tmp_path / "orders-0" / "00000000000000000000.timeindex"
    with open_log(tmp_path, "orders", 0) as log:
        log.append(batches(batch(0, timestamp=50), batch(1, timestamp=70), batch(2, timestamp=60)))
        assert not path.stat().st_size
        log.roll()
    index = load_time_index(Location(str(path)), 0)
    assert (index.timestamps.tolist(), index.offsets.tolist()) == ([70], [1])


def test_aborted_transactions_are_in_the_index_of_the_segment_with_their_marker(tmp_path: Path) -> None:
    transactional = layouts.TRANSACTIONAL_BIT
    with open_log(tmp_path, "orders", 0) as log:
        log.append(batches(batch(0, 2, producer=(1, 0, 0), attributes=transactional), batch(2)))
        log.append(batch(3, 2, producer=(2, 0, 0), attributes=transactional))
        assert log.last_stable_offset == 0
        log.roll()
        log.append(batches(marker(5, (1, 0), commit=False), batch(6)))
        assert log.last_stable_offset == 3
        log.append(marker(7, (2, 0), commit=True))
        assert log.last_stable_offset == 8
    assert not (tmp_path / "orders-0" / "00000000000000000000.txnindex").exists()
    index = load_transaction_index(Location(str(tmp_path / "orders-0" / "00000000000000000005.txnindex")), 5)
    columns = (index.producer_ids, index.first_offsets, index.last_offsets, index.last_stable_offsets)
    assert [column.tolist() for column in columns] == [[1], [0], [5], [3]]


def test_flushing_moves_the_recovery_point(log: LogWriter, tmp_path: Path) -> None:
    log.append(batch(0, 4))
    assert log.recovery_point == 0
    log.flush()
    assert log.recovery_point == 4
    assert read_checkpoints(tmp_path, "orders", 0) == PartitionOffsets(4, None, 4)
    log.append(batch(4))
    log.roll()  # what is in a segment that is left is synced
    assert log.recovery_point == 5


def test_a_closed_log_goes_on_where_it_ended(tmp_path: Path) -> None:
    made = [batch(offset, epoch=offset // 7, producer=(offset % 3, 0, offset)) for offset in range(20)]
    with open_log(tmp_path, "orders", 0, SMALL) as log:
        log.append(batches(*made[:12]))
    with open_log(tmp_path, "orders", 0, SMALL) as log:
        assert log.log_end_offset == 12
        log.append(batches(*made[12:]))
        assert (log.log_end_offset, log.leader_epochs) == (20, ((0, 0), (1, 7), (2, 14)))
    paths = sorted((tmp_path / "orders-0").glob("*.log"))
    assert b"".join(path.read_bytes() for path in paths) == batches(*made).tobytes()


def test_a_closed_log_takes_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path, "orders", 0)
    log.close()
    log.close()
    with pytest.raises(UsageError, match="closed"):
        log.append(batch(0))


def test_where_the_disk_fails_the_log_says_so_and_is_recovered_when_it_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path, "orders", 0)
    log.append(batch(0))
    with monkeypatch.context() as patch:
        patch.setattr("os.write", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(UnwritableError, match="No space left"):
            log.append(batch(1))
    with pytest.raises(UnwritableError, match="open it again"):
        log.append(batch(1))
    log.close()
    assert not (tmp_path / names.CLEAN_SHUTDOWN).exists()
    with open_log(tmp_path, "orders", 0) as log:
        assert log.log_end_offset == 1


def test_where_no_segment_can_be_begun_the_log_can_still_be_closed_and_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path, "orders", 0)
    log.append(batch(0))
    with monkeypatch.context() as patch:
        patch.setattr(
            "brokerless.log.write.log_writer.SegmentWriter",
            lambda *_, **__: (_ for _ in ()).throw(OSError(24, "Too many")),
        )
        with pytest.raises(UnwritableError, match="Too many"):
            log.roll()
    log.close()
    with open_log(tmp_path, "orders", 0) as log:
        assert (log.log_end_offset, log.segments) == (1, (0,))


def test_files_that_are_in_the_way_of_a_new_segment_are_replaced(log: LogWriter, tmp_path: Path) -> None:
    for name in ("00000000000000000001.log", "00000000000000000001.txnindex"):
        (tmp_path / "orders-0" / name).write_bytes(b"left over")
    log.append(batch(0))
    log.roll()
    log.append(batch(1))
    assert (tmp_path / "orders-0" / "00000000000000000001.log").read_bytes() == batch(1).tobytes()
    assert not (tmp_path / "orders-0" / "00000000000000000001.txnindex").exists()


def test_messages_without_epochs_make_the_log_forget_its_epochs(log: LogWriter) -> None:
    old = np.fromfile(broker_data("old-formats") / "v1-none-0" / "00000000000000000000.log", np.uint8)
    log.append(batch(0, epoch=3))
    assert log.leader_epochs == ((3, 0),)
    message = old[: int(read_headers(old, scan_batches(old).positions).ends[0])].copy()
    message[:8].view(">i8")[0] = 1
    log.append(message)
    assert log.leader_epochs == ()


def test_an_offset_that_is_no_integer_changes_nothing(tmp_path: Path) -> None:
    with open_log(tmp_path, "orders", 0) as log:
        for change in (log.truncate_to, log.truncate_fully_and_start_at, log.delete_records_before):
            with pytest.raises(UsageError, match=r"offset: 1\.0 is not a whole number"):
                change(1.0)  # type: ignore[arg-type]
        assert log.log_end_offset == 0
    assert open_log(tmp_path, "orders", 0).log_end_offset == 0
