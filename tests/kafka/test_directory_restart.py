"""A stopped broker's directory is changed in all ways that we know of, and then a broker starts on it: whether it does,
what it takes for stray, what it begins anew and where logs end is what the dry run said before. Most starts are
recorded."""

from __future__ import annotations

import dataclasses
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

import brokerless
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
from tests.kafka.changed_directories import (
    ALONG,
    CHANGED,
    FUTURE,
    HARMLESS,
    KRAFT,
    OTHER,
    REFUSED,
    STRAY,
    Change,
    Places,
)
from tests.kafka.jars import NEWEST
from tests.kafka.live import some_records
from tests.kafka.producers import produce_confluent
from tests.kafka.recorded_starts import Start

pytestmark = pytest.mark.xdist_group("directory_restart")

SNAPSHOTS = {
    "metadata.log.max.snapshot.interval.ms": "500",
    "metadata.max.idle.interval.ms": "500",
    "metadata.log.max.record.bytes.between.snapshots": "1000",
}
FIRST, LAST = "unchanged", "unchanged-too"
RECORDED = f"refused-{NEWEST}"
RECORDED_CHANGED = f"changed-{NEWEST}"


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
    second: dict[str, int] = field(default_factory=dict)
    """Names and sizes of what is in the second directory afterwards."""

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


def start(stopped: Path, directory: Path, *changes: Change, consuming: Places = ()) -> Started:
    """The same, and starts a broker."""
    broker, started = prepare(stopped, directory, *changes)
    run(broker, started, consuming)
    return started


def run(broker: KafkaBroker, started: Started, consuming: Places) -> None:
    """Starts a broker and notes what it does."""
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
    other = broker.directory / "data-2"
    started.second = {str(path.relative_to(other)): path.stat().st_size for path in other.rglob("*")}
    started.output = "".join(f"{line}\n" for line in broker.warnings() if not line.startswith("\tat "))


def refused_starts(base: Path, root: Path) -> dict[str, tuple[Start, Started]]:
    """Of all refused directories, and of the first and the last one, which are unchanged."""
    changes = {FIRST: lambda _: None, **REFUSED, LAST: lambda _: None}
    prepared = {name: prepare(base / "data", root / name, change) for name, change in changes.items()}
    return {name: (start_of(broker), each) for name, (broker, each) in prepared.items()}


def start_of(broker: KafkaBroker) -> Start:
    (line,) = re.findall("^log.dirs=(.*)", broker.properties.read_text(), re.MULTILINE)
    return Start(broker, tuple(map(Path, line.split(","))))


def record_starts() -> None:
    def starts(base: Path, root: Path) -> dict[str, Start]:
        return {name: start for name, (start, _) in refused_starts(base, root).items()}

    recorded_starts.record(RECORDED, make_bare_base, starts)
    with tempfile.TemporaryDirectory() as directory:
        lines = [_recorded(recorded_starts.unpacked(RECORDED), Path(directory) / name, name) for name in CHANGED]
    recorded_starts.write_lines(RECORDED_CHANGED, lines)


def _recorded(base: Path, directory: Path, name: str) -> dict[str, object]:
    changes, consuming = CHANGED[name]
    broker, started = prepare(base / "data", directory, *changes)
    known_by = start_of(broker).digest()
    run(broker, started, consuming)
    return {
        "name": name,
        "digest": known_by,
        "is_started": started.is_started,
        "after": sorted(started.after),
        "ends": started.ends,
        "second": started.second,
        "output": started.output.replace(f"{directory}/", ""),
    }


def make_bare_base(directory: Path) -> None:
    """Nothing but the log directory."""
    shutil.copytree(make_base(directory.with_name("broker-of-base")), directory / "data")


