"""``brokerless sql``: queries a log by SQL."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, cast

from brokerless import arrow
from brokerless.cli.options import (
    add_all_below,
    add_isolation,
    add_jobs,
    add_max_batch_bytes,
    add_no_prune,
    add_remote,
    add_schemas_path,
    add_selection,
    add_tiered,
)
from brokerless.cli.output import UNUSABLE, Output
from brokerless.cli.values import count, size
from brokerless.errors import UsageError
from brokerless.log.storage.location import Location
from brokerless.text import format_bytes, show_name

if TYPE_CHECKING:
    from io import BufferedReader

    import pyarrow as pa

    from brokerless.sql.session import Session

DESCRIPTION = """\
Queries a log by SQL, with DuckDB: tables of records, batches, segments, transactions, groups, offsets, topics and
findings, of what MirrorMaker and Kafka Connect keep, and one view for each topic. Only columns and ranges of offset,
timestamp, topic and partition that a query asks for are read.

Without QUERY, statements are read from -f FILE or stdin; at a terminal there is a shell (.help, .tables, .schema NAME,
.mode line, .read FILE, .quit) with history and completion. The result is a table; of more than 100 rows, the first.
Times are in UTC. "offset" is a word of SQL and needs double quotes, and so do names such as "my-topic". text_of(value)
and json_of(value) are null for bytes that are not UTF-8, or not JSON. Keys and values of a topic's view are typed where
the registry's topic _schemas, or --schemas, has the subjects orders-key and orders-value. A query reads the log and
nothing else, and changes nothing.

This needs the extra sql: pip install duckdb prompt-toolkit.

The exit code is 0, 1 if there is damage or a log ends within a batch, and 2 for a mistake in SQL or a path that cannot
be opened. Records after damage are in the result as well.
"""
EXAMPLES = """\
  brokerless sql 'SELECT topic, sum(records) FROM segments GROUP BY ALL' /var/lib/kafka
  brokerless sql 'SELECT * FROM orders WHERE "offset" BETWEEN 1000 AND 1009' /var/lib/kafka --json
  brokerless sql "SELECT json_of(value)->>'country' AS country, count(*) FROM orders GROUP BY ALL" /var/lib/kafka
  brokerless sql 'FROM batches WHERE NOT isValid' s3://backup/kafka -o damaged.parquet
  brokerless sql /var/lib/kafka
