"""Leader epochs of a log, and whether a remote segment is of the same history.

After an unclean election, a log goes on from an earlier offset, and what was copied of the rest is dangling.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from brokerless.errors import UnreadableError
from brokerless.log.storage.location import Location

if TYPE_CHECKING:  # it imports NumPy, which `--help` does without
    from brokerless.log.checkpoint.leader_epochs import Epochs

_LIMIT = 16 << 20


def parse_lineage(data: bytes) -> Epochs:
    """Return what a ``leader-epoch-checkpoint`` says; nothing if it is none."""
    try:
        lines = data.decode("ascii").splitlines()[2:]
        rows = (line.split() for line in lines if line.strip())
        return tuple((int(epoch), int(offset)) for epoch, offset in rows)
    except ValueError:
        return ()


def read_lineage(location: Location) -> Epochs:
    """Read the lineage in a file; nothing if it cannot be read."""
    try:
        return parse_lineage(location.read(_LIMIT))
    except UnreadableError:
        return ()


def is_within_lineage(segment: Epochs, end_offset: int, lineage: Epochs) -> bool:
    """Return whether a segment is of the history that ``lineage`` has, by its leader epochs and last offset (the
    condition of ``RemoteLogManager.isRemoteSegmentWithinLeaderEpochs``, 4.4.0, but for the end of the local log).
    Epochs in which nothing was written, as another one begins at the same offset, do not matter
    (``buildFilteredLeaderEpochMap``)."""
    own, of_log = _with_records(segment), _with_records(lineage)
    if not own or not of_log:
        return True
    epochs, known = sorted(own), sorted(of_log)
    first = next((each for each in epochs if each >= known[0]), None)
    if not known[0] <= epochs[-1] <= known[-1] or first is None:
        return False
    counted = [each for each in epochs if each >= first]
    for epoch, following in zip(counted, [*counted[1:], None], strict=True):
        if epoch not in of_log:
            return False
        if epoch == first and epoch != known[0] and own[epoch] < of_log[epoch]:
            return False
        later = next((each for each in known if each > epoch), None)
        if following is None:
            if later is not None and end_offset >= of_log[later]:
                return False
        elif later != following or of_log[following] != own[following]:
            return False
    return True


def goes_on(newer: Epochs, newer_last: int | None, older: Epochs, older_end: int) -> bool:
    """Return whether a log with the lineage ``newer``, whose last offset is ``newer_last``, has all that one with the
    lineage ``older`` has, which ends at ``older_end``: a follower of the first would cut off nothing of the second.
    Nothing says otherwise where leader epochs are not known; without ``newer_last``, it is as far as the other."""
    from brokerless.log.checkpoint.leader_epochs import truncate_from_end, truncation_offset  # it imports NumPy

    known = truncate_from_end(tuple(older), older_end)
    if not newer or not known:
        return True
    newer_end = older_end if newer_last is None else newer_last + 1
    return truncation_offset(tuple(newer), newer_end, known, older_end) == older_end


def _with_records(epochs: Epochs) -> dict[int, int]:
    """The epochs but those at whose first offset the next one begins."""
    later = dict(pairwise(epochs))
    return {epoch: offset for epoch, offset in epochs if later.get((epoch, offset), (0, -1))[1] != offset}