@pytest.fixture(scope="module")
def base(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As ``stopped``, but recorded, so that its transactions have timed out by now; not to be written to."""
    return recorded_starts.base(RECORDED, make_bare_base, tmp_path_factory.mktemp("recorded") / "base")


@pytest.fixture
def changed(base: Path, tmp_path: Path) -> Callable[[str], Started]:
    """What the dry run says of one of ``CHANGED``, and what a broker did there."""

    def start_on(name: str) -> Started:
        changes, consuming = CHANGED[name]
        broker, started = prepare(base / "data", tmp_path, *changes)
        line = recorded_starts.lines(RECORDED_CHANGED).get(start_of(broker).digest())
        if line is None:
            recorded_starts.warn([name])
            run(broker, started, consuming)
            return started
        known = {name: line[name] for name in ("is_started", "ends", "second", "output")}
        return dataclasses.replace(started, after=set(line["after"]), **known)

    return start_on


@pytest.fixture(scope="module")
def started(base: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Started]:
    """What happens to brokers that start on refused directories, and to the first and the last one, whose directories
    are unchanged; those that are recorded are not started again."""
    root = tmp_path_factory.mktemp("refused")
    prepared = refused_starts(base, root)
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


@pytest.mark.parametrize("name", ["directory-id-of-another", "no-directory-id"])
def test_what_the_cluster_has_in_another_directory_may_not_be_served(
    changed: Callable[[str], Started], name: str
) -> None:
    started = changed(name)
    assert started.is_started
    assert not started.refused
    served = {Path(path).name for path in started.said[0].unserved}
    assert served == started.partitions.keys() - {KRAFT}
    # Whether a replica gets a leader before it is taken for offline is a race; both were seen, also in one start.
    for partition, end in started.ends.items():
        assert end in (None, started.partitions[partition].log_end_offset)


def test_a_partition_of_another_topics_id_is_not_served(changed: Callable[[str], Started]) -> None:
    started = changed("topic-id-of-another")
    assert started.is_started
    assert not started.refused
    assert {Path(path).name for path in started.said[0].unserved} == {"plain-0"}
    assert started.ends == {"plain-0": None, "plain-1": started.partitions["plain-1"].log_end_offset}


def test_strays_are_those_of_the_metadata_that_is_left_after_its_recovery(changed: Callable[[str], Started]) -> None:
    started = changed("metadata-flipped")
    assert started.is_started
    assert started.partitions[KRAFT].lost_bytes
    said = {Path(path).name for path in started.said[0].stray}
    assert 2 < len(said) < len(started.partitions) - 3
    assert strays_of(started) == said


def test_a_cut_snapshot_is_refused_as_a_broker_may_begin_with_half_of_the_metadata(
    changed: Callable[[str], Started],
) -> None:
    started = changed("snapshot-cut")
    assert started.refused
    assert not started.is_started or strays_of(started)


def test_a_replica_that_was_being_moved_takes_the_place_of_the_one_in_another_directory(
    changed: Callable[[str], Started], tmp_path: Path
) -> None:
    started = changed("moved-over-the-other")
    said, other = started.said
    replaced = tmp_path / "data-2" / "plain-7"
    assert [(Path(path).name, where) for path, where in said.promoted] == [(FUTURE, str(replaced))]
    assert f"becomes plain-7, as the cluster's metadata has this replica here; {replaced} is deleted" in "".join(
        directory_lines(said)
    )
    assert (said.is_harmless, other.promoted) == (False, ())
    assert started.is_started
    assert "plain-7" in started.after
    assert names.META_PROPERTIES in started.second
    assert "plain-7" not in started.second


def test_a_replica_that_was_being_moved_is_emptied_where_the_one_it_is_moved_from_is_gone(
    changed: Callable[[str], Started], tmp_path: Path
) -> None:
    started = changed("moved-from-what-is-gone")
    said, other = started.said
    assert (said.created, other.overwritten) == ((("plain", 7),), (str(tmp_path / "data-2" / FUTURE),))
    assert (said.is_harmless, said.refused, other.refused) == (False, (), ())
    assert f"lost: {FUTURE} was being moved from a directory that is gone" in "".join(directory_lines(other))
    assert started.is_started
    assert started.ends == {"plain-7": 0}
    sizes = [size for path, size in started.second.items() if re.fullmatch(r"plain-7[^/]*/[^/]*\.log", path)]
    assert sizes in ([0], [])


def test_a_partition_in_two_checkpoints_of_the_cleaner_ends_it(changed: Callable[[str], Started]) -> None:
    started = changed("in-two-cleaner-checkpoints")
    said, other = started.said
    assert (said.warnings, [each.kind for each in other.warnings]) == ((), ["cleaner-checkpoint-repeated"])
    assert "warning: " in "".join(directory_lines(other))
    assert said.is_harmless
    assert started.is_started
    assert (started.ends["plain-3"] or 0) > 0
    assert "Duplicate key plain-3" in started.output
