"""An argument of a wrong type is an error that names it, in all that programs write logs with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from brokerless import UsageError, writing
from brokerless.bounds import check_arguments
from brokerless.writing import AppendConfig, BatchAttributes, BatchBuilder, Encoder, LogWriter, PartitionOutput

BYTES: Any = np.zeros(3, np.uint8)
WRONG: Any = object()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: BatchBuilder(batch_size="1"), "batch_size: '1' is not a whole number"),
        (lambda: BatchBuilder(codec=5), "codec: 5 is not a text"),
        (lambda: BatchBuilder(attributes={}), "attributes: {} is not a BatchAttributes or None"),
        (lambda: BatchBuilder(codec="gzip", level="9"), "level: '9' is not a whole number or None"),
        (lambda: BatchBuilder().append("x", b"k", b"v"), "timestamp: 'x' is not a whole number"),
        (lambda: BatchBuilder().append(1.5, b"k", b"v"), "timestamp: 1.5 is not a whole number"),
        (lambda: BatchBuilder().append(1, "k", b"v"), "key: 'k' is not bytes or None"),
        (lambda: BatchBuilder().append(1, b"k", value=5), "value: 5 is not bytes or None"),
        (lambda: BatchBuilder().append(1, b"k", b"v", [(b"h", b"v")]), "headers: .* is not a sequence of a tuple of"),
        (lambda: BatchAttributes(base_offset="1"), "base_offset: '1' is not a whole number"),
        (lambda: BatchAttributes(is_control=1), "is_control: 1 is not True or False"),
        (lambda: Encoder(magic=None), "magic: None is not a whole number"),
        (lambda: Encoder().encode(1, BYTES, BYTES), "columns: 1 is not a RecordColumns"),
        (lambda: writing.build_headers(WRONG, BYTES), "columns: <object .* is not a RecordColumns"),
        (lambda: writing.cut_batches(None, 5), "columns: None is not a RecordColumns"),
        (lambda: writing.build_transaction_marker(1, 1, 0, "t", True, 0, 0), "timestamp: 't' is not a whole number"),
        (
            lambda: writing.build_transaction_marker(1, 1 << 40, 0, 5, True, 0, 0),
            "producer_epoch: .* not from -32768 ",
        ),
        (lambda: AppendConfig(max_message_bytes=None), "max_message_bytes: None is not a whole number"),
        (lambda: writing.append(b"x", AppendConfig(), 0, 0, 0), "buffer: b'x' is not a NumPy array of uint8"),
        (lambda: writing.append(BYTES, {}, 0, 0, 0), "config: {} is not an AppendConfig"),
        (lambda: writing.append(BYTES, AppendConfig(), 0, 0, 0, "me"), "origin: 'me' is not one of client"),
        (lambda: writing.append_as_leader(None, BYTES, AppendConfig()), "log: None is not a LogWriter"),
        (lambda: writing.down_convert(BYTES, "1", 0), "magic: '1' is not a whole number"),
        (lambda: writing.columns_of(5), "batch: 5 is not a RecordBatch"),
        (lambda: writing.open_log(5, "t", 0), "directory: 5 is not a text or a Path"),
        (lambda: writing.CompressionRatioEstimator().update("a", 1), "size: 'a' is not a whole number"),
    ],
)
def test_a_wrong_type_is_named(call: Callable[[], object], error: str) -> None:
    with pytest.raises(UsageError, match=error):
        call()


@pytest.mark.parametrize("magic", [1, 2])  # v0 has no timestamp, and takes any
@pytest.mark.parametrize(
    "wrong",
    [(1.5, b"k", b"v"), ("1", b"k", b"v"), (1, "k", b"v"), (1, b"k", 5), (1, b"k", b"v", (), "7"), (1, b"k", b"v", 3)],
)
def test_a_batch_is_as_it_was_after_a_record_of_a_wrong_type(magic: Any, wrong: Any) -> None:
    builder, other = BatchBuilder(magic=magic), BatchBuilder(magic=magic)
    with pytest.raises(UsageError):
        builder.append(*wrong)
    for each in (builder, other):
        each.append(5, b"k", b"v")
    assert builder.close() == other.close()


def test_a_log_and_a_partition_name_wrong_types_and_stay_as_they_are(tmp_path: Path) -> None:
    wrong: list[tuple[Callable[[LogWriter], object], str]] = [
        (lambda log: log.append(WRONG), "buffer: "),
        (lambda log: log.roll("1"), "offset: '1'"),  # type: ignore[arg-type]
        (lambda log: log.truncate_to("1"), "offset: '1'"),  # type: ignore[arg-type]
        (lambda log: log.truncate_fully_and_start_at("1"), "offset: '1'"),  # type: ignore[arg-type]
        (lambda log: log.delete_records_before(WRONG), "offset: "),
        (lambda log: log.apply_retention("1"), "now_ms: '1'"),  # type: ignore[arg-type]
    ]
    with writing.open_log(tmp_path, "t", 0) as log:
        for call, error in wrong:
            with pytest.raises(UsageError, match=error):
                call(log)
        assert log.log_end_offset == 0
    with pytest.raises(UsageError, match="partition: '0' is not a whole number"):
        writing.open_log(tmp_path, "t", "0")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"config: \{\} is not a LogConfig"):
        PartitionOutput(tmp_path, "u", 0, {})  # type: ignore[arg-type]


def test_numbers_of_numpy_are_numbers_and_what_python_refuses_it_refuses_itself() -> None:
    @check_arguments
    def called(number: int, share: float = 0.5, *, names: tuple[str, int] | None = None) -> int:
        return number

    assert called(np.int64(3), np.float32(0.5), names=("a", 1)) == 3  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"names: .* is not a tuple of a text and a whole number or None"):
        called(3, names=("a", "b"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="missing 1 required"):
        called()  # type: ignore[call-arg]
