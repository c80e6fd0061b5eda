"""Converts batches between formats and codecs, chunk by chunk in bounded memory.

Offsets, timestamps, keys and values do not change. What a format cannot carry is left out and counted, see
:data:`LOST`. A v2 batch or wrapper message becomes one batch or wrapper message, with its header's fields, unless a
batch size is set; messages without a codec are packed into batches of Kafka's default size. Batches that are in the
requested format and codec already are passed through unchanged.

Sources: ``RecordsUtil.downConvert``, ``FileRecords.downConvert`` (3.9.1), KIP-98, KIP-534.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import check_arguments
from brokerless.errors import UsageError
from brokerless.findings import Kind
from brokerless.format import layouts
from brokerless.format.arrays import Int64s
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.format.columns import Damage
from brokerless.format.read.batch_headers import Batches, read_headers
from brokerless.format.read.batch_scan import scan_batches
from brokerless.format.read.decoder import BatchDecoder, Decoder
from brokerless.format.read.wrappers import inspect_wrappers
from brokerless.format.write.column_slices import MOST_BYTES, concat_buffers, data_size
from brokerless.format.write.compression_ratio import CompressionRatioEstimator
from brokerless.format.write.encoder import Encoder, cut_batches, cut_by_count
from brokerless.format.write.grouping import BatchGroup, decode_groups, join_groups

LOST = {
    "headers": "record headers",
    "timestamps": "record timestamps",
    "noTimestamps": "records without a timestamp, for which newer formats have -1 and CreateTime",
    "controlBatches": "control batches, such as the markers of transactions",
    "transactions": "batches of transactions",
    "producers": "batches with a producer's id, epoch and sequence",
    "leaderEpochs": "batches with a leader epoch",
    "deleteHorizons": "batches with a delete horizon",
    "emptyBatches": "batches without records, as compaction leaves them",
    "zstd": "batches with gzip instead of zstd",
}
"""What a format cannot carry, by the name under which it is counted."""

PACKED = 16 << 10
"""Bytes of the batches into which messages without a codec are packed: Kafka's default ``batch.size``."""
LARGEST = 100 << 20
"""The largest batch size: what a broker takes in one request (``socket.request.max.bytes``)."""
_ROUND = 64
"""Batches that are cut with one estimate of the compression ratio."""


@dataclass(frozen=True, slots=True)
class ConversionTarget:
    """The format and codec that batches get; None retains each batch's.

    Raises :class:`UsageError` for what Kafka does not have.
    """

    magic: int | None = None
    codec: str | None = None
    level: int | None = None
    """As ``compression.gzip.level`` and so on."""
    batch_size: int | None = None
    """Bytes, as ``batch.size``. Where this and ``batch_records`` are None, batches retain their boundaries."""
    batch_records: int | None = None
    """Records of a batch, in place of a size."""
    with_zlib: bool = False
    """Whether gzip has the sizes that Kafka writes, for twice the time."""

    def __post_init__(self) -> None:
        if self.codec is None and self.level is not None:
            raise UsageError("a level needs a codec: set the codec too")
        Encoder(layouts.MAGIC_V2 if self.magic is None else self.magic, self.codec or "none", self.level)
        if self.batch_size is not None and not 0 <= self.batch_size <= LARGEST:
            raise UsageError(f"a batch size of {self.batch_size} bytes; Kafka accepts 0 to {LARGEST}")
        if self.batch_records is not None and (self.batch_records < 1 or self.batch_size is not None):
            raise UsageError(f"batches of {self.batch_records} records; use 1 or more, and no batch size")

    @property
    def is_repacked(self) -> bool:
        """Whether batches get other boundaries."""
        return self.batch_size is not None or self.batch_records is not None


