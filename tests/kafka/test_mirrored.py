"""What MirrorMaker's own task wrote is the same as its source, by its offset syncs; what was written twice, or lost, is
found."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

import brokerless
from tests.cli.conftest import Run
from tests.cli.conftest import run as run
from tests.kafka import jars
from tests.kafka.broker import KafkaBroker
from tests.kafka.producers import Record, produce_confluent

pytestmark = pytest.mark.xdist_group("mirrored")
SOURCE = "mirrored-orders"
MIRROR = f"west.{SOURCE}"
SYNCS = "mm2-offset-syncs.east.internal"
COMMITTED, ABORTED = 600, 40
POSITIONS = {
    "exact": (342, 300),
    "behind": (342, 260),
    "ahead": (342, 310),
    "aborted": (220, 200),
    "at-end": (642, 600),
}
"""Of groups, in the source and in its mirror: the source has 42 offsets more from the aborted transaction on."""


def records(count: int, seed: int) -> list[Record]:
    chance = random.Random(seed)
    return [
        Record(
            b"k%d" % chance.randrange(30),
            b"%d %d" % (seed, number),
            (("n", b"%d" % number),),
            1_700_000_000_000 + number,
        )
        for number in range(count)
    ]


def mirror(broker: KafkaBroker, start: int, count: int) -> None:
    jars.run_with_connect(
        jars.MIRROR, broker.bootstrap, "west", "east", f"{SOURCE}-0", str(start), str(count), "read_committed"
    )


def commit(broker: KafkaBroker, positions: dict[str, tuple[int, int]]) -> None:
    for group, (source, target) in positions.items():
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
        offsets = [TopicPartition(SOURCE, 0, source), TopicPartition(MIRROR, 0, target)]
        consumer.commit(offsets=offsets, asynchronous=False)
        consumer.close()


@pytest.fixture(scope="module")
def disk(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log directory of a broker that is both clusters, before the task began again with some records."""
    directory = tmp_path_factory.mktemp("mirrored")
    with KafkaBroker(directory / "broker") as broker:
        broker.create_topic(SOURCE)
        broker.create_topic(MIRROR)
        broker.create_topic(SYNCS, cleanup_policy="compact")
        produce_confluent(broker, SOURCE, records(200, 1), "lz4", "commit")
        produce_confluent(broker, SOURCE, records(ABORTED, 2), "none", "abort")
        produce_confluent(broker, SOURCE, records(COMMITTED - 200, 3), "none", batch_size=500)
        mirror(broker, -1, COMMITTED)
        commit(broker, POSITIONS)
        broker.copy_log_dir(directory / "once")
        mirror(broker, 500, COMMITTED + ABORTED + 2 - 500)
        commit(broker, {"exact": (600, 700), "ahead": (600, 701), "behind": (600, 558)})
        broker.copy_log_dir(directory / "twice")
    return directory


def test_a_mirror_has_all_records_at_other_offsets(disk: Path) -> None:
    log = disk / "once"
    (partition,) = brokerless.diff(log, log, topics=[SOURCE], offset_syncs=log).partitions
    assert partition.is_same, list(partition.lines())
    assert (partition.same, partition.causes) == (COMMITTED, {"aborted": ABORTED})
    assert partition.right is not None
    assert (partition.right.path, partition.right.end_offset) == (f"{log}/{MIRROR}-0", COMMITTED)


def test_what_the_task_wrote_again_is_a_duplicate(disk: Path) -> None:
    log = disk / "twice"
    (partition,) = brokerless.diff(log, log, topics=[SOURCE], offset_syncs=log).partitions
    assert partition.causes == {"aborted": ABORTED, "duplicate": COMMITTED + ABORTED + 2 - 500}
    assert brokerless.diff(log, log, topics=[SOURCE], offset_syncs=log, allow=["duplicate"], only=["records"]).is_same


def positions(log: Path, **options: Any) -> dict[str, str]:
    """How the positions of each group differ."""
    found = brokerless.diff(log, log, topics=[SOURCE], offset_syncs=log, only=["groups"], **options)
    assert {each.positions for each in found.groups} == {1}
    return {each.group: ", ".join(f"{one.cause} {one.records}" for one in each.differences) for each in found.groups}


def test_positions_of_groups_are_compared_with_those_in_the_mirror(disk: Path) -> None:
    expected = {"exact": "", "behind": "earlier 40", "ahead": "later 10", "aborted": "", "at-end": ""}
    assert positions(disk / "once") == expected
    assert positions(disk / "once", allow=["earlier"])["behind"] == ""


def signed(difference: str) -> int:
    """How many records later a position is."""
    cause, _, count = difference.partition(" ")
    return {"": 0, "later": 1, "earlier": -1}[cause] * int(count or 0)


def test_a_position_among_records_that_were_written_again_is_that_after_the_nearest_pair_of_offsets(
    disk: Path,
) -> None:
    """Of several pairs that wait, a busy task writes the last one alone (``OffsetSyncWriter``): then that of its begin
    is missing, and the nearest one is from before, by as many records as were written again."""
    found = {group: signed(each) for group, each in positions(disk / "twice").items()}
    assert found["exact"] in (0, COMMITTED + ABORTED + 2 - 500)
    assert (found["ahead"] - found["exact"], found["behind"] - found["exact"]) == (1, -142)


def test_groups_are_compared_by_the_command_as_well(disk: Path, run: Run) -> None:
    done = run("diff", disk / "once", disk / "once", "-t", SOURCE, "--offset-syncs", disk / "once")
    assert done.exit_code == 1
    assert f"group ahead: 0 of 1 position at the same record; {MIRROR}-0 10 records later" in done.out.decode()


def test_a_lost_batch_of_the_mirror_is_missing(disk: Path, tmp_path: Path) -> None:
    log = Path(shutil.copytree(disk / "once", tmp_path / "log"))
    batches = brokerless.open(log / f"{MIRROR}-0").batches(["file", "position", "sizeInBytes", "count"]).read_all()
    lost = batches.to_pylist()[batches.num_rows // 2]
    path = Path(lost["file"])
    data = path.read_bytes()
    path.write_bytes(data[: lost["position"]] + data[lost["position"] + lost["sizeInBytes"] :])
    (partition,) = brokerless.diff(disk / "once", log, topics=[SOURCE], offset_syncs=disk / "once").partitions
    assert partition.causes == {"aborted": ABORTED, "missing": lost["count"]}
