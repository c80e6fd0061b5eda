"""Searches files and decoded records for bytes that were erased."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from brokerless.findings import Kind
from brokerless.format.arrays import Uint8s
from brokerless.format.columns import RecordColumns
from brokerless.format.write.column_slices import filter_rows
from brokerless.jobs.prove.own_fields import OwnFields
from brokerless.log.storage.files import File
from brokerless.log.storage.paths import directory_name
from brokerless.progress import Report

MOST = 64
"""Patterns of less than 8 bytes, which are searched for one by one, and those that are found by the same 8 bytes."""
LEAST = 4
"""Bytes of a pattern, below which it would be found by chance."""
MOST_FOUND = 1000
"""Places that are reported of some megabytes."""
MOST_BYTES = 1 << 30
"""Of all patterns together."""
_WINDOW = 8
_BLOCK = 8 << 20
_LISTED = 10


class ErasedAt(NamedTuple):
    """The place where bytes were before they were erased."""

    partition: str
    """The partition's name."""
    offset: int
    position: int
    """The position of the bytes in the record's value."""

    def __str__(self) -> str:
        return f"{self.partition}, offset {self.offset}, position {self.position} of its value"


class PatternSearch:
    """Looks for some byte strings."""

    def __init__(self, patterns: Iterable[bytes], places: Mapping[bytes, ErasedAt] | None = None) -> None:
        """Search for ``patterns``. ``places`` says where they were; those without a place are keys. Patterns of less
        than :data:`LEAST` bytes, those of less than 8 after the first :data:`MOST`, and those after the first GiB are
        left out: ``left_out`` is how many."""
        every = list(dict.fromkeys(patterns))
        self.short = [each for each in every if LEAST <= len(each) < _WINDOW][:MOST]
        self.long = [each for each in every if len(each) >= _WINDOW]
        total = np.cumsum(np.fromiter(map(len, self.long), np.int64, len(self.long)))
        self.long = self.long[: int(np.searchsorted(total, MOST_BYTES, side="right"))]
        if self.long:
            left_out = self._finder.left_out
            self.long = [each for each, out in zip(self.long, left_out.tolist(), strict=True) if not out]
            del self._finder
        self.patterns = [*self.short, *self.long]
        self.left_out = len(every) - len(self.patterns)
        self.places = {each: at for each in self.patterns if places is not None and (at := places.get(each))}
        self.counts = Counter[str]()
        """How many places have one of them, by severity. What is found in a record that was not selected is a warning;
        anywhere else it is an error."""

    def look_in_file(self, file: File, report: Report) -> None:
        """Looks in all bytes of a file that holds no records, such as an index. What is a number, or a name, of the
        file's format is there by chance, unless it is text among numbers. Raises UnreadableError."""
        longest = max(map(len, self.patterns), default=1)
        own = OwnFields(file, directory_name(file.path))
        for position in range(0, file.size, _BLOCK):
            block = file.read(position, min(_BLOCK + longest - 1, file.size - position))
            for number, at in self._find(block, is_each=True):
                pattern = self.patterns[number]
                is_chance = own.is_text or len(pattern) < _WINDOW or not _is_telling(pattern)
                fields = own.at(position + at, len(pattern)) if is_chance else None
                text = f"the bytes of {self._name(number)} are here"
                text = text if fields is None else f"{text} by chance: they are {fields}, which Kafka writes"
                severity = "error" if fields is None else "warning"
                self._report(severity, file.path, text, report=report, position=position + at)

    def look_in_records(self, columns: RecordColumns, selected: NDArray[np.bool_], path: str, report: Report) -> None:
        """Looks in keys, values and headers, decompressed. ``selected`` (bool): the rows in which fields were blanked;
        what is in one of them still is an error, unless it is a number, or no text, that may be there by chance."""
        if selected.any():
            self._look_in_records(filter_rows(columns, selected), path, report, is_selected=True)
            columns = filter_rows(columns, ~selected)
        self._look_in_records(columns, path, report, is_selected=False)

    def _look_in_records(self, columns: RecordColumns, path: str, report: Report, *, is_selected: bool) -> None:
        rows = columns.rows
        headers = int(columns.header_ends[rows])
        places: tuple[tuple[Literal["key", "value", "header"], Uint8s], ...] = (
            ("key", columns.key_data[columns.key_ends[0] : columns.key_ends[rows]]),
            ("value", columns.value_data[columns.value_ends[0] : columns.value_ends[rows]]),
            ("header", columns.header_value_data[: columns.header_value_ends[headers]]),
        )
        for what, data in places:
            for number, at in self._find(data):
                ends = {"key": columns.key_ends, "value": columns.value_ends}.get(what)
                offset = None if ends is None else _offset_at(columns, ends, at)
                record = "a record of which fields were blanked" if is_selected else "another record"
                which = record if offset is None else f"{record}, offset {offset}"
                text = f"the bytes of {self._name(number)} are in the {what} of {which}"
                is_error = is_selected and _is_telling(self.patterns[number])
                self._report(
                    "error" if is_error else "warning", path, text, report=report, position=None, offset=offset
                )

    def _name(self, number: int) -> str:
        place = self.places.get(self.patterns[number])
        return "an erased key" if place is None else f"what was erased of {place},"

    def _find(self, data: Uint8s, *, is_each: bool = False) -> Iterator[tuple[int, int]]:
        """Numbers of patterns and where they begin: of each short one the first place, of long ones so many; or, if
        ``is_each``, all places, as what is found first may be there by chance."""
        if self.short:
            whole = data.tobytes()
            for number, pattern in enumerate(self.short):
                at = whole.find(pattern)
                while at >= 0:
                    yield number, at
                    at = whole.find(pattern, at + 1) if is_each else -1
        if self.long:
            most = None if is_each else MOST_FOUND
            for number, at in islice(self._finder.find(np.ascontiguousarray(data)), most):
                yield len(self.short) + number, at

    @cached_property
    def _finder(self) -> _PatternFinder:
        return _PatternFinder(self.long)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_finder"}

    def _report(
        self,
        severity: Literal["error", "warning"],
        path: str,
        text: str,
        report: Report,
        position: int | None,
        offset: int | None = None,
    ) -> None:
        self.counts[severity] += 1
        if self.counts[severity] <= _LISTED:
            report(Kind.BYTES_FOUND.at(path, text, severity=severity, position=position, offset=offset))


