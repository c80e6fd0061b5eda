"""``brokerless keys``: whose private keys read an encrypted backup."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from brokerless.cli.commands.snapshots import add_paths
from brokerless.cli.output import Output
from brokerless.cli.progress import progress
from brokerless.cli.requests import add_request
from brokerless.requests.backups import KeysRequest

DESCRIPTION = """\
Lists the key pairs that read each run of an encrypted backup, and changes them, without writing any segment again.

--add encrypts the data key of each run for one more key pair, for which --key-pair gives a private key that reads it.
--remove takes a key pair out. The first one of a run is in the manifests of its segments, and stays. Whoever had a
private key may have kept what it reads: to keep later runs from them, give backup other public keys.

The exit code is 0, and 2 if there is no encrypted backup, or no private key reads a run.
"""
EXAMPLES = """\
  brokerless keys s3://backup/secret
  brokerless keys s3://backup/secret --add new=new.public.pem --key-pair ops=ops.pem
  brokerless keys s3://backup/secret --remove safe
"""

__all__ = ["DESCRIPTION", "EXAMPLES", "add_options", "add_paths", "run"]


def add_options(parser: ArgumentParser) -> None:
    add_request(parser, KeysRequest)


def run(options: Namespace, output: Output) -> None:
    from brokerless.jobs.backup.keys import change_keys
    from brokerless.log.storage.location import Location
    from brokerless.log.tiered.options import load_private_keys
    from brokerless.log.tiered.writing.encryption import load_public_keys
    from brokerless.views.jobs.backup import key_lines, key_rows

    with progress("listing keys"):
        runs = change_keys(
            Location.of(options.paths[0]),
            load_public_keys(dict(options.add)),
            options.remove,
            private_keys=load_private_keys(dict(options.key_pairs)),
        )
    output.result(key_rows(runs), key_lines(runs))
