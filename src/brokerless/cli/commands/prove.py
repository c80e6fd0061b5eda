"""``brokerless prove``: checks the manifest of an erasure."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from brokerless.cli.options import add_severity
from brokerless.cli.output import Output
from brokerless.cli.progress import progress
from brokerless.cli.requests import add_request
from brokerless.errors import UsageError
from brokerless.jobs.run.types import RunOptions
from brokerless.requests.comparing import ProveRequest
from brokerless.text import count_of
from brokerless.views.proof_page import copied_text, scope_text

DESCRIPTION = """\
Checks the manifest that brokerless erase wrote: its signature, the hash of every file, that all batches but the touched
ones are the same, that the other records of touched batches are, and that no erased record is left.

With --source, the logs of before are compared as well, and the values that were erased are searched for in all files
and decompressed records. With the --keys, --where or --header of the erasure, no record may be selected any more, every
selected record of the source has to be erased, and keys are searched for. What is found in the value of another record
is a warning. A selected record in a partition of the source that the manifest does not have is an error, unless --only
names the topics or partitions that the proof is about.

Of an erasure in a backup, all segments of the bucket are searched, also those that no snapshot reads. Until prune has
removed what was replaced, the proof does not hold, and says from when on it may be removed.

Without --public-key, the signature is checked by the key that the manifest names, which anybody can make; compare it.
scripts/verify_erasure.py checks the same and shares no code with brokerless.

The exit code is 0 if the proof holds, 1 if not, and 2 for a file that is no manifest.
"""
EXAMPLES = """\
  brokerless prove erased.erasure.json
  brokerless prove erased.erasure.json --public-key public.pem --source /backup/kafka --keys keys.txt
  brokerless prove erased.erasure.json --source /backup/kafka --keys keys.txt --only orders
  brokerless prove erased.erasure.json --erased /var/lib/kafka --html proof.html
"""
HAS_TABLES = False


def add_paths(parser: ArgumentParser) -> None:
    parser.add_argument("manifest", metavar="MANIFEST", help="the file that brokerless erase wrote")


def add_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--keys", metavar="FILE", help="the keys that were erased, one a line; - is stdin")
    add("--keys-format", choices=("text", "base64", "json"), default="text", help="how keys are written")
    add("--header", metavar="NAME=VALUE", help="the header of the erasure")
    add_request(parser, ProveRequest)
    add("--html", metavar="FILE", help="also write a page for an auditor; it needs no network")
    add_severity(parser)


def run(options: Namespace, output: Output) -> None:
    from brokerless.cli.commands.erase import selection_of
    from brokerless.jobs.backup_erasure.proof import BackupProof, prove
    from brokerless.jobs.prove.job import Proving
    from brokerless.log.storage.location import Location
    from brokerless.log.tiered.options import load_private_keys
    from brokerless.tables.read_options import bound
    from brokerless.views.findings import finding_line, is_at_least, marked, root_of
    from brokerless.views.screen import colored

    if options.html is not None:
        from brokerless.views.proof_page import check_page_path

        check_page_path(options.html, options.manifest, [options.erased, options.source])
    erased, source = (None if each is None else Location(each) for each in (options.erased, options.source))
    proving = Proving(
        Location(options.manifest),
        erased,
        source,
        public_key=options.public_key,
        selection=selection_of(options),
        only=options.only,
        max_batch_bytes=bound(options.max_batch_bytes),
        keys=load_private_keys(dict(options.key_pairs)),
    )
    with progress("checking") as done:
        proof = prove(proving, running=RunOptions(done, options.spark, output.say))
    if options.html is not None:
        if isinstance(proof, BackupProof):
            raise UsageError("--html: a page is of logs, and this manifest is of a backup; use --json")
        from brokerless.views.proof_page import write_proof_page

        write_proof_page(proof, options.html)
    shown = [each for each in proof.findings if not options.quiet and is_at_least(each, options.min_severity)]
    if options.json:
        output.objects([*(each.as_dict() for each in shown), *([] if options.quiet else [proof.as_dict()])])
    else:
        root = root_of(filter(None, (options.erased, options.source, options.manifest)))
        for each in shown:
            output.prose(*marked(colored(each.severity, 7), finding_line(each, root)))
        signature = {"valid": f"valid, by key {proof.signer}", "none": "none", "wrong": "wrong"}[proof.signature]
        output.prose(f"signature: {signature}")
        if proof.searched or proof.unsearched:
            left_out = f", {proof.unsearched:,} not (too short or too many)" if proof.unsearched else ""
            output.prose(f"searched for {count_of(proof.searched, 'byte string')}{left_out}")
        if proof.copied:
            output.prose(f"Kafka's own topics were copied unchanged: {copied_text(proof)}")
        verdict = "the proof holds" if proof.holds else "the proof does NOT hold"
        partitions = proof.as_dict()["partitions"]
        counts = f"{count_of(partitions, 'partition')}, {count_of(proof.selected, 'erased record')}"
        scope = scope_text(proof)
        if isinstance(proof, BackupProof):
            scope = f"{count_of(proof.objects, 'segment')} of the bucket searched"
        output.prose(f"{verdict}: {counts}, {scope}")
    output.note_findings(not proof.holds)
