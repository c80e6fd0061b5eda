"""A DuckDB connection on the tables of a log, that reads nothing else and writes nothing but spilled data.

The tables are those of :data:`brokerless.dataset.tables.TABLES`, and one view for each topic by its name, with keys and
values typed where the registry's topic ``_schemas`` has the topic's subjects, or its records name schemas that are
known. A topic that has a table's name is only in the schema ``topic``, which has all of them. Times are in UTC. Three
macros: ``text_of(bytes)`` is null for what is not UTF-8, ``json_of(bytes)`` for what is not JSON, and
``micros_of(time)`` cuts nanoseconds to microseconds.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from brokerless import arrow
from brokerless.dataset.table_dataset import TableDataset
from brokerless.dataset.tables import TABLES, Tables, once
from brokerless.errors import BrokerlessError, UsageError, missing_libraries, raise_errors
from brokerless.findings import Finding, Kind
from brokerless.ordered_threads import processors
from brokerless.progress import Report
from brokerless.sql.topics import TopicTypes, topic_dataset, topics_of
from brokerless.tables.where_condition import MACROS, without_progress

if TYPE_CHECKING:
    from types import TracebackType

    import duckdb

ResultT = TypeVar("ResultT")
MEMORY_BYTES = 2 << 30
BATCH_ROWS = 1 << 16
TOPICS = "topic"
"""The schema with a view for each topic."""
_SOURCES = "brokerless"
_SETTINGS = (
    "SET TimeZone = 'UTC'",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET python_enable_replacements = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
"""What keeps SQL from this machine: no files, no network, no extensions, no variables of this program."""
_TRUNCATED = "system.main.date_trunc(part, ts)"
_MICROS_OF = (
    "CREATE MACRO micros_of(ts) AS make_timestamptz(epoch_ns(ts) // 1000 - CAST(epoch_ns(ts) % 1000 < 0 AS BIGINT))"
)
"""A time without what is finer than microseconds, which DuckDB's casts round."""
_QUICK_DATE_TRUNC = (
    "CREATE MACRO date_trunc(part, ts TIMESTAMPTZ) AS CASE WHEN isfinite(ts) AND lower(part) IN "
    "('second', 'minute', 'hour', 'day', 'week', 'month', 'quarter', 'year') THEN "
    f"make_timestamptz(epoch_us({_TRUNCATED.replace('ts', 'make_timestamp(epoch_us(ts))')})) ELSE {_TRUNCATED} END, "
    + ", ".join(
        f"(part, ts{of}) AS {_TRUNCATED}" for of in ("", " TIMESTAMP", " TIMESTAMP_S", " TIMESTAMP_MS", " DATE")
    )
)
_NANOSECONDS_TRUNC = (
    f", (part, ts TIMESTAMPTZ_NS) AS {_TRUNCATED.replace('ts', 'micros_of(ts)')}"
    f", (part, ts TIMESTAMP_NS) AS {_TRUNCATED.replace('ts', 'micros_of(ts)::TIMESTAMP')}"
)
"""With a time zone, DuckDB asks a calendar for each value, a third of the time of a count by hour; in UTC, what it does
without one is the same. Where an argument's type is not known yet (``date_trunc('hour', max(timestamp))``), overloads
are ambiguous: then DuckDB's own is used. Before DuckDB 1.5, macros have no types."""
_SHOW_TABLES = re.compile(r"\s*SHOW\s+(ALL\s+)?TABLES\s*;?\s*", re.IGNORECASE)
_LIST_OF_NAMES = (
    "SELECT view_name AS name FROM duckdb_views() WHERE NOT internal AND NOT temporary AND schema_name = 'main' "
    "UNION SELECT table_name FROM duckdb_tables() WHERE NOT internal ORDER BY name"
)
"""In place of DuckDB's ``SHOW TABLES``, which lists what views are made of as well."""
_NO_FIELDS = re.compile(r'cannot extract field .* from expression "[^"]*(key|value)" because it is not a struct')
_NANOSECONDS = re.compile(r"TIMESTAMP(TZ)?_NS|TIMESTAMP WITH TIME ZONE \(NS\)")
_FIRST = {"records": "offset"}
"""The column that is requested where none is needed, as in ``count(*)``: DuckDB takes the first one."""