class _PatternFinder:
    """A table of patterns of 8 bytes or more."""

    def __init__(self, patterns: list[bytes]) -> None:
        from brokerless.jobs.prove.search_kernels import put_patterns

        self._data = np.frombuffer(b"".join(patterns), np.uint8)
        self._ends = np.zeros(len(patterns) + 1, np.int64)
        np.cumsum([len(each) for each in patterns], out=self._ends[1:])
        self._table = np.zeros(max(64, 1 << (2 * len(patterns)).bit_length()), np.int32)
        self._bits = np.zeros(max(256, 1 << (len(patterns) // 4).bit_length()), np.uint64)
        self._seed = np.uint64(int.from_bytes(hashlib.sha256(self._data.data).digest()[:8], "little"))
        self.left_out = np.zeros(len(patterns), np.uint8)
        """Which patterns are not in it (uint8)."""
        self._windows = np.zeros(len(patterns), np.int64)
        put_patterns(self._seed, MOST, self._data, self._ends, self._windows, self._table, self._bits, self.left_out)

    def find(self, data: Uint8s) -> Iterator[tuple[int, int]]:
        """Yield the patterns in some bytes, in the order of the eight bytes by which they are found. Where several
        begin there, one is returned."""
        from brokerless.jobs.prove.search_kernels import find_pattern

        patterns = self._data, self._ends, self._windows, self._table, self._bits
        found, at = np.zeros(2, np.int64), -1
        while (at := find_pattern(at + 1, self._seed, *patterns, data, found)) >= 0:
            yield int(found[0]), int(found[1])


def _offset_at(columns: RecordColumns, ends: NDArray[np.int32], at: int) -> int:
    """Return the offset of the record that has a byte, counted from the first record's first byte."""
    row = int(np.searchsorted(ends[: columns.rows + 1] - ends[0], at, side="right")) - 1
    return int(columns.offset[row])


def _is_telling(pattern: bytes) -> bool:
    """Return whether bytes are text that is hardly there by chance: with a letter, or of 8 characters; not true or
    false."""
    try:
        text = pattern.decode()
    except UnicodeDecodeError:
        return False
    is_word = any(each.isalpha() for each in text) and text not in ("true", "false")
    return text.isprintable() and (is_word or len(text) >= _WINDOW)
