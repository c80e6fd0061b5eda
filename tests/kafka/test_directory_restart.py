"""A stopped broker's directory is changed in all ways that we know of, and then a broker starts on it: whether it does,
what it takes for stray, what it begins anew and where logs end is what the dry run said before."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

import brokerless
from brokerless.cli import main
from brokerless.clusters.directory_state import load_directory_state
from brokerless.clusters.start.directories import plan_directories
from brokerless.clusters.start.job import plan_restart
from brokerless.clusters.start.results import DirectoryRestart, Restart
from brokerless.internals.records import TRANSACTION_STATE
from brokerless.log import names
from brokerless.log.commit.log_opener import open_log
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location
from brokerless.views.restart import directory_lines
from tests.format.twin import write_batch, write_record
from tests.kafka import recorded_starts
from tests.kafka.broker import KafkaBroker
from tests.kafka.jars import NEWEST
from tests.kafka.live import some_records
from tests.kafka.producers import produce_confluent
from tests.kafka.recorded_starts import Start

pytestmark = pytest.mark.xdist_group("directory_restart")

KRAFT = "__cluster_metadata-0"
OTHER = "other"
UNKNOWN_ID = "MAAAAAAAQkyAAAAAAAAAAQ"
SNAPSHOTS = {
    "metadata.log.max.snapshot.interval.ms": "500",
    "metadata.max.idle.interval.ms": "500",
    "metadata.log.max.record.bytes.between.snapshots": "1000",
}
Change = Callable[[Path], object]


def write(name: str, data: bytes = b"garbage\n") -> Change:
    return lambda directory: (directory / name).write_bytes(data)


def remove(name: str) -> Change:
    return lambda directory: (directory / name).unlink()


def replace(name: str, old: str, new: str) -> Change:
    def change(directory: Path) -> None:
        text = (directory / name).read_text()
        changed = re.sub(old, new, text)
        assert changed != text
        (directory / name).write_text(changed)

    return change


def make(name: str, *files: str) -> Change:
    def change(directory: Path) -> None:
        (directory / name).mkdir()
        for file in files:
            (directory / name / file).write_bytes(b"not Kafka's")

    return change


def copy(name: str, to: str) -> Change:
    return lambda directory: shutil.copytree(directory / name, directory / to)


def snapshot_of(directory: Path) -> Path:
    return max((directory / KRAFT).glob("*.checkpoint"))


def without_snapshots(directory: Path) -> None:
    for path in (directory / KRAFT).glob("*.checkpoint"):
        path.unlink()


def rewrite_kraft(*options: str) -> Change:
    """KRaft's own log as something else writes it that does not know what it is."""

    def change(directory: Path) -> None:
        without_snapshots(directory)
        source, to = directory.parent / "named" / "metadata-0", directory.parent / "to"
        shutil.copytree(directory / KRAFT, source)
        assert main(["convert", str(source), "--to", str(to), *options]) == 0
        for path in (directory / KRAFT).glob("000*"):
            path.unlink()
        for path in (to / "metadata-0").glob("000*"):
            shutil.copy(path, directory / KRAFT)

    return change


def begin_later(directory: Path) -> None:
    """KRaft's log without its first segment."""
    rewrite_kraft("--segment-bytes", "2000")(directory)
    for path in (directory / KRAFT).glob(f"{0:020}.*"):
        path.unlink()


def cut_snapshot(directory: Path) -> None:
    path = snapshot_of(directory)
    path.write_bytes(path.read_bytes()[:-80])


def second_directory(*changes: Change) -> Change:
    """Another one of the same broker, with a partition."""

    def change(directory: Path) -> None:
        other = directory.parent / "data-2"
        other.mkdir()
        shutil.copy(directory / names.META_PROPERTIES, other)
        shutil.copy(directory / names.CLEAN_SHUTDOWN, other)
        replace(names.META_PROPERTIES, "directory.id=.*", f"directory.id={UNKNOWN_ID}")(other)
        for each in changes:
            each(other)

    return change


