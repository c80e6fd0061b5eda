"""``brokerless explain``: explains every byte of a batch or of a small file."""

from __future__ import annotations

import os
import shutil
from argparse import Action, ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from brokerless.cli.options import FORMATS, add_max_batch_bytes
from brokerless.cli.output import Output
from brokerless.cli.values import count, integer
from brokerless.errors import UsageError
from brokerless.findings import Kind
from brokerless.kafka_names import COMPRESSION_TYPES
from brokerless.text import show_name

if TYPE_CHECKING:
    from brokerless.explanation.files import Explanation

DESCRIPTION = """\
Explains every byte of a batch, an index, snapshot or checkpoint, or of the manifest of a segment in tiered storage:
field by field, with what each costs.

Of a log, one batch is explained: the first, the one with an offset, or the one at a position. Each field has its
position, bytes, value and cost, and says where the value comes from: bits of varints, deltas added up, flags by name,
what the checksum covers and whether it matches. Compressed batches are opened; the records of Kafka's own topics and
control records are decoded. Damaged bytes are explained as far as they make sense, with what was expected there.

In a terminal, fields have colours; FORCE_COLOR=1 writes them to a pipe as well, and NO_COLOR=1 nowhere.

-o writes a page: pointing at bytes shows their field, and pointing at a field its bytes.

Without a FILE, a batch is built of --key and --value and explained: each --value is a record, with the --key before it.

The exit code is 0, 1 if bytes are not as expected, and 2 for a file that cannot be opened or is none of Kafka's.
"""
EXAMPLES = """\
  brokerless explain /var/lib/kafka/orders-0/00000000000000000000.log
  brokerless explain /var/lib/kafka/orders-0/00000000000000000000.log --offset 42 --records 1
  brokerless explain /var/lib/kafka/orders-0 --offset 42
  brokerless explain /var/lib/kafka/orders-0/00000000000000000000.timeindex
  brokerless explain --format v1 --key key --value value
  brokerless explain /var/lib/kafka/orders-0/00000000000000000000.log -o explain.html
  brokerless explain damaged.log --position 9569 --json | jq 'select(.expected != null)'
"""
HAS_TABLES = False
_BUILT = ("format", "codec", "timestamp")


class _Add(Action):
    """Keys and values in their order."""

    def __call__(self, parser: ArgumentParser, namespace: Namespace, values: Any, option: str | None = None) -> None:
        namespace.built = [*namespace.built, (self.dest, os.fsencode(values))]


def add_paths(parser: ArgumentParser) -> None:
    help_of_file = (
        "a .log file or KRaft snapshot, an .index, .timeindex, .txnindex or .snapshot, one of the small files "
        "beside them, such as leader-epoch-checkpoint or meta.properties, or an .rsm-manifest; local or a URL"
    )
    parser.add_argument("path", nargs="?", metavar="FILE", help=help_of_file)


def add_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--offset", type=count, metavar="N", help="the batch that has offset N, and its records from N on")
    add("--position", type=count, metavar="P", help="the batch that has byte P, or whatever is there")
    help_of_records = "at most so many records or entries field by field (100); others are one field together"
    add("--records", type=count, metavar="N", help=help_of_records)
    add("--format", choices=FORMATS, help="build a batch of this message format (default: v2)")
    add("--codec", choices=COMPRESSION_TYPES, help="compression.type of the batch that is built (default: none)")
    add("--key", action=_Add, metavar="TEXT", help="key of the next record to build; without it, null")
    add("--value", action=_Add, metavar="TEXT", help="value of a record to build; a --key without one has a null value")
    add("--timestamp", type=integer, metavar="MS", help="of the records that are built, ms since 1970 (default: 0)")
    add("-o", "--output", metavar="PAGE", help="write one HTML page in which bytes and fields point at each other")
    add_max_batch_bytes(parser)
    parser.set_defaults(built=[])


def run(options: Namespace, output: Output) -> None:
    from brokerless.views.explain.json_lines import json_lines
    from brokerless.views.explain.terminal import lines

    if options.output is not None and options.json:
        raise UsageError("-o, which writes a page, and --json exclude each other; use one of them")
    explanation = _explanation(options)
    if options.output is not None:
        from brokerless.views.explain.page import write_page

        write_page(explanation, options.output)
        output.line(f"written to {show_name(options.output)}")
    elif options.json:
        output.objects(json_lines(explanation))
    else:
        width = shutil.get_terminal_size((120, 24)).columns
        for line in lines(explanation, width, _has_colors()):
            output.line(line)
    for path, field in explanation.problems():
        inside = ".inflated" in path
        text = f"{path}, at {field.position} of the inflated bytes" if inside else path
        place = None if inside else field.position
        output.damage(
            Kind.FIELD_UNEXPECTED.at(explanation.file or "built", text, position=place, expected=field.expected)
        )


def _has_colors() -> bool:
    """``NO_COLOR`` is obeyed before ``FORCE_COLOR``, which colours what goes to a pipe as well."""
    from brokerless.views import screen

    is_forced = bool(os.environ.get("FORCE_COLOR")) and not os.environ.get("NO_COLOR")
    return is_forced or screen.has_colors()


def _explanation(options: Namespace) -> Explanation:
    from brokerless.explanation.files import build_batch, explain, explain_built

    is_built = options.built or any(getattr(options, name) is not None for name in _BUILT)
    if options.path is None and not options.built:
        raise UsageError("name a FILE to explain, or build a batch with --key and --value")
    if options.path is not None and is_built:
        raise UsageError("a batch that is built of --key and --value needs no FILE; leave out one of them")
    if options.path is None:
        timestamp, magic = options.timestamp or 0, FORMATS.index(options.format or "v2")
        records = [(timestamp, key, value) for key, value in _records(options.built)]
        return explain_built(build_batch(magic, options.codec or "none", records))
    return explain(
        options.path,
        offset=options.offset,
        position=options.position,
        records=options.records,
        max_batch_bytes=options.max_batch_bytes,
    )


def _records(built: list[tuple[str, bytes]]) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values as records: a value ends one."""
    records: list[tuple[bytes | None, bytes | None]] = []
    key: bytes | None = None
    for name, content in built:
        if name == "value":
            records.append((key, content))
            key = None
        else:
            if key is not None:
                records.append((key, None))
            key = content
    return [*records, (key, None)] if key is not None else records
