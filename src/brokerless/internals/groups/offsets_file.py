"""A file of committed offsets, as ``serve --offsets`` keeps it: JSON Lines with the columns of ``internals --table
offsets``."""

from __future__ import annotations

from typing import Any

from brokerless.errors import UnreadableError, UsageError
from brokerless.log.storage.location import Location
from brokerless.strict_json import WrongJsonError, as_integer, as_text, member, parse_object

_LARGEST_FILE = 1 << 30

Row = dict[str, Any]


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
            found.append(_checked(parse_object(line)))
        except WrongJsonError as error:
            raise UsageError(f"{path}, line {number}: this is no committed offset: {error}") from error
    return found


def _checked(row: Row) -> Row:
    return {
        "group": as_text(member(row, "group"), "group"),
        "topic": as_text(member(row, "topic"), "topic"),
        "partition": as_integer(member(row, "partition"), "partition"),
        "offset": as_integer(member(row, "offset"), "offset"),
        "leaderEpoch": as_integer(row.get("leaderEpoch", -1), "leaderEpoch", -1),
        "metadata": as_text(row.get("metadata", ""), "metadata"),
        "commitTimestamp": as_integer(row.get("commitTimestamp", -1), "commitTimestamp", -1),
    }
