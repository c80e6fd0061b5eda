"""Searches files and decoded records for bytes that were erased."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import Finding
from brokerless.format.columns import RecordColumns
from brokerless.log.segment import Report
from brokerless.log.storage.paths import File

MOST = 64
"""Patterns that are searched for one by one; keys are compared with all others as well."""
LEAST = 4
"""Bytes of a pattern, below which it would be found by chance."""
_BLOCK = 8 << 20
_LISTED = 10


class PatternSearch:
    """Looks for some byte strings. ``counts``: places where one is, by severity. What is found in another record is a
    warning, as that record is not among the erased ones; anywhere else it is an error."""

    def __init__(self, patterns: Iterable[bytes]) -> None:
        """Patterns of less than :data:`LEAST` bytes, and those after the first :data:`MOST`, are left out: ``left_out``
        is how many."""
        every = list(dict.fromkeys(patterns))
        self.patterns = [each for each in every if len(each) >= LEAST][:MOST]
        self.left_out = len(every) - len(self.patterns)
        self.counts = Counter[str]()

    def look_in_file(self, file: File, report: Report) -> None:
        """Looks in all bytes of a file that holds no records, such as an index. Raises UnreadableError."""
        longest = max(map(len, self.patterns), default=1)
        for position in range(0, file.size, _BLOCK):
            block = file.read(position, min(_BLOCK + longest - 1, file.size - position)).tobytes()
            for number, pattern in enumerate(self.patterns):
                at = block.find(pattern)
                if at >= 0:
                    text = f"the bytes of erased value {number} are here"
                    self._report("error", file.path, text, report, position + at)

    def look_in_records(self, columns: RecordColumns, path: str, report: Report) -> None:
        """Looks in keys, values and headers, decompressed."""
        rows = columns.rows
        headers = int(columns.header_ends[rows])
        places: tuple[tuple[Literal["key", "value", "header"], bytes], ...] = (
            ("key", columns.key_data[columns.key_ends[0] : columns.key_ends[rows]].tobytes()),
            ("value", columns.value_data[columns.value_ends[0] : columns.value_ends[rows]].tobytes()),
            ("header", columns.header_value_data[: columns.header_value_ends[headers]].tobytes()),
        )
        for what, data in places:
            for number, pattern in enumerate(self.patterns):
                if data.find(pattern) >= 0:
                    ends = {"key": columns.key_ends, "value": columns.value_ends}.get(what)
                    offset = None if ends is None else _offset_at(columns, ends, data.find(pattern))
                    which = "another record" if offset is None else f"another record, offset {offset}"
                    text = f"the bytes of erased value {number} are in the {what} of {which}"
                    self._report("warning", path, text, report, None, offset)

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
            report(Finding(severity, "bytes-found", path, position, offset, text))


def _offset_at(columns: RecordColumns, ends: NDArray[np.int32], at: int) -> int:
    """Of the record that has a byte, counted from the first record's first byte."""
    row = int(np.searchsorted(ends[: columns.rows + 1] - ends[0], at, side="right")) - 1
    return int(columns.offset[row])
