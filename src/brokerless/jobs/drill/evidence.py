"""Writes what a drill tried and found, for whoever asks whether backups are tried."""

from __future__ import annotations

import json
import os

from brokerless.jobs.drill.results import DrillResult
from brokerless.log.storage.atomic import write_output
from brokerless.log.storage.write_errors import refuse_directory, unwritable

EvidencePath = str | os.PathLike[str] | None


def refuse_evidence(path: EvidencePath) -> None:
    """Raise :class:`UnwritableError` for a path where no file can be written, before a drill begins."""
    if path is not None:
        refuse_directory(path, "a file in it, such as drill.json")


def write_evidence(result: DrillResult, path: EvidencePath) -> None:
    """Write the evidence at once, in place of what the file had. Raises :class:`UnwritableError`."""
    if path is not None:
        with unwritable(path):
            write_output(os.fspath(path), f"{json.dumps(result.as_dict(), indent=2)}\n".encode())