REFUSED: dict[str, Change] = {
    "no-meta-properties": remove(names.META_PROPERTIES),
    "garbage-for-meta-properties": write(names.META_PROPERTIES),
    "meta-properties-of-another-version": replace(names.META_PROPERTIES, "version=1", "version=9"),
    "no-cluster-id": replace(names.META_PROPERTIES, "cluster.id=.*\n", ""),
    "node-id-of-another": replace(names.META_PROPERTIES, "node.id=.*", "node.id=7"),
    "directory-id-garbage": replace(names.META_PROPERTIES, "directory.id=.*", "directory.id=x"),
    "directory-id-reserved": replace(names.META_PROPERTIES, "directory.id=.*", "directory.id=" + "A" * 21 + "Q"),
    **{f"garbage-for-{name}": write(name) for name in names.OFFSET_CHECKPOINTS},
    "checkpoint-of-fewer-lines": write(names.HIGH_WATERMARK_CHECKPOINT, b"0\n5\nplain 0 3\n"),
    "garbage-for-bootstrap-checkpoint": write(names.BOOTSTRAP_CHECKPOINT, b"garbage" * 20),
    "garbage-for-leader-epochs": write("plain-0/leader-epoch-checkpoint"),
    "garbage-for-partition-metadata": write("plain-0/partition.metadata"),
    "emptied-partition-metadata": write("plain-0/partition.metadata", b""),
    "emptied-partition-metadata-in-one-of-two": lambda directory: second_directory(
        lambda other: write("plain-0/partition.metadata", b"")(Path(shutil.move(directory / "plain-0", other)).parent)
    )(directory),
    "partition-metadata-without-id": replace("plain-0/partition.metadata", "topic_id: .*", "topic_id: " + "A" * 22),
    "lost+found": make("lost+found"),
    "name-without-number": make("photos-abc"),
    "hidden-directory": make(".snap-shot"),
    "deleted-without-unique-id": copy("plain-0", "plain-0-delete"),
    "partition-twice": copy("plain-0", "plain-00"),
    "future-beside-the-replica": copy("plain-0", f"plain-0.{'a' * 32}-future"),
    "log-without-offset": write("plain-0/copy.log", b""),
    "swap-without-offset": write("plain-0/copy.swap", b""),
    "kraft-other-topic-id": replace(f"{KRAFT}/partition.metadata", "topic_id: .*", f"topic_id: {UNKNOWN_ID}"),
    "kraft-garbage-for-quorum-state": write(f"{KRAFT}/quorum-state"),
    "kraft-garbage-for-leader-epochs": write(f"{KRAFT}/leader-epoch-checkpoint"),
    "kraft-repacked": rewrite_kraft("--batch-size", "4096"),
    "kraft-of-an-old-format": rewrite_kraft("--format", "v1"),
    "kraft-without-its-beginning": begin_later,
    "kraft-snapshot-garbage": lambda directory: snapshot_of(directory).write_bytes(b"garbage" * 30),
    "two-clusters": second_directory(replace(names.META_PROPERTIES, "cluster.id=.*", f"cluster.id={UNKNOWN_ID}")),
    "two-nodes": second_directory(replace(names.META_PROPERTIES, "node.id=.*", "node.id=7")),
    "one-directory-twice": lambda directory: second_directory(
        lambda other: shutil.copy(directory / names.META_PROPERTIES, other)
    )(directory),
    "partition-in-two-directories": lambda directory: second_directory(
        lambda other: shutil.copytree(directory / "plain-0", other / "plain-0")
    )(directory),
}
FIRST, LAST = "unchanged", "unchanged-too"
RECORDED = f"refused-{NEWEST}"
HARMLESS: tuple[Change, ...] = (
    *(write(name, b"") for name in (names.HIGH_WATERMARK_CHECKPOINT, names.LOG_START_OFFSET_CHECKPOINT)),
    remove(names.CLEANER_CHECKPOINT),
    write(names.CLEAN_SHUTDOWN),
    remove("plain-0/leader-epoch-checkpoint"),
    write("plain-0/notes.txt"),
    make("plain-0/below", "copy.log"),
    replace("plain-1/partition.metadata", "version: 0", "version: 5"),
    write("notes.txt"),
    write("plain-77"),
    make("remote-log-index-cache", "any"),
    remove(f"{KRAFT}/quorum-state"),
    remove(f"{KRAFT}/partition.metadata"),
    remove(f"{KRAFT}/leader-epoch-checkpoint"),
    rewrite_kraft("--codec", "zstd"),
    write(f"{KRAFT}/{99:020}-{1:010}-123.checkpoint.part"),
    copy("plain-0", f"plain-0.{'b' * 32}-stray"),
)
"""All at once; KRaft's log is without its snapshots then, and recompressed."""


