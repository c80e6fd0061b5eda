"""``brokerless cat``: prints records."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from brokerless import clock
from brokerless.cli.options import (
    add_as_it_lies,
    add_decode,
    add_isolation,
    add_jobs,
    add_json_bytes,
    add_max_batch_bytes,
    add_no_prune,
    add_redact,
    add_remote,
    add_timezone,
    decoding,
)
from brokerless.cli.output import CLEAN, UNUSABLE, Output
from brokerless.cli.progress import progress
from brokerless.cli.values import count, parse_offsets
from brokerless.clock import TIME, parse_time
from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Finding
from brokerless.jobs.run.streams import processes_for, stream
from brokerless.progress import Done, ignore

if TYPE_CHECKING:
    import pyarrow as pa

    from brokerless.log.directory import PartitionPath
    from brokerless.log.ranges import Range
    from brokerless.progress import Report
    from brokerless.tables.prepared_records import Prepare
    from brokerless.tables.record_filter import RecordFilter
    from brokerless.typed.topic_type import Decoding, TopicType
    from brokerless.views.records.printed_filter import PrintedFilter

View = Callable[["pa.RecordBatch"], "Iterable[bytes | memoryview]"]

DESCRIPTION = """\
Records in offset order: one per line for people, by a template, as CSV, or as JSON Lines.

With --key, --key-regex, --grep, --header or --where, only records for which all of these hold. They are looked for in
all partitions in parallel, and printed as they are found: in offset order within each partition. With --decode, the
first three look at what is printed; --header and --where at the record's bytes.

Where there is much to read, all processors read, and the output is the same; --jobs 1 leaves it to one.

The exit code is 0, 1 if there is damage or a log ends within a batch, and 2 for a path that cannot be opened. Records
after damage are printed as well.
"""
EXAMPLES = r"""  brokerless cat /var/lib/kafka/orders-0 --tail 10
  brokerless cat /var/lib/kafka -t orders --from 2024-05-01 --until 2024-05-02 --json
  brokerless cat 00000000000000000000.log --offset 42:50 -f '%o %k %s\n'
  brokerless cat /var/lib/kafka -t orders --key o-17 --from "yesterday 14:00" --timezone Europe/Berlin --csv
  brokerless cat /var/lib/kafka --grep 4111-1111 --json
  brokerless cat /var/lib/kafka -t 'orders*' --where "value_json->>'country' = 'SE'" -n 5
  brokerless cat /var/lib/kafka -t orders --decode --json
  brokerless cat s3://backup/kafka/orders-0 --isolation read_committed --json > orders.jsonl