class Session(AbstractContextManager["Session"]):
    """Runs SQL on the tables of a log. Belongs to one thread; :meth:`close` it, or leave it as a context."""

    def __init__(self, tables: Tables, memory_bytes: int | None = None) -> None:
        """``tables.on_damage`` is called once for each finding, however often queries read the place; without it, the
        first error is raised. ``memory_bytes``: what DuckDB may take before it spills to a temporary directory (2 GiB).

        Raises :class:`UsageError` without DuckDB."""
        duckdb = import_duckdb()
        self._errors: list[BrokerlessError] = []
        self._tables = replace(tables, on_damage=once(_kept(tables, self._errors)))
        self._spill = _spill_directory()
        self._connection: duckdb.DuckDBPyConnection = duckdb.connect(":memory:")
        self._worker = ThreadPoolExecutor(1, "brokerless-sql")
        self.close = weakref.finalize(self, _end, self._worker, self._connection, self._spill)
        """Ends the session; so does Python where nobody does, at the latest at its own end."""
        try:
            self._set_up(memory_bytes or MEMORY_BYTES)
        except duckdb.OutOfMemoryException as error:
            self.close()
            text = f"memory_limit: {memory_bytes} bytes are too few for DuckDB: {str(error).splitlines()[0]}"
            raise UsageError(text) from error

    def _set_up(self, memory_bytes: int) -> None:
        import duckdb

        execute = self._connection.execute
        execute("SET temp_directory = " + literal(self._spill))
        execute(f"SET memory_limit = '{memory_bytes}B'")
        execute(f"SET threads = {processors()}")
        for name in (TOPICS, _SOURCES):
            execute(f"CREATE SCHEMA {name}")
        for each in MACROS:
            execute(each)
        execute(_MICROS_OF)
        try:
            execute(_QUICK_DATE_TRUNC + _NANOSECONDS_TRUNC)
        except duckdb.CatalogException:  # a DuckDB without the type
            execute(_QUICK_DATE_TRUNC)
        except duckdb.ParserException:
            pass
        self._types = TopicTypes(self._tables)
        self._create_views()
        without_progress(self._connection)
        for each in _SETTINGS:
            execute(each)

    def _create_views(self) -> None:
        for table in TABLES:
            self._create_view("main", table, self._tables.dataset(table), _FIRST.get(table))
        for topic in self.topics:
            self._create_topic(topic)

    def _create_topic(self, topic: str) -> None:
        self._create_view(TOPICS, topic, topic_dataset(self._tables, topic, self._types.get(topic)), "offset")
        if topic.lower() not in {name.lower() for name in TABLES}:  # DuckDB's names are the same in any case
            self._connection.execute(f"CREATE OR REPLACE VIEW main.{name_of(topic)} AS FROM {TOPICS}.{name_of(topic)}")

    def _create_view(self, schema: str, name: str, dataset: TableDataset, first: str | None) -> None:
        """Views are on views, as what is registered has no schema."""
        source = f"{schema}/{name}"
        names = dataset.schema.names
        if first is not None:
            names = [first, *(each for each in names if each != first)]
        watched = Watched(dataset, names, self._errors, name=name, report=self._tables.on_damage or raise_errors)
        self._connection.register(source, watched)
        columns = ", ".join(name_of(each) for each in dataset.schema.names)
        created = f"CREATE OR REPLACE VIEW {schema}.{name_of(name)} AS SELECT {columns} FROM {name_of(source)}"
        self._connection.execute(created)

    @property
    def topics(self) -> list[str]:
        """The names of the topics with a view, in order. Names that differ in case only are one to DuckDB, and a view
        would answer with another topic's records: these topics have none."""
        found = topics_of(self._tables)
        counts = Counter(each.lower() for each in found)
        return sorted(each for each in found if counts[each.lower()] == 1)

    def statements(self, sql: str) -> list[str]:
        """Return the statements of some SQL. Raises :class:`UsageError` for a mistake."""
        import duckdb

        try:
            return [each.query for each in self._connection.extract_statements(sql)]
        except duckdb.Error as error:
            raise self._error(error, sql) from error

    def query(self, sql: str) -> pa.RecordBatchReader | None:
        """Runs statements and streams the result of the last, to be read before the next call; None where it has none.

        Raises :class:`UsageError` with DuckDB's message, here and while the result is read, and what reading the
        log raises."""
        import duckdb

        self._errors.clear()
        statements = [_LIST_OF_NAMES if _SHOW_TABLES.fullmatch(each) else each for each in self.statements(sql)]
        if not statements:
            return None
        try:
            for topic in self.topics:
                if topic.lower() in sql.lower() and self._types.look_at(topic):
                    self._create_topic(topic)
            for each in statements[:-1]:
                self._interruptible(lambda each=each: self._run(each))  # a result that nobody reads is not made
            reader = self._interruptible(lambda: self._stream(statements[-1]))
            if reader is None:
                return None
        except duckdb.Error as error:
            raise self._error(error, sql) from error
        return pa.RecordBatchReader.from_batches(reader.schema, self._streamed(reader, sql))

    def _stream(self, statement: str) -> pa.RecordBatchReader | None:
        result: Any = self._run(statement)
        if result is None:
            return None
        stream = getattr(result, "to_arrow_reader", None) or result.fetch_arrow_reader  # before DuckDB 1.4
        return stream(BATCH_ROWS)

    def _interruptible(self, work: Callable[[], ResultT]) -> ResultT:
        """Do ``work`` in a thread of its own, and end the query if this thread is interrupted meanwhile: DuckDB looks
        for signals only between its tasks, which may take minutes."""
        future = self._worker.submit(work)
        try:
            return future.result()
        finally:
            while not future.done():
                self._connection.interrupt()
                wait((future,), timeout=0.1)

    def _run(self, statement: str) -> Any:
        import duckdb

        try:
            return self._connection.sql(statement)
        except duckdb.BinderException:
            if "date_trunc" not in statement.lower():
                raise
            self._connection.execute("DROP MACRO IF EXISTS date_trunc")
            return self._connection.sql(statement)

    def _streamed(self, reader: pa.RecordBatchReader, sql: str) -> Iterator[pa.RecordBatch]:
        import duckdb

        try:
            while (batch := self._interruptible(lambda: next(reader, None))) is not None:
                yield batch
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise self._error(error, sql) from error

    def _error(self, error: Exception, sql: str) -> BrokerlessError:
        return self._errors[0] if self._errors else UsageError(explained(error, sql, bool(self.topics)))

    def columns(self) -> dict[str, list[str]]:
        """Return the columns of each table and topic, by name."""
        found = {table: list(self._tables.dataset(table).schema.names) for table in TABLES}
        for topic in self.topics:
            found.setdefault(topic, list(topic_dataset(self._tables, topic, self._types.get(topic)).schema.names))
        return found

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _kept(tables: Tables, errors: list[BrokerlessError]) -> Any:
    """Return what is called with findings: an error that it raises is kept, as DuckDB gives its text alone."""

    def report(finding: Finding) -> None:
        try:
            (tables.on_damage or raise_errors)(finding)
        except BrokerlessError as error:
            errors.append(error)
            raise

    return report


