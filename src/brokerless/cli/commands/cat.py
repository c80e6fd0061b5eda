"""``brokerless cat``: prints records."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from brokerless import clock
from brokerless.cli.options import add_isolation, add_json_bytes, add_max_batch_bytes
from brokerless.cli.output import Output
from brokerless.cli.progress import Done, progress
from brokerless.cli.ranges import TIME, parse_offsets, parse_time
from brokerless.cli.values import count
from brokerless.errors import Finding, UnreadableError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from brokerless.api.partition import Partition

View = Callable[["pa.RecordBatch"], "Iterable[bytes | memoryview]"]
Reader = Callable[["Partition", Done], Iterator["pa.RecordBatch"]]

DESCRIPTION = """\
Records in offset order: one per line for people, by a template, or as JSON Lines.

The exit code is 0, 1 if there is damage or a log ends within a batch, and 2 for a path that cannot be opened. Records
after damage are printed as well.
"""
EXAMPLES = r"""  brokerless cat /var/lib/kafka/orders-0 --tail 10
  brokerless cat /var/lib/kafka -t orders --from 2024-05-01 --until 2024-05-02 --json
  brokerless cat 00000000000000000000.log --offset 42:50 -f '%o %k %s\n'
  brokerless cat s3://backup/kafka/orders-0 --isolation read_committed --json > orders.jsonl
"""
_TEMPLATE_HELP = (
    r"as kcat: %%t topic, %%p partition, %%o offset, %%T timestamp, %%k key, %%s value, %%h headers, "
    r"%%K %%S lengths of key and value (-1: null), %%R the value's length as 4 bytes; \n, \t, \x41. "
    "Bytes are written raw into files and pipes; at a terminal, control characters are escaped"
)
_REDACT_HELP = "keys, values and header values only as a length and a hash (equal bytes in one run: equal hashes)"
_COLUMNS = ["topic", "partition", "offset", "timestamp", "key", "value", "headers", "isControl"]


def add_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("-o", "--offset", metavar="N[:M]", help="from offset N on, and before M; or :M")
    add("--from", dest="start", metavar="TIME", help=f"not before this time: {TIME}")
    add("--until", dest="end", metavar="TIME", help="before this time")
    add("-n", "--limit", type=count, metavar="N", help="the first N records of each partition")
    add("--tail", type=count, metavar="N", help="the last N records of each partition")
    add_isolation(parser)
    add("--control", action="store_true", help="also control records, decoded")
    add("--redact", action="store_true", help=_REDACT_HELP)
    add("-f", "--template", metavar="TEMPLATE", help=_TEMPLATE_HELP)
    add_json_bytes(parser)
    add_max_batch_bytes(parser)


def run(options: Namespace) -> int:
    if options.json and options.template is not None:
        raise UsageError("--json and --template exclude each other; use one of them")
    if options.bytes == "base64" and not options.json:
        raise UsageError("--bytes base64 applies to JSON; add --json")
    output = Output()
    columns, view = _view(options, output.is_terminal)
    read = _reader(options, columns, output)
    partitions = output.partitions(options)
    with progress("reading", sum(each.paths.size for each in partitions)) as done:
        for partition in partitions:
            left: int | None = options.limit
            try:
                for batch in read(partition, done):
                    shown = batch if left is None else batch.slice(0, left)
                    output.write(view(shown))
                    left = None if left is None else left - shown.num_rows
                    del batch, shown  # a huge one is not to stay beside the next
                    if left == 0:
                        break
            except UnreadableError as error:
                output.unreadable(error)
    return output.end()


def _view(options: Namespace, to_terminal: bool) -> tuple[list[str], View]:
    """Which columns are read, and how their records are shown."""
    import secrets

    from brokerless.interchange import jsonl_writer
    from brokerless.views import text
    from brokerless.views.records import controls, redaction, template

    key = secrets.token_bytes(32)
    form = redaction.as_json if options.json else redaction.as_text

    def contents(batch: pa.RecordBatch) -> pa.RecordBatch:
        return redaction.redact(batch, key, form) if options.redact else batch

    def said(batch: pa.RecordBatch) -> list[Any] | None:
        # What KRaft's records hold may name hosts.
        return controls.describe_controls(batch, data=not options.redact) if options.control else None

    if options.template is not None:
        parsed = template.parse(options.template)
        return parsed.columns or ["offset"], lambda batch: template.render(
            contents(batch), parsed, batch, to_terminal=to_terminal
        )
    if options.json:
        mode = "verbatim" if options.redact else options.bytes
        return [*jsonl_writer.COLUMNS, "isControl"], lambda batch: jsonl_writer.records(
            contents(batch), mode, said(batch)
        )
    return _COLUMNS, lambda batch: text.records(contents(batch), said(batch))


def _reader(options: Namespace, columns: list[str], output: Output) -> Reader:
    """How a partition's records are read."""
    from brokerless.views.records.tail import tail

    now = clock.now()
    first, end = (None, None) if options.offset is None else parse_offsets(options.offset)
    start_time, end_time = (None if each is None else parse_time(each, now) for each in (options.start, options.end))
    if start_time is not None and end_time is not None and start_time > end_time:
        raise UsageError(f"--until {options.end} is before --from {options.start}; write the earlier time in --from")
    filters: dict[str, Any] = {
        "end_offset": end,
        "start_timestamp": start_time,
        "end_timestamp": end_time,
        "isolation": options.isolation,
        "control": options.control,
        "max_batch_bytes": options.max_batch_bytes,
    }

    def read_all(partition: Partition, done: Done) -> Iterator[pa.RecordBatch]:
        return partition.records(columns, start_offset=first, on_damage=output.damage, done=done, **filters)

    def read_tail(partition: Partition, done: Done) -> Iterator[pa.RecordBatch]:
        findings: list[Finding] = []

        def read(start: int | None) -> Iterator[pa.RecordBatch]:
            findings.clear()  # read again, from an earlier place
            start = max((each for each in (start, first) if each is not None), default=None)
            return partition.records(columns, start_offset=start, on_damage=findings.append, **filters)

        yield from tail(options.tail, partition.batches(["lastOffset", "count"], on_damage=lambda _: None), read)
        for finding in findings:
            output.damage(finding)
        done(partition.paths.size)

    return read_all if options.tail is None else read_tail
