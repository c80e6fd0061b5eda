"""Reads batch headers into columns; nothing is decompressed.

A batch is what Kafka's reader calls a ``RecordBatch``: a v2 batch, a v0/v1 message, or a v0/v1 wrapper message.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import MAX_INT32
from brokerless.format import layouts
from brokerless.format.crc import plain as plain_crc

_HEADER_SIZE = layouts.BATCH_V2_SIZE
_LEGACY = np.dtype(
    {
        "names": ["offset", "size", "crc", "magic", "attributes", "timestamp"],
        "formats": [">i8", ">i4", ">u4", "i1", "i1", ">i8"],
        "offsets": [
            layouts.position_of(layouts.MESSAGE_V1, name)
            for name in ("offset", "size", "crc", "magic", "attributes", "timestamp")
        ],
        "itemsize": _HEADER_SIZE,
    }
)
"""A v1 message header in the 61 bytes that are gathered of every batch, whatever its magic."""

_NO_COLUMNS = ("positions", "raw", "buffer_size", "v2", "legacy", "all_v2")


@dataclass(frozen=True)
class Batches:
    """The headers of ``n`` batches as columns, in file order; each column is a native array of shape ``(n,)``.

    Values are Kafka's (``RecordBatch``'s getters); where a format has no such field, they are Kafka's defaults.
    """

    positions: NDArray[np.int64]
    """int64, bytes from the start of the buffer that the headers were read from."""
    raw: NDArray[np.uint8]
    """uint8, shape ``(n, 61)``: the first 61 bytes of each (for short v0/v1 messages: and of what follows)."""
    buffer_size: int
    """Bytes of the buffer that the headers were read from."""

    def __len__(self) -> int:
        return len(self.positions)

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_] | slice) -> Batches:
        """Some of them. Columns that are computed already are not computed again."""
        if isinstance(rows, np.ndarray) and rows.dtype == np.bool_ and rows.all():
            return self
        taken = Batches(self.positions[rows], np.ascontiguousarray(self.raw[rows]), self.buffer_size)
        computed = self.__dict__.copy()  # at once: another thread may be adding a column
        known = {name: column[rows] for name, column in computed.items() if name not in _NO_COLUMNS}
        taken.__dict__.update(known)
        return taken

    @cached_property
    def v2(self) -> NDArray[np.void]:
        """The headers by :data:`layouts.BATCH_V2`; meaningless where :attr:`is_legacy`."""
        return self.raw.view(layouts.BATCH_V2).reshape(-1)

    @cached_property
    def legacy(self) -> NDArray[np.void]:
        """The headers as v0/v1 messages; meaningless where not :attr:`is_legacy`."""
        return self.raw.view(_LEGACY).reshape(-1)

    @cached_property
    def magic(self) -> NDArray[np.int8]:
        return np.ascontiguousarray(self.v2["magic"])

    @cached_property
    def is_legacy(self) -> NDArray[np.bool_]:
        """Magic below 2. Kafka's file reader takes everything above as v2, and a negative magic as v1."""
        return self.magic < layouts.MAGIC_V2

    @cached_property
    def all_v2(self) -> bool:
        return not bool(self.is_legacy.any())

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Bytes, with the 12 of the log entry header."""
        return self.v2["size"].astype(np.int64) + layouts.LOG_ENTRY_SIZE

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        return self.positions + self.sizes

    def _pick(self, v2: NDArray[Any], legacy: NDArray[Any] | int) -> NDArray[Any]:
        native = v2.astype(v2.dtype.newbyteorder("="))
        return native if self.all_v2 else np.where(self.is_legacy, legacy, native).astype(native.dtype)

    @cached_property
    def entry_offset(self) -> NDArray[np.int64]:
        """The offset as stored: a v2 batch's base offset, a message's offset, a wrapper's last offset."""
        return self.v2["base_offset"].astype(np.int64)

    @cached_property
    def last_offset(self) -> NDArray[np.int64]:
        with np.errstate(over="ignore"):
            return self._pick(self.entry_offset + self.v2["last_offset_delta"].astype(np.int64), self.entry_offset)

    @cached_property
    def end_of_records(self) -> NDArray[np.int64]:
        """The highest offset that a batch's records may have, by its header: that is :attr:`last_offset`, but where
        there are more records than offsets up to it, as clients left lastOffsetDelta 0 (KAFKA-6554)."""
        with np.errstate(over="ignore"):
            return np.maximum(self.last_offset, self._pick(self.entry_offset + self.v2["count"] - 1, self.entry_offset))

    @cached_property
    def goes_past_last_offset(self) -> NDArray[np.bool_]:
        """v2 batches with records at offsets past their last offset."""
        return self.end_of_records > self.last_offset

    @cached_property
    def attributes(self) -> NDArray[np.int8]:
        """The low byte; Kafka uses no more of v2's two."""
        low = self.raw[:, layouts.BATCH_CRC_START + 1].view(np.int8)
        return self._pick(low, self.legacy["attributes"])

    @cached_property
    def codec(self) -> NDArray[np.int8]:
        """0 to 4 as in :data:`layouts.CODECS`; 5 to 7 are unknown."""
        return self.attributes & np.int8(layouts.CODEC_MASK)

    @cached_property
    def timestamp_type(self) -> NDArray[np.int8]:
        append = (self.attributes & np.int8(layouts.TIMESTAMP_TYPE_BIT) != 0).astype(np.int8)
        return append if self.all_v2 else np.where(self.magic == 0, np.int8(layouts.NO_TIMESTAMP_TYPE), append)

    @cached_property
    def base_timestamp(self) -> NDArray[np.int64]:
        """ms; with a delete horizon, that horizon. Meaningless for v0/v1."""
        return self.v2["base_timestamp"].astype(np.int64)

    @cached_property
    def max_timestamp(self) -> NDArray[np.int64]:
        """ms; -1 for v0."""
        timestamp = self.legacy["timestamp"].astype(np.int64)
        return self._pick(self.v2["max_timestamp"], np.where(self.magic == 0, layouts.NO_TIMESTAMP, timestamp))

    @cached_property
    def producer_id(self) -> NDArray[np.int64]:
        return self._pick(self.v2["producer_id"], layouts.NO_PRODUCER_ID)

    @cached_property
    def producer_epoch(self) -> NDArray[np.int16]:
        return self._pick(self.v2["producer_epoch"], layouts.NO_PRODUCER_EPOCH)

    @cached_property
    def base_sequence(self) -> NDArray[np.int32]:
        return self._pick(self.v2["base_sequence"], layouts.NO_SEQUENCE)

    @cached_property
    def last_sequence(self) -> NDArray[np.int32]:
        delta = self.v2["last_offset_delta"].astype(np.int32)
        moved = increment_sequence(self.base_sequence, delta)
        return np.where(self.base_sequence == layouts.NO_SEQUENCE, np.int32(layouts.NO_SEQUENCE), moved)

    @cached_property
    def partition_leader_epoch(self) -> NDArray[np.int32]:
        return self._pick(self.v2["partition_leader_epoch"], layouts.NO_PARTITION_LEADER_EPOCH)

    @cached_property
    def count(self) -> NDArray[np.int32]:
        """Records by the header; -1 for v0/v1, which have no such field."""
        return self._pick(self.v2["count"], -1)

    @cached_property
    def checksum(self) -> NDArray[np.uint32]:
        """As stored."""
        return self._pick(self.v2["crc"], self.legacy["crc"])

    def _flag(self, bit: int) -> NDArray[np.bool_]:
        return (self.attributes & np.int8(bit) != 0) & ~self.is_legacy

    @cached_property
    def is_transactional(self) -> NDArray[np.bool_]:
        return self._flag(layouts.TRANSACTIONAL_BIT)

    @cached_property
    def is_control(self) -> NDArray[np.bool_]:
        return self._flag(layouts.CONTROL_BIT)

    @cached_property
    def has_delete_horizon(self) -> NDArray[np.bool_]:
        return self._flag(layouts.DELETE_HORIZON_BIT)

    @cached_property
    def too_small(self) -> NDArray[np.bool_]:
        """v2 batches whose size cannot hold their own header."""
        return ~self.is_legacy & (self.sizes < layouts.BATCH_V2_SIZE)

    @cached_property
    def is_cut(self) -> NDArray[np.bool_]:
        """v2 batches whose header reaches past the end of the buffer: only their position and offset are known."""
        return ~self.is_legacy & (self.positions + layouts.BATCH_V2_SIZE > self.buffer_size)

    @cached_property
    def is_wrapper(self) -> NDArray[np.bool_]:
        """v0 and v1 messages that are compressed, and so contain others."""
        return self.is_legacy & (self.codec != 0)


