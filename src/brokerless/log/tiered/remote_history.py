"""Judges remote segments by a table: by what the metadata of brokers says of one, by its objects, and by what else has
its offsets. Readers, ``verify`` and ``audit`` go by it.

Sources: ``RemoteLogMetadataCache``, ``RemoteLogManager`` (4.4.0), and what brokers left that were killed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from brokerless.findings import Kind, Severity


class Standing(Enum):
    """A segment's standing by the metadata of brokers."""

    REFERENCED = "its copy was finished, and brokers read it"
    REPLACED = "its copy was finished, and a later one has taken its place"
    STARTED = "its copy began"
    DELETING = "its deletion began"
    DELETED = "it is deleted"
    UNKNOWN = "the metadata does not have it, or is not here"


class InBucket(Enum):
    """A segment's objects in the bucket."""

    WHOLE = "all objects that a reader needs, in the sizes that the manifest says"
    CUT = "its log has another size than its manifest says"
    UNREADABLE = "objects without a manifest or a log, or none"


class Elsewhere(Enum):
    """Another place that has the offsets of a segment."""

    COPY = "other whole segments that are read"
    LOCAL = "the local log"
    NOWHERE = "nothing"


@dataclass(frozen=True, slots=True)
class SegmentVerdict:
    """The finding about a segment: its kind, None where there is nothing to say, and its severity."""

    kind: Kind | None
    severity: Severity = "info"


Verdicts = tuple[SegmentVerdict, SegmentVerdict, SegmentVerdict]
"""By :class:`Elsewhere`: in a copy, in the local log, nowhere."""


def _missing(kind: Kind) -> Verdicts:
    elsewhere = SegmentVerdict(kind, "warning")
    return elsewhere, elsewhere, SegmentVerdict(kind, "error")


def _left_out(kind: Kind) -> Verdicts:
    elsewhere = SegmentVerdict(kind)
    return elsewhere, elsewhere, SegmentVerdict(Kind.REMOTE_SEGMENT_NEEDED, "warning")


_NOTHING = SegmentVerdict(None)
_REPLACED = _left_out(Kind.REMOTE_SEGMENT_REPEATED)
_UNFINISHED = _left_out(Kind.REMOTE_SEGMENT_UNFINISHED)
_DELETED = _left_out(Kind.REMOTE_SEGMENT_DELETED)

TABLE: Mapping[tuple[Standing, InBucket], Verdicts] = {
    (Standing.REFERENCED, InBucket.WHOLE): (_NOTHING, _NOTHING, _NOTHING),
    (Standing.REFERENCED, InBucket.CUT): _missing(Kind.REMOTE_OBJECT_SIZE),
    (Standing.REFERENCED, InBucket.UNREADABLE): _missing(Kind.REMOTE_SEGMENT_LOST),
    **{(Standing.REPLACED, found): _REPLACED for found in InBucket},
    **{(Standing.STARTED, found): _UNFINISHED for found in InBucket},
    **{(standing, found): _DELETED for standing in (Standing.DELETING, Standing.DELETED) for found in InBucket},
    (Standing.UNKNOWN, InBucket.WHOLE): (_REPLACED[0], _NOTHING, _REPLACED[2]),
    **{(Standing.UNKNOWN, found): _UNFINISHED for found in (InBucket.CUT, InBucket.UNREADABLE)},
}


def verdict_of(standing: Standing, found: InBucket, elsewhere: Elsewhere) -> SegmentVerdict:
    """Return the finding about a segment in such a state."""
    return TABLE[standing, found][list(Elsewhere).index(elsewhere)]


_STANDINGS = {
    "COPY_SEGMENT_STARTED": Standing.STARTED,
    "COPY_SEGMENT_FINISHED": Standing.REPLACED,
    "DELETE_SEGMENT_STARTED": Standing.DELETING,
    "DELETE_SEGMENT_FINISHED": Standing.DELETED,
}


def standing_of(state: str | None, *, is_referenced: bool = False) -> Standing:
    """Return what a segment's last state says of it, None for one that the metadata does not have. ``is_referenced``:
    whether brokers read it."""
    if state is None:
        return Standing.UNKNOWN
    return Standing.REFERENCED if is_referenced else _STANDINGS[state]


def is_read_alone(standing: Standing) -> bool:
    """Return whether a whole segment of such a standing is read where nothing else has its offsets: it is a copy of
    what a broker had then, and was not deleted."""
    return standing not in (Standing.DELETING, Standing.DELETED)


LEFT_OUT = {
    Kind.REMOTE_SEGMENT_UNFINISHED: Standing.STARTED,
    Kind.REMOTE_SEGMENT_REPEATED: Standing.REPLACED,
    Kind.REMOTE_SEGMENT_DELETED: Standing.DELETED,
}
"""What listing says of segments that are not read, and why."""


def is_deleted_first(standing: Standing, start_offset: int, read: Sequence[tuple[int, int]]) -> bool:
    """Return whether a deleted segment was the first one of its log: brokers delete these by retention, and write their
    checkpoint of log start offsets later. ``read``: spans of offsets that are read."""
    is_gone = standing in (Standing.DELETING, Standing.DELETED)
    return is_gone and not any(first < start_offset for first, _ in read)
