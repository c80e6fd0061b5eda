"""``brokerless erase``: removes records of a person, or blanks them, and writes a signed manifest."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from functools import partial
from typing import TYPE_CHECKING, Any

from brokerless.cli.options import add_to
from brokerless.cli.output import Output
from brokerless.cli.progress import progress
from brokerless.cli.requests import add_request, request_of
from brokerless.cli.selection import is_named, is_selected, named_topics
from brokerless.errors import UsageError
from brokerless.jobs.run.types import RunOptions
from brokerless.requests.backups import BackupErasureRequest
from brokerless.requests.options import options_of
from brokerless.requests.writing import EraseRequest
from brokerless.text import count_of, format_bytes
from brokerless.views.findings import not_written
from brokerless.views.table import format_number, format_span, table, where_written

if TYPE_CHECKING:
    from brokerless.jobs.erase.copies import Copy
    from brokerless.jobs.erase.field_counts import TopicField
    from brokerless.jobs.erase.job import ErasedPartition
    from brokerless.jobs.erase.selection import Selection

DESCRIPTION = """\
Removes records, or blanks their values, and writes all others to new partitions that a broker can serve.

Select the records by their key (--key), by the keys in a file (--keys), by a header (--header), or by a condition on
the columns of the table of records (--where, DuckDB's SQL; value_text and value_json are the value as text and as JSON,
null where it is none). All others stay at their offsets: only batches with a selected record are rebuilt, in their
format and codec, and all other batches are byte-identical. A batch with no record left stays as an empty one, as
Kafka's cleaner leaves them, so that idempotent producers go on. Markers of transactions are never removed.

Kafka's own topics are copied unchanged unless --topic names them. Several log directories, such as those of all brokers
of a cluster, get a directory of their own name each in the new one; whether replicas are the same again is reported.
Where copies may still be (deleted and stray directories, other topics, tiered storage) is reported, too.

The manifest (JSON) records hashes of every file before and after and the offsets that were erased, but no erased value;
with --sign-key it is signed. brokerless prove checks it. The same command completes a run that was stopped.

Of each field to blank, the output counts the selected values that held it, those in which it is null or empty already,
and those that lack it, which are reported: what was to be erased may have another name there. In a path, a backslash
comes before a dot or comma that is part of a name: 'tags.home\\.phone'.

Without --to, PATH is the place that backup wrote to, and records are erased in all its snapshots: segments that have
some are written again without them, in the place of the others, and prune removes these when its grace is over.
Without --apply, they are only counted.

The exit code is 0, 1 if there is damage or a selected value lacks one of the fields to blank, and 2 for a path that
cannot be opened.
"""
EXAMPLES = """\
  brokerless erase /var/lib/kafka --to erased --key u-17 --dry-run
  brokerless erase /var/lib/kafka --to erased --keys keys.txt --sign-key key.pem --manifest erased.json
  brokerless erase /backup -t orders --to erased --where "value_json->>'$.user' = 'u-17'"
  brokerless erase /backup -t orders --to erased --header user=u-17 --blank-fields name,address.street
  brokerless erase s3://backup/kafka -t orders --keys keys.txt --manifest erased.json --apply
  brokerless erase broker-1/ broker-2/ broker-3/ --to erased --keys keys.txt