@dataclass(slots=True)
class ConversionTotals:
    """Counts of input and output."""

    batches_in: int = 0
    records_in: int = 0
    bytes_in: int = 0
    batches_out: int = 0
    records_out: int = 0
    bytes_out: int = 0
    converted: int = 0
    """Records that were rewritten, not passed through unchanged."""
    lost: Counter[str] = field(default_factory=Counter[str])
    """By the names of :data:`LOST`."""


@dataclass(frozen=True, slots=True)
class ConvertedBatches:
    """Whole batches, one after another."""

    buffer: NDArray[np.uint8]
    damages: list[Damage] = field(default_factory=list[Damage])
    """The damage in the source batches; then some batches are missing."""
    batches: Batches | None = None
    """The batches' headers, of known formats, where these are known."""


@dataclass(frozen=True, slots=True)
class DownConverted:
    """A broker's answer."""

    buffer: NDArray[np.uint8]
    records: int
    """How many records were converted."""
    totals: ConversionTotals
    damages: list[Damage]


@check_arguments
def down_convert(
    buffer: NDArray[np.uint8], magic: int, first_offset: int, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
) -> DownConverted:
    """Return what a broker before 4.0 answers to a fetch in an older format (``FileRecords.downConvert``, 3.9.1).

    Checksums are not checked.

    Parameters
    ----------
    buffer
        uint8: bytes of the broker's log.
    magic
        The requested format.
    first_offset
        The requested offset.
    max_batch_bytes
        Bytes that a batch may inflate to.

    Returns
    -------
    DownConverted
        The answer.

    Raises
    ------
    UsageError
        Where Kafka refuses: for batches with zstd, and timestamps below -1.
    """
    batches = read_headers(buffer, scan_batches(buffer).positions)
    if magic < layouts.MAGIC_V2 and bool(((batches.codec == layouts.ZSTD) & ~batches.is_control).any()):
        raise UsageError(f"a fetch in format v{magic} cannot be answered from batches compressed with zstd")
    converter = Converter(ConversionTarget(magic), max_batch_bytes, first_offset)
    converted = [*converter.convert(buffer, batches), *converter.flush()]
    totals = converter.totals
    damages = [damage for each in converted for damage in each.damages]
    if not totals.converted:  # one batch cut off by the end of the answer, or nothing to convert
        return DownConverted(buffer, 0, totals, damages)
    return DownConverted(concat_buffers([each.buffer for each in converted]), totals.converted, totals, damages)


