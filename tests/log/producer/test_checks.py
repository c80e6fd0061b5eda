"""Oracle: Kafka's own ``ProducerStateManager`` and ``ProducerAppendInfo``, given the same batches one by one."""

from __future__ import annotations

import base64
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.log.producer_batches import ABORT, COMMIT, batch, marker, parse

from brokerless.log.producer.checks import Duplicate, check_append
from brokerless.log.producer.snapshot import load_producer_snapshot
from brokerless.log.producer.state import EXPIRATION_MS, ProducerRefusal, ProducerState, load_state
from brokerless.log.storage.location import Location

Step = dict[str, Any]


def steps(random: np.random.Generator) -> list[Step]:
    """What happens to one log: producers that mostly do as they should, and now and then what they should not."""
    made: list[Step] = [{"do": "new"}]
    offset, now = 0, 1_000 * EXPIRATION_MS
    near_the_end = random.random() < 0.3
    sequences = dict.fromkeys((1, 2, 2**40), 2**31 - 8 if near_the_end else 0)
    epochs = dict.fromkeys(sequences, 0)
    batches_of: dict[int, list[tuple[int, int, int, bool]]] = {each: [] for each in sequences}
    transactional = dict.fromkeys(sequences, False)

    def data(producer_id: int, at: int) -> bytes:
        earlier = batches_of[producer_id]
        if earlier and random.random() < 0.15:
            epoch, sequence, count, is_transactional = earlier[-int(random.integers(1, min(len(earlier), 7) + 1))]
        else:
            sequence, count = sequences[producer_id], int(random.integers(1, 6))
            if random.random() < 0.1:
                sequence = min(max(0, sequence + int(random.integers(-3, 4))), 2**31 - 1)
            if random.random() < 0.05:
                epochs[producer_id] += 1
                sequence = 0 if random.random() < 0.7 else sequence
            epoch = max(0, epochs[producer_id] - int(random.random() < 0.05))
            if random.random() < 0.2:
                transactional[producer_id] = not transactional[producer_id]
            is_transactional = transactional[producer_id]
            sequences[producer_id] = (sequence + count) % 2**31
            earlier.append((epoch, sequence, count, is_transactional))
        return batch(at, producer_id, epoch, sequence, count, is_transactional, now + int(random.integers(-50, 50)))

    for _ in range(40):
        now += int(random.integers(0, 1000))
        chosen = [int(each) for each in random.choice(list(sequences), int(random.integers(1, 4)))]
        kind = random.random()
        if kind < 0.1:
            now += int(random.choice([0, EXPIRATION_MS]))
            made.append({"do": str(random.choice(["expire", "restart"])), "now": now})
            continue
        if kind < 0.25:
            epoch = epochs[chosen[0]] - int(random.random() < 0.1)
            type_id = int(random.choice([ABORT, COMMIT, COMMIT, COMMIT, 2]))
            written = marker(offset, chosen[0], epoch, type_id, int(random.integers(0, 3)), now)
            origin = str(random.choice(["COORDINATOR", "REPLICATION"]))
        elif kind < 0.3:  # offsets that a group coordinator commits in a transaction have no sequence
            written = batch(offset, chosen[0], epochs[chosen[0]], -1, 2, True, now)
            origin = "COORDINATOR"
        elif kind < 0.35:  # a marker of the next epoch and the producer's first batch in it, at once
            epochs[chosen[0]] += 1
            sequences[chosen[0]] = int(random.choice([0, 0, sequences[chosen[0]]]))
            written = marker(offset, chosen[0], epochs[chosen[0]], ABORT, 2, now)
            written += data(chosen[0], offset + 1)
            origin = "CLIENT"
        else:
            written = b""
            at = offset
            for producer_id in chosen:
                written += data(producer_id, at)
                at = int(parse(written)[0].last_offset[-1]) + 1
            origin = "CLIENT" if random.random() < 0.8 else "REPLICATION"
        offset = int(parse(written)[0].last_offset[-1]) + 1
        made.append({"do": "append", "origin": origin, "batches": base64.b64encode(written).decode()})
    return made


