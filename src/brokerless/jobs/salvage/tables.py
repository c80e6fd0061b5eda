"""Writes intact batches as Parquet files, as ``brokerless export`` writes them.

The same batches are taken as a log would take, one piece after the other, and no log is written meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import MIN_INT64
from brokerless.errors import UsageError
from brokerless.format.read.decoder import DecodedRecords, Decoder
from brokerless.jobs.recovered.writing import PartitionContents, write_batches
from brokerless.log import names
from brokerless.log.offsets_once.records import is_first_at_offset
from brokerless.log.own_file import OwnFile
from brokerless.log.partition import DecodedRows
from brokerless.log.storage.destination import Destination
from brokerless.log.write.follower_append import check_next, whole_batches
from brokerless.progress import Done, Report
from brokerless.requests.recovery import CarveRequest
from brokerless.requests.writing import SalvageRequest
from brokerless.table_formats import export_directory, export_state
from brokerless.table_formats.export_state import Exported, ExportState
from brokerless.table_formats.parquet_files import (
    FILE_BYTES,
    SCHEMA,
    ParquetFile,
    ParquetFiles,
    ParquetLayout,
    publish_file,
)
from brokerless.tables.record_batches import record_batches
from brokerless.values import Int32, Value

CODEC = "zstd"
RUN = "_brokerless-run.json"
"""In the directory of all topics, from before a run's first change until after its last one: the partitions of each
topic that it writes. One that was killed is done again, though some of its topics were ended with."""


class _BegunTables(Value, frozen=True):
    version: Literal[1]
    partitions: dict[str, tuple[Int32, ...]]


_RUN = OwnFile(
    _BegunTables, "a record of which tables are being written", "move it away, or write to another directory"
)
_ANY_OFFSET = 1 << 62
"""Up to where a run may leave files when it is killed: it does not know yet where the log ends."""


def wants_tables(request: SalvageRequest | CarveRequest) -> bool:
    """Return whether Parquet files were requested, and no log. Raises :class:`UsageError` if segments have a size."""
    if request.as_ == "parquet" and request.segment_bytes is not None:
        raise UsageError("--segment-bytes does not apply to --as parquet; use one of them")
    return request.as_ == "parquet"


@dataclass(frozen=True, slots=True)
class SalvagedTable:
    """The files of one partition in a table."""

    directory: Destination
    """The directory of all topics."""
    topic: str
    partition: int

    @property
    def layout(self) -> ParquetLayout:
        directory = export_state.topic_directory(self.directory.location, self.topic)
        return ParquetLayout(directory, self.partition, False, codec=CODEC, file_bytes=FILE_BYTES)


def check_tables(to: Destination, topic: str, partitions: Collection[int], topic_id: str | None = None) -> ExportState:
    """Return what is known of a topic's files. Raises :class:`UsageError` for a partition that is there already, and
    where they are of another export; UnreadableError where that is not known."""
    export_directory.check_target(to.location)
    before = export_state.load(to.location, topic)
    if before is None:
        return ExportState(topic, topic_id, by_date=False, isolation="read_uncommitted")
    where = export_state.topic_directory(to.location, topic)
    begun = _begun(to).get(topic, set())
    for partition in partitions:
        exported = before.partitions.get(partition)
        if exported is not None and not _is_unfinished(exported) and partition not in begun:
            name = names.partition_directory(topic, partition)
            raise UsageError(f"{where}: {name} is in it already; write to another directory")
    if before.by_date or before.isolation != "read_uncommitted" or _differ(before.topic_id, topic_id):
        raise UsageError(f"{where}: this is an export of another kind or topic; write to another directory")
    return before


def write_table(
    table: SalvagedTable,
    contents: PartitionContents,
    report: Report,
    done: Done,
    max_batch_bytes: int,
) -> tuple[NDArray[np.bool_], tuple[ParquetFile, ...]]:
    """Writes the records of batches that a consumer of their log would get, control records left out, and says which
    batches were taken (as :func:`write_batches` does); the files are for :meth:`SalvagedTables.commit`.
    ``max_batch_bytes``: bytes that a batch may inflate to. Raises :class:`UnwritableError`."""
    output = _TableOutput(table, contents, max_batch_bytes=max_batch_bytes, report=report)
    try:
        taken = write_batches(
            output, contents.batches, contents.files, report=report, done=done, max_batch_bytes=max_batch_bytes
        )
        return taken, output.finish()
    except BaseException:
        output.abandon()
        raise


class _TableOutput:
    """Takes what :class:`brokerless.log.commit.partition_writer.PartitionWriter` takes, and makes files of it."""

    def __init__(self, table: SalvagedTable, contents: PartitionContents, max_batch_bytes: int, report: Report) -> None:
        self._table, self._report = table, report
        self._start, self._end = contents.start, contents.begin
        self._highest = MIN_INT64
        self._producers = contents.producers()
        self._decoder = Decoder(max_batch_bytes=max_batch_bytes)
        self._files = ParquetFiles(table.layout)

    def append(self, buffer: NDArray[np.uint8]) -> None:
        """Raises :class:`RefusedError` as :meth:`LogWriter.append`."""
        batches = whole_batches(buffer)
        check_next(batches, buffer, self._end, producers=self._producers)
        if not len(batches):
            return
        self._producers.update(batches, buffer)
        self._producers.end_offset = self._end = int(batches.last_offset[-1]) + 1
        for decoded in self._decoder.decode(buffer, batches.take(~batches.is_control)):
            self._add(decoded)
            del decoded  # or it is in memory beside the next

    def finish(self) -> tuple[ParquetFile, ...]:
        rest = self._decoder.flush()
        if rest is not None:
            self._add(rest)
        return self._files.finish()

    def abandon(self) -> None:
        self._files.abandon()

    def _add(self, decoded: DecodedRecords) -> None:
        for each in decoded.damages:  # what is intact may still have more headers than there is room for
            path = export_state.topic_directory(self._table.directory.location, self._table.topic).path
            text = f"left out of the table of partition {self._table.partition}: {each.message}"
            self._report(each.kind.at(path, text, severity="error", offset=each.base_offset, found=each.found))
        offsets = decoded.columns.offset[: decoded.columns.rows]
        rows = (offsets >= self._start) & (offsets > self._highest) & is_first_at_offset(offsets)
        self._highest = max(self._highest, int(offsets.max(initial=MIN_INT64)))
        decoded_rows = DecodedRows(self._table.topic, decoded, None if rows.all() else rows)
        for batch in record_batches(iter((decoded_rows,)), self._table.topic, self._table.partition, SCHEMA):
            self._files.add(batch)


class SalvagedTables:
    """The tables of a directory while they are written; made by :func:`tables_of_job`."""

    def __init__(self, directory: Destination) -> None:
        self._to = directory
        self._manifests: dict[str, ExportState] = {}
        self._open: dict[str, set[int]] = {}
        self._begun = _begun(directory)

    def begin(self, topic: str, partitions: Collection[int], topic_id: str | None = None) -> None:
        """Records what is about to be written, so that what a killed run leaves of it is known, and takes away what was
        left of it. Raises as :func:`check_tables`."""
        own = self._manifests.get(topic) or check_tables(self._to, topic, partitions, topic_id)
        for partition in partitions:
            own = own.with_partition(partition, Exported(0, _ANY_OFFSET))
        export_state.clean(self._to.location, own, set(partitions))
        self._begun.setdefault(topic, set()).update(partitions)
        begun = {topic: tuple(sorted(own)) for topic, own in self._begun.items()}
        self._to.write(RUN, _RUN.dump(_BegunTables(1, begun), self._to.join(RUN)))
        self._manifests[topic] = own
        self._open.setdefault(topic, set()).update(partitions)
        export_state.save(own, self._to.location)

    def commit(self, table: SalvagedTable, written: Sequence[ParquetFile], end: int) -> tuple[str, ...]:
        """A partition's files, up to the offset ``end``, get their names; gives these, within the directory. Until the
        job ends, they count as what it was about to write: one that is killed is done again."""
        for each in written:
            publish_file(each, table.layout)
        own = self._manifests[table.topic]
        self._manifests[table.topic] = own.with_partition(table.partition, Exported(end, files=len(written)))
        self._open[table.topic].discard(table.partition)
        return tuple(f"topic={table.topic}/{each.name}" for each in written)

    def end(self, *, has_failed: bool = False) -> None:
        """Records what was committed, and takes away what was not. Of a run that ``has_failed``, as on a full disk,
        what it committed still counts as what it was about to write, so that the same command can be repeated."""
        to = self._to.location
        is_partial = any(own - self._open.get(topic, set()) for topic, own in self._begun.items())
        for topic, partitions in self._open.items():
            own = self._manifests[topic]
            export_state.clean(to, own, partitions)
            left = {number: each for number, each in own.partitions.items() if number not in partitions}
            if left:
                export_state.save(replace(own, partitions=left), to)
            else:
                export_state.forget(own, to)
        if self._begun and self._to.exists(RUN) and not (has_failed and is_partial):
            self._to.remove(RUN)


@contextmanager
def tables_of_job(directory: Destination) -> Generator[SalvagedTables]:
    """Nobody else writes tables there meanwhile; what was not committed is removed at the end. Raises
    :class:`UsageError` if somebody does, and UnwritableError."""
    with ExitStack() as stack:
        stack.enter_context(export_directory.only_export(directory.path))
        tables = SalvagedTables(directory)
        try:
            yield tables
        except BaseException:
            tables.end(has_failed=True)
            raise
        tables.end()


def _begun(to: Destination) -> dict[str, set[int]]:
    """The partitions of each topic that a run has begun and that it, or one that was killed, has not ended with. Raises
    :class:`UnreadableError` where that is not known."""
    found = _RUN.find(to.location / RUN)
    return {} if found is None else {topic: {*partitions} for topic, partitions in found.partitions.items()}


def _is_unfinished(exported: Exported) -> bool:
    return exported.until == _ANY_OFFSET and not exported.next_offset


def _differ(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and one != other