def _end(worker: ThreadPoolExecutor, connection: duckdb.DuckDBPyConnection, spill: str) -> None:
    worker.shutdown()
    connection.close()
    if spill:
        shutil.rmtree(spill, ignore_errors=True)


def _spill_directory() -> str:
    """A directory for what DuckDB spills; empty where nothing can be written, so that memory is all it has."""
    try:
        return tempfile.mkdtemp(prefix="brokerless-sql-")
    except OSError:
        return ""


def query_once(tables: Tables, sql: str, memory_limit: int | None = None) -> pa.RecordBatchReader:
    """Return the result of one query, whose session ends with it. Raises as :meth:`Session.query`, and
    :class:`UsageError` for a statement without a result."""
    session = Session(tables, memory_limit)
    try:
        result = session.query(sql)
        if result is None:
            raise UsageError("this statement has no result; end with a SELECT")
    except BaseException:
        session.close()
        raise

    def batches() -> Iterator[pa.RecordBatch]:
        with session:
            yield from result

    return pa.RecordBatchReader.from_batches(result.schema, batches())


_MOST_MS = 9_000_000_000_000_000
"""Some 285,000 years. DuckDB's times are microseconds: each query that meets a later one fails."""


class Watched(TableDataset):
    """A dataset with its columns in another order, that remembers what is raised, of which DuckDB has only the text."""

    def __init__(
        self, dataset: TableDataset, names: list[str], errors: list[BrokerlessError], name: str, report: Report
    ) -> None:
        super().__init__(_SessionRows(dataset, names, errors, name=name, report=report))