"""
ROWS = 100
_MODES = ("table", "line", "csv", "json")
_LIMIT = 16 << 20


def add_paths(parser: ArgumentParser) -> None:
    parser.add_argument("query", nargs="?", metavar="QUERY", help="statements of SQL; -o writes the last one's result")
    parser.add_argument(
        "paths", nargs=1, metavar="PATH", help="a log directory, a partition's directory, or a .log file"
    )
    add_all_below(parser)
    add_selection(parser)
    add_tiered(parser)


def add_options(parser: ArgumentParser) -> None:
    add_remote(parser)
    add = parser.add_argument
    add("-f", "--file", metavar="FILE", help="read the statements from FILE in place of QUERY; - is stdin")
    add("--csv", action="store_true", help="CSV with a header, all rows")
    add("-o", "--output", metavar="FILE", help="write the result to FILE: .parquet, .arrow, .csv, .json or .jsonl")
    add("--output-format", choices=("parquet", "arrow", "csv", "json"), help="the format of FILE, whatever its ending")
    add(
        "-n",
        "--limit",
        type=count,
        metavar="N",
        help=f"at most so many rows of a table (default: {ROWS})",
    )
    add(
        "--memory-limit",
        type=size,
        metavar="SIZE",
        help="what DuckDB may take before it spills to disk (default: 2GiB)",
    )
    add_schemas_path(parser)
    add_isolation(parser)
    add("--control", action="store_true", help="also control records")
    add_no_prune(parser)
    add_jobs(parser)
    add_max_batch_bytes(parser)


def run(options: Namespace, output: Output) -> None:
    from brokerless.api import jobs
    from brokerless.sql.files import format_of
    from brokerless.sql.session import Session

    _check(options)
    if options.file is not None:
        options.query = _read(options.file)
    if options.output is not None and options.output_format is None:
        options.output_format = format_of(options.output)
    for number, log in enumerate(output.open(options)):
        if len(options.paths) > 1 and not (options.json or options.csv):
            output.line("\n" * bool(number) + f"{show_name(log.path)}:")
        chosen = output.chosen(log, options)
        if output.exit_code == UNUSABLE:
            continue
        how = jobs.TableOptions(
            options.isolation,
            options.control,
            options.max_batch_bytes,
            on_damage=output.damage,
            schemas=options.schemas,
            prune=options.prune,
        )
        with Session(jobs.tables(log.directory, chosen, how), options.memory_limit) as session:
            if options.query is not None and options.output is not None:
                _show(session, options.query, options, output)
            elif options.query is not None:
                _show_all(session, options.query, options, output)
            elif sys.stdin is not None and sys.stdin.isatty() and output.is_terminal:
                from brokerless.cli.sql_shell import run_shell

                run_shell(session, lambda text: _show_all(session, text, options, output), output)
            else:
                _show_all(session, _read("-"), options, output)


def _check(options: Namespace) -> None:
    if sum((options.json, options.csv, options.output is not None)) > 1:
        raise UsageError("--json, --csv and -o FILE exclude each other; use one of them")
    if options.limit is not None and (options.json or options.csv or options.output is not None):
        raise UsageError(
            "--limit is that of a table; --json, --csv and -o FILE have all rows: write LIMIT in the query"
        )
    if options.output_format is not None and options.output is None:
        raise UsageError("--output-format is that of a file; add -o FILE, or use --json or --csv")
    if options.file is not None and options.query is not None:
        raise UsageError("write the query, or the file that has it, not both")
    if options.query is not None and options.query.endswith(".sql") and Path(options.query).is_file():
        raise UsageError(f"{options.query} is a file; its statements are read with -f {options.query}")
    if len(options.paths) > 1 and (options.output is not None or (options.query is None and options.file is None)):
        raise UsageError("of several log directories, a query has a result each; write the query, and leave out -o")
    if options.query is not None and Path(options.query).is_dir():
        raise UsageError(f"{options.query} is a directory; write the query first, and then the path")
    if options.output is not None and options.query is None and options.file is None:
        raise UsageError("-o FILE holds the result of one query; write it before the path")


def _read(name: str) -> str:
    """The text of a file; ``-`` is stdin."""
    where = "stdin" if name == "-" else name
    try:
        return (_read_stdin() if name == "-" else Location(name).read(_LIMIT)).decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{where}: this is no text in UTF-8") from error


def _read_stdin() -> bytes:
    stdin = cast("BufferedReader | None", getattr(sys.stdin, "buffer", None))
    if stdin is None:
        raise UsageError("stdin: it is closed; write the query before the path, or name a file with -f")
    data = stdin.read(_LIMIT + 1)
    if len(data) > _LIMIT:
        raise UsageError(f"stdin: these are more than {format_bytes(_LIMIT)} of statements")
    return data


def _show_all(session: Session, text: str, options: Namespace, output: Output, files: tuple[str, ...] = ()) -> None:
    """Answers statements, and the shell's commands on lines between them, one after the other. ``files``: those that
    are being read."""
    from brokerless.cli.sql_shell import answer, blocks

    for block in blocks(text):
        command, _, argument = block.rstrip(";").partition(" ")
        argument = argument.strip().strip("'\"")
        if command == ".mode":
            _set_mode(argument, options)
            continue
        if command == ".read":
            if not argument or argument in files:
                raise UsageError(f"{argument}: this file reads itself" if argument else "write a file: .read FILE")
            _show_all(session, _read(argument), options, output=output, files=(*files, argument))
            continue
        if block.startswith("."):
            for line in answer(session, block):
                output.line(line)
            continue
        for statement in session.statements(block):
            _show(session, statement, options, output)


def _set_mode(mode: str, options: Namespace) -> None:
    """Set how results are shown from now on."""
    if mode not in _MODES:
        raise UsageError(f"there is no mode {mode!r}; there are {', '.join(_MODES)}")
    options.json, options.csv, options.lines = mode == "json", mode == "csv", mode == "line"


def _show(session: Session, query: str, options: Namespace, output: Output) -> None:
    from brokerless.sql.files import lines_of, write_result

    result = session.query(query)
    if result is None:
        return
    if options.output is not None:
        rows = write_result(result, options.output, options.output_format)
        output.line(f"{rows:,} row{'' if rows == 1 else 's'} written to {show_name(options.output)}")
    elif options.json or options.csv:
        is_raw = options.json or not output.is_terminal
        output.write(lines_of(result, result.schema, "json" if options.json else "csv", is_terminal=not is_raw))
    else:
        _show_table(result, options, output)


def _show_table(result: pa.RecordBatchReader, options: Namespace, output: Output) -> None:
    from brokerless.interchange.result_text import rows_of
    from brokerless.views.sql import row_lines, table_lines

    most = ROWS if options.limit is None else options.limit
    view = row_lines if getattr(options, "lines", False) else table_lines

    if result.schema.names == ["explain_key", "explain_value"]:  # a drawing of many lines
        for row in (row for batch in result for row in arrow.rows(batch)):
            for line in str(row["explain_value"]).splitlines():
                output.line(line)
        return
    rows = list(islice((row for batch in result for row in rows_of(batch)), most + 1))
    for line in view(result.schema, rows[:most]):
        output.line(line)
    if len(rows) > most:
        output.line("... and more rows (--limit N shows more; --csv, --json and -o FILE have all)")
