"""Oracle: Kafka's ``LeaderEpochFileCache``, and the checkpoints that brokers left beside their logs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.golden import broker_data

from brokerless.format import layouts
from brokerless.format.read.batch_headers import Batches, read_headers
from brokerless.format.read.batch_scan import scan_batches
from brokerless.log.checkpoint.leader_epochs import (
    Epochs,
    assign,
    assign_batches,
    end_offset_for,
    epochs_of,
    load_leader_epochs,
    rank,
    recover_batches,
    truncate_from_end,
    truncate_from_start,
    truncation_offset,
)
from brokerless.log.storage.location import Location


def batches_of(path: Path) -> Batches:
    buffer = np.frombuffer(path.read_bytes(), np.uint8)
    return read_headers(buffer, scan_batches(buffer).positions)


def stamped(*rows: tuple[int, int], magic: int = 2) -> Batches:
    """Batches with an epoch and a base offset each."""
    headers = np.zeros(len(rows), layouts.BATCH_V2)
    headers["size"], headers["magic"] = layouts.BATCH_V2_SIZE - layouts.LOG_ENTRY_SIZE, magic
    headers["partition_leader_epoch"] = [epoch for epoch, _ in rows]
    headers["base_offset"] = [offset for _, offset in rows]
    raw = headers.view(np.uint8).reshape(-1, layouts.BATCH_V2_SIZE)
    return Batches(np.arange(len(rows)) * layouts.BATCH_V2_SIZE, raw, raw.size)


def run(operations: list[str]) -> list[Epochs]:
    epochs: Epochs = ()
    after: list[Epochs] = []
    for operation in operations:
        name, *numbers = operation.split()
        if name == "assign":
            epochs = assign(epochs, int(numbers[0]), int(numbers[1]))
        elif name == "end":
            epochs = truncate_from_end(epochs, int(numbers[0]))
        elif name == "start":
            epochs = truncate_from_start(epochs, int(numbers[0]))
        else:
            epochs = ()
        after.append(epochs)
    return after


@pytest.mark.usefixtures("kafka_jars")
def test_whatever_is_done_to_the_epochs_kafka_has_the_same_afterwards() -> None:
    from tests.kafka.jars import check
    from tests.kafka.jars import run as run_java

    random = np.random.default_rng(1)
    operations: list[str] = []
    for _ in range(300):
        epoch = offset = 0
        operations.append("clear")
        for _ in range(20):
            epoch += int(random.integers(-1, 4))
            offset += int(random.integers(-5, 20))
            at = max(offset + int(random.integers(-60, 10)), 0)
            operations.append(f"assign {max(epoch, 0)} {max(offset, 0)}")
            if random.random() < 0.3:
                operations.append(f"{random.choice(['start', 'end'])} {at}")
    given = check(run_java("LeaderEpochs", stdin="\n".join(operations).encode(), helper=True)).decode().split("\n")
    expected = [tuple(tuple(map(int, pair.split())) for pair in line.split(",") if pair) for line in given[:-1]]
    ours = run(operations)
    assert ours == expected
    assert max(map(len, ours)) >= 8


@pytest.mark.usefixtures("kafka_jars")
def test_a_leader_answers_what_kafkas_answers() -> None:
    from tests.kafka.jars import check
    from tests.kafka.jars import run as run_java

    random = np.random.default_rng(2)
    operations: list[str] = []
    ours: list[tuple[int, int] | None] = []
    for _ in range(200):
        epochs: Epochs = ()
        operations.append("clear")
        for _ in range(int(random.integers(0, 5))):
            last = epochs[-1] if epochs else (0, 0)
            epoch, offset = last[0] + int(random.integers(1, 4)), last[1] + int(random.integers(1, 20))
            operations.append(f"assign {epoch} {offset}")
            epochs = assign(epochs, epoch, offset)
        for epoch in range(-1, 14):
            operations.append(f"ask {epoch} 100")
            ours.append(end_offset_for(epochs, epoch, 100))
    lines = check(run_java("LeaderEpochs", stdin="\n".join(operations).encode(), helper=True)).decode().splitlines()
    asked = [line for line, operation in zip(lines, operations, strict=True) if operation.startswith("ask")]
    assert [f"{epoch} {offset}" for epoch, offset in (each or (-1, -1) for each in ours)] == asked
    assert len(set(asked)) > 100


@pytest.mark.parametrize(
    ("leader", "follower", "offset"),
    [
        # The examples of KIP-101 and KIP-279: logs end at 100 (leader) and 120 (follower).
        (((0, 0),), ((0, 0),), 100),
        (((0, 0), (1, 90)), ((0, 0),), 90),
        (((0, 0), (2, 90)), ((0, 0), (1, 80)), 80),
        (((0, 0), (1, 80), (3, 90)), ((0, 0), (2, 70)), 70),
        (((1, 50), (4, 90)), ((1, 50), (2, 60), (3, 110)), 60),
        # Epochs that one of them has forgotten.
        (((4, 90),), ((1, 0),), 90),
        (((2, 0), (7, 100)), ((3, 50), (5, 70)), 50),
        ((), ((0, 0),), None),
        (((0, 0),), (), None),
        (((0, 0),), ((0, 0), (1, 80)), None),
    ],
)
def test_where_a_follower_cuts_its_log_off(leader: Epochs, follower: Epochs, offset: int | None) -> None:
    assert truncation_offset(leader, 100, follower, 120) == offset


def test_nothing_changed_is_the_same_object() -> None:
    epochs = ((0, 0), (3, 100))
    assert assign(epochs, 3, 100) is epochs
    assert assign(epochs, 3, 250) is epochs
    assert assign(epochs, -1, 250) is epochs
    assert truncate_from_end(epochs, 101) is epochs
    assert truncate_from_start(epochs, 0) is epochs
    assert assign_batches(epochs, stamped((3, 100), (3, 110))) is epochs
    assert assign_batches(epochs, stamped()) is epochs


def test_an_empty_log_that_begins_at_an_offset_keeps_the_epoch_in_which_that_lies() -> None:
    assert truncate_from_start(((0, 0), (3, 100), (4, 200)), 150) == ((3, 150), (4, 200))
    assert truncate_from_start(((0, 50), (3, 100)), 20) == ((0, 50), (3, 100))
    assert truncate_from_end(((0, 0), (3, 100)), 0) == ()


@pytest.mark.parametrize(("broker", "logs_with_epochs"), [("clean", 30), ("unclean", 4)])
def test_the_batches_of_a_log_give_the_epochs_that_its_broker_recorded(broker: str, logs_with_epochs: int) -> None:
    followed = 0
    for path in sorted(broker_data(broker).glob("*/leader-epoch-checkpoint")):
        noted = epochs_of(load_leader_epochs(Location(str(path))))
        logs = sorted(path.parent.glob("*.log"))
        appended: Epochs = ()
        recovered: Epochs = ()
        for log in logs:
            batches = batches_of(log)
            appended, recovered = assign_batches(appended, batches), recover_batches(recovered, batches)
        assert appended == recovered
        if "compacted" in str(path) or "__" in str(path):
            continue  # the first batch of an epoch may be gone there
        end = int(batches.last_offset[-1]) + 1 if len(batches) else int(logs[-1].stem)
        # A kill may come after old segments are deleted and before that is noted here.
        start = max([int(logs[0].stem), *(offset for _, offset in noted[:1])])
        assert truncate_from_start(appended, start) == truncate_from_end(truncate_from_start(noted, start), end)
        followed += bool(noted)
    assert followed >= logs_with_epochs


def test_old_messages_make_a_log_forget_its_epochs_and_recovery_passes_over_them() -> None:
    epochs = ((0, 0), (3, 100))
    old = stamped((0, 200), (0, 201), magic=1)
    assert assign_batches(epochs, old) == ()
    assert recover_batches(epochs, old) is epochs


def test_an_epoch_that_goes_back_replaces_later_ones_when_appended_and_is_passed_over_when_recovered() -> None:
    epochs = ((0, 0), (3, 100))
    batches = stamped((3, 110), (2, 120), (2, 130), (-1, 140), (5, 150))
    assert assign_batches(epochs, batches) == ((0, 0), (2, 120), (5, 150))
    assert recover_batches(epochs, batches) == ((0, 0), (3, 100), (5, 150))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("1\n0\n", "version 0", id="another version"),
        pytest.param("zero\n0\n", "an int32 for 'zero'", id="no version"),
        pytest.param("0\n2\n0 0\n", "2 entries", id="cut off"),
        pytest.param("0\n1\n0 0\n1 5\n", "1 entries", id="more than its count"),
        pytest.param("0\n1\n0 0 0\n", "2 words", id="another checkpoint's line"),
        pytest.param("0\n1\n0 9223372036854775808\n", "an int64 for '9223372036854775808'", id="too large"),
        pytest.param("0\n1\n\0\0\0", "2 words", id="zeros"),
    ],
)
def test_a_checkpoint_that_kafka_refuses_gives_nothing_but_a_finding(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_text(text)
    read = load_leader_epochs(Location(str(path)))
    assert len(read.epochs) == 0
    (finding,) = read.findings
    assert (finding.severity, finding.kind, finding.file) == ("error", "checkpoint-corrupt", str(path))
    assert finding.expected == expected


def test_epochs_that_go_back_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_text("0\n3\n0 0\n5 100\n4 200\n")
    read = load_leader_epochs(Location(str(path)))
    assert read.epochs.tolist() == [0, 5, 4]
    assert [(each.severity, each.kind, each.offset) for each in read.findings] == [
        ("warning", "checkpoint-not-sorted", 200)
    ]


def test_the_greatest_epoch_counts_and_then_the_longest_log() -> None:
    replicas = [((), 900), (((2, 0),), 10), (((2, 0), (4, 7)), 8), (((0, 0), (4, 7)), 9)]
    assert max(replicas, key=lambda each: rank(*each)) == replicas[3]
    assert sorted(replicas, key=lambda each: rank(*each)) == replicas
