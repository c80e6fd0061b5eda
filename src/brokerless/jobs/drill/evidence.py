"""Writes what a drill tried and found, for whoever asks whether backups are tried: to a file, and into the backup.

A signature is in a file of its own beside it (Ed25519, as that of a snapshot), over the bytes of the JSON.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from brokerless.errors import UsageError
from brokerless.jobs.drill.results import DrillResult
from brokerless.jobs.signatures import load_private_key
from brokerless.log.backups.names import SnapshotName
from brokerless.log.directory import LogDirectory
from brokerless.log.storage.atomic import write_output
from brokerless.log.storage.object_store import create_object
from brokerless.log.storage.write_errors import refuse_directory, unwritable
from brokerless.requests.backups import DrillRequest

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


@dataclass(frozen=True, slots=True)
class Evidence:
    """The places to which the evidence of a drill is written."""

    path: str | None = None
    """A file; None for none."""
    is_recorded: bool = False
    """Whether the evidence is written into the backup as well."""
    sign_key: Ed25519PrivateKey | None = None
    """Signs the evidence in both places."""

    @classmethod
    def of(cls, request: DrillRequest) -> Evidence:
        """Return what was requested. Raises, before a drill begins, :class:`UnwritableError` for a path where no file
        can be written, :class:`UsageError` for a key without evidence or one that is none, and UnreadableError."""
        if request.evidence is not None:
            refuse_directory(request.evidence, "a file in it, such as drill.json")
        path = None if request.evidence is None else os.fspath(request.evidence)
        if request.sign_key is None:
            return cls(path, request.record)
        if path is None and not request.record:
            raise UsageError("--sign-key: it is the evidence that is signed; give --evidence FILE or --record")
        return cls(path, request.record, load_private_key(os.fspath(request.sign_key)))

    def write(self, result: DrillResult, snapshot: LogDirectory) -> None:
        """Write it. ``snapshot``: the log directory that was drilled. Raises :class:`UnwritableError`, and UsageError
        where evidence of the same time is in the backup."""
        data = evidence_of(result)
        if self.path is not None:
            with unwritable(self.path):
                for suffix, content in self._files(data):
                    write_output(f"{self.path}{suffix}", content)
        if self.is_recorded:
            state = snapshot.location.file_system()[0].bucket.snapshot_state()
            name = SnapshotName(result.began, result.snapshot.id).stem
            for suffix, content in self._files(data):
                file = state.backup.drill_directory / f"{name}{suffix or '.json'}"
                if not create_object(file, content):
                    raise UsageError(f"{file}: this is there already; drill again")

    def _files(self, data: bytes) -> Iterator[tuple[str, bytes]]:
        if self.sign_key is not None:
            yield ".sig", self.sign_key.sign(data)
        yield "", data


def evidence_of(result: DrillResult) -> bytes:
    """Return the evidence as JSON, which is what is signed."""
    return f"{json.dumps(result.as_dict(), indent=2)}\n".encode()
