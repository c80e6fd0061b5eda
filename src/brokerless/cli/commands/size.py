from __future__ import annotations

import secrets
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections import Counter
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from brokerless.cli.options import FORMATS, add_max_batch_bytes, add_redact, add_remote, add_spark
from brokerless.cli.output import Output
from brokerless.cli.progress import progress
from brokerless.cli.values import count, integer, price, size
from brokerless.errors import UsageError
from brokerless.kafka_names import COMPRESSION_TYPES

if TYPE_CHECKING:
    from brokerless.jobs.size.job import SizeSettings
    from brokerless.jobs.size.result import TopicSize

DESCRIPTION = """\
Shows what topics cost, and would cost in other message formats, codecs, levels and batch sizes.

Sizes are estimated from a sample that is drawn evenly from all segments (4 % of a topic and at most 4 MiB; below 1 MiB
all of it), with an interval that holds the true size in 95 % of cases. --full reads everything: then sizes are exactly
those that brokerless convert writes; of gzip, those that Kafka writes. Also shown: how much is overhead, what varints
and deltas save, from how many records on a batch is smaller in v2, what small batches cost, and the heaviest keys,
headers, producers and hours.

Batches are filled as a producer does; a number of records is shown for comparison only. The last line is the command
line that makes the smallest that loses nothing. With --json, each topic has a line for what is there, with all details,
and one for each choice; the last lines are of all topics together (topic null) where there are several.

The exit code is 0, 1 if some of what was read is damaged, and 2 for a path that cannot be opened.
"""
EXAMPLES = """\
  brokerless size /var/lib/kafka --exclude-internal
  brokerless size /var/lib/kafka -t orders --codec zstd --level 1 --level 3 --level 12 --price-per-gb 0.08
  brokerless size /var/lib/kafka/orders-0 --full --format v2 --codec lz4 --batch-size 16KiB --batch-size 1MiB
  brokerless size --json /var/lib/kafka | jq 'select(.isBest)'
"""


def add_options(parser: ArgumentParser) -> None:
    add_remote(parser)
    add = parser.add_argument
    add(
        "--sample", type=_sample, metavar="SIZE", help="bytes of each topic to read, or a share of it, as 10%% or 64MiB"
    )
    add("--full", action="store_true", help="read everything, for exact sizes: as slow as converting for each choice")
    add("--format", action="append", default=[], choices=FORMATS, help="compare this format (all); can be repeated")
    help_of_codec = "compare this compression.type (all); can be repeated"
    add("--codec", action="append", default=[], choices=COMPRESSION_TYPES, help=help_of_codec)
    help_of_level = "compare this compression level (Kafka's default, and a few for v2); can be repeated"
    add("--level", action="append", default=[], type=integer, metavar="N", help=help_of_level)
    help_of_size = "compare batches of this batch.size (16KiB, 128KiB, 1MiB); can be repeated"
    add("--batch-size", action="append", default=[], type=size, metavar="SIZE", help=help_of_size)
    help_of_records = "compare batches of so many records (1, 10, 100, 1000); can be repeated"
    add("--batch-records", action="append", default=[], type=_records, metavar="N", help=help_of_records)
    add("--price-per-gb", type=price, metavar="PRICE", help="what 10^9 bytes cost in a month: shows costs as well")
    add_redact(parser)
    add_max_batch_bytes(parser)
    add_spark(parser)


def run(options: Namespace) -> int:
    from brokerless.jobs.size.job import plan, size_planned, work_of
    from brokerless.jobs.size.result import total
    from brokerless.views import size as view

    output, settings, topics = Output(), _settings(options), list["TopicSize"]()
    secret = secrets.token_bytes(32)
    partitions = output.partitions(options)
    plans = plan(partitions, settings)
    with (
        progress("measuring", work_of(plans)) as done,
        closing(size_planned(plans, spark=options.spark, done=done, say=output.say)) as sizes,
    ):
        for each in sizes:
            topic = _redacted(each, secret) if options.redact else each
            topics.append(topic)
            for finding in topic.findings:
                output.damage(finding)
            if options.json:
                output.objects(topic.as_dicts(options.price_per_gb))
                continue
            for line in [*([""] if len(topics) > 1 else []), *view.lines(topic, options.price_per_gb)]:
                output.prose(line)
    of_all = topics[0] if len(topics) == 1 else total(topics)
    if options.json and len(topics) > 1:
        output.objects(of_all.as_dicts(options.price_per_gb))
    elif not options.json:
        for line in [*(view.totals(of_all, options.price_per_gb) if len(topics) > 1 else ())]:
            output.prose(line)
        for line in view.advice(of_all, options.paths, _selection(options)):
            output.prose(line)
    return output.end()


def _redacted(topic: TopicSize, secret: bytes) -> TopicSize:
    """The same, without the keys of records."""
    from brokerless.views.records.redaction import redact_key

    by_key = Counter({redact_key(key, secret): stored for key, stored in topic.contents.by_key.items()})
    return replace(topic, contents=replace(topic.contents, by_key=by_key))


def _settings(options: Namespace) -> SizeSettings:
    from brokerless.format.codecs.compression import LEVELS
    from brokerless.format.codecs.decompression import DEFAULT_MAX_BATCH_BYTES
    from brokerless.jobs.size.choices import choices_of
    from brokerless.jobs.size.job import SizeSettings

    if options.full and options.sample is not None:
        raise UsageError("--full and --sample exclude each other; use one of them")
    magics = [FORMATS.index(each) for each in options.format]
    choices = choices_of(
        magics, options.codec, options.level, batch_records=options.batch_records, batch_bytes=options.batch_size
    )
    if not choices:
        ranges = ", ".join(f"{codec} {low} to {high}" for codec, (low, high, _) in LEVELS.items())
        raise UsageError(f"nothing to compare: v0 and v1 have no zstd, and levels are {ranges}")
    max_batch_bytes = options.max_batch_bytes or DEFAULT_MAX_BATCH_BYTES
    return SizeSettings(tuple(choices), options.sample, options.full, max_batch_bytes)


def _selection(options: Namespace) -> list[str]:
    """The options that select partitions, as ``convert`` takes them."""
    words = [word for topic in options.topic for word in ("-t", topic)]
    words += [word for number in options.partition for word in ("-p", str(number))]
    words += ["--exclude-internal"] if options.exclude_internal else []
    return words + (["--include", ",".join(options.include)] if options.include else [])


def _sample(text: str) -> float:
    if not text.endswith("%"):
        return float(size(text))
    try:
        share = float(text[:-1]) / 100
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise ArgumentTypeError(f"{text!r} is not a share; use one such as 0.5% or 10%")
    return min(share, 1 - 1e-9)


def _records(text: str) -> int:
    if not 0 < count(text) <= 1 << 20:
        raise ArgumentTypeError(f"{text} is not 1 to {1 << 20} records")
    return int(text)