class _SessionRows:
    def __init__(
        self, dataset: TableDataset, names: list[str], errors: list[BrokerlessError], name: str, report: Report
    ) -> None:
        self._dataset, self._errors, self._name, self._report = dataset, errors, name, report
        self.schema = pa.schema([dataset.schema.field(name) for name in names])

    def read(self, columns: Any, filter: Any) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._dataset.rows.read(columns, filter):
                yield self._representable(batch.select(columns))
        except BrokerlessError as error:
            self._errors.append(error)
            raise

    def _representable(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Timestamps that DuckDB has no value for are null, and reported."""
        for number, column in enumerate(batch.columns):
            if not pa.types.is_timestamp(column.type) or column.type.unit != "ms":  # finer ones end before
                continue
            own = arrow.numbers(column, np.int64)
            lost = (own > _MOST_MS) | (own < -_MOST_MS)
            if lost.any():
                null = lost | np.asarray(column.is_null())
                name = batch.schema.names[number]
                fixed = arrow.column_of_numbers(column.type, np.where(null, 0, own), null)
                batch = batch.set_column(number, batch.schema.field(number), fixed)
                text = f"some values of {name} are more than {_MOST_MS:,} ms away from 1970; they are null in SQL"
                self._report(Kind.TIMESTAMP_OUT_OF_RANGE.at(self._name, text))
        return batch


def import_duckdb() -> Any:
    """DuckDB. Raises :class:`UsageError` where it is not installed."""
    try:
        import duckdb
    except ImportError as error:
        raise missing_libraries("SQL needs DuckDB", "sql") from error
    return duckdb


_RESERVED = re.compile(r'syntax error at or near "(order|group|table|user|end|all|default|check)"', re.IGNORECASE)
"""Words of SQL that are names of topics or columns as well."""


def explained(error: Exception, sql: str, has_topics: bool = True) -> str:
    """DuckDB's message, and what to do about common mistakes. ``has_topics``: a lone file may lack one."""
    text = " ".join(str(error).strip().partition("\n\nLINE ")[0].split())
    lower = text.lower()
    if "syntax error" in lower and "offset" in sql.lower() and '"offset"' not in sql.lower():
        return f'{text}; offset is a word of SQL: write "offset" in double quotes'
    word = _RESERVED.search(text)
    if word is not None:
        return f'{text}; {word[1]} is a word of SQL: write "{word[1]}" in double quotes, if it is a name'
    if "disabled by configuration" in lower or "has been locked" in lower:
        return f"{text}; queries read the log only; -o FILE writes a result"
    if "table with name" in lower and "does not exist" in lower:
        tables = f"the tables are {', '.join(TABLES)}"
        if not has_topics:
            return f"{text}; {tables}; no topic is known here: a lone file's records are the table records"
        tables += ", and each topic by its name"
        return f'{text}; {tables}; names such as "my-topic" need double quotes'
    if _NO_FIELDS.search(lower):
        known = "brokerless schema PATH lists the schemas that records name, --schemas says where they are"
        return f"{text}; keys and values are bytes where no schema is known: {known}; json_of(value)->>'id' reads JSON"
    if _NANOSECONDS.search(text):
        text = text.partition(" You might need to add")[0].rstrip(".")
        how = "micros_of(time) cuts one to microseconds, which now(), intervals and date_trunc take (a cast rounds)"
        return f"{text}; these times have nanoseconds: {how}; epoch_ns(time) is the whole number"
    if "out of memory" in lower:
        reason = text.partition(" Possible solutions")[0]  # settings, which are locked here
        return f"{reason}; --memory-limit SIZE sets what DuckDB may take"
    return text


def name_of(name: str) -> str:
    """Return a name as SQL quotes it."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a string as SQL quotes it."""
    return "'" + text.replace("'", "''") + "'"
