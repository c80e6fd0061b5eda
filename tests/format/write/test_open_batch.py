"""Batches that are filled as rows come are those that cutting all rows first gives; Kafka's are in test_builder.py."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from brokerless import UsageError
from brokerless.format.columns import RecordColumns
from brokerless.format.write import open_batch
from brokerless.format.write.encoder import Encoder, build_headers, cut_batches
from brokerless.format.write.open_batch import OpenBatch
from brokerless.schemas import RECORDS
from brokerless.tables.record_batches import columns_of

NAMES = ("key", "value", "offset", "timestamp", "timestampType", "headers")
CONTENT = st.one_of(st.none(), st.binary(max_size=40), st.sampled_from([b"x" * 300, b"y" * 9000]))
ROW = st.fixed_dictionaries(
    {
        "key": CONTENT,
        "value": CONTENT,
        "gap": st.sampled_from([1, 1, 1, 4, 2**31]),
        "timestamp": st.sampled_from([-1, 0, 7, 7, 2**62]),
        "timestampType": st.sampled_from([-1, 0, 0, 0, 1]),
        "headers": st.lists(st.fixed_dictionaries({"key": st.text(max_size=5), "value": CONTENT}), max_size=2),
    }
)


def table(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    offsets = np.cumsum([row.get("gap", 1) for row in rows]).tolist()
    full = [{"timestamp": 5, "timestampType": 0, **row, "offset": at} for row, at in zip(rows, offsets, strict=True)]
    return pa.RecordBatch.from_pylist(full, pa.schema([RECORDS.field(name) for name in NAMES]))


def encoded(columns: RecordColumns, batch_size: int) -> bytes:
    """All at once."""
    is_append_time = columns.timestamp_type == 1
    breaks = np.append(False, is_append_time[1:] != is_append_time[:-1])
    breaks[1:] |= is_append_time[1:] & (np.diff(columns.timestamp) != 0)
    starts = cut_batches(columns, batch_size, breaks=breaks)
    return bytes(Encoder().encode(columns, starts, build_headers(columns, starts)))


def filled(filler: OpenBatch, *parts: pa.RecordBatch) -> list[bytes]:
    return [bytes(each) for part in parts for each in filler.add(columns_of(part))] + [
        bytes(each) for each in filler.finish()
    ]


@examples(150)
@given(
    rows=st.lists(ROW, min_size=1, max_size=40),
    edges=st.sets(st.integers(1, 39), max_size=6),
    batch_size=st.sampled_from([0, 61, 100, 1000, 1 << 20]),
    at_once=st.sampled_from([1, 200, 8 << 20]),
)
def test_any_rows(rows: list[dict[str, Any]], edges: set[int], batch_size: int, at_once: int) -> None:
    whole = table(rows)
    borders = [0, *sorted(edge for edge in edges if edge < len(rows)), len(rows)]
    parts = [whole.slice(start, end - start) for start, end in pairwise(borders)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_batch, "_AT_ONCE", at_once)
        filler = OpenBatch(batch_size)
        assert b"".join(filled(filler, *parts)) == encoded(columns_of(whole), batch_size)
        assert (filler.waiting_bytes, list(filler.finish())) == (0, [])


def test_more_than_is_handed_over_at_once() -> None:
    """Many bytes, many batches, and a record that is larger than all that is handed over."""
    rows = [{"value": b"v" * 1000} for _ in range(30_000)]
    rows[20_000]["value"] = b"w" * (20 << 20)
    whole = table(rows)
    for batch_size in (0, 16384, 12 << 20):
        found = filled(OpenBatch(batch_size), whole.slice(0, 7), whole.slice(7))
        assert b"".join(found) == encoded(columns_of(whole), batch_size)
        assert len(found) > (25 if batch_size == 0 else 3)


def test_a_batch_of_two_gigabytes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_batch, "LARGEST", 2000)
    monkeypatch.setattr(open_batch, "_AT_ONCE", 100)
    with pytest.raises(UsageError, match="set a smaller batch size"):
        filled(OpenBatch(0), table([{"value": b"v" * 10}, {"value": b"v" * 10_000}]))
