"""``brokerless trim``: frees space in a log directory whose disk is full."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from brokerless.cli.options import add_timezone, add_topics
from brokerless.cli.output import Output
from brokerless.cli.progress import progress
from brokerless.cli.requests import add_request, request_of
from brokerless.cli.selection import is_narrowed, named_topics
from brokerless.requests.checking import TrimRequest

DESCRIPTION = """\
Shows which whole segments of a broker's log directory can go, and removes them: the disk is full, and the broker does
not start. Without --apply, nothing is changed.

Of each partition the oldest segments go, and never the last one; --retention takes what the topics' own settings in the
cluster's metadata let go, --before what is older than a time, and --free what is deleted or expired first, and then the
oldest segments of all topics, until these are so many bytes. What each costs is shown: records, hours, and the offsets
that groups have not read. Kafka's own topics stay, and so do topics that are compacted, as Kafka deletes no records of
them, either. Where the metadata is not in this directory, give the broker's other ones with --log-dir, or name topics
with -t.

With --apply, log start offsets and checkpoints are moved as by kafka-delete-records, and a stopped broker starts on the
directory without more ado. Other brokers keep their replicas; a consumer may get there what is gone here.

The exit code is 0, also where nothing has to go; 1 if less can go than --free requests, be it nothing; and 2 for a
wrong command line, a directory that cannot be read, or one on which a broker runs (with --apply).
"""
EXAMPLES = """\
  brokerless trim /var/lib/kafka --free 20GB
  brokerless trim /var/lib/kafka --retention --apply
  brokerless trim /var/lib/kafka -t clicks -t 'metrics-*' --before -7d --apply
"""


def add_paths(parser: ArgumentParser) -> None:
    help_of_path = "a log directory of a broker that is stopped; local"
    parser.add_argument("paths", nargs=1, metavar="DIRECTORY", help=help_of_path)
    add_topics(parser)
    parser.set_defaults(exclude_internal=False)


def add_options(parser: ArgumentParser) -> None:
    add_request(parser, TrimRequest, one_of=("free", "retention", "before"))
    add_timezone(parser)


def run(options: Namespace, output: Output) -> None:
    import brokerless
    from brokerless.clusters.directory_state import load_directory_state, running_broker
    from brokerless.jobs.trim.candidates import TrimLimits
    from brokerless.jobs.trim.job import trim
    from brokerless.views.jobs.trim import lines, rows

    request = request_of(TrimRequest, options)
    log, others = brokerless.open(options.paths[0]), [brokerless.open(path).directory for path in options.log_dirs]
    partitions = None
    if is_narrowed(options):
        partitions = output.chosen(log, options)
        if not partitions:
            return
    running = running_broker(load_directory_state(log.directory))
    if running is not None and not options.apply:
        output.say(f"{running}: a broker is running on this directory; stop it before --apply")
    with progress("reading"):
        trimmed = trim(
            log.directory, TrimLimits.of(request), partitions=partitions,
            named=named_topics(partitions or (), options), others=others, apply=request.apply,
        )  # fmt: skip
    output.result(rows(trimmed), lines(trimmed))
    output.note_findings(trimmed.missing > 0)
