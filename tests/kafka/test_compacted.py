"""A broker goes on with what ``compact`` made of its log: it recovers nothing, serves the last values, and appends."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerless.cli import main
from brokerless.log import names
from tests.kafka.broker import KafkaBroker
from tests.kafka.producers import Record, consume, produce_confluent

KEYS, ROUNDS = 40, 12


@pytest.mark.usefixtures("kafka_jars")
def test_a_broker_serves_the_last_values_and_goes_on(tmp_path: Path) -> None:
    broker = KafkaBroker(tmp_path / "first")
    with broker:
        settings = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 1, "internal_segment_bytes": 9000}
        broker.create_topic("users", 1, **settings)
        for number in range(ROUNDS):
            records = [
                Record(b"user-%d" % each, None if each // 2 % 6 == number % 6 else b"value" * 9, (), None, 0)
                for each in range(number % 3, KEYS, 2)
            ]
            transaction = ("commit", "abort", "none")[number % 3]
            produce_confluent(broker, "users", records, "lz4", transaction=transaction, batch_size=1000)  # type: ignore[arg-type]
        served = consume(broker, "users", 0, "read_committed")
    last = {each.key: each.offset for each in served}
    expected = [each for each in served if last[each.key] == each.offset]
    assert len(expected) < len(served) / 2
    assert any(each.value is None for each in expected)

    before = {path.name: path.read_bytes() for path in (broker.log_dir / "users-0").iterdir()}
    to = tmp_path / "to"
    assert main(["compact", str(broker.log_dir), "--to", str(to)]) == 0
    assert {path.name: path.read_bytes() for path in (broker.log_dir / "users-0").iterdir()} == before
    assert main(["restart", str(to)]) == 0
    assert main(["audit", str(to)]) == 0
    again = KafkaBroker(tmp_path / "again")
    again.log_dir.parent.mkdir(parents=True, exist_ok=True)
    to.rename(again.log_dir)
    again.format = lambda: None  # type: ignore[method-assign] - it would make up for what is missing
    with again:
        for isolation in ("read_committed", "read_uncommitted"):
            assert consume(again, "users", 0, isolation) == expected  # type: ignore[arg-type]
        (offset,) = produce_confluent(again, "users", [Record(b"user-1", b"afterwards", (), None, 0)])
        assert offset > served[-1].offset
        assert consume(again, "users", 0, "read_committed")[-1].value == b"afterwards"
        assert names.CLEANER_CHECKPOINT in {path.name for path in again.log_dir.iterdir()}
