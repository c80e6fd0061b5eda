"""Two equal logs compared, beside two reads with checksums; by headers alone, beside two reads of headers."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.once import made_once

from benchmarks import data
from benchmarks.measure import BenchmarkError, Workload, python, warm_process

CODECS = ("none", "lz4")


def workloads(records: int) -> Iterator[Workload]:
    for codec in CODECS:
        for suffix, anchor in (("", "two reads with checksums"), ("-quick", "two reads of headers")):
            work = functools.partial(_side, codec, records, suffix)
            yield Workload(f"diff{suffix}-{codec}", "records/s", work("compare"), anchor, work("read_both"))


def _side(codec: str, records: int, suffix: str, function: str) -> functools.partial[object]:
    how = suffix.removeprefix("-") or "all"
    return functools.partial(_process, codec, records, how, function)


def _process(codec: str, records: int, how: str, function: str) -> object:
    source = data.segment(codec, records).parent
    return warm_process(python(f"{__name__}:{function}", str(source), str(copy(source)), how, str(records)))


def copy(source: Path) -> Path:
    """The same log in another place; made once."""

    def write(target: Path) -> None:
        shutil.copytree(source, target / source.name)

    return made_once(data.CACHE / f"copy-of-{source.parent.name}-{source.name}", write) / source.name


def compare(left: str, right: str, how: str, records: str) -> int:
    import brokerless

    found = brokerless.diff(left, right, quick=how == "quick")
    if not found.is_same or found.partitions[0].same != int(records):
        raise BenchmarkError("\n".join(found.lines()))
    return int(records)


def read_both(left: str, right: str, how: str, records: str) -> int:
    from brokerless.log.segment import check_checksums, scan, scan_headers
    from brokerless.log.storage.location import Location
    from brokerless.progress import ignore

    for each in (left, right):
        with Location(f"{each}/00000000000000000000.log").open() as file:
            for chunk in (scan_headers if how == "quick" else scan)(file, ignore):
                if how != "quick" and not check_checksums(chunk, each, ignore).all():
                    raise BenchmarkError("a checksum is wrong")
    return int(records)
