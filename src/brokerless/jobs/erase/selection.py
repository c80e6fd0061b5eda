"""Which records are erased: those with some keys, with a header, or for which an SQL condition holds."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import UsageError
from brokerless.jobs.erase.key_set import KeyFinder, KeySet, given_keys
from brokerless.log.partition import Match
from brokerless.tables.record_filter import as_bytes, condition_match, given_header, has_header

if TYPE_CHECKING:
    from brokerless.format.read.decoder import DecodedRecords

SCRYPT = {"n": 1 << 14, "r": 8, "p": 1, "maxmem": 64 << 20, "dklen": 32}
"""Parameters of :func:`hashlib.scrypt`: a guess takes about 50 ms and 16 MiB."""


@dataclass(frozen=True, slots=True)
class Selection:
    """A selection of records by exactly one of its fields. Raises :class:`UsageError` for none or several of them."""

    keys: KeySet | None = None
    """The keys of the selected records; a record without a key is never one of them."""
    where: str | None = None
    """A condition of DuckDB's SQL on the columns of the table of records, and on ``key_text``, ``value_text``,
    ``key_json`` and ``value_json``, which are null where they are not UTF-8 or not JSON."""
    header: tuple[str, bytes] | None = None
    """The name and value of a header that the selected records have. A header may come more than once in a record."""

    def __post_init__(self) -> None:
        if sum(each is not None for each in (self.keys, self.where, self.header)) != 1:
            raise UsageError("select the records by exactly one of: keys, a condition, a header")
        if self.keys is not None and not len(self.keys):
            raise UsageError("there are no keys, so nothing would be erased")

    @property
    def kind(self) -> Literal["keys", "where", "header"]:
        return "keys" if self.keys is not None else "where" if self.where is not None else "header"

    @property
    def needs_values(self) -> bool:
        return self.where is not None

    @property
    def needs_headers(self) -> bool:
        return self.keys is None

    @property
    def needs_keys(self) -> bool:
        return self.header is None

    def canonical(self) -> bytes:
        """Return the same bytes for the same selection, in whatever order the keys are: JSON in ASCII, without
        spaces."""
        value: Any = self.where
        if self.keys is not None:
            value = sorted(base64.b64encode(each).decode() for each in self.keys)
        elif self.header is not None:
            value = [self.header[0], base64.b64encode(self.header[1]).decode()]
        return json.dumps({"kind": self.kind, "value": value}, separators=(",", ":"), sort_keys=True).encode()

    def commitment(self, salt: bytes) -> str:
        """Return a hash that shows afterwards that this was the selection, but not what is in it (scrypt,
        hexadecimal)."""
        return hashlib.scrypt(self.canonical(), salt=salt, **SCRYPT).hex()


def selected_by(
    keys: Iterable[bytes | str] | None, where: str | None, header: tuple[str, bytes | str] | None
) -> Selection:
    """Return the selection of a request. Raises :class:`UsageError` for what is no key or header, and as
    :class:`Selection`."""
    own_keys = keys if keys is None or isinstance(keys, KeySet) else given_keys(keys)
    return Selection(own_keys, where, None if header is None else given_header(header))


class RecordMatcher(Protocol):
    """Finds records that are to be erased among decoded ones."""

    def match(self, decoded: DecodedRecords) -> NDArray[np.bool_]: ...


class OffsetMatcher:
    """Finds records by their offsets (int64), as those that were erased before."""

    def __init__(self, offsets: NDArray[np.int64]) -> None:
        self._offsets = offsets

    def match(self, decoded: DecodedRecords) -> NDArray[np.bool_]:
        """Return whether each row has one of the offsets: bool, shape ``(rows,)``. Control records never have."""
        found = np.isin(decoded.columns.offset[: decoded.columns.rows], self._offsets)
        return found & ~np.repeat(decoded.is_control, decoded.given)


class Matcher:
    """Finds the selected records among decoded ones; belongs to one thread."""

    def __init__(self, selection: Selection, topic: str, partition: int) -> None:
        """Raises :class:`UsageError` for a condition without DuckDB, or one that DuckDB does not take."""
        self._match: Match
        if selection.keys is not None:
            finder = KeyFinder(selection.keys)
            self._match = lambda decoded: finder.find(decoded.columns)
        elif selection.header is not None:
            name, value = as_bytes(selection.header[0]), selection.header[1]
            self._match = lambda decoded: has_header(decoded, name, value)
        else:
            self._match = condition_match(selection.where or "", topic, partition)

    def match(self, decoded: DecodedRecords) -> NDArray[np.bool_]:
        """Return whether each row is selected: bool, shape ``(rows,)``. Control records never are. Raises UsageError
        where the condition fails on a record."""
        return self._match(decoded) & ~np.repeat(decoded.is_control, decoded.given)
