"""What a broker of the newest Kafka does at its starts on partitions that were damaged, and what was recorded of that.

Each start is of a copy of one of two log directories: one as it lay under a running broker, as a kill leaves it, and
one after a clean stop of the broker that had recovered the first one, damaged. The partitions of the first one have
segments that were flushed at an earlier clean stop, and then some that were not.

As for other starts (:mod:`tests.kafka.recorded_starts`), brokers are asked again where any byte that is given to them
is another one than was recorded, and nightly.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from brokerless.clusters.directory_state import load_directory_state
from brokerless.clusters.start.job import plan_restart
from brokerless.clusters.start.results import Restart
from brokerless.jobs.salvage.job import Salvage, SalvageResult, plan, salvage
from brokerless.log import names
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location
from tests.kafka import recorded_starts
from tests.kafka.broker import SETTINGS, KafkaBroker
from tests.kafka.damaged_partitions import (
    CLOSED,
    DAMAGES,
    FAR,
    PARTITIONS,
    RANDOM,
    REFUSED,
    TOPIC,
    Files,
    go_far,
)
from tests.kafka.jars import NEWEST
from tests.kafka.live import some_records
from tests.kafka.producers import Record, produce_confluent
from tests.log import odd_logs
from tests.sources import sources_of

RECORDED = f"restart-{NEWEST}"
KILLED, STOPPED = "killed", "stopped"
Content = tuple[bytes | None, bytes | None, int]
"""Key, value and timestamp of a record."""


@dataclass(frozen=True)
class Start:
    """A log directory on which a broker is to start: a copy of ``base`` in which ``partitions`` are other ones. Until
    it is asked, it has no others than these."""

    base: str
    log_dir: Path
    partitions: tuple[int, ...]

    @cached_property
    def said(self) -> dict[int, Restart]:
        """What the dry run says of each of these partitions."""
        return dry_run(self.log_dir)

    @cached_property
    def before(self) -> dict[int, dict[str, bytes]]:
        """The files of each of these partitions, by name."""
        return {number: contents(self.log_dir, number) for number in self.partitions}


@dataclass(frozen=True)
class Answer:
    """What a broker did. Of those that ended while they started there is only the ``output``."""

    output: str
    offsets: dict[int, tuple[int, int]]
    """The log start and end offsets that clients see."""
    after: dict[int, dict[str, bytes]]
    """The files of each partition while the broker runs."""
    served: dict[int, str]
    """A :func:`digest` of what a consumer gets, where that was asked."""


@dataclass(frozen=True)
class Starts:
    """All of them, by name, and what salvage took from the damaged partitions into ``saved``."""

    base: Path
    starts: dict[str, Start]
    results: dict[int, SalvageResult]
    saved: Path

    def digest(self) -> str:
        found = hashlib.sha256(repr((NEWEST, SETTINGS)).encode())
        for name, start in self.starts.items():
            found.update(f"\0{name}\0{start.base}\0".encode())
            for path in sorted(start.log_dir.rglob("*")):
                if path.is_file():
                    found.update(f"\0{path.relative_to(start.log_dir)}\0{path.stat().st_size}\0".encode())
                    found.update(path.read_bytes())
        return found.hexdigest()


def digest(records: Mapping[int, Content]) -> str:
    return hashlib.sha256(repr(sorted(records.items())).encode()).hexdigest()[:16]


def fill(broker: KafkaBroker, seed: int) -> None:
    """Some segments' worth for each partition, in batches of a few kilobytes; a transaction is aborted in each."""
    values = some_records(seed, 160, largest=3000)
    records = [
        Record(each.key, each.value, each.headers, each.timestamp, partition)
        for partition in PARTITIONS.values()
        for each in values
    ]
    few = [Record(b"key", b"of a transaction", (), None, partition) for partition in PARTITIONS.values()]
    produce_confluent(broker, TOPIC, few, transaction="abort")
    produce_confluent(broker, TOPIC, few, transaction="commit")
    # By the end of this, the coordinator is done with the transactions.
    produce_confluent(broker, TOPIC, records, enable_idempotence=True, batch_size=1500)


def make_base(directory: Path) -> None:
    """Fills ``directory`` with both log directories."""
    broker = KafkaBroker(directory.with_name("broker-of-base"))
    with broker:
        broker.create_topic(
            TOPIC, len(PARTITIONS), internal_segment_bytes=6000, index_interval_bytes=4096, retention_ms=-1,
            segment_index_bytes=4096,
        )  # fmt: skip
        fill(broker, 1)
    with broker:
        fill(broker, 2)
        killed = broker.copy_log_dir(directory / KILLED)
    shutil.rmtree(broker.log_dir)
    shutil.copytree(killed, broker.log_dir)
    damage_all(killed, broker.log_dir)
    with broker:
        broker.wait_for_leaders(TOPIC, len(PARTITIONS))
    broker.copy_log_dir(directory / STOPPED)


