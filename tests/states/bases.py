"""Log directories of real brokers, from which all states are made by changing copies.

``python -m tests.states.bases [--version V]`` makes them anew, with that broker, and packs them in
``bases-V.tar.zst``; versions between the oldest and the newest start on those of the oldest. There are two, ``many``
and ``few``, which differ in how many partitions a topic has; each lies twice in the archive, as a clean stop left it
(``stopped``), and as it was a moment before (``killed``). Only partition 0 of STATES, AGED and KEYED has records:
states are copies of it, and :func:`lay_out` makes the empty ones.
"""

from __future__ import annotations

import argparse
import functools
import io
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import zstandard

from brokerless.internals.metadata.records import encode_record
from tests.internals.written import METADATA, append_values
from tests.once import unpacked_once

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".cache" / "states"
VERSIONS = ("4.4.0", "4.3.1", "4.2.2", "4.1.2", "4.0.2", "3.9.1")
"""Those whose brokers were started; all but the first and the last one on what that of 3.9.1 left."""
BASES = (VERSIONS[0], VERSIONS[-1])
"""Those that made directories."""
STATES, AGED, KEYED, ORDERS = "states", "aged", "keyed", "orders"
COUNTS = {"many": {STATES: 240, AGED: 24, KEYED: 2, ORDERS: 2}, "few": {STATES: 2, AGED: 1, KEYED: 1, ORDERS: 6}}
"""Partitions of each topic, by base."""
MASTERS = (STATES, AGED)
ROLLED = (STATES, AGED, KEYED)
_ROLLED: dict[str, Any] = {"resourceType": 2, "name": "segment.bytes", "value": None}
TEN_YEARS = 10 * 365 * 86_400_000
"""The retention of AGED, ms: only what is dated wrongly is older."""
TIME = 1_790_000_000_000
"""Ms: when the first record was written."""
SETTINGS = {
    "log.index.size.max.bytes": "4096",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "2",
    "metadata.log.max.snapshot.interval.ms": "500",
    "metadata.log.max.record.bytes.between.snapshots": "1000",
    "log.flush.offset.checkpoint.interval.ms": "500",
}
GROUPS = tuple(f"group-{number}" for number in range(12))
RAISED = 5
"""The offsets topic is created with 3 partitions, and has so many at the end."""


def base_of(version: str) -> str:
    """Return the version that made the directories on which brokers of a version start."""
    return version if version in BASES else BASES[-1]


@functools.cache
def unpacked(version: str) -> Path:
    """Return where the bases of a version lie, shared by all test processes; not to be written to."""
    base = base_of(version)
    return unpacked_once(HERE / f"bases-{base}.tar.zst", CACHE, f"{base}-")


def lay_out(version: str, name: str, is_clean: bool, target: Path, *, all_partitions: bool = True) -> Path:
    """Copy a base to ``target``, with ``all_partitions``: those that the archive lacks are empty."""
    source = unpacked(version) / name / ("stopped" if is_clean else "killed")
    shutil.copytree(source, target)
    for topic, count in COUNTS[name].items() if all_partitions else ():
        for number in range(1, count):
            directory = target / f"{topic}-{number}"
            if not directory.exists():
                directory.mkdir()
                (directory / f"{0:020}.log").touch()
                for file in ("partition.metadata", "leader-epoch-checkpoint"):
                    shutil.copy(target / f"{topic}-0" / file, directory)
                if is_clean:
                    for suffix in ("index", "timeindex"):
                        (directory / f"{0:020}.{suffix}").touch()
                (directory / "leader-epoch-checkpoint").write_text("0\n0\n")
    return target


def make_startable(version: str, directory: Path) -> None:
    """Take settings out of the metadata of another version that its own brokers took: topics of the base are rolled at
    sizes that Kafka refuses since 4.1."""
    has_metadata = any(path.stat().st_size for path in (directory / METADATA).glob("0*.log"))
    if base_of(version) != version and has_metadata:
        append_values(
            directory, *(encode_record("CONFIG_RECORD", 0, {**_ROLLED, "resourceName": each}) for each in ROLLED)
        )


def master(directory: Path, topic: str) -> Path:
    return directory / f"{topic}-0"


