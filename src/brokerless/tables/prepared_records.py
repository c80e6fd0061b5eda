"""Reads the records of one partition as Arrow record batches, in threads where that is requested."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from brokerless.errors import raise_errors
from brokerless.findings import Finding
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.log.directory import PartitionPath
from brokerless.log.partition import DecodedRows, Match, Reading, read_partition, transactions_of
from brokerless.log.ranges import Countdown
from brokerless.log.seek import from_reported_start
from brokerless.tables.read_progress import ReadProgress
from brokerless.tables.record_batches import RowSource, prepared_batches, records_batches

if TYPE_CHECKING:
    from brokerless.tables.read_options import ReadOptions

Prepare = Callable[[pa.RecordBatch], Any]


def prepared_records(
    paths: PartitionPath, options: ReadOptions, prepare: Prepare | None
) -> Iterator[tuple[pa.RecordBatch, Any]]:
    """Record batches, and of each what ``prepare`` made of it in the thread that decoded it; None where none did. See
    :class:`brokerless.tables.read_options.ReadOptions`."""
    schema, filter, report = options.schema(), options.filter, options.on_damage or raise_errors
    progress = ReadProgress(paths, options.done)
    committed = options.isolation == "read_committed"
    pending: dict[tuple[str, int | None], Finding] = {}
    requested = options.range.narrow(from_reported_start(paths, report))
    transactions = None
    if committed:
        transactions = transactions_of(paths, lambda each: _put(pending, each))

    def prepared(rows: DecodedRows) -> list[tuple[pa.RecordBatch, Any]]:
        source = RowSource(rows.path, paths.topic, paths.partition)
        batches = records_batches(rows.decoded, source, schema, rows.rows)
        return [(batch, None if prepare is None else prepare(batch)) for batch in batches]

    decoded = {*schema.names, *(() if filter is None else filter.columns)}
    reading = Reading(
        range=requested,
        keys="key" in decoded,
        values="value" in decoded,
        headers="headers" in decoded,
        control=options.control and not committed,
        transactions=transactions,
        max_batch_bytes=options.max_batch_bytes or DEFAULT_MAX_BATCH_BYTES,
        watch=lambda file, chunk, _: progress.reach(file, chunk.base),
        matcher=None if filter is None else _once_a_thread(partial(filter.matcher, paths.topic, paths.partition)),
        any_of=() if filter is None else filter.any_of,
        threads=options.threads(paths.size),
        prepare=prepared,
        taken=None if options.limit is None else Countdown(options.limit),
    )

    def report_once(finding: Finding) -> None:
        pending.pop((finding.file, finding.position), None)
        report(finding)

    selected = read_partition(paths, reading, report_once)
    yield from prepared_batches(selected, paths.topic, paths.partition, schema)
    # Damage that made a transaction look open lies where a committed reader does not come.
    for finding in pending.values():
        report(finding)
    progress.finish()


def _once_a_thread(make: Callable[[], Match]) -> Callable[[], Match]:
    """To make one for each segment would take longer than to read a small one."""
    local = threading.local()

    def made() -> Match:
        if not hasattr(local, "match"):
            local.match = make()
        return local.match

    return made


def _put(pending: dict[tuple[str, int | None], Finding], finding: Finding) -> None:
    pending[finding.file, finding.position] = finding
