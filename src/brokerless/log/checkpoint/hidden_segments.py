"""Which segments of a log directory are not to be read yet, as a commit is not finished."""

from __future__ import annotations

from collections.abc import Mapping

from brokerless.errors import UnreadableError
from brokerless.log import names
from brokerless.log.storage.location import Location


def hidden_segments(directory: Location, *, is_listed: bool) -> Mapping[str, int] | None:
    """:attr:`Journal.hidden` of a log directory, empty without a commit. ``is_listed``: whether the journal was in a
    listing made before the partitions were listed. None if there was a commit then and it has ended."""
    journal = directory / names.COMMIT_JOURNAL
    if not is_listed:
        try:
            if not journal.exists():
                return {}
        except UnreadableError:  # of a URL, it may be that only a part may be read
            return {}
    from brokerless.log.checkpoint.commit_journal import load_journal  # a listing without a commit starts sooner

    try:
        return load_journal(journal).hidden
    except UnreadableError:
        if journal.exists():
            raise
        return None