def increment_sequence(sequence: NDArray[np.int32], increment: NDArray[np.int32]) -> NDArray[np.int32]:
    """``DefaultRecordBatch.incrementSequence``: past 2^31 - 1 comes 0 (in 32-bit arithmetic, as Java's)."""
    largest = np.int32(MAX_INT32)
    with np.errstate(over="ignore"):
        wraps = sequence > largest - increment
        return np.where(wraps, increment - (largest - sequence) - np.int32(1), sequence + increment).astype(np.int32)


def read_headers(buffer: NDArray[np.uint8], positions: NDArray[np.int64]) -> Batches:
    """Gathers the first 61 bytes of every batch; what a short buffer lacks at its end is zeros."""
    inside = len(buffer) - _HEADER_SIZE
    near_end = int(np.searchsorted(positions, inside, side="right"))
    raw = np.zeros((len(positions), _HEADER_SIZE), dtype=np.uint8)
    if near_end:
        # One item of 61 bytes at every byte of the buffer: a view, of which only the selected items are copied.
        at_every_byte = np.ndarray((inside + 1,), f"V{_HEADER_SIZE}", buffer, strides=(1,))
        raw[:near_end] = at_every_byte[positions[:near_end]].view(np.uint8).reshape(-1, _HEADER_SIZE)
    for row in range(near_end, len(positions)):
        rest = buffer[positions[row] : positions[row] + _HEADER_SIZE]
        raw[row, : len(rest)] = rest
    return Batches(positions, raw, len(buffer))