class Converter:
    """Converts batches; owns the decoder and the encoders, so one belongs to one thread. ``totals`` grows.

    ``max_batch_bytes``: bytes that one batch may inflate to. ``fetched``: the first offset of a fetch; then formats
    only go down, and batches without a codec lose the records before it and become single messages.
    """

    def __init__(
        self,
        target: ConversionTarget,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
        fetched: int | None = None,
        decoder: BatchDecoder | None = None,
    ) -> None:
        """Create a converter. ``decoder``: one that others of the same thread use as well."""
        self.totals = ConversionTotals()
        self._target, self._limit, self._fetched = target, max_batch_bytes, fetched
        self._decoder: BatchDecoder = decoder or Decoder(max_batch_bytes=max_batch_bytes)
        self._checker = Decoder(keys=False, values=False, headers=False, max_batch_bytes=max_batch_bytes)
        self._encoders: dict[tuple[int, int], tuple[Encoder, CompressionRatioEstimator]] = {}
        self._retained: BatchGroup | None = None
        """Rows of a batch that may continue."""

    def convert(self, buffer: NDArray[np.uint8], batches: Batches, base: int = 0) -> Iterator[ConvertedBatches]:
        """Converts batches (whose checksums the caller has checked) in log order. A batch that is not yet full is
        retained for the next call or :meth:`flush`. ``base``: the position of the buffer's first byte in its file."""
        magic, codec = self._targets(batches)
        passed, dropped = self._unchanged(batches, magic, codec), _dropped(batches, magic)
        self._count(buffer, batches, magic, passed=passed, dropped=dropped)
        if self._fetched is None and (damages := self._check(buffer, batches.take(passed), base)):
            yield ConvertedBatches(_NOTHING, damages)
        unconverted = _Unconverted(buffer, batches, np.flatnonzero(passed))
        rows = np.flatnonzero(~passed & ~dropped)
        for group, damages, ordinals in decode_groups(
            self._decoder, buffer, batches, rows=rows, magic=magic, codec=codec, base=base
        ):
            if damages:
                yield ConvertedBatches(_NOTHING, damages)
                continue
            last = int(ordinals[-1])
            continues = last + 1 == len(batches) or not (passed[last + 1] or dropped[last + 1])
            yield from self._convert_group(group, unconverted, continues)
            del group  # free it before the next allocation
        if unconverted.left:
            yield from self.flush()
            yield self._out(unconverted.until(len(batches)))
        if self._retained is not None:
            self._retained = self._retained.moved(-len(batches))

    def flush(self) -> Iterator[ConvertedBatches]:
        """Converts what was retained."""
        retained, self._retained = self._retained, None
        if retained is not None:
            yield self._out([data for run, _ in self._runs(retained) for _, data, _ in self._encode(run, False)])

    def _check(self, buffer: NDArray[np.uint8], batches: Batches, base: int) -> list[Damage]:
        """Damage inside batches that are passed through unchanged."""
        found = [*self._checker.decode(buffer, batches, base), self._checker.flush()]
        return [damage for decoded in found if decoded is not None for damage in decoded.damages]

    def _convert_group(
        self, group: BatchGroup, unconverted: _Unconverted, continues: bool
    ) -> Iterator[ConvertedBatches]:
        """Convert the rows of a group. ``continues``: whether the next batch is converted as well."""
        self._count_rows(group)
        if self._fetched is not None:
            group = group.from_offset(self._fetched)
            if (group.columns.timestamp[: group.columns.rows] < layouts.NO_TIMESTAMP).any():
                raise UsageError("a fetch in an older format cannot be answered from negative timestamps")
        if self._retained is not None and data_size(self._retained.columns) + data_size(group.columns) > MOST_BYTES:
            text = "the records of a batch would take more than 2 GiB"
            yield ConvertedBatches(_NOTHING, [Damage(Kind.LIMIT_EXCEEDED, int(group.batches.positions[0]), -1, text)])
        elif self._retained is not None:
            group = join_groups(self._retained, group)
        self._retained = None
        buffers: list[NDArray[np.uint8]] = []
        for run, is_last in self._runs(group):
            for ordinals, data, entries in self._encode(run, is_last and (continues or not run.is_complete)):
                buffers += unconverted.among(ordinals, data, entries)
        if self._retained is not None:
            buffers += unconverted.until(int(self._retained.ordinals[0]))
        elif len(group.ordinals):
            buffers += unconverted.until(int(group.ordinals[-1]) + 1)
        yield self._out(buffers)

    def _out(self, buffers: list[NDArray[np.uint8]]) -> ConvertedBatches:
        buffer = concat_buffers(buffers)
        self.totals.bytes_out += len(buffer)
        return ConvertedBatches(buffer)

    def _targets(self, batches: Batches) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
        """The target format and codec of each batch."""
        magic = np.clip(batches.magic, layouts.MAGIC_V0, layouts.MAGIC_V2)
        if self._fetched is not None:
            magic = np.minimum(magic, self._target.magic or 0).astype(np.int8)
        elif self._target.magic is not None:
            magic = np.full(len(batches), self._target.magic, np.int8)
        codec = batches.codec
        if self._target.codec is not None:
            requested = np.int8(layouts.CODECS.index(self._target.codec))
            codec = np.where(batches.is_control & (codec == 0), codec, requested)  # Kafka never compresses its markers
        return magic, np.where((magic < layouts.MAGIC_V2) & (codec == layouts.ZSTD), np.int8(layouts.GZIP), codec)

    def _unchanged(self, batches: Batches, magic: NDArray[np.int8], codec: NDArray[np.int8]) -> NDArray[np.bool_]:
        same = (batches.magic == magic) & (batches.codec == codec)
        if self._target.is_repacked or self._target.level is not None:
            same &= batches.is_legacy & (codec == 0)  # single messages are in no batch
        is_marker = batches.is_control & (codec == 0) & (batches.codec == 0)
        return same | (~batches.is_legacy & (magic == layouts.MAGIC_V2) & (is_marker | (batches.count == 0)))

    def _count(
        self,
        buffer: NDArray[np.uint8],
        batches: Batches,
        magic: NDArray[np.int8],
        passed: NDArray[np.bool_],
        dropped: NDArray[np.bool_],
    ) -> None:
        totals, lost = self.totals, self.totals.lost
        totals.batches_in += len(batches)
        totals.bytes_in += int(batches.sizes.sum())
        totals.batches_out += int(passed.sum())
        counts = inspect_wrappers(buffer, batches.take(passed), self._limit).count.sum() if passed.any() else 0
        totals.records_out += int(counts)
        totals.records_in += int(counts) + int(np.maximum(batches.count[dropped], 0).sum())
        down = ~batches.is_legacy & (magic < layouts.MAGIC_V2)
        data = down & ~dropped
        has_zstd = batches.codec == layouts.ZSTD if self._target.codec is None else self._target.codec == "zstd"
        for name, each in {
            "controlBatches": dropped & batches.is_control,
            "emptyBatches": dropped & ~batches.is_control,
            "transactions": data & batches.is_transactional,
            "producers": data & (batches.producer_id != layouts.NO_PRODUCER_ID),
            "leaderEpochs": data & (batches.partition_leader_epoch != layouts.NO_PARTITION_LEADER_EPOCH),
            "deleteHorizons": data & batches.has_delete_horizon,
            "zstd": ~dropped & (magic < layouts.MAGIC_V2) & has_zstd,
        }.items():
            if each.any():
                lost[name] += int(each.sum())

    def _count_rows(self, group: BatchGroup) -> None:
        columns = group.columns
        self.totals.records_in += columns.rows
        if not ((group.magic < layouts.MAGIC_V2) | (group.batches.magic == layouts.MAGIC_V0)).any():
            return
        legacy = np.repeat(group.magic < layouts.MAGIC_V2, group.given)
        stamps = np.repeat(group.magic == layouts.MAGIC_V0, group.given)
        lost = {
            "headers": np.diff(columns.header_ends[: columns.rows + 1])[legacy].sum(),
            "timestamps": (columns.timestamp[: columns.rows][stamps] != layouts.NO_TIMESTAMP).sum(),
            "noTimestamps": (columns.timestamp_type[: columns.rows][~stamps] == layouts.NO_TIMESTAMP_TYPE).sum(),
        }
        self.totals.lost.update({name: int(count) for name, count in lost.items() if count})

    def _runs(self, group: BatchGroup) -> Iterator[tuple[BatchGroup, bool]]:
        """Runs of batches that one encoder writes in one way, and whether it is the last run."""
        kinds = group.magic * 16 + group.codec * 2 + _is_single_message(group.batches) + 64 * group.batches.is_control
        borders = np.flatnonzero(np.diff(kinds, prepend=-1, append=-1)).tolist()
        for first, last in pairwise(borders):
            yield group.between(first, last), last == borders[-1]

    def _encode(self, run: BatchGroup, is_open: bool) -> Iterator[tuple[Int64s, NDArray[np.uint8], Int64s | None]]:
        """The bytes of a run's batches, the ordinal of each one's first source, and the entry with which it begins if
        that is another number; what is left of an open run is retained."""
        magic, codec = int(run.magic[0]), int(run.codec[0])
        if (magic, codec) not in self._encoders:
            level = self._target.level if self._target.codec is not None else None
            encoder = Encoder(magic, layouts.CODECS[codec], level, with_zlib=self._target.with_zlib)
            self._encoders[magic, codec] = encoder, CompressionRatioEstimator()
        encoder, ratio = self._encoders[magic, codec]
        alone = magic < layouts.MAGIC_V2 and not codec
        size, records = self._target.batch_size, self._target.batch_records
        if not self._target.is_repacked and _is_single_message(run.batches)[0]:
            size = PACKED
        is_packed = (size is not None or records is not None) and not alone and not run.batches.is_control[0]
        breaks = run.breaks() if is_packed else None
        rows, at = run.columns.rows, 0
        while at < rows:
            if breaks is None:
                starts = np.append(run.firsts, rows)
                is_open = is_open and not run.is_complete
            elif size is None:
                starts = cut_by_count(run.columns, records or 1, breaks, at)
            else:
                estimate, most = (float(ratio.estimate), _ROUND) if codec else (None, None)
                starts = cut_batches(run.columns, size, estimate, breaks=breaks, magic=magic, first=at, most=most)
            at = int(starts[-1])
            if is_open and at == rows and not alone:
                starts = starts[:-1]
                self._retained = run.after(int(starts[-1]))
            if len(starts) < 2:
                return
            headers = run.headers(starts)
            data = encoder.encode(run.columns, starts, headers)
            written = int(starts[-1] - starts[0])
            self.totals.converted += written
            self.totals.records_out += written
            self.totals.batches_out += written if alone else len(headers)
            if codec and breaks is not None:
                ratio.observe(encoder.payloads, encoder.uncompressed)
            yield run.ordinals[run.source_of(starts[:-1])], data, starts[:-1] - starts[0] if alone else None


