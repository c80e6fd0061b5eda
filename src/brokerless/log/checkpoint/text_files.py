"""Parses and formats Kafka's checkpoint text files (``CheckpointFile``): valid as a whole, or not at all.

The ``load_*`` functions of this package return a value whose fields are empty or None where the file is not what Kafka
would read, with the reason in its ``findings``. None of them raises.

Sources: ``CheckpointFile`` (3.9.1, 4.1.1).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.log.storage.location import Location

FileFindings = tuple[Finding, ...]

TEXT_LIMIT = 16 << 20
"""Bytes of a text file that is read: a line for each of some 300,000 partitions fits."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_UUID = re.compile(r"[A-Za-z0-9_-]{22}(==)?")
ParsedT = TypeVar("ParsedT")


class MalformedFileError(Exception):
    """What is wrong with a file; ``args`` are a finding's message, expected and found."""


def parse_or_report(
    parse: Callable[[], ParsedT], path: str, nothing: ParsedT, kind: Kind
) -> tuple[ParsedT, FileFindings]:
    try:
        return parse(), ()
    except UnreadableError as error:
        return nothing, (error.finding(path),)
    except MalformedFileError as error:
        text, expected, found = error.args
        return nothing, (kind.at(path, text, severity="error", expected=expected, found=found).in_scope("log"),)


def read_lines(
    location: Location, parse: Callable[[list[str]], ParsedT], nothing: ParsedT, kind: Kind, encoding: str = "utf-8"
) -> tuple[ParsedT, FileFindings]:
    """Return what ``parse`` makes of a file's lines, which end as in Java's ``BufferedReader``."""

    def lines() -> ParsedT:
        data = location.read(TEXT_LIMIT)
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError as error:
            raise MalformedFileError("the file is not text", "UTF-8", f"{error.reason} at {error.start}") from error
        found = re.split(r"\r\n|\r|\n", text)
        return parse(found if found[-1] else found[:-1])

    return parse_or_report(lines, location.path, nothing, kind)


def parse_integer(text: str, line: str, bits: int = 32) -> int:
    value = int(text) if _INTEGER.fullmatch(text) else None
    if value is None or not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise MalformedFileError("a malformed line", f"an int{bits} for {shorten(text)}", shorten(line))
    return value


def parse_uuid(text: str, line: str) -> str:
    if not _UUID.fullmatch(text):
        raise MalformedFileError("a malformed line", "16 bytes in base64 for a URL", shorten(line))
    return text[:22]


def parse_entries(lines: list[str], width: int) -> list[list[str]]:
    """Return the entries of a checkpoint, each of ``width`` words; a file that ends before its count has none."""
    if lines and (version := parse_integer(lines[0], lines[0])) != 0:
        raise MalformedFileError("a checkpoint of an unknown version", "version 0", str(version))
    if len(lines) < 2:
        return []
    count = parse_integer(lines[1], lines[1])
    entries = [re.split(r"[ \t\x0b\f]+", line.rstrip(" \t\x0b\f")) for line in lines[2:]]
    for line, words in zip(lines[2:], entries, strict=True):
        if len(words) != width:
            raise MalformedFileError("a malformed line", f"{width} words", shorten(line))
    if len(entries) != count:
        raise MalformedFileError("the checkpoint is incomplete", f"{count} entries", str(len(entries)))
    return entries


def shorten(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:80] + "...")


def format_checkpoint(entries: Iterable[str]) -> bytes:
    lines = list(entries)
    return "".join(f"{line}\n" for line in ("0", str(len(lines)), *lines)).encode()
