"""Completes what a stop interrupted in a partition's directory, as the next start of a broker does.

A compaction writes ``.cleaned`` files, renames them to ``.swap`` when all are written, deletes what they replace, and
gives them their names. A start goes on with what it finds: files that were being written or deleted go, finished
``.swap`` files become segments, and what these replace goes, as do indexes without a log. Nothing is changed here:
a :class:`Completion` says which files are the log then.

No file is opened unless its name asks for it: of ``.log.swap`` files, the end is looked up.

Source: ``LogLoader`` (``removeTempFilesAndCollectSwapFiles``, ``load``, ``loadSegmentFiles``), 4.4.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from brokerless.bounds import MAX_INT64
from brokerless.log import names
from brokerless.log.names import SegmentFile
from brokerless.log.storage.location import DirectoryEntry
from brokerless.offset_spans import Span

_INDEXES = ("offset-index", "time-index", "transaction-index")

RemovalReason = Literal["cleaned", "deleted", "swap-unfinished", "replaced", "index-orphaned"]
"""Why a start removes a file: a compaction had not finished it (``cleaned``) or others of the same compaction
(``swap-unfinished``); it waits for its deletion; a finished ``.swap`` file has its offsets or its name; it is an index
without a log."""


@dataclass(frozen=True, slots=True)
class Removal:
    """A file that a start removes."""

    entry: DirectoryEntry
    file: SegmentFile
    """What the file's name says."""
    reason: RemovalReason


@dataclass(frozen=True, slots=True)
class Completion:
    """The files of segments as a start completes them."""

    live: Mapping[str, DirectoryEntry] = field(default_factory=dict[str, DirectoryEntry])
    """Each file that stays, by its name after the start."""
    rename: tuple[tuple[DirectoryEntry, str], ...] = ()
    """Each ``.swap`` file with the name that it gets, once the files in ``remove`` are gone."""
    remove: tuple[Removal, ...] = ()
    span: Span | None = None
    """The offsets whose segments finished ``.swap`` files replace; None without such files."""
    lost: tuple[tuple[Removal, tuple[Span, ...]], ...] = ()
    """Those of ``remove`` that are logs with offsets which no file that stays has, and these."""
    as_it_lies: bool = False
    """Whether the partition is read by the names that files have now, and not as it is completed."""

    @property
    def is_needed(self) -> bool:
        """Whether a start changes any file."""
        return bool(self.rename or self.remove)

    @property
    def removed_names(self) -> tuple[str, ...]:
        return tuple(each.entry.name for each in self.remove)

    @property
    def renamed_names(self) -> tuple[tuple[str, str], ...]:
        """The names of ``.swap`` files, each with the one that it gets."""
        return tuple((entry.name, name) for entry, name in self.rename)

    @property
    def logs(self) -> dict[int, DirectoryEntry]:
        """The logs of segments that stay, by base offset."""
        files = ((names.parse_segment_file(name), entry) for name, entry in self.live.items())
        return {file.offset: entry for file, entry in files if file is not None and file.kind == "log"}

    def removed(self, *reasons: RemovalReason) -> Iterator[Removal]:
        """Return those files that are removed for one of these reasons."""
        return (each for each in self.remove if each.reason in reasons)


EndOfLog = Callable[[DirectoryEntry, int, DirectoryEntry | None], int]
"""Returns the offset after the last batch of a log: of its file, its base offset, and its offset index's file."""


def end_of_log(log: DirectoryEntry, base_offset: int, index: DirectoryEntry | None) -> int:
    """Return where a log ends to a broker; see :func:`brokerless.log.completion.offsets.end_of_log`."""
    from brokerless.log.completion import offsets  # it imports NumPy

    return offsets.end_of_log(log, base_offset, index)


def complete(entries: Sequence[DirectoryEntry], end_of: EndOfLog = end_of_log) -> Completion:
    """Return what a start makes of a partition's files. KRaft's snapshots, and what is not named as a segment's file,
    are in no part of it, but for files of unknown kinds that a start renames or removes. Raises what ``end_of``
    does."""
    live: dict[str, tuple[DirectoryEntry, SegmentFile]] = {}
    others: list[tuple[DirectoryEntry, SegmentFile]] = []
    for entry in entries:
        file = None if entry.is_directory else names.parse_segment_file(entry.name)
        if file is None and not entry.is_directory:
            file = names.parse_unknown_file(entry.name)
        if file is None or file.kind == "kraft-snapshot" or (file.kind == "unknown" and file.state == "live"):
            continue
        if file.state == "live":
            live[entry.name] = entry, file
        else:
            others.append((entry, file))
    remove, swaps = _sorted_out(others)
    span = _replaced_span(swaps, end_of)
    rename: list[tuple[DirectoryEntry, str]] = []
    kept = {name: each for name, each in live.items() if span is None or not span[0] <= each[1].offset < span[1]}
    logs = {file.offset for _, file in (*kept.values(), *swaps) if file.kind == "log"}
    for entry, file in swaps:
        if file.kind in _INDEXES and file.offset not in logs:
            remove.append(Removal(entry, file, "index-orphaned"))
            continue
        name = entry.name.removesuffix(".swap")
        rename.append((entry, name))
        kept[name] = entry, file
    for name, (entry, file) in live.items():
        if kept.get(name, (None,))[0] is not entry:
            remove.append(Removal(entry, file, "replaced"))
        elif file.kind in _INDEXES and file.offset not in logs:
            remove.append(Removal(entry, file, "index-orphaned"))
            del kept[name]
    return Completion({name: entry for name, (entry, _) in kept.items()}, tuple(rename), tuple(remove), span)


def _sorted_out(
    files: Sequence[tuple[DirectoryEntry, SegmentFile]],
) -> tuple[list[Removal], list[tuple[DirectoryEntry, SegmentFile]]]:
    """Return the temporary files that go, and the ``.swap`` files that are finished.

    A compaction's output is renamed from the last segment to the first, so from the first ``.cleaned`` file on, no
    ``.swap`` file is (KAFKA-6264).
    """
    unfinished = min((file.offset for _, file in files if file.state == "cleaned"), default=MAX_INT64)
    remove: list[Removal] = []
    swaps: list[tuple[DirectoryEntry, SegmentFile]] = []
    for entry, file in files:
        if file.state == "deleted":
            remove.append(Removal(entry, file, "deleted"))
        elif file.state == "cleaned":
            remove.append(Removal(entry, file, "cleaned"))
        elif file.offset >= unfinished:
            remove.append(Removal(entry, file, "swap-unfinished"))
        else:
            swaps.append((entry, file))
    return remove, swaps


def _replaced_span(swaps: Sequence[tuple[DirectoryEntry, SegmentFile]], end_of: EndOfLog) -> Span | None:
    """The offsets whose segments go: from the first swapped log to the end of the last, whatever lies between."""
    indexes = {file.offset: entry for entry, file in swaps if file.kind == "offset-index"}
    spans = [
        (file.offset, end_of(entry, file.offset, indexes.get(file.offset)))
        for entry, file in swaps
        if file.kind == "log"
    ]
    return (min(first for first, _ in spans), max(end for _, end in spans)) if spans else None
