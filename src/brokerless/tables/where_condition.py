"""The condition of ``--where`` and ``where=``: an expression of SQL that DuckDB evaluates on records."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from brokerless.errors import UsageError, missing_libraries
from brokerless.schemas import RECORDS

if TYPE_CHECKING:
    import duckdb

COLUMNS = pa.schema(
    [
        RECORDS.field(name)
        for name in (
            "topic",
            "partition",
            "offset",
            "timestamp",
            "timestampType",
            "key",
            "value",
            "headers",
            "sequence",
        )
    ]
)
"""What a condition is on; besides, ``key_text``, ``value_text``, ``key_json`` and ``value_json``."""
_OFFSET = re.compile(r"(?<![\w\"])offset(?![\w\"])", re.IGNORECASE)
_NO_FIELDS = re.compile('Cannot extract field .* from expression "(key|value)"')
MACROS = (
    "CREATE MACRO text_of(bytes) AS CASE WHEN bytes IS NULL THEN NULL ELSE TRY(decode(bytes)) END",
    "CREATE MACRO json_of(bytes) AS TRY(text_of(bytes)::JSON)",
)
"""Functions of a condition, and of ``brokerless sql``: null for bytes that are not UTF-8, or not JSON."""
_NAMED = (
    "text_of(key) AS key_text, text_of(value) AS value_text, json_of(key) AS key_json, json_of(value) AS value_json"
)
_RECORDS = f"SELECT *, {_NAMED} FROM batch"


def without_progress(connection: duckdb.DuckDBPyConnection) -> None:
    """Turn DuckDB's progress bar off, which begins after two seconds and would be among the rows on stdout. In a
    notebook without ipywidgets, DuckDB refuses the setting, and shows none."""
    import duckdb

    with suppress(duckdb.InvalidInputException):
        connection.execute("SET enable_progress_bar = false")


class SqlCondition:
    """A condition such as ``value_json->>'country' = 'SE'``; belongs to one thread.

    Raises :class:`UsageError` without DuckDB, and for a condition that DuckDB does not take."""

    def __init__(self, condition: str) -> None:
        self._condition = condition
        if not condition.strip():
            raise UsageError("--where: there is no condition; write one, such as key_text = 'a'")
        none = pa.RecordBatch.from_pylist([], schema=COLUMNS)
        self._fetch(f"SELECT 1 AS selected FROM ({_RECORDS}) AS records WHERE ({condition}\n)", none)
        self.match(none)

    def match(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        """Return for which records of ``batch`` (schema :data:`COLUMNS`) the condition holds: bool, shape ``(rows,)``.
        Raises :class:`UsageError` where it fails on a record."""
        return np.asarray(self._fetch(self._query, batch), np.bool_)

    def _fetch(self, query: str, batch: pa.RecordBatch) -> NDArray[Any]:
        try:
            import duckdb
        except ImportError as error:
            raise missing_libraries("--where needs DuckDB", "sql") from error
        try:
            self._connection.register("batch", pa.Table.from_batches([batch]))
            return np.asarray(self._connection.execute(query).fetchnumpy()["selected"])
        except duckdb.Error as error:
            # What follows is our query around the condition.
            message = " ".join(str(error).partition("\n\nLINE ")[0].split())
            if "syntax error" in message and _OFFSET.search(self._condition):
                message += '; "offset" is a word of SQL, and needs double quotes'
            if _NO_FIELDS.search(message):
                message += "; the condition is on bytes: value_json reads JSON, and brokerless sql has typed fields"
            raise UsageError(f"--where: {message}") from error

    @property
    def _query(self) -> str:
        return f"SELECT coalesce(({self._condition}\n), false)::BOOLEAN AS selected FROM ({_RECORDS}) AS records"

    @cached_property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        import duckdb

        connection = duckdb.connect(":memory:")
        connection.execute("SET threads = 1")
        connection.execute("SET TimeZone = 'UTC'")
        without_progress(connection)
        connection.execute("SET preserve_insertion_order = true")
        connection.execute("SET autoinstall_known_extensions = false")
        for each in MACROS:
            connection.execute(each)
        return connection