"""
HAS_TABLES = False
_TEMPLATE_HELP = (
    r"as kcat: %%t topic, %%p partition, %%o offset, %%T timestamp, %%k key, %%s value, %%h headers, "
    r"%%K %%S lengths of key and value (-1: null), %%R the value's length as 4 bytes; \n, \t, \x41. "
    "Bytes are written raw into files and pipes; at a terminal, control characters are escaped"
)
_LARGE = 32 << 20
"""Bytes of records that are not made text beside others: the text takes as much again."""
_TABLES = ("parquet", "arrow")
_JSON = ("json", "jsonl", "ndjson")
"""Endings of files that a reader would not take for text."""
_CSV_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
_COLUMNS = ["topic", "partition", "offset", "timestamp", "key", "value", "headers", "isControl"]


def add_options(parser: ArgumentParser) -> None:
    add_remote(parser)
    add_as_it_lies(parser)
    add = parser.add_argument
    add("--offset", metavar="N[:M]", help="from offset N on, and before M; or :M")
    add("--from", dest="start", metavar="TIME", help=f"not before this time: {TIME}")
    add("--until", dest="end", metavar="TIME", help="before this time")
    add_no_prune(parser)
    add_timezone(parser)
    add("-n", "--limit", type=count, metavar="N", help="the first N records of each partition")
    add("--tail", type=count, metavar="N", help="the last N records of each partition")
    _add_filters(parser)
    add_isolation(parser)
    add("--control", action="store_true", help="also control records, decoded")
    add_redact(parser, "keys, values and header values")
    add("-f", "--template", metavar="TEMPLATE", help=_TEMPLATE_HELP)
    add("--csv", action="store_true", help=f"CSV with a header: {', '.join(_CSV_COLUMNS)}")
    help_of_output = "write to FILE: CSV if it ends in .csv, JSON Lines in .json or .jsonl; -o csv is --csv"
    add("-o", "--output", metavar="FILE", help=help_of_output)
    add_json_bytes(parser)
    add_decode(parser)
    add_jobs(parser)
    add_max_batch_bytes(parser)


def run(options: Namespace, output: Output) -> None:
    import secrets

    _set_form(options)
    if sum((options.json, options.csv, options.template is not None)) > 1:
        raise UsageError("--json, --csv and --template exclude each other; use one of them")
    if options.bytes == "base64" and not options.json:
        raise UsageError("--bytes base64 applies to JSON; add --json")
    requested = decoding(options)
    if options.redact and requested is not None:
        raise UsageError("--redact and --decode exclude each other; use one of them")
    selection = _filter_of(options)
    within, printed = (selection, None) if requested is None else _of_printed(selection)
    run = _CatRun(
        options, requested, within, printed,
        now=clock.now(), to_terminal=output.is_terminal and options.output is None, key=secrets.token_bytes(32),
    )  # fmt: skip
    for check in (_view, _range):  # what is wrong with options is reported before anything is read
        check(run)
    partitions = output.partitions(options)
    if not partitions and output.exit_code == UNUSABLE:
        return
    with output.to_file(options.output):
        _print(run, partitions, output)


def _set_form(options: Namespace) -> None:
    """Set the form of a file by its ending, where no option says it."""
    if options.output == "csv":
        options.csv, options.output = True, None
    if options.output is not None and not options.output.strip("0123456789:-"):
        text = f"this looks like an offset: --offset {options.output}; a file of this name is ./{options.output}"
        raise UsageError(f"-o {options.output}: {text}")
    ending = "" if options.output is None else options.output.lower().rpartition(".")[2]
    if (options.json and ending == "csv") or (options.csv and ending in _JSON):
        form = "--json" if options.json else "--csv"
        raise UsageError(f"-o {options.output}: the name says another format than {form}; leave one of them out")
    if options.output is None or options.json or options.csv or options.template is not None:
        return
    if ending in _TABLES:
        text = "cat writes text, CSV (.csv) and JSON Lines (.jsonl); brokerless sql QUERY PATH -o FILE writes this, too"
        raise UsageError(f"-o {options.output}: {text}")
    options.csv, options.json = ending == "csv", ending in _JSON


def _print(run: _CatRun, partitions: Sequence[PartitionPath], output: Output) -> None:
    options, selection = run.options, run.filter
    types = _types(run, partitions)
    tasks = [_PrintTask(run, each, types.get(each.topic), options.jobs) for each in partitions]
    # What is found is printed at once, from all partitions; the rest in order.
    processes = 1 if selection is None else processes_for(tasks, options.jobs)
    if processes > 1:
        tasks = [replace(each, jobs=1) for each in tasks]
    shown = 0
    if options.csv:
        output.write(_csv_head())
    with (
        progress("reading", sum(each.size for each in tasks)) as done,
        closing(stream(_print_partition, tasks, pack=_joined, done=done, processes=processes)) as items,
    ):
        for _, item in items:
            match item:
                case Finding():
                    output.damage(item)
                case UnreadableError():
                    output.unreadable(item)
                case rows, blocks:
                    shown += rows
                    output.write(blocks)
            del item  # freed before the next one is read
    if partitions and not shown and output.exit_code == CLEAN:
        if selection is not None:
            output.say("no record was found")
        elif (options.offset, options.start, options.end) != (None, None, None):
            output.say("no record was found in this range; brokerless ls shows which offsets and times there are")


@dataclass(frozen=True, slots=True)
class _CatRun:
    """A run of the command, the same for all partitions."""

    options: Namespace
    decoding: Decoding | None
    """None where records are printed as bytes."""
    selection: RecordFilter | None
    """Selects records by their bytes."""
    printed: PrintedFilter | None
    """Selects records by what is printed of them, where that is decoded."""
    now: int
    to_terminal: bool
    key: bytes
    """The key of the hashes of ``--redact``."""

    @property
    def filter(self) -> RecordFilter | PrintedFilter | None:
        return self.selection or self.printed


@dataclass(frozen=True, slots=True)
class _PrintTask:
    run: _CatRun
    paths: PartitionPath
    topic_type: TopicType | None = None
    jobs: int | None = None
    """Threads."""

    @property
    def size(self) -> int:
        return self.paths.size


Printed = tuple[int, "Iterable[bytes | memoryview]"] | Finding | UnreadableError
"""Some records (how many, and what is printed of them), or what is wrong, in the order of the partition."""


def _print_partition(task: _PrintTask, done: Done) -> Iterator[Printed]:

    columns, view = _view(task.run)
    failures = None
    if task.topic_type is not None:
        from brokerless.typed.records import Failures

        failures = Failures()
    damages: list[Finding] = []

    def prepare(batch: pa.RecordBatch) -> list[bytes | memoryview] | None:
        return list(view(batch)) if batch.nbytes < _LARGE else None

    in_threads = prepare if task.topic_type is None else None
    try:
        limit = task.run.options.limit
        for batch, text in _read(task, columns, limit, report=damages.append, done=done, prepare=in_threads):
            yield from damages
            damages.clear()
            decoded = batch if task.topic_type is None or failures is None else failures.decode(task.topic_type, batch)
            yield batch.num_rows, view(decoded) if text is None else text
            del batch, text, decoded  # freed before the next one is read
        yield from damages
        yield from () if failures is None else failures.findings(task.paths.path)
    except UnreadableError as error:
        yield from damages
        yield error


def _joined(item: Printed) -> Printed:
    return (item[0], [b"".join(item[1])]) if isinstance(item, tuple) else item


def _view(run: _CatRun) -> tuple[list[str], View]:
    """Return which columns are read, and how their records are shown."""
    from brokerless.interchange import jsonl_writer
    from brokerless.views import text
    from brokerless.views.records import controls, redaction, template

    options, key = run.options, run.key
    form = redaction.as_json if options.json else redaction.as_text

    is_decoded = run.decoding is not None

    def as_bytes(batch: pa.RecordBatch) -> pa.RecordBatch:
        if not is_decoded:
            return batch
        from brokerless.views.records import typed

        return typed.as_bytes(batch)

    def contents(batch: pa.RecordBatch) -> pa.RecordBatch:
        if is_decoded:
            return as_bytes(batch)
        return redaction.redact(batch, key, form) if options.redact else batch

    def said(batch: pa.RecordBatch) -> list[Any] | None:
        # What KRaft's records hold may name hosts.
        if not options.control:
            return None
        return controls.describe_controls(as_bytes(batch), data=not options.redact)

    if options.template is not None:
        parsed = template.parse(options.template)
        names = parsed.columns or ["offset"]
        if is_decoded:
            names = [*dict.fromkeys([*names, "headers", "offset", "isControl"])]

        def rendered(batch: pa.RecordBatch) -> Iterator[bytes]:
            own = contents(batch)
            return template.render(own, parsed, own if is_decoded else batch, to_terminal=run.to_terminal)

        return names, rendered
    if options.json:
        if is_decoded:
            from brokerless.views.records import typed

            return [*jsonl_writer.COLUMNS, "isControl"], lambda batch: typed.json_lines(batch, said(batch))
        jsonl_writer.begin_compiling()
        mode = "verbatim" if options.redact else options.bytes
        return [*jsonl_writer.COLUMNS, "isControl"], lambda batch: jsonl_writer.records(
            contents(batch), mode, said(batch)
        )
    if options.csv:
        return [*_CSV_COLUMNS, "isControl"], lambda batch: _csv(contents(batch), said(batch), run)
    return _COLUMNS, lambda batch: text.records(contents(batch), said(batch), options.timezone)


def _csv_head() -> Iterator[bytes]:
    import pyarrow as pa

    from brokerless.interchange.result_text import csv_lines

    return csv_lines(pa.schema([(name, pa.null()) for name in _CSV_COLUMNS]), iter(()))


def _csv(batch: pa.RecordBatch, controls: list[Any] | None, run: _CatRun) -> Iterator[bytes]:
    """Lines of CSV: times in ISO 8601, headers as JSON; what a control record says is in place of its value."""
    from brokerless import arrow
    from brokerless.interchange.result_text import csv_lines
    from brokerless.views.text import format_times

    times = format_times(arrow.integers(batch.column("timestamp")), zone=run.options.timezone)
    columns = {name: arrow.values(batch.column(name)) for name in _CSV_COLUMNS if name != "timestamp"}
    columns["timestamp"] = ["" if each == "-" else each for each in times]
    columns["headers"] = [[[each["key"], each["value"]] for each in row] or None for row in columns["headers"]]
    if controls is not None:
        pairs = zip(columns["value"], controls, strict=True)
        columns["value"] = [value if control is None else control for value, control in pairs]
    rows = zip(*(columns[name] for name in _CSV_COLUMNS), strict=True)
    return csv_lines(None, rows, run.to_terminal)


def _of_printed(selection: RecordFilter | None) -> tuple[RecordFilter | None, PrintedFilter | None]:
    """Split a filter: return the conditions on records as they are stored, and those on what is printed of keys and
    values."""
    if selection is None:
        return None, None
    from brokerless.tables.record_filter import RecordFilter
    from brokerless.views.records.printed_filter import PrintedFilter

    of_records = RecordFilter.if_any(header=selection.header, where=selection.where)
    is_of_text = any(each is not None for each in (selection.keys, selection.key_regex, selection.grep))
    return of_records, PrintedFilter(selection) if is_of_text else None


def _printed_records(task: _PrintTask, columns: list[str]) -> Callable[[pa.RecordBatch], pa.RecordBatch] | None:
    """Return a function that selects records by what is printed of them; None where nothing does."""
    printed, topic_type = task.run.printed, task.topic_type
    if printed is None or topic_type is None:
        return None
    import pyarrow as pa

    from brokerless.typed.decode import decode_batch

    def select(batch: pa.RecordBatch) -> pa.RecordBatch:
        found = printed.matches(decode_batch(topic_type, batch))
        return batch.filter(pa.array(found)).select(columns)

    return select


def _types(run: _CatRun, partitions: Sequence[PartitionPath]) -> dict[str | None, TopicType]:
    """The types of each topic, by the records that are to be printed; empty where nothing is decoded."""
    if run.decoding is None:
        return {}
    from brokerless.typed.records import resolve_types

    def read(own: Sequence[PartitionPath], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for each in own:
            with suppress(UnreadableError):  # which is reported when it is printed
                task = _PrintTask(run, each, None, run.options.jobs)
                limit = None if run.printed else run.options.limit
                read = _read(task, list(names), limit, report=ignore, done=ignore)
                yield from (batch for batch, _ in read)

    return resolve_types(partitions, run.decoding, read)


def _range(run: _CatRun) -> Range:
    from brokerless.tables.read_options import range_of

    options = run.options
    first, end = (None, None) if options.offset is None else parse_offsets(options.offset)
    start_time, end_time = (
        None if each is None else parse_time(each, run.now, options.timezone) for each in (options.start, options.end)
    )
    if start_time is not None and end_time is not None and start_time > end_time:
        raise UsageError(f"--until {options.end} is before --from {options.start}; write the earlier time in --from")
    return range_of(first, end, start_time, end_time, prune=options.prune)


def _read(
    task: _PrintTask,
    columns: list[str],
    limit: int | None,
    report: Report,
    done: Done,
    prepare: Prepare | None = None,
) -> Iterator[tuple[pa.RecordBatch, Any]]:
    """The records of a partition that are to be printed, at most so many, and what ``prepare`` made of them, if it was
    called."""
    from brokerless.log.ranges import Range
    from brokerless.progress import ignore
    from brokerless.tables.partition_tables import first_rows, read_batches, read_prepared
    from brokerless.tables.read_options import ReadOptions
    from brokerless.views.records.tail import tail

    run, options, partition = task.run, task.run.options, task.paths
    select = _printed_records(task, columns)
    names = columns if select is None else [*dict.fromkeys([*columns, "key", "value", "headers"])]
    requested = ReadOptions(
        columns=names,
        range=_range(run),
        isolation=options.isolation,
        control=options.control,
        filter=run.selection,
        limit=limit if select is None and options.tail is None else None,
        max_batch_bytes=options.max_batch_bytes,
        on_damage=report,
        done=done,
        jobs=task.jobs,
    )
    if options.tail is None:
        pairs = read_prepared(partition, requested, prepare)
        yield from pairs if select is None else first_rows(((select(batch), None) for batch, _ in pairs), limit)
        return
    findings: list[Finding] = []

    def read(start: int | None) -> Iterator[pa.RecordBatch]:
        findings.clear()  # read again, from an earlier place
        own = requested.range.narrow(Range(start_offset=start))
        pairs = read_prepared(partition, replace(requested, range=own, on_damage=findings.append, done=ignore))
        return (batch if select is None else select(batch) for batch, _ in pairs)

    last = tail(options.tail, read_batches([partition], ["lastOffset", "count"], on_damage=ignore), read)
    yield from first_rows(((batch, None) for batch in last), limit)
    for finding in findings:
        report(finding)
    done(partition.size)


def _add_filters(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--key", action="append", metavar="KEY", help="only records with this key; can be repeated for any of several")
    add("--key-regex", metavar="REGEX", help="only records in whose key this is found (RE2's syntax)")
    add("--grep", metavar="TEXT", help="only records with this text in key, value, or a header's name or value")
    add("--header", metavar="NAME=VALUE", help="only records with this header")
    help_of_where = (
        "only records for which this condition of DuckDB's SQL holds, on the columns offset, timestamp, key, value, "
        "headers, key_text, value_text, key_json, value_json ... (needs the extra sql)"
    )
    add("--where", metavar="SQL", help=help_of_where)


def _filter_of(options: Namespace) -> RecordFilter | None:
    """Return the filter of all options that select records; None without any. Raises :class:`UsageError`."""
    given = (options.key, options.key_regex, options.grep, options.header, options.where)
    if all(each is None for each in given):
        return None
    from brokerless.tables.record_filter import RecordFilter, parse_header

    header = None if options.header is None else parse_header(options.header)
    return RecordFilter(options.key, options.key_regex, options.grep, header=header, where=options.where)