def make(version: str) -> None:
    """Run brokers, and pack what they leave."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        for name in COUNTS:
            _run_broker(root / name, version, name)
        pack(root, HERE / f"bases-{version}.tar.zst")


def _run_broker(root: Path, version: str, name: str) -> None:
    from tests.kafka.broker import KafkaBroker

    scratch = root.parent / f"{name}-broker"
    broker = KafkaBroker(scratch, SETTINGS, version)
    size = "segment.bytes" if version.startswith("3") else "internal.segment.bytes"
    try:
        with broker:
            counts = COUNTS[name]
            common = {size.replace(".", "_"): 4500, "index_interval_bytes": 400, "segment_index_bytes": 4092}
            common["segment_ms"] = TEN_YEARS  # markers have the time of the clock
            broker.create_topic(STATES, counts[STATES], **common, retention_ms=-1)
            broker.create_topic(AGED, counts[AGED], **common, retention_ms=TEN_YEARS)
            compaction = {"min_cleanable_dirty_ratio": "0.01", "min_compaction_lag_ms": 0, "delete_retention_ms": 1000}
            broker.create_topic(KEYED, counts[KEYED], **common, cleanup_policy="compact", **compaction)
            broker.create_topic(ORDERS, counts[ORDERS], retention_ms=-1)
            for topic in ROLLED:
                _fill(broker, topic, 2)
            _write_orders(broker, counts[ORDERS])
            _commit(broker, GROUPS, 1)
        with broker:  # a later leader epoch, and a recovery point in the middle
            for topic in ROLLED:
                _fill(broker, topic, 4)
            _raise_offsets_topic(broker)
            _commit(broker, GROUPS[::2], 2)
            _wait_for_compaction(broker)
            broker.copy_log_dir(root / "killed")
        broker.copy_log_dir(root / "stopped")
    finally:
        broker.kill()
        shutil.rmtree(scratch)
    for each in (root / "killed", root / "stopped"):
        _leave_out_empty(each)


def _fill(broker: object, topic: str, segments: int) -> None:
    """Write until the first partition has so many segments, the last with several batches: gzip and none, committed and
    aborted transactions, one of which goes over a segment's end."""
    from tests.kafka.broker import KafkaBroker
    from tests.kafka.producers import Record, produce_confluent

    assert isinstance(broker, KafkaBroker)
    count = broker.watermarks(topic)[0][1]

    def some(how_many: int) -> list[Record]:
        nonlocal count
        numbers = range(count, count + how_many)
        count += how_many
        return [
            Record(b"key-%d" % (each % 7), b"%06d " % each * 9, (("n", b"%d" % each),), TIME + each * 1000)
            for each in numbers
        ]

    def is_full() -> bool:
        logs = broker.logs(topic)
        return len(logs) == segments and logs[-1].stat().st_size > 1500

    while not is_full():
        produce_confluent(broker, topic, some(6), "gzip", linger_ms=1)
        produce_confluent(broker, topic, some(3), transaction="abort", linger_ms=1)
        produce_confluent(broker, topic, some(6), linger_ms=1)
        produce_confluent(broker, topic, some(3), transaction="commit", linger_ms=1)
        produce_confluent(broker, topic, some(4), enable_idempotence=True, linger_ms=1)


def _write_orders(broker: object, partitions: int) -> None:
    from tests.kafka.broker import KafkaBroker
    from tests.kafka.producers import Record, produce_confluent

    assert isinstance(broker, KafkaBroker)
    records = [
        Record(b"o-%d" % each, b"order %d" % each, (), TIME + each, each % partitions)
        for each in range(10 * partitions)
    ]
    produce_confluent(broker, ORDERS, records)


def _commit(broker: object, groups: tuple[str, ...], offset: int) -> None:
    from confluent_kafka import Consumer, TopicPartition

    from tests.kafka.broker import KafkaBroker

    assert isinstance(broker, KafkaBroker)
    for at, group in enumerate(groups):
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
        consumer.commit(offsets=[TopicPartition(ORDERS, 0, offset), TopicPartition(STATES, 0, at)], asynchronous=False)
        consumer.close()


def _raise_offsets_topic(broker: object) -> None:
    from confluent_kafka.admin import NewPartitions

    from tests.kafka.broker import KafkaBroker

    assert isinstance(broker, KafkaBroker)
    admin = broker.admin()
    for done in admin.create_partitions([NewPartitions("__consumer_offsets", RAISED)]).values():
        done.result(30)
    broker.wait_for_leaders("__consumer_offsets", RAISED)


def _wait_for_compaction(broker: object) -> None:
    from tests.kafka.broker import KafkaBroker
    from tests.kafka.tiered import wait_for

    assert isinstance(broker, KafkaBroker)
    file = broker.log_dir / "cleaner-offset-checkpoint"

    def is_done() -> bool:
        lines = file.read_text().split("\n") if file.exists() else []
        is_cleaned = any(line.startswith(f"{KEYED} 0 ") and int(line.split()[2]) > 30 for line in lines)
        return is_cleaned and not list(broker.log_dir.glob(f"{KEYED}-0/*.deleted"))

    wait_for(is_done, "a compacted partition")


def _leave_out_empty(directory: Path) -> None:
    for topic in ROLLED:
        for path in directory.glob(f"{topic}-*"):
            if path.name != f"{topic}-0":
                shutil.rmtree(path)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"):
        path = directory / name
        if path.exists():
            checkpoint_lines(path, {})


def checkpoint_lines(path: Path, changed: dict[tuple[str, int], int | None]) -> None:
    """Set lines of an offset checkpoint, or remove them."""
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    found = {(topic, int(number)): int(offset) for topic, number, offset in map(str.split, lines)}
    found.update({key: offset for key, offset in changed.items() if offset is not None})
    kept = {key: offset for key, offset in found.items() if key not in changed or changed[key] is not None}
    text = "".join(f"{topic} {number} {offset}\n" for (topic, number), offset in sorted(kept.items()))
    path.write_text(f"0\n{len(kept)}\n{text}")


def pack(root: Path, to: Path) -> None:
    """Write all files below ``root`` in one archive, the same bytes for the same files."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(root.rglob("*")):
            info = tar.gettarinfo(path, str(path.relative_to(root)))
            info.mtime, info.uid, info.gid, info.uname, info.gname = TIME // 1000, 0, 0, "", ""
            with path.open("rb") if path.is_file() else io.BytesIO() as data:
                tar.addfile(info, data if path.is_file() else None)
    parameters = zstandard.ZstdCompressionParameters.from_level(19, window_log=25)
    to.write_bytes(zstandard.ZstdCompressor(compression_params=parameters).compress(stream.getvalue()))
    print(to.name, to.stat().st_size)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default=BASES[0], choices=BASES)
    make(parser.parse_args().version)