def partition_of(log_dir: Path, number: int) -> Path:
    return log_dir / names.partition_directory(TOPIC, number)


def contents(log_dir: Path, number: int) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(partition_of(log_dir, number).glob("000*"))}


def flushed_offsets(log_dir: Path) -> dict[int, int]:
    """Where recovery begins in each partition."""
    offsets = load_directory_state(resolve(Location(str(log_dir)))).offsets[names.RECOVERY_POINT_CHECKPOINT]
    return {partition: offset for (topic, partition), offset in offsets.items() if topic == TOPIC}


def copy_of(base: Path, to: Path, *partitions: int) -> Path:
    """A log directory with some of the topic's partitions alone, as all that a dry run of these needs."""
    to.mkdir(parents=True)
    for path in base.iterdir():
        if path.is_file():
            shutil.copy(path, to)
    for number in partitions:
        shutil.copytree(partition_of(base, number), partition_of(to, number))
    return to


def dry_run(log_dir: Path) -> dict[int, Restart]:
    directory = resolve(Location(str(log_dir)))
    state = load_directory_state(directory)
    return {
        each.partition or 0: plan_restart(each, state.of(each), clean=state.was_clean)
        for each in directory.partitions
        if each.topic == TOPIC
    }


def is_refused(directory: Path) -> bool:
    """Whether a killed broker would not start at all on a partition, by the dry run."""
    log = resolve(Location(str(directory)))
    (only,) = log.partitions
    return plan_restart(only, load_directory_state(log).of(only), clean=False).refused is not None


def damage_all(base: Path, log_dir: Path) -> None:
    """Damages each partition in its own way, but for those that would keep a broker from starting at all."""
    flushed = flushed_offsets(base)
    for name, damage in DAMAGES.items():
        number = PARTITIONS[name]
        files = Files(partition_of(log_dir, number), flushed[number], random.Random(number))
        assert len(files.flushed) > 2
        assert len(files.unflushed) > 2
        damage(files)
        if name in RANDOM and is_refused(files.directory):
            shutil.rmtree(files.directory)
            shutil.copytree(partition_of(base, number), files.directory)


def damage_closed(log_dir: Path) -> None:
    for name, damage in CLOSED.items():
        number = PARTITIONS[name]
        damage(Files(partition_of(log_dir, number), 0, random.Random(number)))


def append_to_last(log_dir: Path, data: bytes) -> None:
    files = Files(partition_of(log_dir, REFUSED), 0, random.Random(0))
    files.append(files.segments[-1], data)


def prepare(base: Path, root: Path) -> Starts:
    """Makes the directories of all starts."""
    killed, stopped = base / KILLED, base / STOPPED
    everything = tuple(PARTITIONS.values())
    damaged = copy_of(killed, root / "damaged", *everything)
    damage_all(killed, damaged)
    saved = root / "salvage"
    before = {number: contents(damaged, number) for number in everything}
    tasks = plan(sources_of(damaged, topic=TOPIC), saved, Salvage())
    results = {each.task.partition: each for each in salvage(tasks, lambda _: None)}
    assert {number: contents(damaged, number) for number in everything} == before
    closed = tuple(PARTITIONS[name] for name in CLOSED)
    damage_closed(copy_of(stopped, root / "closed", *closed))
    append_to_last(copy_of(stopped, root / "refused", REFUSED), bytes(12) + b"garbage" * 9)
    unsplit = copy_of(stopped, root / "unsplit", REFUSED)
    (unsplit / names.CLEAN_SHUTDOWN).unlink()
    append_to_last(unsplit, b"".join(odd_logs.batch(each, [(b"k", b"v")]) for each in (1 << 40, 10_000)))
    all_saved = copy_of(killed, root / "saved")
    for number in everything:
        shutil.copytree(partition_of(saved, number), partition_of(all_saved, number))
    far = copy_of(stopped, root / "far")
    shutil.copytree(partition_of(saved, FAR), partition_of(far, FAR))
    go_far(Files(partition_of(far, FAR), 0, random.Random(0)))
    bases = {
        "damaged": (KILLED, everything), "closed": (STOPPED, closed), "refused": (STOPPED, (REFUSED,)),
        "unsplit": (STOPPED, (REFUSED,)), "saved": (KILLED, everything), "far": (STOPPED, (FAR,)),
    }  # fmt: skip
    starts = {name: Start(of, root / name, numbers) for name, (of, numbers) in bases.items()}
    return Starts(base, starts, results, saved)


