"""Findings about the files of a partition that the next start of a broker renames or removes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from brokerless.findings import Finding, Kind, Severity
from brokerless.log import names
from brokerless.log.completion.files import Completion, Removal
from brokerless.log.storage.location import DirectoryEntry

_SHOWN = 4
_WHY = {
    "replaced": "a compaction's finished output has its place",
    "cleaned": "a compaction did not finish it",
    "swap-unfinished": "a compaction did not finish all of its output",
}


def check_completion(
    completion: Completion,
    orphaned_files: Iterable[DirectoryEntry],
    foreign: Iterable[DirectoryEntry] = (),
) -> Iterator[Finding]:
    """Findings by names about ``.swap`` files that become a segment's, about files that go, and about ``foreign``
    ones."""
    yield from _check_renamed(completion)
    removed = {each.entry.name: each for each in completion.remove}
    renamed = {entry.name for entry, _ in completion.rename}
    for entry in orphaned_files:
        if entry.name in renamed:
            continue
        file, removal = names.parse_segment_file(entry.name), removed.get(entry.name)
        offset = None if file is None else file.offset
        if removal is not None and removal.reason == "index-orphaned":
            text = "an index without its log; a broker deletes it at its next start"
            yield Kind.ORPHAN_INDEX.at(entry.path, text, offset=offset)
            continue
        yield _leftover(entry, removal, offset)
    for entry in foreign:
        if (removal := removed.get(entry.name)) is not None:
            yield _leftover(entry, removal, removal.file.offset)
            continue
        text = "a name that Kafka does not give; it was not read"
        if not entry.is_directory and (file := names.parse_unknown_file(entry.name)) is not None:
            does = "renames it" if file.state == "swap" else "leaves it there"
            text = f"a segment's file of a kind that Kafka 4.4 does not have; it was not read, and a broker {does}"
        yield foreign_file(entry, text)


def foreign_file(entry: DirectoryEntry, text: str) -> Finding:
    """Return the finding about a file or directory that is none of Kafka's here."""
    return Kind.FOREIGN_FILE.at(entry.path, text)


def _leftover(entry: DirectoryEntry, removal: Removal | None, offset: int | None) -> Finding:
    texts = {"deleted": "waits for its deletion", "replaced": _WHY["replaced"]}
    text = texts.get(removal.reason if removal is not None else "", "remains of work that a stop interrupted")
    return Kind.LEFTOVER_FILE.at(entry.path, f"{text}; a broker deletes it at its next start", offset=offset)


def _check_renamed(completion: Completion) -> Iterator[Finding]:
    """A finding for each segment that a start puts in its place, about its log if that is among the files."""
    renamed = [(entry, names.parse_segment_file(entry.name)) for entry, _ in completion.rename]
    logs = {file.offset for _, file in renamed if file is not None and file.kind == "log"}
    for entry, file in renamed:
        if file is None or (file.kind != "log" and file.offset in logs):
            continue
        text = "a compaction's finished output; a broker puts it in its place at its next start, and it was read so"
        if completion.as_it_lies:
            text = "a compaction's finished output, which was not read; a broker puts it in its place at its next start"
        severity: Severity = "warning" if completion.as_it_lies else "info"
        yield Kind.SWAP_FILE.at(entry.path, text, severity=severity, offset=file.offset)


def check_removed(completion: Completion) -> Iterator[Finding]:
    """Yield a finding about each log that a start deletes although no file that stays has some of its offsets."""
    for removal, spans in completion.lost:
        offsets = ", ".join(f"{first} to {end - 1}" for first, end in spans[:_SHOWN])
        offsets += f" and {len(spans) - _SHOWN} more spans" if len(spans) > _SHOWN else ""
        text = (
            f"offsets {offsets} are in no file that stays, and were not read: the next start of a broker deletes this "
            f"file, as {_WHY[removal.reason]}"
        )
        yield Kind.SEGMENT_REPLACED.at(removal.entry.path, text, offset=spans[0][0])