class _Unconverted:
    """Batches that are passed through unchanged, between those that are converted."""

    def __init__(self, buffer: NDArray[np.uint8], batches: Batches, ordinals: Int64s) -> None:
        self._buffer, self._batches, self._ordinals = buffer, batches, ordinals

    @property
    def left(self) -> bool:
        return len(self._ordinals) > 0

    def until(self, ordinal: int) -> list[NDArray[np.uint8]]:
        """Return those left before the batch ``ordinal``: as few slices of the buffer as possible."""
        count = int(np.searchsorted(self._ordinals, ordinal))
        chosen, self._ordinals = self._ordinals[:count], self._ordinals[count:]
        starts, ends = self._batches.positions[chosen], self._batches.ends[chosen]
        borders = [0, *(np.flatnonzero(starts[1:] != ends[:-1]) + 1).tolist(), count]
        return [self._buffer[starts[first] : ends[last - 1]] for first, last in pairwise(borders) if last > first]

    def among(self, ordinals: Int64s, data: NDArray[np.uint8], entries: Int64s | None) -> Iterator[NDArray[np.uint8]]:
        """Converted batches with those that belong before each of them. ``ordinals``: of the first source of each;
        ``entries``: the number of the entry in ``data`` with which each begins, None if one after the other."""
        places = np.searchsorted(ordinals, self._ordinals)
        places = np.unique(places[places < len(ordinals)])
        if not len(places):
            yield data
            return
        positions = scan_batches(data).positions
        cuts = positions[places if entries is None else entries[places]].tolist()
        at = 0
        for place, here in zip(places.tolist(), cuts, strict=True):
            yield data[at:here]
            yield from self.until(int(ordinals[place]))
            at = here
        yield data[at:]


def _dropped(batches: Batches, magic: NDArray[np.int8]) -> NDArray[np.bool_]:
    """v0 and v1 have neither control batches nor batches without records."""
    return ~batches.is_legacy & (magic < layouts.MAGIC_V2) & (batches.is_control | (batches.count == 0))


def _is_single_message(batches: Batches) -> NDArray[np.bool_]:
    """Messages without a codec, which are in no batch."""
    return batches.is_legacy & ~batches.is_wrapper


_NOTHING = np.empty(0, np.uint8)
