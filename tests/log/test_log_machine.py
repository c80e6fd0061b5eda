"""A log against a list: whatever is done to it, and however it stops, it holds what it should, and nothing is wrong
with its files."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest import mock

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.examples import examples
from tests.log.whole_batches import batch, batches

import brokerless
from brokerless.findings import Finding, Kind
from brokerless.log.commit.log_opener import open_log
from brokerless.log.config import LogConfig
from brokerless.log.write.log_writer import LogWriter

FRACTIONS = st.floats(0, 1)
DAMAGES = st.sampled_from(["nothing", "cut", "flipped", "garbage", "zeros"])


class LogMachine(RuleBasedStateMachine):
    """``batches``: first and last offset, and size, of each batch that the log should hold."""

    def __init__(self) -> None:
        super().__init__()
        self.scratch = tempfile.TemporaryDirectory()
        self.directory = Path(self.scratch.name)
        self.partition = self.directory / "orders-0"
        self.no_sync = mock.patch("os.fsync", return_value=None)
        self.no_sync.start()
        self.batches: list[tuple[int, int, int]] = []
        self.start = self.end = 0
        self.has_gaps = False
        self.log: LogWriter

    @initialize(segment=st.sampled_from([200, 500, 5000]), interval=st.sampled_from([0, 150, 4096]))
    def begin(self, segment: int, interval: int) -> None:
        self.config = LogConfig(segment_bytes=segment, index_interval_bytes=interval)
        self.log = open_log(self.directory, "orders", 0, self.config)

    @rule(counts=st.lists(st.integers(1, 3), min_size=1, max_size=6), gap=st.sampled_from([0, 0, 0, 1, 2**31]))
    def append(self, counts: list[int], gap: int) -> None:
        self.has_gaps = self.has_gaps or gap > 0
        made, offset = [], self.end + gap
        for count in counts:
            made.append(batch(offset, count, value=b"%d" % offset))
            self.batches.append((offset, offset + count - 1, len(made[-1])))
            offset += count
        self.log.append(batches(*made))
        self.end = offset

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        self.log.flush()

    @precondition(lambda self: self.batches)
    @rule(fraction=FRACTIONS)
    def truncate(self, fraction: float) -> None:
        offset = self.between(fraction)
        if self.log.truncate_to(offset):
            self.batches = [each for each in self.batches if each[1] < offset]
            self.end, self.start = offset, min(self.start, offset)

    @precondition(lambda self: self.batches)
    @rule(fraction=FRACTIONS)
    def delete_records(self, fraction: float) -> None:
        offset = self.between(fraction)
        self.log.delete_records_before(offset)
        self.start = max(self.start, offset)

    @rule()
    def reopen(self) -> None:
        self.log.close()
        self.log = open_log(self.directory, "orders", 0, self.config)
        self.after_opening()

    @rule(fraction=FRACTIONS, damage=DAMAGES, indexes=st.sampled_from(["left", "empty", "gone", "zeros", "cut"]))
    def crash(self, fraction: float, damage: str, indexes: str) -> None:
        """A stop after which anything that was not synced may be anything."""
        self.log.abandon()
        active = self.log.segments[-1]
        mine = [each for each in self.batches if each[0] >= active]
        synced = sum(size for _, last, size in mine if last < self.log.recovery_point)
        path = self.partition / f"{active:020}.log"
        whole = path.read_bytes()
        at = synced + int(fraction * (len(whole) - synced))
        left = damaged(whole, at, damage)
        path.write_bytes(left)
        for index in (path.with_suffix(".index"), path.with_suffix(".timeindex")):
            damage_index(index, indexes)
        kept, position = [], 0
        for each in mine:
            position += each[2]
            if left[:position] == whole[:position]:
                kept.append(each)
        self.batches = [each for each in self.batches if each[0] < active] + kept
        self.log = open_log(self.directory, "orders", 0, self.config)
        self.after_opening()

    def between(self, fraction: float) -> int:
        """An offset at or near a batch: most offsets lie in gaps."""
        first, last, _ = self.batches[min(int(fraction * len(self.batches)), len(self.batches) - 1)]
        return (first, last, last + 1)[int(fraction * 1000) % 3]

    def after_opening(self) -> None:
        """A log that is opened ends where its last batch does, and begins with its first segment at the earliest."""
        self.end = self.log.log_end_offset
        last = max((last + 1 for _, last, _ in self.batches), default=0)
        assert self.end >= last
        assert self.end == max(last, self.log.segments[-1])
        if self.start > self.end:
            raise AssertionError("the log start offset is behind its end")

    @invariant()
    def holds_what_it_should(self) -> None:
        if not hasattr(self, "log"):
            return
        assert self.log.log_end_offset == self.end
        assert self.log.log_start_offset == self.start
        partition = brokerless.open(self.partition).partitions[0]
        found = [
            (offset, value)
            for records in partition.records(["offset", "value"], start_offset=self.start, on_damage=self.is_known)
            for offset, value in zip(records["offset"].to_pylist(), records["value"].to_pylist(), strict=True)
        ]
        assert found == [
            (offset, b"%d" % first)
            for first, last, _ in self.batches
            for offset in range(max(first, self.start), last + 1)
        ]
        assert [each for each in partition.verify() if each.severity == "error" and not self.is_known(each)] == []

    def is_known(self, finding: Finding) -> bool:
        """Offsets that were never appended, between two segments, look like a segment that is missing; and a log that
        was cut back to its start offset, within a batch that goes with that, ends before it."""
        end = max((last + 1 for _, last, _ in self.batches), default=0)
        known = {Kind.MISSING_SEGMENT: self.has_gaps, "log-start-beyond-end": self.start > end}
        assert known.get(finding.kind), finding
        return True

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.close()
            partition = brokerless.open(self.partition).partitions[0]
            assert [each for each in partition.verify() if each.severity != "info" and not self.is_known(each)] == []
        self.no_sync.stop()
        self.scratch.cleanup()


def damaged(whole: bytes, at: int, damage: str) -> bytes:
    match damage:
        case "cut":
            return whole[:at]
        case "flipped" if at < len(whole):
            return whole[:at] + bytes(byte ^ 0xFF for byte in whole[at:])
        case "garbage":
            return whole[:at] + bytes(range(50))
        case "zeros":
            return whole[:at] + bytes(len(whole) - at + 200)
        case _:
            return whole


def damage_index(path: Path, damage: str) -> None:
    match damage:
        case "empty":
            path.write_bytes(b"")
        case "gone":
            path.unlink()
        case "zeros":  # as Kafka's are while they are in use
            path.write_bytes(path.read_bytes() + bytes(240))
        case "cut":
            path.write_bytes(path.read_bytes()[:-3])
        case _:
            pass


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = examples(30, stateful_step_count=20)
