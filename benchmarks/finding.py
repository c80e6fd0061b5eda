"""Looking for records in a segment, in one warm process on one core, beside reading all of it."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.data import CODECS
from benchmarks.data import segment as segment_of
from benchmarks.measure import BenchmarkError, Side, Workload, python, warm_process
from benchmarks.reading import in_python

FILTERS = {
    "key": {"keys": ["user-4711"]},
    "no-key": {"keys": ["user-x4711"]},
    "text": {"grep": "no such text"},
    "regex": {"key_regex": "^user-471[1-3]$"},
}


def workloads(records: int) -> Iterator[Workload]:
    some = ("none", "lz4")
    for name, codecs in (("key", CODECS), ("no-key", some), ("text", some), ("regex", some)):
        for codec in codecs:
            yield Workload(
                name=f"find-{name}-{codec}",
                unit="records/s",
                ours=looking_for(name, codec, records),
                anchor="deep read of the same",
                theirs=in_python("read_records", codec, records),
                floor=at_least(codec, records),
            )


def at_least(codec: str, records: int) -> Side:
    return lambda: warm_process(python("benchmarks.floor:search", str(segment_of(codec, records))))


def looking_for(name: str, codec: str, records: int) -> Side:
    return lambda: warm_process(python(f"{__name__}:find", str(segment_of(codec, records)), name, str(records)))


def find(path: str, name: str, records: str) -> int:
    """How many records were looked at: all."""
    import brokerless

    selection = brokerless.RecordFilter(**FILTERS[name])
    found = sum(batch.num_rows for batch in brokerless.open(path).records(filter=selection))
    if (found == 0) != (name in ("no-key", "text")):
        raise BenchmarkError(f"{found} records were found")
    return int(records)
