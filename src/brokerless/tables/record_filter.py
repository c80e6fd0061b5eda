"""Selects records by key, text, header, or an SQL condition, while they are decoded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import UnionType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from brokerless.arrow import Column
from brokerless.errors import UsageError
from brokerless.log.partition import Match
from brokerless.schemas import RECORDS
from brokerless.tables.record_batches import RowSource, records_batches

if TYPE_CHECKING:
    from brokerless.format.read.decoder import DecodedRecords


_SEARCHED_KEYS = 16
"""Keys, or texts of an expression, that are looked for in a batch's bytes before it is decoded; for more, decoding is
faster."""
_KEY = pa.schema([RECORDS.field("key")])

_REGEX_TOKEN = re.compile(
    r"""
      \\[^A-Za-z0-9]                                             # one character, literally
    | \\[dDwWsSbBAz]                                             # a class, or a place
    | \[\^?\]?(?:\[:\^?[a-z]+:\]|\\.|[^\]\\])*\]                 # a class
    | \(\?:|\(\?P?<\w+>|\((?!\?)|\)|\|                           # groups and alternatives
    | [*+?]\??|\{[0-9]+(?:,[0-9]*)?\}\??                         # repetitions
    | [^\\\[\]{}()|*+?]                                          # one character, or any, or a place
    """,
    re.VERBOSE | re.DOTALL,
)
"""What is known here of RE2's syntax (its ``doc/syntax.txt``); flags, for one, are not."""
_MOST_GROUPS = 100
"""Groups of an expression, which may lie within each other."""

_Required = tuple[str, ...]
"""Texts of which one is in all that matches; () where nothing is known."""
_ANYTHING: _Required = ()


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Selects records: those that meet all conditions that are given.

    Batches whose bytes show that no record can meet them are not decoded. Their checksums are verified, but invalid
    records in them are not reported.

    Parameters
    ----------
    keys
        The record's key is one of these (str as UTF-8).
    key_regex
        A regular expression of RE2, found anywhere in the key.
    grep
        A text (str as UTF-8) in the key, in the value, or in the name or value of a header.
    header
        A name and a value: the record has this header.
    where
        A condition of DuckDB's SQL on the columns of :data:`schemas.RECORDS`, and on ``key_text``, ``value_text``,
        ``key_json`` and ``value_json``, which are null for what is not UTF-8 or not JSON.

    Raises
    ------
    UsageError
        Without any condition, for an empty text, an invalid expression or condition, and for ``where`` if DuckDB is not
        installed.
    """

    keys: Sequence[bytes | str] | None = None
    key_regex: str | None = None
    grep: bytes | str | None = None
    header: tuple[str, bytes | str] | None = None
    where: str | None = None

    def __new__(cls, *_: object, **given: object) -> RecordFilter:
        """Refuse ``key``, and name the parameter that there is."""
        if "key" in given:
            raise UsageError(f"there is no parameter key; write keys=[{given['key']!r}]")
        return object.__new__(cls)

    def __post_init__(self) -> None:
        if all(each is None for each in (self.keys, self.key_regex, self.grep, self.header, self.where)):
            raise UsageError("a filter needs a key, a regular expression, a text, a header or a condition")
        self._check_types()
        if self.grep is not None and not self.grep:
            raise UsageError("an empty text is in every record; give at least one character")
        if self.key_regex is not None:
            matches_regex(pa.array([b""], pa.binary()), self.key_regex)
        if self.where is not None:
            condition_match(self.where, "", 0)

    def _check_types(self) -> None:
        """Python checks none of them, and each would be a TypeError from within."""
        _check_type("keys", self.keys, Sequence, "a list of keys, such as [b'user-17']")
        if isinstance(self.keys, bytes | str):
            raise UsageError(f"keys: {self.keys!r} is one key; write keys=[{self.keys!r}]")
        for each in self.keys or ():
            _check_type("keys", each, bytes | str, "bytes or text")
        _check_type("key_regex", self.key_regex, str, "text")
        _check_type("grep", self.grep, bytes | str, "bytes or text")
        _check_type("where", self.where, str, "a condition of SQL, as text")
        if self.header is not None:
            given_header(self.header)

    @classmethod
    def if_any(cls, **given: Any) -> RecordFilter | None:
        """Return a filter with these conditions; None if all of them are None."""
        return cls(**given) if any(each is not None for each in given.values()) else None

    @property
    def columns(self) -> frozenset[str]:
        """Which of ``key``, ``value`` and ``headers`` have to be decoded."""
        if self.where is not None or self.grep is not None:
            return frozenset({"key", "value", "headers"})
        keys = {"key"} if self.keys is not None or self.key_regex is not None else set[str]()
        return frozenset(keys | ({"headers"} if self.header is not None else set()))

    @property
    def any_of(self) -> tuple[bytes, ...]:
        """Byte strings, at least one of which is in every selected record; () if nothing is known of their bytes."""
        choices: list[tuple[bytes, ...]] = []
        if self.grep is not None:
            choices.append((as_bytes(self.grep),))
        if self.header is not None:
            choices.append((max(as_bytes(self.header[0]), as_bytes(self.header[1]), key=len),))
        if self.keys is not None and len(self.keys) <= _SEARCHED_KEYS:
            choices.append(tuple(as_bytes(each) for each in self.keys))
        if self.key_regex is not None and len(required := required_literals(self.key_regex)) <= _SEARCHED_KEYS:
            choices.append(required)
        # The longer the shortest of them, the fewer batches have it by chance.
        return max((each for each in choices if each and all(each)), key=lambda each: min(map(len, each)), default=())

    def matcher(self, topic: str | None, partition: int | None) -> Match:
        """Return a function that selects records of a partition, for one thread. It raises :class:`UsageError` where
        the condition fails on a record."""
        matches: list[Match] = []
        if self.keys is not None:
            keys = self.keys
            matches.append(lambda decoded: is_in(_keys(decoded), keys))
        if self.key_regex is not None:
            regex = self.key_regex
            matches.append(lambda decoded: matches_regex(_keys(decoded), regex))
        if self.grep is not None:
            text = np.frombuffer(as_bytes(self.grep), np.uint8)
            matches.append(lambda decoded: _contains(decoded, text))
        if self.header is not None:
            name, value = as_bytes(self.header[0]), as_bytes(self.header[1])
            matches.append(lambda decoded: has_header(decoded, name, value))
        if self.where is not None:
            matches.append(condition_match(self.where, topic, partition))

        def match(decoded: DecodedRecords) -> NDArray[np.bool_]:
            found = ~np.repeat(decoded.is_control, decoded.given)
            for each in matches:
                if found.any():
                    found &= each(decoded)
            return found

        return match


def _check_type(name: str, value: object, types: type | UnionType, what: str) -> None:
    if value is not None and not isinstance(value, types):
        raise UsageError(f"{name}: {value!r} is not {what}")


def as_bytes(text: bytes | str) -> bytes:
    """Return text as UTF-8; what a command line had as other bytes, unchanged."""
    return text.encode(errors="surrogateescape") if isinstance(text, str) else text


def parse_header(text: str) -> tuple[str, bytes]:
    """Parse ``name=value`` of a command line. Raises :class:`UsageError`."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"{text!r} is not a header; write name=value")
    return name, as_bytes(value)


def given_header(header: tuple[str, bytes | str]) -> tuple[str, bytes]:
    """Return a header as Python code gives it; text is UTF-8. Raises :class:`UsageError` for what is no pair."""
    if isinstance(header, tuple | list) and len(header) == 2:  # pyright: ignore[reportUnnecessaryIsInstance, reportUnnecessaryComparison]
        name, value = header
        if isinstance(name, str) and isinstance(value, bytes | str):  # pyright: ignore[reportUnnecessaryIsInstance]
            return name, value.encode() if isinstance(value, str) else value
    raise UsageError(f'header={header!r} is no pair; write header=("name", "value"), the value as bytes or text')


def condition_match(condition: str, topic: str | None, partition: int | None) -> Match:
    """Return what selects the records of a partition by a condition of SQL."""
    from brokerless.tables.where_condition import COLUMNS, SqlCondition

    compiled, source = SqlCondition(condition), RowSource("", topic, partition)

    def match(decoded: DecodedRecords) -> NDArray[np.bool_]:
        parts = [compiled.match(each) for each in records_batches(decoded, source, COLUMNS)]
        return np.concatenate(parts) if parts else np.zeros(decoded.columns.rows, np.bool_)

    return match


def has_header(decoded: DecodedRecords, name: bytes, value: bytes) -> NDArray[np.bool_]:
    """Return which records have a header of this name and value: bool, shape ``(rows,)``."""
    columns = decoded.columns
    count = int(columns.header_ends[columns.rows])
    same = _equal(columns.header_key_ends, columns.header_key_data, count, name)
    same &= _equal(columns.header_value_ends, columns.header_value_data, count, value)
    same &= columns.header_value_null[:count] == 0
    return _of_records(decoded, same)


def _contains(decoded: DecodedRecords, text: NDArray[np.uint8]) -> NDArray[np.bool_]:
    columns = decoded.columns
    rows, count = columns.rows, int(columns.header_ends[columns.rows])
    found, of_headers = np.zeros(rows, np.uint8), np.zeros(count, np.uint8)
    _mark(columns.key_ends, columns.key_data, text, found)
    _mark(columns.value_ends, columns.value_data, text, found)
    _mark(columns.header_key_ends, columns.header_key_data, text, of_headers)
    _mark(columns.header_value_ends, columns.header_value_data, text, of_headers)
    return (found != 0) | _of_records(decoded, of_headers != 0)


def _mark(ends: NDArray[np.int32], data: NDArray[np.uint8], text: NDArray[np.uint8], found: NDArray[np.uint8]) -> None:
    from brokerless.format.read.search_kernels import find_rarest, mark_containing

    borders = ends[: len(found) + 1].astype(np.int64)
    mark_containing(data, borders[:-1], borders[1:], text, find_rarest(data, text), found)


def _of_records(decoded: DecodedRecords, of_headers: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which records have any of the headers that are marked."""
    ends = decoded.columns.header_ends[: decoded.columns.rows + 1].astype(np.int64)
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(of_headers)])
    return sums[ends[1:]] > sums[ends[:-1]]


def _keys(decoded: DecodedRecords) -> pa.Array:
    """The column ``key``: binary, with nulls."""
    parts = [each.column(0) for each in records_batches(decoded, RowSource("", None, None), _KEY)]
    return pa.concat_arrays(parts) if parts else pa.array([], pa.binary())


def is_in(keys: Column, wanted: Sequence[bytes | str]) -> NDArray[np.bool_]:
    """Return which keys (binary) are among those that are wanted; no null is."""
    own = pc.SetLookupOptions(pa.array([as_bytes(each) for each in wanted], pa.binary()), skip_nulls=True)
    return _flags(pc.call_function("is_in", [keys], own))


def matches_regex(keys: Column, regex: str) -> NDArray[np.bool_]:
    """Return in which keys (binary) a regular expression of RE2 is found; raises :class:`UsageError` for one that is
    none."""
    try:
        options = pc.MatchSubstringOptions(regex)
        found = pc.call_function("match_substring_regex", [keys], options)
    except pa.ArrowInvalid as error:
        raise UsageError(f"{regex!r} is not a regular expression of RE2: {error}") from error
    return _flags(pc.fill_null(found, False))


def required_literals(regex: str) -> tuple[bytes, ...]:
    """Return byte strings (ASCII) of which each match of a valid expression has at least one; () where it may have
    none of any."""
    tokens = _REGEX_TOKEN.findall(regex)
    if "".join(tokens) != regex or regex.count("(") > _MOST_GROUPS:
        return ()
    return tuple(each.encode("ascii") for each in _required_of(iter(tokens)))


def _required_of(tokens: Iterator[str]) -> _Required:
    """Return what the alternatives up to the end of a group require together."""
    alternatives: list[list[str | _Required]] = [[]]
    for token in tokens:
        items = alternatives[-1]
        if token == ")":
            break
        if token == "|":
            alternatives.append([])
        elif token[0] == "(":
            items.append(_required_of(tokens))
        elif token[0] == "+":
            items.append(_ANYTHING)
        elif token[0] in "*?{":
            items[-1:] = [_ANYTHING]
        elif token[0] in "[.^$" or (len(token) == 2 and token[1].isalpha()) or not token.isascii():
            items.append(_ANYTHING)
        else:
            items.append(token[-1])
    required = [_longest(each) for each in alternatives]
    return sum(required, ()) if all(required) else _ANYTHING


def _longest(items: list[str | _Required]) -> _Required:
    """Return the longest text, or the texts of a group, of which one is in each match of a sequence."""
    found: list[_Required] = [each for each in items if isinstance(each, tuple) and each]
    for is_text, run in groupby(items, lambda each: isinstance(each, str)):
        if is_text:
            found.append(("".join(each for each in run if isinstance(each, str)),))
    return max(found, key=lambda each: min(map(len, each)), default=_ANYTHING)


def _flags(found: pa.Array) -> NDArray[np.bool_]:
    return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)


def _equal(ends: NDArray[np.int32], data: NDArray[np.uint8], count: int, value: bytes) -> NDArray[np.bool_]:
    """Return whether each of ``count`` byte strings is ``value``."""
    same = np.diff(ends[: count + 1]) == len(value)
    rows = np.flatnonzero(same)
    if len(rows) and value:
        windows = ends[rows][:, None].astype(np.int64) + np.arange(len(value))
        same[rows] = (data[windows] == np.frombuffer(value, np.uint8)).all(axis=1)
    return same
