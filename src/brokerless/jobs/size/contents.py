"""What a log's bytes are: contents and overhead, and which keys, headers, producers and hours take most of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from brokerless import arrow
from brokerless.clock import HOUR_MS
from brokerless.format import layouts
from brokerless.format.arrays import Floats
from brokerless.format.columns import Damage
from brokerless.format.read.batch_headers import Batches
from brokerless.format.read.decoder import BatchDecoder
from brokerless.format.write.grouping import BatchGroup, decode_groups
from brokerless.jobs.size.record_sizes import MESSAGE_OVERHEADS, RecordSizes, measure

MOST_NAMES = 1 << 16
"""Different keys (headers, ...) that are counted; beyond it, the lightest ones are forgotten now and then."""
_LONGEST_NAME = 1 << 10
"""Bytes that distinguish a key from others."""


@dataclass(slots=True)
class Contents:
    """Sums over batches, in bytes. Keys are bytes, None for null."""

    batches: float = 0.0
    records: float = 0.0
    stored: float = 0.0
    """What everything takes in the log."""
    keys: float = 0.0
    """Keys before compression."""
    values: float = 0.0
    """Values before compression."""
    headers: float = 0.0
    """Headers before compression."""
    overhead: float = 0.0
    """What records and messages have beside their contents (lengths, deltas, attributes, ...)."""
    batch_headers: float = 0.0
    """The headers of batches and of wrapper messages."""
    varints: float = 0.0
    """The overhead of the same records in v2."""
    without_deltas: float = 0.0
    """The overhead of the same records in v2 if it had offsets and timestamps themselves instead of deltas."""
    fixed_width: float = 0.0
    """The overhead of the same records in v2 if its fields were as wide as their types."""
    by_key: Counter[bytes | None] = field(default_factory=Counter[bytes | None])
    """Stored bytes by key; each record has its share of its batch's."""
    by_header: Counter[bytes | None] = field(default_factory=Counter[bytes | None])
    """Bytes of headers before compression, by name."""
    by_producer: Counter[int] = field(default_factory=Counter[int])
    """Stored bytes by producer ID; each record has its share of its batch's."""
    by_hour: Counter[int] = field(default_factory=Counter[int])
    """Stored bytes by hour since the epoch; each record has its share of its batch's."""
    kinds: Counter[tuple[int, int]] = field(default_factory=Counter[tuple[int, int]])
    """Stored bytes by format and codec."""

    def add(self, other: Contents) -> None:
        for name in self.__slots__:
            mine, more = getattr(self, name), getattr(other, name)
            if isinstance(mine, Counter):
                mine.update(more)
                if len(mine) > 2 * MOST_NAMES:
                    setattr(self, name, Counter(dict(mine.most_common(MOST_NAMES))))
            else:
                setattr(self, name, mine + more)

    def scaled(self, factor: float) -> Contents:
        """Return what these are a sample of."""
        values: dict[str, Any] = {}
        for name in self.__slots__:
            own = getattr(self, name)
            scaled = {key: value * factor for key, value in own.items()} if isinstance(own, Counter) else own * factor
            values[name] = Counter(scaled) if isinstance(scaled, dict) else scaled
        return Contents(**values)

    def lightened(self, most: int) -> Contents:
        """Return the same with the heaviest names alone, to hand to another process."""
        light = self.scaled(1.0)
        for name in ("by_key", "by_header", "by_producer", "by_hour"):
            setattr(light, name, Counter(dict(getattr(light, name).most_common(most))))
        return light

    @property
    def before_compression(self) -> float:
        return self.keys + self.values + self.headers + self.overhead + self.batch_headers


