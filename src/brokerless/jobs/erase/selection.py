"""Which records are erased: those with some keys, with a header, or for which an SQL condition holds."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from brokerless.errors import UsageError
from brokerless.jobs.erase.key_set import KeyFinder, KeySet
from brokerless.schemas import RECORDS
from brokerless.tables.record_batches import RowSource, records_batches

if TYPE_CHECKING:
    import duckdb

    from brokerless.format.read.decoder import DecodedRecords

SCRYPT = {"n": 1 << 14, "r": 8, "p": 1, "maxmem": 64 << 20, "dklen": 32}
"""Parameters of :func:`hashlib.scrypt`: a guess takes about 50 ms and 16 MiB."""
_COLUMNS = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers", "sequence")
_SCHEMA = pa.schema([RECORDS.field(name) for name in _COLUMNS])


@dataclass(frozen=True, slots=True)
class Selection:
    """Which records are selected, by exactly one of: ``keys`` (the record's key is one of them; a record without a key
    never is), ``where`` (a condition of DuckDB's SQL on the columns of the table of records, ``key_text``,
    ``value_text``, ``key_json`` and ``value_json``, which are null where they are not UTF-8 or not JSON), ``header``
    (the record has a header of this name and value, which may come more than once).

    Raises :class:`UsageError` for none or several of them."""

    keys: KeySet | None = None
    where: str | None = None
    header: tuple[str, bytes] | None = None

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
        """The same bytes for the same selection, in whatever order the keys are: JSON in ASCII, without spaces."""
        value: Any = self.where
        if self.keys is not None:
            value = sorted(base64.b64encode(each).decode() for each in self.keys)
        elif self.header is not None:
            value = [self.header[0], base64.b64encode(self.header[1]).decode()]
        return json.dumps({"kind": self.kind, "value": value}, separators=(",", ":"), sort_keys=True).encode()

    def commitment(self, salt: bytes) -> str:
        """A hash that shows afterwards that this was the selection, but not what is in it (scrypt, hexadecimal)."""
        return hashlib.scrypt(self.canonical(), salt=salt, **SCRYPT).hex()


def parse_header(text: str) -> tuple[str, bytes]:
    """``name=value`` of a command line. Raises :class:`UsageError`."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"{text!r} is not a header; write name=value")
    return name, value.encode()


class Matcher:
    """Finds the selected records among decoded ones; belongs to one thread."""

    def __init__(self, selection: Selection, topic: str, partition: int) -> None:
        """Raises :class:`UsageError` for a condition without DuckDB, or one that DuckDB does not take."""
        self._selection, self._source = selection, RowSource("", topic, partition)
        self._finder = None if selection.keys is None else KeyFinder(selection.keys)
        if selection.where is not None:
            self._match(pa.RecordBatch.from_pylist([], schema=_SCHEMA))

    def match(self, decoded: DecodedRecords) -> NDArray[np.bool_]:
        """Whether each row is selected: bool, shape ``(rows,)``. Control records never are. Raises UsageError where the
        condition fails on a record."""
        rows = decoded.columns.rows
        if self._selection.header is not None:
            found = self._with_header(decoded)
        elif self._finder is not None:
            found = self._finder.find(decoded.columns)
        else:
            parts = [self._match(each) for each in records_batches(decoded, self._source, _SCHEMA)]
            found = np.concatenate(parts) if parts else np.zeros(rows, np.bool_)
        return found & ~np.repeat(decoded.is_control, decoded.given)

    def _match(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        import duckdb

        try:
            self._connection.register("batch", pa.Table.from_batches([batch]))
            found = self._connection.execute(self._query).fetchnumpy()["selected"]
        except duckdb.Error as error:
            raise UsageError(f"--where: {str(error).strip()}") from error
        return np.asarray(found, np.bool_)

    @cached_property
    def _query(self) -> str:
        texts = ", ".join(
            f"CASE WHEN {name} IS NULL THEN NULL ELSE TRY(decode({name})) END AS {name}_text" for name in _BYTES
        )
        texts = f"SELECT *, {texts} FROM batch"
        records = f"SELECT *, TRY(key_text::JSON) AS key_json, TRY(value_text::JSON) AS value_json FROM ({texts})"
        return f"SELECT coalesce(({self._selection.where}), false)::BOOLEAN AS selected FROM ({records}) AS records"

    @cached_property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        try:
            import duckdb
        except ImportError as error:
            raise UsageError("--where needs DuckDB: pip install 'brokerless[erase]'") from error
        connection = duckdb.connect(":memory:")
        connection.execute("SET threads = 1")
        connection.execute("SET preserve_insertion_order = true")
        connection.execute("SET autoinstall_known_extensions = false")
        return connection

    def _with_header(self, decoded: DecodedRecords) -> NDArray[np.bool_]:
        columns = decoded.columns
        name, value = (self._selection.header or ("", b""))[0].encode(), (self._selection.header or ("", b""))[1]
        ends = columns.header_ends[: columns.rows + 1].astype(np.int64)
        count = int(ends[-1])
        same = _equal(columns.header_key_ends, columns.header_key_data, count, name)
        same &= _equal(columns.header_value_ends, columns.header_value_data, count, value)
        same &= columns.header_value_null[:count] == 0
        sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(same)])
        return sums[ends[1:]] > sums[ends[:-1]]


_BYTES: Sequence[str] = ("key", "value")


def _equal(ends: NDArray[np.int32], data: NDArray[np.uint8], count: int, value: bytes) -> NDArray[np.bool_]:
    """Whether each of ``count`` byte strings is ``value``."""
    same = np.diff(ends[: count + 1]) == len(value)
    rows = np.flatnonzero(same)
    if len(rows) and value:
        windows = ends[rows][:, None].astype(np.int64) + np.arange(len(value))
        same[rows] = (data[windows] == np.frombuffer(value, np.uint8)).all(axis=1)
    return same
