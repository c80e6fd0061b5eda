"""Reading a segment in one warm process on one core: all records, with checksums, or the batches' headers."""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.kafka.jars import NEWEST

from benchmarks.data import CODECS, segment
from benchmarks.jvm import command
from benchmarks.measure import Side, Workload, python, warm_process
from brokerless.ordered_threads import processors

_made: dict[tuple[str, int], list[Any]] = {}
_read: dict[tuple[str, int], Any] = {}
_originals: dict[str, Any] = {}
HEADERS = ["position", "baseOffset", "lastOffset", "count", "maxTimestamp"]


def workloads(records: int) -> Iterator[Workload]:
    for codec in CODECS:
        yield deep_read(codec, records)
    for codec in CODECS:
        yield Workload(
            name=f"deep-read-all-cores-{codec}",
            unit="records/s",
            ours=in_python("read_on_all_cores", codec, records),
            anchor="the same on one core",
            theirs=in_python("read_records", codec, records),
            cores=processors(),
        )
    for codec in CODECS:
        yield Workload(
            name=f"keep-order-{codec}",
            unit="records/s",
            ours=in_python("keep_order", codec, records),
            anchor="all of the work, on one core",
            theirs=in_python("read_records", codec, records),
        )
    yield Workload(
        name="headers",
        unit="batches/s",
        ours=in_python("read_headers", "none", records),
        anchor=f"kafka-java {NEWEST}",
        theirs=in_java("batches", "none", records),
    )
    for codec in ("none", "lz4", "zstd"):
        yield Workload(
            name=f"deep-read-aiokafka-{codec}",
            unit="records/s",
            ours=in_python("read_records", codec, records),
            anchor=f"aiokafka {importlib.metadata.version('aiokafka')}",
            theirs=in_python("read_records_with_aiokafka", codec, records),
        )


def deep_read(codec: str, records: int) -> Workload:
    return Workload(
        name=f"deep-read-{codec}",
        unit="records/s",
        ours=in_python("read_records", codec, records),
        anchor=f"kafka-java {NEWEST}",
        theirs=in_java("records", codec, records),
        floor=lambda: warm_process(python("benchmarks.floor:read", str(segment(codec, records)))),
    )


def in_python(function: str, codec: str, records: int) -> Side:
    return lambda: warm_process(python(f"{__name__}:{function}", str(segment(codec, records))))


def in_java(what: str, codec: str, records: int) -> Side:
    return lambda: warm_process(command("ScanLog", what, str(segment(codec, records))))


def read_records(path: str) -> int:
    """All columns of all records, checksums verified."""
    import brokerless

    return sum(batch.num_rows for batch in brokerless.open(path).records(jobs=1))


def read_on_all_cores(path: str) -> int:
    """The same with a thread for each processor."""
    import brokerless

    return sum(batch.num_rows for batch in brokerless.open(path).records(jobs=processors()))


def keep_order(path: str) -> int:
    """What threads leave to their caller, and what one does after the other: batches are found in windows, and what
    eight threads make of them, Arrow's record batches, is put in order. The threads have read the windows and made
    these before: in the first pass, which is not measured."""
    import brokerless
    from brokerless.log.partition import FileReader
    from brokerless.log.storage.read_ahead import ReadAhead

    work, fetch = _originals.setdefault("both", (FileReader.work, ReadAhead.fetch))

    def known(self: Any, chunk: Any, findings: Any, decoder: Any, match: Any) -> Iterator[Any]:
        if (path, chunk.base) not in _made:
            _made[path, chunk.base] = list(work(self, chunk, findings, decoder, match))
        for each in _made[path, chunk.base]:
            yield each if each.prepared is None else replace(each, prepared=list(each.prepared))

    def known_window(self: Any, window: Any) -> None:
        if (path, window.position) not in _read:
            fetch(self, window)
            _read[path, window.position] = window.memory, window.array
        window.memory, window.array = _read[path, window.position]

    FileReader.work, ReadAhead.fetch = known, known_window
    return sum(batch.num_rows for batch in brokerless.open(path).records(jobs=8))


def read_headers(path: str) -> int:
    """What a broker knows of a batch without reading its records."""
    import brokerless

    return sum(batch.num_rows for batch in brokerless.open(path).batches(HEADERS))


def read_records_with_aiokafka(path: str) -> int:
    """As its consumer does with what it fetched: each batch's checksum, key and value of each record."""
    from aiokafka.record.memory_records import MemoryRecords

    records = MemoryRecords(bytes_of(path))
    count = 0
    while (batch := records.next_batch()) is not None:
        if not batch.validate_crc():
            raise ValueError(f"{path}: a batch before record {count} has a wrong checksum")
        for record in batch:
            _ = record.offset, record.timestamp, record.key, record.value, record.headers
            count += 1
    return count


@functools.cache
def bytes_of(path: str) -> bytes:
    """aiokafka takes bytes only; that they are in memory already is to its advantage."""
    return Path(path).read_bytes()
