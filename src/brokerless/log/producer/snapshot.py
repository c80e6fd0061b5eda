"""``.snapshot``: the producer state of a log at an offset.

Sources: ``ProducerStateManager`` and its message ``ProducerSnapshot`` (3.9.1),
``ProducerStateManager.writeSnapshot`` (4.1.1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import MAX_INT32
from brokerless.findings import Kind
from brokerless.format import layouts
from brokerless.format.arrays import Int64s
from brokerless.format.crc import plain
from brokerless.log.checkpoint.text_files import FileFindings, MalformedFileError, parse_or_report
from brokerless.log.storage.location import Location

SNAPSHOT_LIMIT = 256 << 20
"""Bytes of a producer snapshot that is read: 46 for each producer."""


@dataclass(frozen=True, slots=True)
class ProducerSnapshot:
    """The content of a ``.snapshot`` file: what a broker knew of each producer when the log ended at the offset in the
    file's name. Arrays of one length, int64."""

    file: str
    producer_ids: Int64s
    producer_epochs: Int64s
    last_sequences: Int64s
    """The last sequence number of the producer's last batch."""
    last_offsets: Int64s
    """The last offset of the producer's last batch; -1 if there was none, as after a marker."""
    offset_deltas: Int64s
    """The last offset of that batch less its first."""
    timestamps: Int64s
    """The timestamp of that batch (ms)."""
    coordinator_epochs: Int64s
    current_txn_first_offsets: Int64s
    """-1 outside of a transaction."""
    findings: FileFindings = ()

    @property
    def first_sequences(self) -> Int64s:
        """The first sequence of each producer's last batch; sequences continue at 0 after 2^31 - 1."""
        first = self.last_sequences - self.offset_deltas
        return np.where(first < 0, first + MAX_INT32 + 1, first)

    @property
    def first_offsets(self) -> Int64s:
        """The first offset of each producer's last batch; means nothing where the last offset is -1."""
        return self.last_offsets - self.offset_deltas


def load_producer_snapshot(location: Location) -> ProducerSnapshot:
    """Reads a producer snapshot; one whose checksum does not match gives no entries, as Kafka then drops it."""
    return _load(lambda: np.frombuffer(location.read(SNAPSHOT_LIMIT), np.uint8), location.path)


def parse_producer_snapshot(data: NDArray[np.uint8], path: str) -> ProducerSnapshot:
    """Parse a snapshot of producers from bytes; ``path``: what findings name."""
    return _load(lambda: data, path)


def _load(read: Callable[[], NDArray[np.uint8]], path: str) -> ProducerSnapshot:
    entry = layouts.PRODUCER_SNAPSHOT_ENTRY
    entries, findings = parse_or_report(
        lambda: _parse(read()), path, np.empty(0, entry), Kind.PRODUCER_SNAPSHOT_CORRUPT
    )
    return ProducerSnapshot(path, *(entries[name].astype(np.int64) for name in entry.names or ()), findings=findings)


def _parse(data: NDArray[np.uint8]) -> NDArray[Any]:
    header_size = layouts.PRODUCER_SNAPSHOT_HEADER.itemsize
    if len(data) < header_size:
        raise MalformedFileError("the file is too small", f"{header_size} bytes or more", f"{len(data)} bytes")
    header = data[:header_size].view(layouts.PRODUCER_SNAPSHOT_HEADER)[0]
    version, count = int(header["version"]), int(header["count"])
    if version != 1:
        raise MalformedFileError("a producer snapshot of an unknown version", "version 1", str(version))
    computed = snapshot_checksum(data)
    if computed != header["crc"]:
        text = "the checksum of the snapshot does not match"
        raise MalformedFileError(text, f"{computed:#010x}", f"{int(header['crc']):#010x}")
    end = header_size + count * layouts.PRODUCER_SNAPSHOT_ENTRY.itemsize
    if not header_size <= end <= len(data):
        raise MalformedFileError("entries are missing", f"{count} entries", f"{len(data) - header_size} bytes")
    return data[header_size:end].view(layouts.PRODUCER_SNAPSHOT_ENTRY)


def snapshot_checksum(data: NDArray[np.uint8]) -> int:
    """Return the CRC-32C that a snapshot of these bytes has in its header."""
    if plain.is_plain_cheaper(len(data)):
        crc32c_ranges = plain.crc32c_ranges
    else:  # Numba is not imported before a large snapshot is to be read or written
        from brokerless.format.crc.kernels import crc32c_ranges

    crc = np.zeros(1, np.uint32)
    crc32c_ranges(data, np.array([layouts.PRODUCER_SNAPSHOT_CRC_START]), np.array([len(data)]), crc)
    return int(crc[0])


def producer_snapshot(entries: NDArray[np.void]) -> bytes:
    """Return a ``.snapshot``, version 1, of entries of :data:`layouts.PRODUCER_SNAPSHOT_ENTRY`, one for each
    producer."""
    header = np.zeros(1, layouts.PRODUCER_SNAPSHOT_HEADER)
    header["version"], header["count"] = 1, len(entries)
    data = np.concatenate([header.view(np.uint8), np.ascontiguousarray(entries).view(np.uint8).reshape(-1)])
    data[: header.itemsize].view(layouts.PRODUCER_SNAPSHOT_HEADER)["crc"] = snapshot_checksum(data)
    return data.tobytes()
