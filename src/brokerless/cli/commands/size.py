from __future__ import annotations

import secrets
from argparse import ArgumentParser, Namespace
from collections import Counter
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from brokerless.cli.options import add_redact, add_remote
from brokerless.cli.output import Output
from brokerless.cli.progress import progress
from brokerless.cli.requests import add_request, request_of
from brokerless.cli.values import price
from brokerless.jobs.run.types import RunOptions
from brokerless.requests.checking import SizeRequest

if TYPE_CHECKING:
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
    add_request(parser, SizeRequest)
    help_of_price = "what 10^9 bytes cost in a month: shows costs as well"
    parser.add_argument("--price-per-gb", type=price, metavar="PRICE", help=help_of_price)
    add_redact(parser)


def run(options: Namespace, output: Output) -> None:
    from brokerless.jobs.size.job import plan, settings_of, size_planned, work_of
    from brokerless.jobs.size.result import total
    from brokerless.views import size as view

    request, topics = request_of(SizeRequest, options), list["TopicSize"]()
    secret = secrets.token_bytes(32)
    partitions = output.partitions(options)
    plans = plan(partitions, settings_of(request))
    with (
        progress("measuring", work_of(plans)) as done,
        closing(size_planned(plans, RunOptions(done, request.spark, output.say))) as sizes,
    ):
        for each in sizes:
            topic = _redacted(each, secret) if options.redact else each
            topics.append(topic)
            for finding in topic.findings:
                output.damage(finding)
            if options.json:
                output.objects(topic.as_dicts(options.price_per_gb))
                continue
            output.prose(*([""] if len(topics) > 1 else ()), *view.lines(topic, options.price_per_gb))
    of_all = topics[0] if len(topics) == 1 else total(topics)
    if options.json and len(topics) > 1:
        output.objects(of_all.as_dicts(options.price_per_gb))
    elif not options.json:
        output.prose(*(view.totals(of_all, options.price_per_gb) if len(topics) > 1 else ()))
        output.prose(*view.advice(of_all, options.paths, _selection(options)))


def _redacted(topic: TopicSize, secret: bytes) -> TopicSize:
    """Return the result without the keys of records."""
    from brokerless.views.records.redaction import redact_key

    by_key = Counter({redact_key(key, secret): stored for key, stored in topic.contents.by_key.items()})
    return replace(topic, contents=replace(topic.contents, by_key=by_key))


def _selection(options: Namespace) -> list[str]:
    """The options that select partitions, as ``convert`` takes them."""
    words = [word for topic in options.topic for word in ("-t", topic)]
    words += [word for number in options.partition for word in ("-p", str(number))]
    words += ["--exclude-internal"] if options.exclude_internal else []
    return words + (["--include", ",".join(options.include)] if options.include else [])
