"""The records of a range of offsets, and how far they came: what is damaged, and which offsets it leaves out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from brokerless.errors import Finding
from brokerless.format.batches import Batches, read_headers
from brokerless.jobs.exports.files import SCHEMA
from brokerless.jobs.exports.manifest import Offsets
from brokerless.log.directory import PartitionPath
from brokerless.log.partition import Piece, Reading, read_partition
from brokerless.log.ranges import Range
from brokerless.log.seek import position_of_offset
from brokerless.log.segment import Chunk, ignore, open_segments, scan
from brokerless.log.storage import StorageOptions, open_file
from brokerless.log.transactions import Transactions, find_transactions
from brokerless.tables import record_batches

if TYPE_CHECKING:
    from brokerless.format.decode import Damage

Place = tuple[str, int | None]

NOT_PASSED = ("unreadable-directory", "unreadable-file", "limit-exceeded")
"""What may be read another time: nothing behind it is exported before it was."""


_CHAIN_ENDS = ("batch-size-invalid", "zero-tail")


class NotReadableError(Exception):
    """Ends a task of which nothing is to be kept."""


@dataclass
class Records:
    """The records of ``[start, end)`` of a partition; what is said of them is known when all were taken.

    ``next_offset``: behind the last sound batch, where the next run goes on. ``left_out``: the offsets of what was
    damaged, as far as the batches around it tell them (in a compacted log, some of them were not there before).
    """

    source: PartitionPath
    start: int
    end: int
    committed: bool
    limit: int
    is_live: bool
    storage_options: StorageOptions | None
    done: Callable[[int], object]
    next_offset: int = field(init=False)
    findings: list[Finding] = field(init=False, default_factory=list[Finding])
    left_out: list[Offsets] = field(init=False, default_factory=list[Offsets])

    def __post_init__(self) -> None:
        self.next_offset = self.start
        self._stable = self.end
        self._is_broken = False
        self._known_until: Place = ("", None)
        self._from: Place = ("", None)
        self._given: dict[int, int] = {}
        self._wrong: dict[tuple[str, int], int] = {}

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Raises :class:`NotReadableError` for what is not to be passed over."""
        pending: dict[Place, Finding] = {}
        transactions = None
        if self.committed:
            transactions = self._transactions(pending)
            stable = transactions.last_stable_offset
            self._stable = self.end if stable is None else min(self.end, stable)
        reading = Reading(
            Range(self.start, self.end), transactions=transactions, limit=self.limit, watch=self._watch
        )  # fmt: skip

        def tell(finding: Finding) -> None:
            if finding.position is None or not self._is_elsewhere(finding.file, finding.position):
                pending.pop((finding.file, finding.position), None)
                self._tell(finding)

        pieces = self._noted(read_partition(self.source, reading, tell, self.storage_options))
        yield from record_batches(pieces, self.source.topic, self.source.partition, SCHEMA)
        # What made a transaction look open lies where a committed reader does not come.
        for finding in pending.values():
            self.findings.append(finding)
        if self._is_broken:
            self.left_out.append((self.next_offset, None))

    def _noted(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        """The same; of batches that are broken inside, how far they gave records."""
        for piece in pieces:
            for damage in piece.decoded.damages:
                self._note(piece, damage)
            one = [piece]
            del piece
            yield one.pop()

    def _note(self, piece: Piece, damage: Damage) -> None:
        decoded = piece.decoded
        rows = np.flatnonzero(decoded.positions == damage.position)
        if len(rows) and decoded.given[rows[-1]]:
            self._given[damage.position] = int(decoded.columns.offset[int(decoded.given[: rows[-1] + 1].sum()) - 1])

    def _tell(self, finding: Finding) -> None:
        is_cut = finding.kind == "truncated-batch"
        if is_cut and self.is_live and finding.file == self.source.segments[-1].log.path:
            return  # a broker may be about to write the rest
        self.findings.append(finding)
        if finding.kind in NOT_PASSED:
            raise NotReadableError
        if (finding.file, finding.position) in self._wrong:
            return
        if is_cut or finding.kind in _CHAIN_ENDS:
            self._is_broken = True
        elif finding.severity == "error" and finding.offset is not None:
            self._leave_out_rest(finding)

    def _is_elsewhere(self, file: str, position: int) -> bool:
        """Whether it was passed by the run before, or is for the next one."""
        (old, before), (new, after) = self._known_until, self._from
        is_old = file == old and before is not None and position < before
        return is_old or (file == new and after is not None and position >= after)

    def _leave_out_rest(self, finding: Finding) -> None:
        """Of a batch whose header is sound: what comes after the records that it gave."""
        position = finding.position or 0
        with open_file(finding.file, self.storage_options) as file:
            header = read_headers(file.read(position, 1 << 10), np.zeros(1, np.int64))
        last = int(header.last_offset[0])
        first = self._given[position] + 1 if position in self._given else finding.offset
        self.left_out.append((min(last, first if first is not None and first >= 0 else last), last))

    def _watch(self, path: str, chunk: Chunk, valid: NDArray[np.bool_]) -> None:
        """Follows where sound batches are."""
        batches = chunk.batches
        self.done(int(batches.sizes.sum()))
        if not valid.all():
            self._follow_each(path, chunk, valid)
            return
        if self._is_broken:
            self._passed(batches, 0)
        within = batches.entry_offset < self._stable
        if within.any():
            self.next_offset = max(self.next_offset, int(batches.last_offset[within].max()) + 1)
        self._place(path, chunk, batches)

    def _follow_each(self, path: str, chunk: Chunk, valid: NDArray[np.bool_]) -> None:
        batches = chunk.batches
        for row in range(len(batches)):
            if self._from[1] is not None:
                return
            if not valid[row]:
                self._is_broken = True
                self._wrong[path, int(chunk.positions[row])] = int(batches.last_offset[row])
                continue
            if self._is_broken:
                self._passed(batches, row)
            one = batches.take(slice(row, row + 1))
            if int(one.entry_offset[0]) < self._stable:
                self.next_offset = max(self.next_offset, int(one.last_offset[0]) + 1)
            self._place(path, chunk, one)

    def _passed(self, batches: Batches, row: int) -> None:
        """A sound batch follows what was broken: what is between is left out."""
        first = int(batches.entry_offset[row])
        if first >= self._stable:
            return
        self._is_broken = False
        last = first - 1
        if batches.is_wrapper[row]:  # its offset is its last one
            last = min(last, max(self._wrong.values(), default=last))
        if int(batches.last_offset[row]) >= self.start and last >= self.next_offset:
            self.left_out.append((self.next_offset, last))

    def _place(self, path: str, chunk: Chunk, sound: Batches) -> None:
        """Which places belong to the run before, and to the next one."""
        old = np.flatnonzero(sound.last_offset < self.start)
        if len(old):
            self._known_until = (path, int(sound.positions[old[-1]]) + chunk.base)
            self._is_broken = False
        new = np.flatnonzero(sound.entry_offset >= self._stable)
        if len(new) and self._from[1] is None:
            self._from = (path, int(sound.positions[new[0]]) + chunk.base)

    def _transactions(self, pending: dict[Place, Finding]) -> Transactions:
        """Those of the range alone. What begins before it was decided when the last run ended there, and what ends
        behind it is open, whatever a broker has written meanwhile."""

        def chunks() -> Iterator[tuple[str, Chunk]]:
            segments = Range(self.start, self.end).segments(self.source.segments)
            for segment, file in open_segments(self.source, ignore, segments, self.storage_options):
                for chunk in scan(file, ignore, position_of_offset(file, segment, self.start, self.storage_options)):
                    rows = (chunk.batches.last_offset >= self.start) & (chunk.batches.entry_offset < self.end)
                    if rows.any():
                        yield file.path, chunk.take(rows)

        def note(finding: Finding) -> None:
            pending[finding.file, finding.position] = finding

        return find_transactions(chunks(), note)
