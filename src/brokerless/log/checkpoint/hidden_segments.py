"""Finds the segments of a log directory that readers skip, as their commit is not finished."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.log import names
from brokerless.log.storage.location import Location

_NEXT = "whoever writes here next completes or undoes it"


@dataclass(frozen=True, slots=True)
class HiddenSegments:
    """The segments of a log directory that readers skip, as their commit is not finished."""

    segments: Mapping[str, int] = field(default_factory=dict[str, int])
    """By the name of a partition's directory, the base offset from which on its segments are not read; -1 for a new
    partition."""
    complete: Mapping[str, str] = field(default_factory=dict[str, str])
    """The partitions that only lack their names, see :attr:`Journal.complete`."""
    is_cut_short: bool = False
    """Whether no process works on the commit any more; False where that cannot be known."""
    is_of_restore: bool = False
    """Whether this is a commit of several directories, which other writers leave to the restore."""

    def finding(self, path: str, name: str) -> Finding:
        """Return what a reader reports of a partition's directory that is among them."""
        if self.is_cut_short:
            severity, text = "warning", "a commit to this log directory was cut short"
        else:
            severity, text = "info", "a commit to this log directory is going on, or was cut short"
        if name in self.complete:
            following = "the same restore, run again, completes or undoes it" if self.is_of_restore else _NEXT
            text = f"all of {self.complete[name]} is here, under another name: {text}; {following}"
            text += ", but a broker deletes this when it starts"
            return Kind.UNCOMMITTED.at(path, text, severity=severity)
        offset = None if self.segments[name] < 0 else self.segments[name]
        what = "this partition" if offset is None else f"what this partition has from offset {offset} on"
        text = f"{what} is not read: {text}; {_NEXT}, as {names.COMMIT_JOURNAL} says"
        return Kind.UNCOMMITTED.at(path, text, severity=severity, offset=offset)


NOTHING_HIDDEN = HiddenSegments()


def hidden_segments(directory: Location, *, is_listed: bool) -> HiddenSegments | None:
    """Return those of a log directory, none without a commit. ``is_listed``: whether the journal was in a listing made
    before the partitions were listed. None if there was a commit then and it has ended."""
    journal = directory / names.COMMIT_JOURNAL
    if not is_listed:
        try:
            if not journal.exists():
                return NOTHING_HIDDEN
        except UnreadableError:  # of a URL, it may be that only a part may be read
            return NOTHING_HIDDEN
    from brokerless.log.checkpoint.commit_journal import (
        is_committing,
        load_journal,
    )  # a listing without a commit starts sooner

    try:
        found = load_journal(journal)
    except UnreadableError:
        if journal.exists():
            raise
        return None
    is_cut_short = not directory.is_remote and not is_committing(directory) and journal.exists()
    return HiddenSegments(found.hidden, found.complete, is_cut_short, is_of_restore=bool(found.together))
