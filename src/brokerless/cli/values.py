"""Values of options as people type them: numbers, sizes, partition states, ranges. All but :func:`parse_offsets` are
argparse's types."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from datetime import tzinfo
from typing import NoReturn

from brokerless.bounds import MAX_INT32, MAX_INT64
from brokerless.clock import time_zone
from brokerless.errors import UsageError
from brokerless.log.names import INCLUDE, parse_partition_directory
from brokerless.text import parse_bytes

_OFFSETS = re.compile(r"(\d{1,19})?(:(\d{1,19})?)?")
_INTEGER = re.compile(r"[+-]?[0-9]{1,4000}")


def integer(text: str) -> int:
    """Return a whole number, which may be negative."""
    if _INTEGER.fullmatch(text) is None:
        raise ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def zone(text: str) -> tzinfo:
    """Return a time zone: ``Europe/Berlin``, ``+02:00``, ``local``."""
    try:
        return time_zone(text)
    except UsageError as error:
        raise ArgumentTypeError(str(error)) from None


def count(text: str) -> int:
    """Return a whole number from 0 on; more than 2^63 - 1 counts as that."""
    if integer(text) < 0:
        raise ArgumentTypeError(f"{text} is negative; use 0 or more")
    return min(integer(text), MAX_INT64)


def positive(text: str) -> int:
    """Return a whole number from 1 on."""
    if integer(text) < 1:
        raise ArgumentTypeError(f"{text} is not positive; use 1 or more")
    return min(integer(text), MAX_INT32)


def size(text: str) -> int:
    """Return a number of bytes above 0: ``1000``, ``500MB``, ``1GiB``."""
    return size_or_0(text) or _refuse_size(text)


def size_or_0(text: str) -> int:
    """Parse a size of a setting of which Kafka takes 0 as well."""
    number = _bytes(text)
    if number > MAX_INT32:
        raise ArgumentTypeError(f"{text!r} is more than Kafka's limit of {MAX_INT32} bytes; use less")
    return number


def amount(text: str) -> int:
    """Return a number of bytes above 0, of any size: ``20GB``."""
    return min(_bytes(text), MAX_INT64) or _refuse_size(text)


def amount_or_all(text: str) -> int | str:
    """Parse a number of bytes, or ``all``."""
    return "all" if text == "all" else amount(text)


def _bytes(text: str) -> int:
    number = parse_bytes(text)
    if number is None:
        _refuse_size(text)
    return number


def _refuse_size(text: str) -> NoReturn:
    raise ArgumentTypeError(f"{text!r} is not a number of bytes; use one such as 1000000, 500MB or 1GiB")


def pair(text: str) -> tuple[str, str]:
    """Return a name and a value: ``uri=https://catalog.example``."""
    name, is_there, value = text.partition("=")
    if not is_there or not name:
        raise ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return name, value


def log_start(text: str) -> tuple[tuple[str, int], int]:
    """Return a partition and the first offset that consumers get of it, such as ``orders-0=212``."""
    name, equals, offset = text.rpartition("=")
    found = parse_partition_directory(name)
    if not equals or not offset.isascii() or not offset.isdecimal() or found is None or found.state != "live":
        raise ArgumentTypeError(f"{text!r} is no partition and offset, such as orders-0=212")
    return (found.topic, found.partition), int(offset)


def key_pair(text: str) -> tuple[str, str]:
    """Return the name of a key pair and a file: ``key1=key1.pem``."""
    if "-----" in text:  # which is in no message
        raise ArgumentTypeError("this is a private key itself; write ID=FILE with the file that has it")
    name, is_there, file = text.partition("=")
    if not is_there or not name or not file:
        raise ArgumentTypeError(f"{text!r} is not ID=FILE")
    return name, file


def price(text: str) -> float:
    """Return what 10^9 bytes cost in a month: ``0.023``."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number < 1e12:
        raise ArgumentTypeError(f"{text!r} is not a price; use one such as 0.08")
    return number


def sample(text: str) -> float:
    """Bytes, or a share of what there is: ``10%``."""
    if not text.endswith("%"):
        return float(size(text))
    try:
        share = float(text[:-1]) / 100
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise ArgumentTypeError(f"{text!r} is not a share; use one such as 0.5% or 10%")
    return min(share, 1 - 1e-9)


def record_count(text: str) -> int:
    """Return a number of records of a batch."""
    if not 0 < count(text) <= 1 << 20:
        raise ArgumentTypeError(f"{text} is not 1 to {1 << 20} records")
    return int(text)


def states(text: str) -> tuple[str, ...]:
    """Return what else to include, separated by commas."""
    names = tuple(text.split(","))
    unknown = [name for name in names if name not in INCLUDE]
    if unknown:
        raise ArgumentTypeError(f"there is no {unknown[0]!r}; there are {', '.join(INCLUDE)}")
    return names


def causes(text: str) -> tuple[str, ...]:
    """Causes of differences, separated by commas."""
    from brokerless.jobs.diff.causes import allowed_causes

    named = tuple(each.strip() for each in text.split(",") if each.strip())
    try:
        allowed_causes(named)
    except UsageError as error:
        raise ArgumentTypeError(str(error)) from None
    return named


def parts(text: str) -> tuple[str, ...]:
    """Parts of a comparison, separated by commas."""
    from brokerless.jobs.diff.beside.parts import requested

    named = tuple(each.strip() for each in text.split(",") if each.strip())
    try:
        requested(named)
    except UsageError as error:
        raise ArgumentTypeError(str(error)) from None
    return named


def parse_offsets(text: str) -> tuple[int | None, int | None]:
    """``42`` -> from 42 on; ``42:50`` -> 42 to 49; ``:50`` -> before 50. Raises :class:`UsageError`."""
    match = _OFFSETS.fullmatch(text)
    if match is None or not text or text == ":":
        raise UsageError(
            f"{text!r} is not an offset; use the first one (42), a range (42:50, without 50), or an end (:50)"
        )
    start, end = (None if each is None else int(each) for each in (match[1], match[3]))
    if max(start or 0, end or 0) > MAX_INT64:
        raise UsageError(f"{text!r}: an offset is at most 2^63 - 1")
    if start is not None and end is not None and start > end:
        raise UsageError(f"{text!r}: the range ends before it starts; write the smaller offset first")
    return start, end
