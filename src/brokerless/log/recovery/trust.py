"""Decides which segments a broker recovers at its start. All others are taken as their files say.

What a broker then gets wrong, if the indexes of those do not fit their logs, is in ``misleading_indexes``. Sources:
``LogLoader``, ``TransactionIndex.sanityCheck`` (4.4.0). Each was tried with a broker (``tests/states``).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

import numpy as np

from brokerless.errors import refused_log
from brokerless.findings import Finding
from brokerless.format import layouts
from brokerless.log.index.readers import has_unknown_version
from brokerless.log.settings.definitions import versions
from brokerless.log.settings.rules import has_rule
from brokerless.log.storage.location import Location
from brokerless.log.storage.segment_files import SegmentFiles
from brokerless.log.write.segment_state import describe_segment

Distrust = Literal["not-flushed", "index-missing", "transaction-index-corrupt", "not-closed", "index-mismatch"]
"""Why a segment is recovered: it is not before the recovery point; it has no offset index; its transaction index does
not fit it; it is the last one, and although the stop was clean, its end or its indexes are not as a closed one's; or an
index of it is known to be wrong, and is to be made again."""


@dataclass(frozen=True, slots=True)
class Flushed:
    """What is recorded of how a broker ended: the log's line in ``recovery-point-offset-checkpoint``, and whether there
    is the mark of a clean stop."""

    recovery_point: int
    was_clean: bool


@dataclass(frozen=True, slots=True)
class TrustedSegment:
    """A segment, and why a broker recovers it; None if it takes it as its files say."""

    base_offset: int
    reason: Distrust | None


def trusted(files: SegmentFiles, flushed: Flushed, *, as_kafka: str | None = None) -> tuple[TrustedSegment, ...]:
    """Return all segments in order, and which of them are recovered. ``as_kafka``: a version, which takes
    the last one unchecked after a clean stop; without one, it is recovered where it is not as such a stop leaves it.

    Kafka reads the end of a ``.log.swap`` through its offset index, and creates an empty one where there is none: such
    a segment is not recovered for want of it (``LogLoader.load``, 4.4.0). Raises :class:`UnreadableError` for a
    transaction index at which a broker ends.
    """
    segments = files.offsets("log")
    return tuple(
        TrustedSegment(base, _reason(files, flushed, base, following, as_kafka=as_kafka))
        for base, following in zip_longest(segments, segments[1:])
    )


def _reason(
    files: SegmentFiles, flushed: Flushed, base: int, following: int | None, *, as_kafka: str | None
) -> Distrust | None:
    # LogSegments.values begins with the segment that has the recovery point.
    is_unflushed = following is None or following > flushed.recovery_point
    is_recovered_anyway = is_unflushed and not flushed.was_clean
    is_swapped = files.path(base, "log").suffix == ".swap"
    is_index_created = is_swapped and (as_kafka is not None or is_recovered_anyway)
    if not files.has(base, "offset-index") and not is_index_created:
        return "index-missing"
    if _is_transaction_index_corrupt(files, base, as_kafka or versions()[-1]):
        return "transaction-index-corrupt"
    if is_recovered_anyway:
        return "not-flushed"
    if following is None and as_kafka is None and not _is_closed(files, base):
        return "not-closed"
    return None


def _is_transaction_index_corrupt(files: SegmentFiles, base_offset: int, version: str) -> bool:
    """Return whether a transaction ended before the segment begins (``TransactionIndex.sanityCheck``); nothing else is
    checked. Raises :class:`UnreadableError` for an entry of an unknown version, unless Kafka would not come to it."""
    if not files.has(base_offset, "transaction-index"):
        return False
    path, entry = str(files.path(base_offset, "transaction-index")), layouts.TRANSACTION_INDEX_ENTRY
    with Location(path).open() as file:
        data = file.read(0, file.size)
    entries = data[: len(data) - len(data) % entry.itemsize].view(entry)
    is_before, is_unknown = entries["last_offset"] < base_offset, has_unknown_version(entries)
    if not has_rule(version, "transaction-index-version"):
        return bool(is_before.any())
    if not (is_before | is_unknown).any():
        return False
    at = int(np.argmax(is_before | is_unknown))
    if not is_before[at] or is_unknown[at]:
        found = int(entries["version"][at])
        raise refused_log(path, f"entry {at} is of version {found}")
    return True


def _is_closed(files: SegmentFiles, base_offset: int) -> bool:
    """Return whether what is appended to a segment will be found after its present batches."""
    findings: list[Finding] = []
    state, _ = describe_segment(files, base_offset, findings.append)
    return not findings and state.size == files.path(base_offset, "log").stat().st_size
