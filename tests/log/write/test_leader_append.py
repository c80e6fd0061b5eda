"""A log takes what producers send as a partition's leader does; another client builds batches, Kafka reads the log."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from numpy.typing import NDArray
from tests.golden import of_type
from tests.kafka.oracle import read_log

from brokerless.errors import RefusedError
from brokerless.writing import (
    AppendConfig,
    AppendResult,
    Duplicate,
    LogConfig,
    LogWriter,
    Refusal,
    append_as_leader,
    open_log,
)

NOW = 1_700_000_000_000


def produced(values: list[bytes], producer: tuple[int, int, int] = (-1, -1, -1), codec: int = 0) -> NDArray[np.uint8]:
    """A batch as aiokafka's producer sends it; ``producer``: id, epoch and base sequence."""
    builder = DefaultRecordBatchBuilder(2, codec, False, *producer, 1 << 20)
    for number, value in enumerate(values):
        builder.append(number, NOW + number, b"key", value, [])
    return np.frombuffer(bytes(builder.build()), np.uint8)


def send(log: LogWriter, batch: NDArray[np.uint8], codec: str = "producer") -> AppendResult | Duplicate | Refusal:
    return append_as_leader(log, batch, AppendConfig(codec=codec), partition_leader_epoch=3, at_ms=NOW)


def test_batches_get_their_offsets_and_the_leader_epoch(tmp_path: Path, kafka_jars: Path) -> None:
    with open_log(tmp_path, "orders", 0) as log:
        for number in range(3):
            appended = send(log, produced([b"a", b"b"]), "gzip" if number else "producer")
            assert isinstance(appended, AppendResult)
            assert (appended.first_offset, appended.next_offset) == (2 * number, 2 * number + 2)
        assert log.log_end_offset == 6
    lines = read_log(tmp_path / "orders-0" / f"{0:020}.log")
    batches = list(of_type(lines, "batch"))
    assert [each["partitionLeaderEpoch"] for each in batches] == [3, 3, 3]
    assert [each["compression"] for each in batches] == ["none", "gzip", "gzip"]
    values = [(each["offset"], each["value"]) for each in of_type(lines, "record")]
    assert values == list(enumerate(["YQ==", "Yg=="] * 3))


def test_what_was_appended_before_is_reported_again_and_not_written(tmp_path: Path) -> None:
    first, second = produced([b"a", b"b"], (7, 0, 0)), produced([b"c"], (7, 0, 2))
    with open_log(tmp_path, "orders", 0) as log:
        send(log, first)
        send(log, second)
        again = send(log, first)
        assert isinstance(again, Duplicate)
        assert (again.first_offset, again.last_offset) == (0, 1)
        assert log.log_end_offset == 3
    with open_log(tmp_path, "orders", 0, at_ms=NOW) as log:  # producers are remembered
        assert isinstance(send(log, second), Duplicate)


@pytest.mark.parametrize(
    ("producer", "exception"),
    [((7, 0, 5), "OutOfOrderSequenceException"), ((7, -1, 2), "InvalidProducerEpochException"),
     ((7, 1, 4), "OutOfOrderSequenceException")],
)  # fmt: skip
def test_a_producer_that_lost_its_place_is_refused(
    tmp_path: Path, producer: tuple[int, int, int], exception: str
) -> None:
    with open_log(tmp_path, "orders", 0) as log:
        send(log, produced([b"a", b"b"], (7, 0, 0)))
        refused = send(log, produced([b"x"], producer))
        assert isinstance(refused, Refusal)
        assert refused.error == exception
        assert log.log_end_offset == 2


def test_what_a_broker_would_refuse_is_refused_for_its_reason(tmp_path: Path) -> None:
    with open_log(tmp_path, "orders", 0, LogConfig(segment_bytes=100)) as log:
        broken = produced([b"a"]).copy()
        broken[-1] ^= 1
        refused = send(log, broken)
        assert isinstance(refused, Refusal)
        assert refused.error == "CorruptRecordException"
        with pytest.raises(RefusedError, match="more bytes than a segment"):
            send(log, produced([b"x" * 100]))
        assert log.log_end_offset == 0