"""
_KEYS_FORMATS = ("text", "base64", "json")
_NAMES = ("partition", "offsets", "records", "selected", "batches", "touched", "size", "to")
_FIELDS = ("topic", "field", "blanked", "null or empty", "lacking")


def add_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add_to(parser, required=False)
    add("--key", action="append", metavar="KEY", help="erase records with this key; can be repeated for any of several")
    help_of_keys = "erase records with one of the keys in this file, one a line; - is stdin"
    add("--keys", metavar="FILE", help=help_of_keys)
    help_of_form = 'how keys are written: text, base64, or JSON as cat --json prints them ("..." or {"base64": "..."})'
    add("--keys-format", choices=_KEYS_FORMATS, default=_KEYS_FORMATS[0], help=help_of_form)
    add("--header", metavar="NAME=VALUE", help="erase records with this header")
    help_of_blank = "keep the selected records, but make their values null (a tombstone in a compacted topic)"
    add("--blank", choices=("value",), help=help_of_blank)
    add_request(parser, EraseRequest, without=("to", "dry_run"))
    own = [name for name, _, _ in options_of(BackupErasureRequest) if name != "apply"]
    add_request(parser, BackupErasureRequest, without=own)


def run(options: Namespace, output: Output) -> None:
    from brokerless.jobs.erase.erased_logs import erase_logs

    if options.to is None:
        _erase_backup(options, output)
        return
    if options.apply:
        raise UsageError("--apply is for a backup, in which records are erased; --to writes another log at once")
    sources = output.sources(options)
    selection = selection_of(options)
    if selection is None:
        raise UsageError(one_of(has_key=True))
    request = _request(options, selection)
    path = os.fspath(request.manifest or "")
    partitions = [each for source in sources for each in source.partitions]
    named = named_topics(partitions, options)
    running = RunOptions(spark=request.spark, say=output.say)
    results = erase_logs(sources, request, output.damage, progress, named=named, running=running)
    fields, copies, replicas = results.fields, results.copies, results.replicas
    if results.finished:
        output.say(f"{count_of(results.finished, 'partition')} done before, as {path} says")
    if options.json:
        output.objects([each.as_dict() for each in results])
        output.objects([{"field": each.as_dict()} for each in fields])
        output.objects([{"copy": each.as_dict()} for each in copies])
        output.objects([{"replica": each.as_dict()} for each in replicas])
    else:
        _show(
            output,
            results,
            fields,
            copies=copies,
            options=options,
            manifest=None if request.dry_run else path,
        )
    if not any(each.totals.selected or each.damages for each in results) and not results.finished:
        output.say("no record has any of these keys" if selection.keys is not None else "no record was selected")
    if selection.keys is not None and not options.dry_run and any(each.totals.selected for each in results):
        keys = f"--keys {options.keys}" if options.keys not in (None, "-") else "--keys FILE"
        sources = " ".join(f"--source {each}" for each in options.paths)
        output.say(f"values may hold these keys as well; to search for them: brokerless prove {path} {sources} {keys}")
    for each in fields:
        finding = each.finding()
        if finding is not None:
            output.damage(finding)
    same = sum(each.is_same and not each.text for each in replicas)
    if same:
        output.say(f"{count_of(same, 'replica')} identical to the first one of the partition")
    for each in replicas:
        if each.text:
            are = "are identical where both have batches, but" if each.is_same else "are not the same:"
            output.say(f"{each.name}: {' and '.join(each.paths)} {are} {each.text}")


def _erase_backup(options: Namespace, output: Output) -> None:
    """Erases records in all snapshots of a backup."""
    from brokerless.jobs.backup_erasure.job import erase_backup
    from brokerless.jobs.backup_erasure.job import options_of as backup_options_of
    from brokerless.log.backups.names import has_backup, split_path
    from brokerless.log.storage.location import Location
    from brokerless.views.jobs.backup_erasure import erasure_lines, erasure_rows

    locations = [Location.of(each) for each in options.paths]
    if len(locations) > 1 or not (has_backup(locations[0]) or split_path(locations[0])):
        raise UsageError("give --to DIRECTORY, for the logs without the records; only one backup needs none")
    if options.blank or options.blank_fields or options.schemas or options.value_format != "auto":
        raise UsageError("--blank, --blank-fields and --schemas: in a backup, records are erased as a whole")
    selection = selection_of(options)
    if selection is None:
        raise UsageError(one_of(has_key=True))
    request = request_of(
        BackupErasureRequest, options, keys=selection.keys, where=selection.where, header=selection.header,
        topics=None, key_pairs=dict(options.key_pair),
    )  # fmt: skip
    how = backup_options_of(request, partial(is_selected, options), partial(is_named, options))
    with progress("reading") as done:
        result = erase_backup(locations[0], how, RunOptions(done, options.spark, output.say))
    for finding in result.findings:
        output.damage(finding)
    lines = erasure_lines(result, None if request.manifest is None else os.fspath(request.manifest), request.sign_key)
    output.result(erasure_rows(result), lines)


def _request(options: Namespace, selection: Selection) -> EraseRequest:
    from brokerless.typed.blanking.paths import split_fields

    return request_of(
        EraseRequest, options, keys=selection.keys, header=selection.header, blank=options.blank is not None,
        blank_fields=split_fields(options.blank_fields) if isinstance(options.blank_fields, str) else (),
        manifest=options.manifest or f"{options.to.rstrip('/')}.erasure.json",
    )  # fmt: skip


def _show(
    output: Output,
    results: list[ErasedPartition],
    fields: list[TopicField],
    copies: list[Copy],
    options: Namespace,
    manifest: str | None,
) -> None:
    written = [each for each in results if not each.damages]
    output.prose(*table(_NAMES, [_cells(each) for each in written], right=_NAMES[2:]))
    for each in results:
        if each.damages:
            output.say(not_written(each.task.name, each.task.source.path, each.damages))
    if fields:
        output.prose("", *table(_FIELDS, [_field_cells(each) for each in fields], right=_FIELDS[2:]))
    if copies:
        rows = [[each.path, each.what, format_number(each.selected)] for each in copies]
        output.prose("", "copies may still be in:")
        output.prose(*table(("path", "what", "selected records"), rows, right=("selected records",)))
    selected = sum(each.totals.selected for each in written)
    action = "blanked" if options.blank or isinstance(options.blank_fields, str) else "removed"
    what = where_written(options.to, dry_run=options.dry_run, has_any=bool(written))
    size = format_bytes(sum(each.totals.bytes_out for each in written))
    partitions = count_of(len(written), "partition")
    output.prose("", f"{partitions}, {count_of(selected, 'record')} {action}, {size}: {what}")
    if manifest is not None and results and not options.dry_run:
        output.prose(f"manifest: {manifest}" + (f", signed in {manifest}.sig" if options.sign_key else ", not signed"))


def _cells(each: ErasedPartition) -> list[Any]:
    totals = each.totals
    counts = (totals.records_in, totals.selected, totals.batches_in, len(totals.touched))
    sizes = totals.bytes_in, totals.bytes_out
    offsets = format_span(each.start_offset, each.end_offset)
    return [each.task.name, offsets, *map(format_number, counts), *map(format_bytes, sizes)]


def _field_cells(each: TopicField) -> list[Any]:
    return [each.topic, each.field, *map(format_number, (each.held, each.empty, each.lacking))]


def selection_of(options: Namespace) -> Selection | None:
    """Return the selection that the options make; None without any. Raises :class:`UsageError` for several of them,
    UnreadableError."""
    from brokerless.cli.output import spool_stdin
    from brokerless.jobs.erase.key_set import KeySet, load_keys
    from brokerless.jobs.erase.selection import Selection
    from brokerless.tables.record_filter import parse_header

    has_key = "key" in options
    used = [each for each in ("key", "keys", "where", "header") if getattr(options, each, None) is not None]
    if len(used) > 1:
        raise UsageError(one_of(has_key=has_key))
    if not used:
        return None
    keys = None
    if used == ["key"]:
        if "" in options.key:
            raise UsageError("--key is empty; records with a key of no bytes are those --where 'octet_length(key) = 0'")
        keys = KeySet.of(map(os.fsencode, options.key))
    elif used == ["keys"]:
        if options.keys == "-":
            if "-" in getattr(options, "paths", ()):
                raise UsageError("stdin has either the log or the keys; write one of them to a file")
            spool_stdin()
        keys = load_keys(options.keys, options.keys_format)
    header = None if options.header is None else parse_header(options.header)
    return Selection(keys, options.where, header)


def one_of(*, has_key: bool) -> str:
    """Return what to say where none, or several, of the options are there."""
    return f"select the records by one of {'--key KEY, ' * has_key}--keys FILE, --where SQL and --header NAME=VALUE"
