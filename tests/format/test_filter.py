"""Batches with some records left out are what Kafka's own filter (``MemoryRecords.filterTo``) makes of them."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.format.read.test_decoder import rows
from tests.golden import Case, broker_data, cases
from tests.kafka.jars import NEWEST, OLD_FORMATS, check, run

from brokerless.format import layouts
from brokerless.format.filter import BatchFilter, WholeBatches
from brokerless.format.read.batch_headers import Batches, checksums_match, read_headers
from brokerless.format.read.batch_scan import scan_batches
from brokerless.format.read.decoder import Decoder
from brokerless.format.write.column_slices import replace_values

NOW, RETENTION = 1_700_000_000_000, 86_400_000
FORMATS = cases("formats")


def buffer_of(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def batches_of(buffer: np.ndarray) -> Batches:
    return read_headers(buffer, scan_batches(buffer).positions)


def records(buffer: np.ndarray) -> list[dict[str, Any]]:
    batches = batches_of(buffer)
    assert checksums_match(buffer, batches).all()
    decoder = Decoder()
    decoded = [*decoder.decode(buffer, batches), decoder.flush()]
    assert not any(each.damages for each in decoded if each is not None)
    return [row for each in decoded if each is not None for row in rows(each.columns)]


def by_kafka(requests: list[dict[str, Any]], version: str) -> list[np.ndarray]:
    """What Kafka leaves of batches: of ``data`` the records with offsets in ``kept``, and the batches whose last
    offsets are in ``empties`` as headers if nothing else is left."""
    lines = [
        {
            "buffer": base64.b64encode(each["data"]).decode(),
            "kept": sorted(each["kept"]),
            "empties": sorted(each["empties"]),
            "nowMs": NOW,
            "deleteRetentionMs": RETENTION,
        }
        for each in requests
    ]
    stdin = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    answers = check(run("FilterBatches", stdin=stdin, helper=True, version=version)).splitlines()
    return [buffer_of(base64.b64decode(json.loads(line)["buffer"])) for line in answers]


def filtered(request: dict[str, Any], upgrade: bool) -> np.ndarray:
    data, kept, empties = request["data"], request["kept"], request["empties"]
    buffer, batch_filter = buffer_of(data), BatchFilter()
    parts = list[np.ndarray]()
    for whole in batch_filter.read(buffer, batches_of(buffer)):
        assert not whole.damages
        keep = np.isin(whole.columns.offset[: whole.columns.rows], sorted(kept))
        retain = np.isin(whole.batches.last_offset, sorted(empties))
        horizons = horizons_of(whole, keep, upgrade)
        done = batch_filter.filter(whole, keep, retain_empty=retain, delete_horizons=horizons, upgrade=upgrade)
        parts.append(done.buffer)
    return np.concatenate(parts) if parts else buffer


def horizons_of(whole: WholeBatches, keep: np.ndarray, upgrade: bool) -> np.ndarray:
    """A v2 batch that keeps a record without a value gets one (KIP-534)."""
    tombstones = whole.rows_of(keep & (whole.columns.value_null[: whole.columns.rows] != 0)) > 0
    gets = tombstones & (upgrade | ~whole.batches.is_legacy) & ~whole.batches.has_delete_horizon
    return np.where(gets, NOW + RETENTION, -1)


def requests_of(data: bytes, seed: int) -> list[dict[str, Any]]:
    """Every record, none, some, and few of them; with every other batch retained though empty."""
    chance = random.Random(seed)
    buffer = buffer_of(data)
    offsets = [row["offset"] for row in records(buffer)]
    batches = batches_of(buffer)
    last = [int(each) for each in batches.last_offset[~batches.is_legacy]]
    return [
        {"data": data, "kept": kept, "empties": set(last[::2])}
        for kept in (
            set(offsets),
            set[int](),
            {each for each in offsets if chance.random() < 0.5},
            {each for each in offsets if chance.random() < 0.05},
            {each for each in offsets if each % 40 > 10},
        )
    ]


def assert_same(ours: np.ndarray, theirs: np.ndarray) -> None:
    """The same batches with the same records; the same bytes where nothing is compressed."""
    if ours.tobytes() == theirs.tobytes():
        return
    mine, kafka = batches_of(ours), batches_of(theirs)
    assert len(mine) == len(kafka)
    for name in ("entry_offset", "last_offset", "attributes", "max_timestamp", "count", "partition_leader_epoch"):
        np.testing.assert_array_equal(getattr(mine, name), getattr(kafka, name), name)
    for name in ("producer_id", "producer_epoch", "base_sequence", "magic", "is_control"):
        np.testing.assert_array_equal(getattr(mine, name), getattr(kafka, name), name)
    is_v2 = ~mine.is_legacy
    np.testing.assert_array_equal(mine.base_timestamp[is_v2], kafka.base_timestamp[is_v2])
    assert records(ours) == records(theirs)
    plain = mine.codec == layouts.NO_CODEC
    for my, their in zip(np.flatnonzero(plain), np.flatnonzero(plain), strict=True):
        start, other = mine.positions[my], kafka.positions[their]
        assert ours[start : mine.ends[my]].tobytes() == theirs[other : kafka.ends[their]].tobytes()


@pytest.mark.usefixtures("kafka_jars")
@pytest.mark.parametrize("version", [NEWEST, OLD_FORMATS])
def test_what_is_left_of_each_format_and_codec_is_as_kafka_leaves_it(version: str) -> None:
    requests = [each for place, case in enumerate(FORMATS) for each in requests_of(case.log.read_bytes(), place)]
    answers = by_kafka(requests, version)
    assert len(answers) == len(requests)
    for request, theirs in zip(requests, answers, strict=True):
        assert_same(filtered(request, upgrade=version == NEWEST), theirs)


@pytest.mark.usefixtures("kafka_jars")
@pytest.mark.parametrize("version", [NEWEST, OLD_FORMATS])
def test_batches_of_producers_transactions_and_compaction_too(version: str) -> None:
    logs = [path for broker in ("clean", "old-formats") for path in sorted(broker_data(broker).glob("*/*.log"))]
    some = [data for data in map(Path.read_bytes, logs) if 0 < len(data) < 1 << 20]
    requests = [each for place, data in enumerate(some) for each in requests_of(data, place)]
    kinds = [batches_of(buffer_of(data)) for data in some]
    assert any(each.is_control.any() for each in kinds)
    assert any((each.producer_id >= 0).any() for each in kinds)
    for request, theirs in zip(requests, by_kafka(requests, version), strict=True):
        assert_same(filtered(request, upgrade=version == NEWEST), theirs)


@pytest.mark.parametrize("case", FORMATS, ids=str)
def test_batches_that_lose_nothing_are_the_same_bytes(case: Case) -> None:
    data = case.log.read_bytes()
    buffer, batch_filter = buffer_of(data), BatchFilter()
    parts = list[np.ndarray]()
    for whole in batch_filter.read(buffer, batches_of(buffer)):
        keep = np.ones(whole.columns.rows, np.bool_)
        middle = len(whole.batches) // 2
        keep[whole.starts[middle]] = False
        done = batch_filter.filter(whole, keep)
        assert done.unchanged.sum() == len(whole.batches) - 1
        assert not done.unchanged[middle]
        assert done.dropped[middle] == (whole.counts[middle] == 1)
        position, end = int(whole.batches.positions[middle]), int(whole.batches.ends[middle])
        after = len(buffer) - end
        assert done.buffer[:position].tobytes() == data[:position]
        assert done.buffer[len(done.buffer) - after :].tobytes() == data[end:]
        parts.append(done.buffer)
    assert len(parts) == 1


@pytest.mark.parametrize("case", FORMATS, ids=str)
def test_values_are_replaced_and_nothing_else_is(case: Case) -> None:
    buffer, batch_filter = buffer_of(case.log.read_bytes()), BatchFilter()
    for whole in batch_filter.read(buffer, batches_of(buffer)):
        total = whole.columns.rows
        blank, other = np.arange(total) % 7 == 0, np.arange(total) % 7 == 1
        columns = replace_values(whole.columns, blank)
        columns = replace_values(columns, other, [b"x" * (place % 300) for place in range(int(other.sum()))])
        done = batch_filter.filter(
            whole, np.ones(total, np.bool_), changed=whole.rows_of(blank | other) > 0, columns=columns
        )
        expected = records(buffer)
        lengths = iter(range(int(other.sum())))
        for place, row in enumerate(expected):
            if not (blank[place] or other[place]):
                continue
            for name in ("value", "valueLen", "valueSha256"):
                row.pop(name, None)
            value = b"x" * (next(lengths) % 300) if other[place] else None
            row["value"] = None if value is None else base64.b64encode(value).decode()
        assert records(done.buffer) == expected


def test_a_batch_of_many_chunks_is_whole() -> None:
    """Its records fill the decoder's columns several times."""
    from brokerless.format.columns import RecordColumns
    from brokerless.format.write.column_slices import concat_columns
    from brokerless.format.write.encoder import Encoder, build_headers

    buffer = buffer_of((FORMATS[-1].log).read_bytes())
    decoder = Decoder()
    pieces = [*decoder.decode(buffer, batches_of(buffer)), decoder.flush()]
    columns: RecordColumns = concat_columns([each.columns for each in pieces if each is not None])
    big = concat_columns([columns] * 20)
    big.offset[: big.rows] = np.arange(big.rows)
    starts = np.array([0, 5, big.rows])
    data = Encoder(codec="lz4").encode(big, starts, build_headers(big, starts))
    small = BatchFilter()
    small._decoder = Decoder(rows=700, data=1 << 16)  # pyright: ignore[reportPrivateUsage]
    wholes = list(small.read(data, batches_of(data)))
    assert [int(each) for whole in wholes for each in whole.counts] == [5, big.rows - 5]
    kept = {each for each in range(big.rows) if each % 3}
    ours = [small.filter(each, np.isin(each.columns.offset, sorted(kept))).buffer for each in wholes]
    assert [row["offset"] for row in records(np.concatenate(ours))] == sorted(kept)
