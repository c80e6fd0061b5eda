"""The exact size of one partition for each choice, by converting all of it as ``convert`` does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import UsageError, refused_batch
from brokerless.findings import Finding
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.format.columns import Damage
from brokerless.format.convert import Converter
from brokerless.format.read.batch_headers import Batches
from brokerless.format.read.decoder import DecodedRecords, Decoder
from brokerless.format.write.column_slices import data_size
from brokerless.jobs.size.choices import Choice
from brokerless.jobs.size.contents import Contents, contents_of, decode_contents, without_records
from brokerless.log.directory import PartitionPath
from brokerless.log.live_segments import open_segments
from brokerless.log.ranges import from_log_start
from brokerless.log.segment import Chunk, check_checksums, damage_finding, scan
from brokerless.progress import Done, Report

_SHARED_BYTES = 128 << 20
"""Bytes of decoded records of one chunk that are kept for the next choice; those of more are decoded again."""


class SharedDecoder:
    """Decodes the batches of a chunk once for all choices, which ask for the same ones."""

    def __init__(self, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES) -> None:
        self._own = Decoder(max_batch_bytes=max_batch_bytes)
        self._decoded: dict[tuple[bytes, int], list[DecodedRecords]] = {}

    def forget(self) -> None:
        """Another chunk comes."""
        self._decoded.clear()

    def decode(self, buffer: NDArray[np.uint8], batches: Batches, base: int = 0) -> Iterator[DecodedRecords]:
        """Decode as :meth:`Decoder.decode` does, and yield what :meth:`flush` has of it."""
        key = batches.positions.tobytes(), base
        if key in self._decoded:
            yield from self._decoded[key]
            return
        self._own.flush()  # what a choice left that was given up
        found: list[DecodedRecords] = []
        size = 0
        for each in self._all(buffer, batches, base):
            size += 64 * each.columns.rows + 2 * data_size(each.columns)
            if size > _SHARED_BYTES:
                yield from found
                found.clear()
                yield each
            else:
                found.append(each)
        if size <= _SHARED_BYTES:
            self._decoded[key] = found
        yield from found

    def flush(self) -> None:
        """Nothing is left after :meth:`decode`."""

    def _all(self, buffer: NDArray[np.uint8], batches: Batches, base: int) -> Iterator[DecodedRecords]:
        yield from self._own.decode(buffer, batches, base)
        if (rest := self._own.flush()) is not None:
            yield rest


@dataclass(slots=True)
class ExactSizes:
    """The exact sizes of partitions that were read as a whole."""

    bytes: dict[Choice, int]
    """The size by choice; a choice that cannot be written is not there."""
    contents: Contents
    """What is in the batches, where that was requested."""
    bytes_other: int = 0
    """The bytes of control batches and of batches without records."""


def measure_partition(
    partition: PartitionPath,
    choices: Sequence[Choice],
    report: Report,
    done: Done,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    *,
    with_contents: bool = True,
) -> ExactSizes:
    """Reads all batches once and converts them for each choice; what is damaged is reported and left out. ``done`` is
    called with the bytes that were read, times the choices."""
    decoder, result = SharedDecoder(max_batch_bytes=max_batch_bytes), ExactSizes({}, Contents())
    converters = {choice: Converter(choice.target, max_batch_bytes, decoder=decoder) for choice in choices}
    selected = from_log_start(partition)

    def run(choice: Choice, chunk: Chunk | None, reported: Report) -> None:
        converter = converters[choice]
        try:
            pieces = converter.flush() if chunk is None else converter.convert(chunk.buffer, chunk.batches, chunk.base)
            for piece in pieces:
                for damage in piece.damages:
                    reported(damage_finding(partition.path, damage))
        except UsageError as error:
            report(_refused(partition.path, choice, error))
            del converters[choice]

    for opened in open_segments(partition, report, selected):
        for chunk in scan(opened.file, report, opened.start):
            decoder.forget()
            valid = check_checksums(chunk, opened.file.path, report)
            chosen = chunk.batches.take(valid & selected.batches(chunk.batches))
            whole, damages = _decode(decoder, chunk, chosen, result if with_contents else None)
            for damage in damages:
                report(damage_finding(opened.file.path, damage))
            for choice in [*converters] if len(whole) else ():
                run(choice, Chunk(chunk.buffer, chunk.base, whole), report)
            done(int(chunk.batches.sizes.sum()) * max(1, len(choices)))
        for choice in [*converters]:  # as a conversion that keeps its segments
            run(choice, None, report)
    result.bytes = {choice: converter.totals.bytes_out for choice, converter in converters.items()}
    return result


def _decode(
    decoder: SharedDecoder, chunk: Chunk, batches: Batches, result: ExactSizes | None
) -> tuple[Batches, list[Damage]]:
    """The batches that can be decoded, and the damage in others; adds up what is in them."""
    damages: list[Damage] = []
    other = without_records(batches)
    if result is not None:
        result.bytes_other += int(batches.sizes[other].sum())
    for group, found in decode_contents(decoder, chunk.buffer, batches, rows=np.flatnonzero(~other), base=chunk.base):
        damages += found
        if result is not None and len(group.given):
            result.contents.add(contents_of(group))
    damaged = np.array([damage.position - chunk.base for damage in damages], np.int64)
    return batches.take(~np.isin(batches.positions, damaged)), damages


def _refused(path: str, choice: Choice, error: UsageError) -> Finding:
    return refused_batch(path, error, as_=f"v{choice.magic} {choice.codec}", severity="warning")
