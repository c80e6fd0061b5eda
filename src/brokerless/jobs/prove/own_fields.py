"""Finds the field of a file beside logs that some bytes are in: a number, the name of a topic, an ID. Bytes of a field
that is read by its file's format may be those of an erased value by chance; bytes that are in none are not."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from brokerless.explanation.builder import UNREAD, FieldBudget
from brokerless.explanation.checkpoints import FILES, explain_text_file
from brokerless.explanation.field import Field, leaves, problems
from brokerless.explanation.indexes import LAYOUTS, explain_index
from brokerless.explanation.records import RecordRange
from brokerless.explanation.snapshots import explain_producer_snapshot
from brokerless.log import names
from brokerless.log.index.readers import parse_offset_index, parse_time_index, parse_transaction_index
from brokerless.log.names import SegmentFileKind
from brokerless.log.storage.files import File
from brokerless.text import short_list

_LARGEST = 256 << 20
"""Bytes of a file that is read as a whole."""
_OF_NO_FIELD = ("comment", UNREAD)
_PARSERS = {
    "offset-index": parse_offset_index,
    "time-index": parse_time_index,
    "transaction-index": parse_transaction_index,
}


class OwnFields:
    """The fields of one file, which is read as a whole when one is looked up."""

    def __init__(self, file: File, name: str) -> None:
        self._file, self._name = file, name
        known = names.parse_segment_file(name)
        self._kind: SegmentFileKind | None = None if known is None else known.kind
        self._base_offset = 0 if known is None else known.offset

    @property
    def is_text(self) -> bool:
        """Whether the format is text, and not numbers of a fixed size."""
        return self._name in FILES

    def at(self, position: int, length: int) -> str | None:
        """Return the fields that bytes are part of, such as ``entry[3].timestamp``; None where the file is not of its
        format, or not all of the bytes are in fields."""
        covered, found = position, list[str]()
        for path, each in self._near(position, length):
            if each.end <= position or each.position >= position + length:
                continue
            if each.position > covered or path.rpartition(".")[2] in _OF_NO_FIELD:
                return None
            covered = each.end
            found.append(path)
        if covered < position + length:
            return None
        return short_list(found)

    def _near(self, position: int, length: int) -> Sequence[tuple[str, Field]]:
        if self._kind not in LAYOUTS:
            return self._all
        if not self._is_index:
            return ()
        around = RecordRange(None, 2 + length // LAYOUTS[self._kind].itemsize)
        explained = explain_index(
            self._data, self._kind, self._base_offset, around, budget=FieldBudget(), start=position
        )
        return list(leaves(explained))

    @cached_property
    def _data(self) -> bytes:
        return self._file.read(0, self._file.size).tobytes() if self._file.size <= _LARGEST else b""

    @cached_property
    def _is_index(self) -> bool:
        parse = _PARSERS[str(self._kind)]
        return not parse(np.frombuffer(self._data, np.uint8), self._file.path, self._base_offset).findings

    @cached_property
    def _all(self) -> Sequence[tuple[str, Field]]:
        """The fields of a file that is no index; none where it is not of its format."""
        if self.is_text:
            fields = explain_text_file(self._data, self._name, RecordRange(), FieldBudget())
        elif self._kind == "producer-snapshot":
            fields = explain_producer_snapshot(self._data, RecordRange(), FieldBudget())
        else:
            return ()
        return () if any(problems(fields)) else list(leaves(fields))
