"""Explains files: chooses what of a file is explained by its name, an offset or a position, and builds batches to
explain."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from brokerless.bounds import MAX_INT64
from brokerless.errors import UnreadableError, UsageError
from brokerless.explanation.batches import ExplainSettings, explain_entry
from brokerless.explanation.builder import FieldBudget
from brokerless.explanation.checkpoints import FILES, explain_text_file
from brokerless.explanation.field import Field, FieldValue, leaves, problems
from brokerless.explanation.indexes import LAYOUTS, explain_index
from brokerless.explanation.records import RecordRange
from brokerless.explanation.remote.manifests import explain_manifest
from brokerless.explanation.snapshots import explain_producer_snapshot
from brokerless.format import layouts
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.internals.entries import topic_of_file
from brokerless.log import names
from brokerless.log.directory import PartitionPath, SegmentPaths, resolve
from brokerless.log.positions import first_position, is_batch_up_to
from brokerless.log.segment import LARGEST_WINDOW, scan_headers
from brokerless.log.storage.files import File
from brokerless.log.storage.location import DirectoryEntry, Location
from brokerless.log.storage.paths import StorageOptions
from brokerless.progress import ignore
from brokerless.text import html_table

LARGEST_FILE = 256 << 20
"""Bytes of an index, a snapshot or a checkpoint."""
_UNKNOWN = 1 << 16
"""Bytes that are explained where the size of what is there is not known."""
_CUT_OFF = 1 << 20
"""Bytes of an entry that is cut off, or claims to be so large."""

MOST_RECORDS = 100
"""Records and entries that are explained field by field, unless more are requested."""
LOG = "log"
MANIFEST = "rsm-manifest"


_SHOWN = 80
"""Characters of a value, and twice that of bytes, in a notebook."""


class MissingOffsetError(UnreadableError):
    """A log has no batch with the requested offset or a later one."""


@dataclass(frozen=True)
class Explanation:
    """The fields of a batch, or of a file other than a log."""

    file: str | None
    """None for a batch that was built."""
    kind: str
    """``log`` for batches, else the kind of file, such as ``offset-index``."""
    fields: tuple[Field, ...]
    """Of a log, a group for each batch. Positions are bytes in the file."""

    @property
    def size(self) -> int:
        """How many bytes are explained."""
        return sum(each.length for each in self.fields)

    def leaves(self) -> Iterator[tuple[str, Field]]:
        """Return the fields without children, in the order of their bytes, without a gap; each with its full name."""
        return leaves(self.fields)

    def problems(self) -> Iterator[tuple[str, Field]]:
        """Return the fields that are not as expected, with their full names."""
        return problems(self.fields)

    def _repr_html_(self) -> str:
        """For notebooks."""
        columns = ("position", "bytes", "field", "value", "meaning")
        rows = [
            (each.position, _cut(each.raw[:_SHOWN].hex(" ")), path, _cut(_text(each.value)), _meaning(each))
            for path, each in self.leaves()
        ]
        return html_table(f"{self.file or 'built'}: {self.kind}, {self.size:,} bytes", columns, rows)


def explain(
    path: str | os.PathLike[str] | Location,
    *,
    offset: int | None = None,
    position: int | None = None,
    records: int | None = None,
    max_batch_bytes: int | None = None,
    storage_options: StorageOptions | None = None,
) -> Explanation:
    """Explain every byte of a file of Kafka's, as ``brokerless explain``.

    Each field has its position, length, bytes, value, and where that comes from. The file is a log (``.log``, a KRaft
    snapshot), of which one batch is explained, an index, a producer snapshot, a checkpoint or a remote segment's
    manifest (``.rsm-manifest``). Damaged bytes are explained as far as they make sense, and what was expected is in
    ``Field.expected``.

    Parameters
    ----------
    path : path or URL
        The file.
    offset : int, optional
        The batch that has this offset, or the next one; by default the first.
    position : int, optional
        The batch that has this byte, or where no batch is known, whatever begins there.
    records : int, optional
        At most so many records or entries (100), from ``offset`` on, are explained field by field; of uncompressed
        messages of v0 and v1, each of which is a batch, as many are explained (1).
    max_batch_bytes : int, optional
        Bytes that one batch may inflate to (128 MiB).
    storage_options : dict, optional
        fsspec's options of a URL.

    Returns
    -------
    Explanation
        Named fields, each with its place and value.

    Raises
    ------
    UnreadableError
        For what cannot be opened or is no file of Kafka's, and where no batch has this offset or a later one.
    UsageError
        For a position after the file's end.

    Examples
    --------
    >>> import brokerless
    >>> explained = brokerless.explain("demo/data/orders-0/00000000000000000000.log", records=1)
    >>> [name for name, _ in explained.leaves()][:2]
    ['batch.base_offset', 'batch.size']
    """
    location = _segment_with(Location.of(path, storage_options), offset)
    path, name, budget = location.path, location.name, FieldBudget()
    if position is not None and offset is not None:
        raise UsageError("offset and position exclude each other; use one of them")
    chosen = RecordRange(offset, MOST_RECORDS if records is None else records)
    known = names.parse_segment_file(name)
    if name in FILES:
        return Explanation(path, name, explain_text_file(_whole(location), name, chosen, budget))
    if name.endswith(f".{MANIFEST}"):
        data = _whole(location)
        if not data:
            raise UnreadableError(path, "this is the manifest of a remote segment, and it is empty")
        return Explanation(path, MANIFEST, explain_manifest(data, chosen, budget))
    if known is not None and known.kind == "producer-snapshot":
        fields = explain_producer_snapshot(_whole(location), chosen, budget)
        return Explanation(path, known.kind, fields)
    if known is not None and known.kind in LAYOUTS:
        data = _whole(location)
        fields = explain_index(data, known.kind, known.offset, chosen=chosen, budget=budget, start=position or 0)
        return Explanation(path, known.kind, fields)
    settings = ExplainSettings(chosen, topic_of_file(path), max_batch_bytes or DEFAULT_MAX_BATCH_BYTES)
    with location.open() as file:
        start = _start(file, location, offset, position)
        return Explanation(path, LOG, tuple(_entries(file, start, settings, most=records or 1, budget=budget)))


def _segment_with(location: Location, offset: int | None) -> Location:
    """Return the segment's log that has an offset, of a partition's directory; any other path unchanged."""
    if offset is None or location.is_remote or not location.local.is_dir():
        return location
    directory = resolve(location)
    if directory.kind != "partition":
        raise UnreadableError(location.path, "this is a directory of several partitions; give that of one, or a file")
    (partition,) = directory.partitions
    chosen = [each for each in partition.segments if each.base_offset <= offset]
    if not chosen:
        raise UnreadableError(location.path, f"no segment has offset {offset}: {_offsets_of(partition)}")
    return chosen[-1].log.location


def _offsets_of(partition: PartitionPath) -> str:
    first = partition.segments[0].base_offset if partition.segments else None
    return "there is none" if first is None else f"the first one begins at {first}"


def explain_built(data: bytes) -> Explanation:
    """Explain batches that lie one after the other in ``data``."""
    settings, budget = ExplainSettings(), FieldBudget()
    fields: list[Field] = []
    at = 0
    while at < len(data):
        size = _size(data[at:])
        fields += explain_entry(data[at : at + layouts.LOG_ENTRY_SIZE + size], at, settings, budget)
        at += layouts.LOG_ENTRY_SIZE + size
    return Explanation(None, LOG, tuple(fields))


def build_batch(magic: int, codec: str, records: Sequence[tuple[int, bytes | None, bytes | None]]) -> bytes:
    """Build the batch, or the messages, that Kafka's producer makes of records: timestamp (ms), key and value.

    Raises :class:`UsageError` for what the format does not have.
    """
    from brokerless.format.write.builder import BatchBuilder

    builder = BatchBuilder(magic=magic, codec=codec)
    for timestamp, key, value in records:
        builder.append(timestamp, key, value)
    return builder.close()


def _meaning(field: Field) -> str:
    return field.note if field.expected is None else f"expected {field.expected}; {field.note}"


def _text(value: FieldValue) -> str:
    if value is None:
        return ""
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _whole(location: Location) -> bytes:
    return location.read(LARGEST_FILE)


def _start(file: File, location: Location, offset: int | None, position: int | None) -> int:
    """Return where the requested batch begins."""
    if offset is not None:
        start = first_position(file, _segment(location, file.size), offset)
        if start >= file.size:
            raise MissingOffsetError(location.path, f"no batch has offset {offset} or a later one")
        return start
    if not position:
        return 0
    if position >= file.size:
        raise UsageError(f"{location.path}: there is no position {position}, as the file has {file.size} bytes")
    end = 0
    for chunk in scan_headers(file, ignore, 0, position + 1):
        has_it = (chunk.positions <= position) & (chunk.batches.ends + chunk.base > position)
        if has_it.any():
            return int(chunk.positions[has_it][0])
        end = chunk.base + int(chunk.batches.ends[-1])
    # Within the entry that ends the scan, be it cut off or of a wrong size; but a batch may follow it.
    is_within = position < end + layouts.LOG_ENTRY_SIZE + _size(file.read(end, layouts.LOG_ENTRY_SIZE).tobytes())
    return end if is_within and not is_batch_up_to(file, position, MAX_INT64) else position


def _segment(location: Location, size: int) -> SegmentPaths:
    """The file as a segment, with the offset index beside it, if it has one."""
    directory = location.parent
    known = names.parse_segment_file(location.name)
    log = DirectoryEntry(location.name, location, False, size)
    if known is None or known.kind != "log" or known.state != "live" or directory is None:
        return SegmentPaths(0, log)
    index = directory / names.segment_file(known.offset, "offset-index")
    return SegmentPaths(known.offset, log, DirectoryEntry(index.name, index, False) if index.exists() else None)


def _entries(file: File, at: int, settings: ExplainSettings, most: int, budget: FieldBudget) -> Iterator[Field]:
    """The entry at a position; at most so many, where they are uncompressed messages of v0 and v1."""
    while most > 0 and at < file.size:
        data = _read_entry(file, at)
        fields = explain_entry(data, at, settings, budget)
        yield from fields
        if [each.name for each in fields] != ["message"]:
            return
        at, most = at + len(data), most - 1


def _read_entry(file: File, at: int) -> bytes:
    """The bytes of the entry at a position; where its size cannot be right, some more."""
    head = file.read(at, layouts.LOG_ENTRY_SIZE).tobytes()
    left = file.size - at
    if len(head) < layouts.LOG_ENTRY_SIZE:
        return head
    size = _size(head)
    if size < layouts.MESSAGE_V0_OVERHEAD:
        return file.read(at, min(left, _UNKNOWN)).tobytes()
    whole = layouts.LOG_ENTRY_SIZE + size
    return file.read(at, min(left, _CUT_OFF) if whole > left else min(whole, LARGEST_WINDOW)).tobytes()


def _size(entry: bytes) -> int:
    at = layouts.position_of(layouts.LOG_ENTRY, "size")
    return int.from_bytes(entry[at : layouts.LOG_ENTRY_SIZE], "big", signed=True)