def rename(name: str, to: str) -> Change:
    return lambda directory: (directory / name).rename(directory / to)


def empty(name: str) -> Change:
    return lambda directory: [path.unlink() for path in (directory / name).iterdir()]


STRAY: dict[str, Change] = {
    "plain-0": remove("plain-0/partition.metadata"),
    "plain-1": replace("plain-1/partition.metadata", "topic_id: .*", f"topic_id: {UNKNOWN_ID}"),
    "plain-2": lambda directory: shutil.copy(directory / f"{OTHER}-0/partition.metadata", directory / "plain-2"),
    "plain-9": copy("plain-3", "plain-9"),
    "plain-4": empty("plain-4"),
    "photos-2024": make("photos-2024", "beach.jpg"),
    "my photos-3": make("my photos-3"),
    "plain--1": make("plain--1"),
}
"""By the directory that is taken for stray."""
ALONG: tuple[Change, ...] = (
    rename("plain-5", "renamed-5"),
    lambda directory: shutil.rmtree(directory / "plain-6"),
    rename("plain-7", f"plain-7.{'a' * 32}-future"),
    rename("plain-8", f"plain-8.{'a' * 32}-delete"),
)
"""Of the same start: a partition under another name, one that is lost, one that was being moved here, one deleted."""


@dataclass
class Started:
    """What the dry run said, whether the broker started, and what was there before and afterwards."""

    said: list[DirectoryRestart]
    partitions: dict[str, Restart]
    is_started: bool
    before: set[str]
    after: set[str] = field(default_factory=set)
    ends: dict[str, int | None] = field(default_factory=dict)
    output: str = ""

    @property
    def refused(self) -> list[str]:
        whole = [str(finding) for each in self.said for finding in each.refused]
        return whole + [each.refused for each in self.partitions.values() if each.refused]


