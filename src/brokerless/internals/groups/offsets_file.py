"""A file of committed offsets, as ``serve --offsets`` keeps it: JSON Lines with the columns of ``internals --table
offsets``."""

from __future__ import annotations

from brokerless.errors import UnreadableError, UsageError
from brokerless.log.storage.location import Location
from brokerless.values import (
    Int32,
    Int32OrNone,
    Int64,
    Int64OrNone,
    LenientValue,
    Row,
    WrongJsonError,
    from_json,
    members,
)

_LARGEST_FILE = 1 << 30


class _CommittedOffset(LenientValue, frozen=True):
    """A row, of which other columns are passed over."""

    group: str
    topic: str
    partition: Int32
    offset: Int64
    leader_epoch: Int32OrNone = -1
    metadata: str = ""
    commit_timestamp: Int64OrNone = -1


def read_offsets_file(path: str) -> list[Row]:
    """Read the rows of such a file. Raises :class:`UsageError` for another one, or none."""
    try:
        lines = Location(path).read(_LARGEST_FILE).split(b"\n")
    except UnreadableError as error:
        raise UsageError(str(error)) from error
    found: list[Row] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(members(from_json(line, _CommittedOffset)))
        except WrongJsonError as error:
            raise UsageError(f"{path}, line {number}: this is no committed offset: {error}") from error
    return found
