"""Sizes by arithmetic are those of what the encoder writes, which is byte for byte what Kafka's builder writes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from brokerless.format.columns import RecordColumns
from brokerless.format.plain_varint import encode_zigzag
from brokerless.format.write.column_slices import slice_rows
from brokerless.format.write.encoder import Encoder, build_headers, cut_batches, cut_by_count
from brokerless.jobs.size.record_sizes import batch_sizes, measure, varint_sizes
from brokerless.schemas import RECORDS
from brokerless.tables.record_batches import columns_of


def some_columns(rows: int = 500) -> RecordColumns:
    rng = np.random.default_rng(3)

    def content(most: int) -> bytes | None:
        return None if rng.random() < 0.1 else rng.bytes(int(rng.choice([0, 63, 64, 8191, rng.integers(most)])))

    def headers() -> list[dict[str, object]]:
        return [{"key": "trace" * int(rng.integers(30)), "value": content(90)} for _ in range(rng.integers(4))]

    names = ("offset", "timestamp", "key", "value", "headers")
    values = {
        "offset": np.cumsum(rng.integers(1, 40, rows)),
        "timestamp": 1_700_000_000_000 + rng.integers(-(10**9), 10**9, rows),
        "key": [content(40) for _ in range(rows)],
        "value": [content(300) for _ in range(rows)],
        "headers": [headers() for _ in range(rows)],
    }
    schema = pa.schema([RECORDS.field(name) for name in names])
    return columns_of(pa.RecordBatch.from_arrays([pa.array(values[f.name], f.type) for f in schema], schema=schema))


def test_varints_have_the_size_of_their_encoding() -> None:
    edges = [sign * (2**bits + more) for bits in range(62) for more in (-1, 0, 1) for sign in (1, -1)]
    values = [*edges, 2**63 - 1, -(2**63)]
    assert varint_sizes(np.array(values)).tolist() == [len(encode_zigzag(value)) for value in values]


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("how", ["one", "ten", "bytes"])
def test_batches_have_the_size_of_what_is_encoded(magic: int, how: str) -> None:
    columns = slice_rows(some_columns(), 7, 480)
    starts = {
        "one": np.array([0, columns.rows]),
        "ten": cut_by_count(columns, 10),
        "bytes": cut_batches(columns, 16384, magic=magic),
    }[how]
    headers = build_headers(columns, starts)
    sizes = batch_sizes(columns, measure(columns), starts, magic, headers)
    assert len(sizes) == len(starts) - 1
    assert sizes.sum() == len(Encoder(magic).encode(columns, starts, headers))


def test_fields_of_fixed_width_take_their_types_widths() -> None:
    columns = some_columns()
    sizes = measure(columns)
    assert (sizes.fixed() - sizes.payload - 8 * sizes.header_counts == 33).all()
    assert sizes.header_counts.sum() == columns.header_ends[-1] > 0
    assert sizes.headers.sum() == columns.header_key_ends[-1] + columns.header_value_ends[-1]