def run(made: list[Step]) -> list[Step]:
    """What :class:`ProducerState` and :func:`check_append` make of it, in the words of the Java helper."""
    state = ProducerState()
    results: list[Step] = []
    for step in made:
        result: Step = {}
        if step["do"] == "new":
            state = ProducerState()
        elif step["do"] == "expire":
            state.expire(step["now"])
        elif step["do"] == "restart":
            with tempfile.TemporaryDirectory() as directory:
                path = Path(directory) / "state.snapshot"
                path.write_bytes(state.snapshot())
                state = load_state(load_producer_snapshot(Location(str(path))), state.end_offset)
            state.expire(step["now"])
        else:
            result = append(state, step)
        result["producers"] = {
            str(producer_id): {
                "epoch": each.epoch,
                "coordinatorEpoch": each.coordinator_epoch,
                "timestamp": each.timestamp,
                "txn": each.txn_first_offset,
                "batches": [
                    [of.first_sequence, of.last_sequence, of.first_offset, of.last_offset] for of in each.batches
                ],
            }
            for producer_id, each in sorted(state.producers.items())
        }
        if state.first_unstable_offset is not None:
            result["unstable"] = state.first_unstable_offset
        result["end"] = state.end_offset
        results.append(result)
    return results


def append(state: ProducerState, step: Step) -> Step:
    batches, buffer = parse(base64.b64decode(step["batches"]))
    result: Step = {}
    if step["origin"] != "REPLICATION":
        checked = check_append(state, batches, buffer, "client" if step["origin"] == "CLIENT" else "coordinator")
        if isinstance(checked, ProducerRefusal):
            return {"exception": checked.exception}
        if isinstance(checked, Duplicate):
            return {"duplicate": [checked.first_offset, checked.last_offset, checked.timestamp]}
    update = state.update(batches, buffer)
    if update.completed:
        result["completed"] = [
            [each.producer_id, each.first_offset, each.last_offset, each.is_aborted, each.last_stable_offset]
            for each in update.completed
        ]
    if update.refused is not None:
        result["exception"] = update.refused.exception
    return result


@pytest.mark.usefixtures("kafka_jars")
def test_kafka_takes_and_refuses_the_same_and_knows_the_same_afterwards() -> None:
    from tests.kafka.jars import check
    from tests.kafka.jars import run as run_java

    random = np.random.default_rng(3)
    made = [step for _ in range(100) for step in steps(random)]
    lines = "\n".join(map(json.dumps, made)).encode()
    expected = list(map(json.loads, check(run_java("Producers", stdin=lines, helper=True)).splitlines()))
    ours = run(made)
    for step, mine, theirs in zip(made, ours, expected, strict=True):
        assert mine == theirs, step
    outcomes = Counter(each.get("exception", "duplicate" if "duplicate" in each else "taken") for each in expected)
    for outcome in (
        "taken", "duplicate", "OutOfOrderSequenceException", "InvalidProducerEpochException",
        "InvalidTxnStateException", "TransactionCoordinatorFencedException", "IllegalArgumentException",
    ):  # fmt: skip
        assert outcomes[outcome] >= 10, outcomes
    assert sum("completed" in each for each in expected) >= 100


def known(*written: bytes) -> ProducerState:
    state = ProducerState()
    assert state.update(*parse(b"".join(written))).refused is None
    return state


def test_a_refusal_names_kafkas_exception_and_the_place() -> None:
    state = known(batch(0, 7, epoch=2, sequence=0, count=10))
    before = state.snapshot()
    refused = check_append(state, *parse(batch(10) + batch(11, 7, epoch=2, sequence=12)))
    assert refused == ProducerRefusal(
        "OutOfOrderSequenceException", 1, 11, "the sequence does not follow the producer's last one", "10", "12"
    )
    assert check_append(state, *parse(batch(10, 7, epoch=1, sequence=10))) == ProducerRefusal(
        "InvalidProducerEpochException", 0, 10, "a batch of an epoch before the last one of its producer",
        "epoch 2 or more", "epoch 1",
    )  # fmt: skip
    assert check_append(state, *parse(batch(10, 7, epoch=2, sequence=10))) is None
    assert state.snapshot() == before


def test_one_of_the_last_five_batches_again_is_a_duplicate_and_one_before_them_is_out_of_order() -> None:
    state = known(*(batch(at, 7, sequence=at, timestamp=100 + at) for at in range(6)))
    assert check_append(state, *parse(batch(6, 7, sequence=1))) == Duplicate(0, 1, 1, 101)
    refused = check_append(state, *parse(batch(6, 7, sequence=0)))
    assert isinstance(refused, ProducerRefusal)
    assert refused.exception == "OutOfOrderSequenceException"


def test_sequences_go_on_at_0_after_the_largest_and_a_new_producer_may_begin_anywhere() -> None:
    state = known(batch(0, 7, sequence=2**31 - 3, count=3))
    assert check_append(state, *parse(batch(3, 7, sequence=0))) is None
    assert check_append(state, *parse(batch(3, 8, sequence=55))) is None