def ends_in_v2(batches: Batches) -> bool:
    """Return whether the last of some batches is v2."""
    return bool((batches.take(slice(len(batches) - 1, None)).magic == layouts.MAGIC_V2).any())


def checksums_match(buffer: NDArray[np.uint8], batches: Batches) -> NDArray[np.bool_]:
    """Return whether each batch's stored checksum is that of its bytes (``RecordBatch.isValid``): bool, shape
    ``(n,)``."""
    return compute_checksums(buffer, batches) == batches.checksum if len(batches) else np.zeros(0, dtype=np.bool_)


def compute_checksums(buffer: NDArray[np.uint8], batches: Batches) -> NDArray[np.int64]:
    """The checksum of each batch's bytes as Kafka computes it; int64, -1 where it is too small to have one."""
    if plain_crc.is_plain_cheaper(int(batches.sizes.sum())):
        crc32_ranges, crc32c_ranges = plain_crc.crc32_ranges, plain_crc.crc32c_ranges
    else:
        from brokerless.format.crc.kernels import crc32_ranges, crc32c_ranges

    computed = np.full(len(batches), -1, dtype=np.int64)
    for rows, covered_from, crc in (
        (np.flatnonzero(batches.is_legacy), layouts.MESSAGE_CRC_START, crc32_ranges),
        (np.flatnonzero(~batches.is_legacy & ~batches.too_small), layouts.BATCH_CRC_START, crc32c_ranges),
    ):
        if len(rows):
            values = np.empty(len(rows), dtype=np.uint32)
            crc(buffer, batches.positions[rows] + covered_from, batches.ends[rows], values)
            computed[rows] = values
    return computed
