"""``brokerless compact``: cleans compacted topics as Kafka's cleaner does, into new partitions."""

from __future__ import annotations

import secrets
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from typing import TYPE_CHECKING

from brokerless.cli.options import add_redact, add_timezone
from brokerless.cli.output import Output
from brokerless.cli.progress import progress
from brokerless.cli.requests import add_request, request_of
from brokerless.cli.selection import named_topics
from brokerless.errors import UsageError
from brokerless.jobs.run.types import RunOptions
from brokerless.requests.writing import CompactRequest
from brokerless.text import count_of, format_bytes, json_bytes, show
from brokerless.views.findings import not_written
from brokerless.views.table import format_number, format_span, table, where_written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerless.jobs.compact.job import CompactResult

DESCRIPTION = """\
Compacts partitions as Kafka's log cleaner does, without a broker, into new partitions that a broker can serve: of
each key the last record stays, at its offset, with its timestamp. Tombstones and transaction markers stay until their
delete horizon (KIP-534) is over, aborted records go, and the last batch of a producer stays, if need be without
records.

What is compacted: topics with cleanup.policy=compact in the cluster's metadata beside them, and topics that --topic
or a path names. Others are copied unchanged, as is KRaft's own log. Settings of topics are read from there as well;
options replace them. Nothing of a stopped log is active, so the last segment is cleaned, too, as if a new one had
begun; --keep-active leaves it alone as a running broker does. Cleaning begins where cleaner-offset-checkpoint says
that the last one ended; --from-start looks for duplicates in all of the log. What an open transaction holds back
stays.

--dry-run writes nothing, and reports how much smaller the log would be, which keys have the most records, and how old
tombstones are. Of a whole log directory, meta.properties is copied last, so that a broker starts on the result; several
log directories get a directory of their own name each in the new one.
Existing partitions are never changed. A damaged partition is reported and not written: use brokerless salvage. One
that lacks a segment is reported, and cleaned all the same.

The exit code is 0, 1 if there is damage, and 2 for a path that cannot be opened.
"""
EXAMPLES = """\
  brokerless compact /var/lib/kafka --dry-run
  brokerless compact /var/lib/kafka --to compacted
  brokerless compact /backup/users-0 --to compacted --delete-retention-ms 0 --from-start
  brokerless compact /backup -t 'state-*' --to compacted --spark spark://host:7077
"""
_NAMES = ("partition", "offsets", "clean up to", "records", "to", "segments", "to", "size", "to")
_TOP, _LONGEST_KEY = 10, 100


def add_options(parser: ArgumentParser) -> None:
    add_request(parser, CompactRequest)
    add_timezone(parser)
    add_redact(parser)


def run(options: Namespace, output: Output) -> None:
    from brokerless.jobs.compact.job import compact, plan
    from brokerless.jobs.compact.settings import options_of

    if options.to is None and not options.dry_run:
        raise UsageError("nowhere to write to; use --to DIRECTORY, or --dry-run")
    request = request_of(CompactRequest, options)
    sources = output.sources(options)
    named = named_topics((each for source in sources for each in source.partitions), options)
    planned = plan(sources, request.to, options_of(request), named, report=output.damage)
    results: list[CompactResult] = []
    secret = secrets.token_bytes(32)
    with progress("reading", planned.size) as done:
        for each in compact(planned, output.damage, RunOptions(done, request.spark, output.say)):
            result = _redacted(each, secret) if options.redact else each
            results.append(result)
            if options.json:
                output.objects([_with_keys(result, options)])
    if not options.json:
        _show(output, results, options)


def _redacted(result: CompactResult, secret: bytes) -> CompactResult:
    """Return the result without the keys of records."""
    from brokerless.views.records.redaction import redact_key

    keys = tuple(replace(each, key=redact_key(each.key, secret) or b"") for each in result.frequent_keys)
    return replace(result, frequent_keys=keys)


def _with_keys(result: CompactResult, options: Namespace) -> dict[str, object]:
    found: dict[str, object] = result.as_dict()
    if options.dry_run:
        found["frequentKeys"] = [
            {"key": json_bytes(each.key), "records": each.records, "lastOffset": each.last_offset}
            for each in result.frequent_keys
        ]
    return found


def _show(output: Output, results: Sequence[CompactResult], options: Namespace) -> None:
    from brokerless.jobs.compact.rules import REMOVED

    done = [each for each in results if not each.damages]
    output.prose(*table(_NAMES, [_cells(each) for each in done], right=_NAMES[2:]))
    removed = [
        [each.task.name, format_number(number), REMOVED[name]]
        for each in done
        for name, number in sorted(each.removed.items())
    ]
    if removed:
        output.prose("", *table(("partition", "count", "removed"), removed, right=("count",)))
    if options.dry_run:
        _show_dry_run(output, done)
    for each in results:
        if each.damages:
            output.say(not_written(each.task.name, each.task.source.path, each.damages))
    what = where_written(options.to, dry_run=options.dry_run, has_any=bool(done))
    before, after = sum(each.totals.bytes_in for each in done), sum(each.totals.bytes_out for each in done)
    output.prose("", f"{count_of(len(done), 'partition')}, {format_bytes(before)} to {format_bytes(after)}: {what}")


def _show_dry_run(output: Output, results: Sequence[CompactResult]) -> None:
    for each in results:
        if each.open_transaction is not None and not each.task.is_copied:
            producer_id, offset = each.open_transaction
            text = f"the transaction of producer {producer_id} is open since offset {offset}"
            output.prose("", f"{each.task.name}: {text}; its segment, and what follows, is not compacted until it ends")
    stones = [each for each in results if each.tombstones.count]
    if stones:
        names = ("partition", "tombstones left", "oldest", "newest", "batches with a horizon")
        output.prose("", *table(names, [_tombstones(each) for each in stones], right=names[1:]))
    keys = [
        [each.task.name, format_number(key.records), str(key.last_offset), show(_text(key.key))]
        for each in results
        for key in each.frequent_keys
    ]
    if keys:
        output.prose("", *table(("partition", "records", "last offset", "key"), keys, right=("records", "last offset")))


def _tombstones(each: CompactResult) -> list[str]:
    found, now = each.tombstones, each.task.settings.now_ms
    ages = ("-" if time is None else _age(now - time) for time in (found.oldest_ms, found.newest_ms))
    return [each.task.name, format_number(found.count), *ages, format_number(found.horizons_before)]


def _age(milliseconds: int) -> str:
    days, hours = milliseconds / 86_400_000, milliseconds / 3_600_000
    return f"{days:,.1f} days" if abs(days) >= 1 else f"{hours:,.1f} hours"


def _text(key: bytes) -> str:
    return key[:_LONGEST_KEY].decode(errors="replace")


def _cells(each: CompactResult) -> list[str]:
    totals = each.totals
    clean = "copied" if each.task.is_copied else str(each.clean_offset)
    counts = (totals.records_in, totals.records_out, totals.segments_in, totals.segments_out)
    sizes = (totals.bytes_in, totals.bytes_out)
    offsets = format_span(each.start_offset, each.end_offset)
    return [each.task.name, offsets, clean, *map(format_number, counts), *map(format_bytes, sizes)]