def ask(starts: Starts, name: str, directory: Path) -> Answer:
    """Starts a broker in ``directory``, and returns what it did."""
    start = starts.starts[name]
    broker = KafkaBroker(directory)
    shutil.copytree(starts.base / start.base, broker.log_dir)
    for number in start.partitions:
        target = partition_of(broker.log_dir, number)
        shutil.rmtree(target)
        shutil.copytree(partition_of(start.log_dir, number), target)
    if not (start.log_dir / names.CLEAN_SHUTDOWN).exists():
        (broker.log_dir / names.CLEAN_SHUTDOWN).unlink(missing_ok=True)
    try:
        broker.start()
    except RuntimeError as error:
        if "ended while it started" not in str(error):
            raise
        return Answer(broker.output.read_text(errors="replace").replace(f"{directory}/", ""), {}, {}, {})
    try:
        broker.wait_for_leaders(TOPIC, len(PARTITIONS))
        after = {number: contents(broker.log_dir, number) for number in start.partitions}
        offsets = broker.watermarks(TOPIC, start.partitions)
        return Answer("", offsets, after, served(broker) if name == "saved" else {})
    finally:
        broker.stop()


def served(broker: KafkaBroker) -> dict[int, str]:
    """A digest of each partition's records, as librdkafka gets them."""
    consumer = Consumer({
        "bootstrap.servers": broker.bootstrap, "group.id": "all", "enable.auto.commit": False,
        "enable.partition.eof": True, "isolation.level": "read_uncommitted", "auto.offset.reset": "error",
    })  # fmt: skip
    found: dict[int, dict[int, Content]] = {number: {} for number in PARTITIONS.values()}
    left = set(found)
    try:
        consumer.assign([TopicPartition(TOPIC, number, OFFSET_BEGINNING) for number in found])
        give_up = time.monotonic() + 120
        while left:
            assert time.monotonic() < give_up, f"a consumer does not come to the end of {left}"
            for message in consumer.consume(10_000, 1):
                if (error := message.error()) is None:
                    content = message.key(), message.value(), message.timestamp()[1]
                    found[message.partition()][message.offset()] = content
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
                else:
                    raise KafkaException(error)
    finally:
        consumer.close()
    return {number: digest(records) for number, records in found.items()}


def answers_of(starts: Starts, directory: Path) -> dict[str, Answer]:
    """What brokers did at each start. ``directory``: where they start, if they are asked."""
    known = recorded_starts.unpacked(RECORDED)
    if not recorded_starts.ASK_ALWAYS and (known / "digest").read_text() == starts.digest():
        return {name: _load(known, name, start) for name, start in starts.starts.items()}
    recorded_starts.warn(starts.starts)
    return {name: ask(starts, name, directory / name) for name in starts.starts}


def record_starts() -> None:
    with tempfile.TemporaryDirectory() as directory:
        root, recorded = Path(directory), Path(directory) / "recorded"
        make_base(recorded)
        starts = prepare(recorded, root / "starts")
        for name, answer in {name: ask(starts, name, root / "asked" / name) for name in starts.starts}.items():
            _save(recorded, name, starts.starts[name], answer)
        (recorded / "digest").write_text(starts.digest())
        recorded_starts.write_archive(RECORDED, recorded)


def _save(recorded: Path, name: str, start: Start, answer: Answer) -> None:
    """Of the files that a broker left, those that were the same before are saved by their names."""
    to = recorded / "answers" / name
    to.mkdir(parents=True)
    files = {number: sorted(of_partition) for number, of_partition in answer.after.items()}
    lines = {"output": answer.output, "offsets": answer.offsets, "files": files, "served": answer.served}
    (to / "answer.json").write_text(json.dumps(lines))
    for number, of_partition in answer.after.items():
        for file, data in of_partition.items():
            if start.before[number].get(file) != data:
                path = to / str(number) / file
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(data)


def _load(recorded: Path, name: str, start: Start) -> Answer:
    found = recorded / "answers" / name
    lines: dict[str, Any] = json.loads((found / "answer.json").read_text())

    def content(number: int, file: str) -> bytes:
        path = found / str(number) / file
        return path.read_bytes() if path.exists() else start.before[number][file]

    after = {int(number): {file: content(int(number), file) for file in files}
             for number, files in lines["files"].items()}  # fmt: skip
    offsets = {int(number): (begin, end) for number, (begin, end) in lines["offsets"].items()}
    return Answer(lines["output"], offsets, after, {int(number): each for number, each in lines["served"].items()})