@pytest.fixture(scope="module")
def stopped(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A broker's directory after a clean stop, with transactions at each stage, and snapshots of the metadata."""
    return make_base(tmp_path_factory.mktemp("stopped") / "base")


def make_base(directory: Path) -> Path:
    broker = KafkaBroker(directory, SNAPSHOTS)
    with broker:
        broker.create_topic("plain", 9)
        broker.create_topic(OTHER, 1)
        for each in STAGES:
            broker.create_topic(each, 1)
        produce_confluent(broker, "plain", some_records(1, 90, partitions=9, largest=100))
        produce_confluent(broker, OTHER, some_records(2, 5))
        for each in STAGES:
            produce_confluent(broker, each, some_records(3, 10), transaction="open")
    assert list((broker.log_dir / KRAFT).glob("*.checkpoint"))
    advance_transactions(broker.log_dir)
    return broker.log_dir


PREPARE_COMMIT, PREPARE_ABORT = 2, 3
STAGES: dict[str, int | None] = {
    "committing": PREPARE_COMMIT,
    "aborting": PREPARE_ABORT,
    "too-late": None,
    "going-on": None,
}
"""Topics of one transaction each; and what its state becomes."""


def advance_transactions(log_dir: Path) -> None:
    """Adds what a coordinator notes before it writes markers, and moves the beginning of a transaction an hour back."""
    partition = brokerless.open(log_dir).partition(TRANSACTION_STATE, 0)
    rows = [row for batch in partition.records(["key", "value"]) for row in batch.to_pylist()]
    with open_log(log_dir, TRANSACTION_STATE, 0) as log:
        for topic, status in STAGES.items():
            row = next(row for row in reversed(rows) if row["value"] and topic.encode() in row["value"])
            value = bytearray(row["value"])
            if status is not None:
                epoch = int.from_bytes(value[10:12], "big") + 1
                value[10:12], value[16] = epoch.to_bytes(2, "big"), status
            elif topic == "too-late":
                value[12:16] = (1).to_bytes(4, "big")  # the timeout, in ms
            payload = write_record(row["key"], bytes(value), (), 0)
            batch = write_batch(payload, base_offset=log.log_end_offset, last_offset_delta=0, count=1)
            log.append(np.frombuffer(batch, np.uint8))


def prepare(stopped: Path, directory: Path, *changes: Change) -> tuple[KafkaBroker, Started]:
    """Changes a copy of the directory, and asks the dry run."""
    broker = KafkaBroker(directory, {"abort.timed.out.transaction.cleanup.interval.ms": "500"})
    shutil.copytree(stopped, broker.log_dir, ignore=shutil.ignore_patterns(".lock"))
    for change in changes:
        change(broker.log_dir)
    paths = [path for path in (broker.log_dir, directory / "data-2") if path.exists()]
    line = f"log.dirs={','.join(map(str, paths))}"
    broker.properties.write_text(re.sub("log.dirs=.*", line, broker.properties.read_text()))
    directories = [resolve(Location(str(path))) for path in paths]
    said = plan_directories(directories)
    partitions: dict[str, Restart] = {}
    for log, of_directory in zip(directories, said, strict=True):
        notes = load_directory_state(log)
        for each in log.partitions:
            partitions[Path(each.path).name] = plan_restart(
                each, notes.of(each), clean=notes.was_clean, directory=of_directory
            )
    return broker, Started(said, partitions, False, {path.name for path in broker.log_dir.iterdir()})


def start(stopped: Path, directory: Path, *changes: Change, consuming: tuple[tuple[str, int], ...] = ()) -> Started:
    """The same, and starts a broker."""
    broker, started = prepare(stopped, directory, *changes)
    broker.format = lambda: None  # type: ignore[method-assign] - it would make a directory whole again
    try:
        broker.start()
        started.is_started = True
        for topic, partition in consuming:
            name = f"{topic}-{partition}"
            expected = expected_end(started.partitions.get(name))
            started.ends[name] = end_of(broker, topic, partition, expected)
        started.after = {path.name for path in broker.log_dir.iterdir()}
        broker.stop()
    except RuntimeError:
        broker.kill()
    started.output = broker.output.read_text(errors="replace")
    return started


def refused_starts(base: Path, root: Path) -> dict[str, tuple[Start, Started]]:
    """Of all refused directories, and of the first and the last one, which are unchanged."""
    changes = {FIRST: lambda _: None, **REFUSED, LAST: lambda _: None}
    prepared = {name: prepare(base / "data", root / name, change) for name, change in changes.items()}
    return {
        name: (Start(broker, tuple(Path(path) for path in log_dirs(broker))), each)
        for name, (broker, each) in prepared.items()
    }


def log_dirs(broker: KafkaBroker) -> list[str]:
    (line,) = re.findall("^log.dirs=(.*)", broker.properties.read_text(), re.MULTILINE)
    return line.split(",")


def record_starts() -> None:
    def starts(base: Path, root: Path) -> dict[str, Start]:
        return {name: start for name, (start, _) in refused_starts(base, root).items()}

    recorded_starts.record(RECORDED, make_bare_base, starts)


def make_bare_base(directory: Path) -> None:
    """Nothing but the log directory."""
    shutil.copytree(make_base(directory.with_name("broker-of-base")), directory / "data")


@pytest.fixture(scope="module")
def started(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Started]:
    """What happens to brokers that start on refused directories, and to the first and the last one, whose directories
    are unchanged; those that are recorded are not started again."""
    root = tmp_path_factory.mktemp("refused")
    prepared = refused_starts(recorded_starts.base(RECORDED, make_bare_base, root / "base"), root)
    words = recorded_starts.words(RECORDED, {name: start for name, (start, _) in prepared.items()})
    for name, (_, each) in prepared.items():
        each.is_started, each.output = words[name].answer == "started", words[name].answer
    return {name: each for name, (_, each) in prepared.items()}


def end_of(broker: KafkaBroker, topic: str, partition: int, expected: int | None) -> int | None:
    """Where a partition ends for clients, who wait a while for what is expected; None if it has no leader."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "ends", "isolation.level": "read_uncommitted"}
    consumer = Consumer({**settings, "log_level": 0})
    end: int | None = None
    try:
        for _ in range(6 if expected == -1 else 40):
            with suppress(KafkaException):
                end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=2)[1]
            if end is not None and expected in (end, None):
                break
            time.sleep(0.25)
        return end
    finally:
        consumer.close()


def expected_end(restart: Restart | None) -> int | None:
    """-1 for a partition that is not to be served; None for one of which the dry run does not say it."""
    if restart is None:
        return None
    if restart.stray is not None:
        return 0
    return -1 if restart.unserved is not None else restart.log_end_offset + restart.markers


@pytest.mark.parametrize("name", REFUSED)
def test_a_broker_does_not_start_where_the_dry_run_said_so(started: dict[str, Started], name: str) -> None:
    assert started[name].refused
    assert not started[name].is_started, started[name].output


def test_a_broker_starts_beside_those(started: dict[str, Started]) -> None:
    for name in (FIRST, LAST):
        assert not started[name].refused
        assert started[name].is_started, started[name].output


def test_a_broker_starts_on_what_the_dry_run_took_for_harmless(stopped: Path, tmp_path: Path) -> None:
    places = (("plain", 0), ("plain", 1), (OTHER, 0))
    started = start(stopped, tmp_path, *reversed(HARMLESS), consuming=places)
    assert started.is_started
    assert not started.refused
    assert all(each.is_harmless for each in started.said)
    assert started.ends == {name: started.partitions[name].log_end_offset for name in started.ends}
    assert all(started.ends.values())
    assert not strays_of(started)


def strays_of(started: Started) -> set[str]:
    """What the broker renamed; by the names that the directories had."""
    new = started.after - started.before
    return {name.rpartition(".")[0] for name in new if name.endswith("-stray")}


def test_strays_what_is_begun_empty_and_what_coordinators_end_are_as_the_dry_run_said(
    stopped: Path, tmp_path: Path
) -> None:
    changes = (*STRAY.values(), *ALONG)
    places = (*(("plain", number) for number in range(9)), *((topic, 0) for topic in STAGES))
    started = start(stopped, tmp_path, *changes, consuming=places)
    (said,) = started.said
    assert started.is_started
    assert not started.refused
    assert {Path(path).name for path in said.stray} == STRAY.keys() == strays_of(started)
    assert {name for name, each in started.partitions.items() if each.stray} == STRAY.keys() & started.partitions.keys()
    # plain-7 was being moved here, and takes its name.
    assert [(Path(path).name, replaced) for path, replaced in said.promoted] == [(f"plain-7.{'a' * 32}-future", None)]
    assert f"renamed: plain-7.{'a' * 32}-future becomes plain-7" in "".join(directory_lines(said))
    begun = (0, 1, 2, 4, 5, 6, 8)  # 0, 1, 2 and 4 in the place of what becomes stray
    assert set(said.created) == {("plain", number) for number in begun}
    assert {number for number in range(9) if started.ends[f"plain-{number}"] == 0} == set(begun)
    assert started.ends["plain-7"]
    assert {Path(path).name for path in said.unserved} == {"renamed-5"} <= started.after
    assert [Path(path).name for path, _ in said.deleted] == [f"plain-8.{'a' * 32}-delete"]
    ended = {each.partitions[0][0]: each.outcome for each in said.completed}
    assert ended == {"committing": "commit", "aborting": "abort", "too-late": "abort"}
    for topic in STAGES:
        restart = started.partitions[f"{topic}-0"]
        assert (restart.log_end_offset, restart.markers) == (10, int(topic in ended))
        assert started.ends[f"{topic}-0"] == 10 + restart.markers


@pytest.mark.parametrize(
    "change",
    [
        replace(names.META_PROPERTIES, "directory.id=.*", f"directory.id={UNKNOWN_ID}"),
        replace(names.META_PROPERTIES, "directory.id=.*\n", ""),
    ],
    ids=["other-id", "no-id"],
)
def test_what_the_cluster_has_in_another_directory_may_not_be_served(
    stopped: Path, tmp_path: Path, change: Change
) -> None:
    started = start(stopped, tmp_path, change, consuming=(("plain", 0), (OTHER, 0)))
    assert started.is_started
    assert not started.refused
    served = {Path(path).name for path in started.said[0].unserved}
    assert served == started.partitions.keys() - {KRAFT}
    # Whether a replica gets a leader before it is taken for offline is a race; both were seen, also in one start.
    for name, end in started.ends.items():
        assert end in (None, started.partitions[name].log_end_offset)


def test_a_partition_of_another_topics_id_is_not_served(stopped: Path, tmp_path: Path) -> None:
    def change(directory: Path) -> None:
        shutil.copy(directory / f"{OTHER}-0/partition.metadata", directory / "plain-0")

    started = start(stopped, tmp_path, change, consuming=(("plain", 0), ("plain", 1)))
    assert started.is_started
    assert not started.refused
    assert {Path(path).name for path in started.said[0].unserved} == {"plain-0"}
    assert started.ends == {"plain-0": None, "plain-1": started.partitions["plain-1"].log_end_offset}


def test_strays_are_those_of_the_metadata_that_is_left_after_its_recovery(stopped: Path, tmp_path: Path) -> None:
    def flip(directory: Path) -> None:
        without_snapshots(directory)
        log = directory / KRAFT / f"{0:020}.log"
        data = bytearray(log.read_bytes())
        topics = {path.name.rpartition("-")[0] for path in directory.iterdir() if path.is_dir()} - {KRAFT[:-2]}
        created = sorted(at for topic in topics if (at := data.find(topic.encode())) > 0)
        at = end = 0
        while end <= created[len(created) // 2]:
            at, end = end, end + 12 + int.from_bytes(data[end + 8 : end + 12], "big")
        data[at + 20] ^= 1  # of the checksum, which does not cover what is before it
        log.write_bytes(data)

    started = start(stopped, tmp_path, flip)
    assert started.is_started
    assert started.partitions[KRAFT].lost_bytes
    said = {Path(path).name for path in started.said[0].stray}
    assert 2 < len(said) < len(started.partitions) - 3
    assert strays_of(started) == said


def test_a_cut_snapshot_is_refused_as_a_broker_may_begin_with_half_of_the_metadata(
    stopped: Path, tmp_path: Path
) -> None:
    started = start(stopped, tmp_path, cut_snapshot)
    assert started.refused
    assert not started.is_started or strays_of(started)


def test_a_replica_that_was_being_moved_takes_the_place_of_the_one_in_another_directory(
    stopped: Path, tmp_path: Path
) -> None:
    future = f"plain-7.{'a' * 32}-future"
    live = second_directory(lambda other: shutil.copytree(other.parent / "data" / "plain-7", other / "plain-7"))
    started = start(stopped, tmp_path, live, rename("plain-7", future))
    said, other = started.said
    replaced = tmp_path / "data-2" / "plain-7"
    assert [(Path(path).name, where) for path, where in said.promoted] == [(future, str(replaced))]
    assert f"becomes plain-7, as the cluster's metadata has this replica here; {replaced} is deleted" in "".join(
        directory_lines(said)
    )
    assert (said.is_harmless, other.promoted) == (False, ())
    assert started.is_started
    assert "plain-7" in started.after
    assert not replaced.exists()


def test_a_replica_that_was_being_moved_is_emptied_where_the_one_it_is_moved_from_is_gone(
    stopped: Path, tmp_path: Path
) -> None:
    future = f"plain-7.{'a' * 32}-future"
    moving = second_directory(lambda other: shutil.copytree(other.parent / "data" / "plain-7", other / future))
    changes: tuple[Change, ...] = (moving, lambda directory: shutil.rmtree(directory / "plain-7"))
    started = start(stopped, tmp_path, *changes, consuming=(("plain", 7),))
    said, other = started.said
    assert (said.created, other.overwritten) == ((("plain", 7),), (str(tmp_path / "data-2" / future),))
    assert (said.is_harmless, said.refused, other.refused) == (False, (), ())
    assert f"lost: {future} was being moved from a directory that is gone" in "".join(directory_lines(other))
    assert started.is_started
    assert started.ends == {"plain-7": 0}
    assert [log.stat().st_size for log in (tmp_path / "data-2").glob("plain-7*/*.log")] in ([0], [])


def test_a_partition_in_two_checkpoints_of_the_cleaner_ends_it(stopped: Path, tmp_path: Path) -> None:
    lines = b"0\n1\nplain 3 2\n"
    again = second_directory(lambda other: (other / names.CLEANER_CHECKPOINT).write_bytes(lines))
    started = start(stopped, tmp_path, again, write(names.CLEANER_CHECKPOINT, lines), consuming=(("plain", 3),))
    said, other = started.said
    assert (said.warnings, [each.kind for each in other.warnings]) == ((), ["cleaner-checkpoint-repeated"])
    assert "warning: " in "".join(directory_lines(other))
    assert said.is_harmless
    assert started.is_started
    assert started.ends["plain-3"] > 0
    assert "Duplicate key plain-3" in started.output