def contents_of(group: BatchGroup) -> Contents:
    """Return the contents of some batches that have records."""
    columns, rows = group.columns, group.columns.rows
    sizes, batches = measure(columns), group.batches
    stored = stored_bytes(group, sizes)
    parts = _parts(group)
    result = Contents(float(parts.sum()), rows, float(stored.sum()))
    result.keys, result.values, result.headers = (
        float(each.sum()) for each in (sizes.keys, sizes.values, sizes.headers)
    )
    deltas = [
        column[:rows] - np.repeat(column[group.firsts], group.given) for column in (columns.offset, columns.timestamp)
    ]
    v2 = sizes.v2(*deltas) - sizes.payload
    result.varints = float(v2.sum())
    result.without_deltas = float((sizes.v2(columns.offset[:rows], columns.timestamp[:rows]) - sizes.payload).sum())
    result.fixed_width = float((sizes.fixed() - sizes.payload).sum())
    magic = np.repeat(batches.magic, group.given)
    legacy = np.where(magic == layouts.MAGIC_V0, MESSAGE_OVERHEADS[0], MESSAGE_OVERHEADS[1])
    result.overhead = float(np.where(magic < layouts.MAGIC_V2, legacy, v2).sum())
    result.batch_headers = float((_batch_headers(batches) * parts).sum())
    result.by_key = _by_key(group, stored)
    result.by_header = _by_header(group)
    result.by_producer = _sums(batches.producer_id, batches.sizes * parts)
    result.by_hour = _sums(columns.timestamp[:rows] // HOUR_MS, stored)
    kinds = _sums(np.clip(batches.magic, 0, 2).astype(np.int64) * 8 + batches.codec, batches.sizes * parts)
    result.kinds = Counter({divmod(kind, 8): count for kind, count in kinds.items()})
    return result


def without_records(batches: Batches) -> NDArray[np.bool_]:
    """Control batches, and those that compaction left empty; bool, shape ``(n,)``."""
    return batches.is_control | (~batches.is_legacy & (batches.count == 0))


def decode_contents(
    decoder: BatchDecoder, buffer: NDArray[np.uint8], batches: Batches, rows: NDArray[np.int64], base: int
) -> Iterator[tuple[BatchGroup, list[Damage]]]:
    """Decodes those of ``batches`` that are in ``rows``, in groups; with each, the damage in its batches. ``base``: the
    position of the buffer's first byte in its file."""
    magic, codec = np.full(len(batches), layouts.MAGIC_V2, np.int8), np.zeros(len(batches), np.int8)
    for group, damages, _ in decode_groups(decoder, buffer, batches, rows=rows, magic=magic, codec=codec, base=base):
        yield group, damages


def stored_bytes(group: BatchGroup, sizes: RecordSizes | None = None) -> Floats:
    """Return what each record takes of its batch: by its share of the bytes before compression."""
    sizes = measure(group.columns) if sizes is None else sizes
    share = (sizes.payload + sizes.lengths + 3).astype(np.float64)
    return share * np.repeat(group.batches.sizes * _parts(group) / np.add.reduceat(share, group.firsts), group.given)


def _parts(group: BatchGroup) -> Floats:
    """The share of each batch's records that is here: of a huge one, others are in another group."""
    count = group.batches.count
    return np.where(count > 0, group.given / np.maximum(count, 1), 1.0)


def _batch_headers(batches: Batches) -> NDArray[np.int64]:
    wrapper = np.where(batches.magic == layouts.MAGIC_V0, MESSAGE_OVERHEADS[0], MESSAGE_OVERHEADS[1])
    return np.where(batches.is_legacy, np.where(batches.is_wrapper, wrapper, 0), layouts.BATCH_V2_SIZE)


def _by_key(group: BatchGroup, stored: Floats) -> Counter[bytes | None]:
    columns, rows = group.columns, group.columns.rows
    keys = _binary(columns.key_ends[: rows + 1], columns.key_data, columns.key_null[:rows])
    return _by_name(keys, stored)


def _by_header(group: BatchGroup) -> Counter[bytes | None]:
    columns = group.columns
    first, last = int(columns.header_ends[0]), int(columns.header_ends[columns.rows])
    if first == last:
        return Counter()
    ends = columns.header_key_ends[first : last + 1]
    names = _binary(ends, columns.header_key_data, np.zeros(last - first, np.uint8))
    values = np.diff(columns.header_value_ends[first : last + 1]) * (columns.header_value_null[first:last] == 0)
    return _by_name(names, (np.diff(ends) + values).astype(np.float64))


def _binary(ends: NDArray[np.int32], data: NDArray[np.uint8], null: NDArray[np.uint8]) -> pa.BinaryArray:
    compute: Any = import_module("pyarrow.compute")
    buffers = [pa.py_buffer(np.ascontiguousarray(ends)), pa.py_buffer(data)]
    names: Any = pa.BinaryArray.from_buffers(pa.binary(), len(null), [None, *buffers])
    names = compute.if_else(pa.array(null == 0), names, pa.scalar(None, pa.binary()))
    if len(ends) > 1 and int(np.diff(ends).max()) > _LONGEST_NAME:
        names = compute.binary_slice(names, 0, _LONGEST_NAME)
    return names


def _by_name(names: pa.BinaryArray, weights: Floats) -> Counter[bytes | None]:
    sums: Any = pa.table({"name": names, "bytes": weights}).group_by("name").aggregate([("bytes", "sum")])
    return Counter(dict(zip(arrow.values(sums["name"]), arrow.values(sums["bytes_sum"]), strict=True)))


def _sums(names: NDArray[np.int64], weights: NDArray[Any]) -> Counter[int]:
    found, places = np.unique(names, return_inverse=True)
    return Counter(dict(zip(found.tolist(), np.bincount(places, weights).tolist(), strict=True)))


def sum_of(parts: Iterable[Contents]) -> Contents:
    total = Contents()
    for each in parts:
        total.add(each)
    return total
