"""``brokerless drill``: tries whether a cluster can be rebuilt of a snapshot."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from functools import partial

from brokerless.cli.commands import snapshots
from brokerless.cli.options import add_topics
from brokerless.cli.output import UNUSABLE, Output
from brokerless.cli.progress import progress
from brokerless.cli.requests import add_request, request_of
from brokerless.cli.selection import is_narrowed, is_selected
from brokerless.jobs.run.types import RunOptions
from brokerless.requests.backups import DrillRequest

DESCRIPTION = """\
Tries whether a snapshot of a backup can be restored: rebuilds it into scratch, and then checks what was written.

Every batch is verified, as by verify, and the next start of each node is predicted, as by restart: it must change
nothing. Each partition must start and end where the snapshot says, with as many records, and no position of a group may
be past the end of a partition. What retention deletes soon after a start, as records are old, is said and is no fault.

With --start, a broker of a Kafka on this machine starts on it, on the loopback and with ports that are free: a consumer
reads each partition in both isolation levels, diff compares it with the snapshot, and the broker is stopped again. It
writes to scratch alone, and deletes nothing by age meanwhile.

URL is the place that backup wrote to, for the latest snapshot, or URL@SNAPSHOT. Scratch needs room for all of its logs,
with --spread for each replica. With -t and -p, only these partitions are rebuilt and tried; of a topic of groups or
transactions, all or none. What a drill does not try, such as a start of a real broker, is listed as well. With
--evidence, a file has all of it: which snapshot, when, how long, what was checked and found; with --html, a page. With
--record it is in the backup as well, and forget --keep-drilled goes by it. --sign-key signs what is written.

The exit code is 0 if all is as it should be, 1 if anything is not, and 2 if the snapshot cannot be read.
"""
EXAMPLES = """\
  brokerless drill s3://backup/kafka
  brokerless drill s3://backup/kafka@nightly --spread --scratch /srv/drill
  brokerless drill s3://backup/kafka -t orders -t 'click*' --evidence drill.json
  brokerless drill s3://backup/kafka --key-pair ops=ops.pem --evidence drill.json --html drill.html
  brokerless drill s3://backup/kafka --start /opt/kafka
  brokerless drill s3://backup/kafka --record --sign-key sign.pem
"""


def add_paths(parser: ArgumentParser) -> None:
    snapshots.add_paths(parser)
    add_topics(parser)


def add_options(parser: ArgumentParser) -> None:
    add_request(parser, DrillRequest)
    help_of_page = "also write what was tried and found as a page; it needs no network"
    parser.add_argument("--html", metavar="FILE", help=help_of_page)


def run(options: Namespace, output: Output) -> None:
    from brokerless.jobs.drill.evidence import Evidence
    from brokerless.jobs.drill.job import DrillOptions, drill
    from brokerless.views.jobs.drill import drill_lines
    from brokerless.views.jobs.drill_page import refuse_page, write_drill_page

    request = request_of(DrillRequest, options)
    evidence = Evidence.of(request)
    refuse_page(options.html)
    is_tried = partial(is_selected, options) if is_narrowed(options) else None
    for log in output.open(options, options.key_pairs):
        chosen = output.chosen(log, options, shows_others=True)
        if output.exit_code == UNUSABLE:
            return
        size = 2 * sum(each.size for each in chosen)
        with progress("rebuilding and verifying", None if request.spread else size) as done:
            result = drill(log.directory, DrillOptions.of(request, is_tried), RunOptions(done))
        evidence.write(result, log.directory)
        write_drill_page(result, options.html)
        output.note_findings(not result.is_clean)
        output.result([result.as_dict()], drill_lines(result))
