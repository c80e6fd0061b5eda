"""Two equal logs compared, beside two reads with checksums, ``cmp``, and a script with two consumers; by headers alone,
beside two reads of headers; and two equal snapshots of a backup, of which no log is read."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.once import made_once

from benchmarks import data
from benchmarks.broker import serving
from benchmarks.measure import BenchmarkError, Pass, Workload, python, warm_process

CODECS = ("none", "lz4")


def workloads(records: int) -> Iterator[Workload]:
    for codec in CODECS:
        for suffix, anchor in (("", "two reads with checksums"), ("-quick", "two reads of headers")):
            work = functools.partial(_side, codec, records, suffix)
            yield Workload(f"diff{suffix}-{codec}", "records/s", work("compare"), anchor, work("read_both"))
        work = functools.partial(_side, codec, records, "")
        yield Workload(f"diff-cmp-{codec}", "records/s", work("compare"), "cmp", work("compare_bytes"))
        consumers = functools.partial(_consumers, codec, records)
        yield Workload(f"diff-consumers-{codec}", "records/s", work("compare"), "two consumers", consumers, runs=3)
        yield Workload(
            f"diff-snapshots-{codec}", "records/s", work("compare_snapshots"), "two directories", work("compare")
        )


def _side(codec: str, records: int, suffix: str, function: str) -> functools.partial[object]:
    how = suffix.removeprefix("-") or "all"
    return functools.partial(_process, codec, records, how, function)


def _process(codec: str, records: int, how: str, function: str) -> object:
    source = data.segment(codec, records).parent
    return warm_process(python(f"{__name__}:{function}", str(source), str(copy(source)), how, str(records)))


@contextlib.contextmanager
def _consumers(codec: str, records: int) -> Iterator[Callable[[], Pass]]:
    with serving(records) as broker:
        line = python(f"{__name__}:consume_both", broker.bootstrap, f"events-{codec}", str(records))
        with warm_process(line) as run:
            yield run


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


def compare_bytes(left: str, right: str, how: str, records: str) -> int:
    name = "00000000000000000000.log"
    subprocess.run(["cmp", f"{left}/{name}", f"{right}/{name}"], check=True)
    return int(records)


def compare_snapshots(left: str, right: str, how: str, records: str) -> int:
    """Their objects of logs are empty, so that nothing of them can be read."""
    import brokerless

    place = snapshots(left)
    found = brokerless.diff(f"{place}@one", f"{place}@two", only=["records"])
    if not found.is_same or found.partitions[0].same != int(records):
        raise BenchmarkError("\n".join(found.lines()))
    return int(records)


@functools.cache
def snapshots(log: str) -> Path:
    """Two snapshots of a log, made once."""
    import brokerless

    source = Path(log)

    def write(target: Path) -> None:
        shutil.copytree(source, target / "disk" / source.name)
        (target / "disk" / "meta.properties").write_text("version=1\ncluster.id=AAAAAAAAQACAAAAAAAAAAA\nnode.id=1\n")
        for name in ("one", "two"):
            brokerless.backup(target / "disk", target / "place", name=name)
        for path in (target / "place").rglob("*.log"):
            os.truncate(path, 0)

    return made_once(data.CACHE / f"snapshots-of-{source.parent.name}-{source.name}", write) / "place"


def consume_both(bootstrap: str, topic: str, records: str) -> int:
    """What people write where there is no diff: two consumers, and each message compared with its counterpart."""
    from itertools import zip_longest

    from confluent_kafka import Consumer, TopicPartition

    def messages() -> Iterator[tuple[object, ...]]:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "compare", "enable.auto.commit": False})
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0))
        consumer.assign([TopicPartition(topic, 0, 0)])
        offset = -1
        while offset < end - 1:
            for each in consumer.consume(10_000, 1.0):
                offset = each.offset()
                yield offset, each.timestamp(), each.key(), each.value(), each.headers()
        consumer.close()

    count = 0
    for ours, theirs in zip_longest(messages(), messages()):
        if ours != theirs:
            raise BenchmarkError(f"{ours} is {theirs}")
        count += 1
    if count != int(records):
        raise BenchmarkError(f"{count} records were consumed")
    return count
