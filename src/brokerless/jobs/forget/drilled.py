"""Finds the snapshots that have passed a drill, by the evidence that ``drill --record`` writes into the backup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from brokerless.errors import UnreadableError, UsageError
from brokerless.jobs.check.seal import unsigned_finding
from brokerless.jobs.signatures import is_signed_by
from brokerless.log.backups.names import parse_stem
from brokerless.log.backups.place import BackupPlace
from brokerless.log.backups.snapshot import Snapshot, SnapshotId
from brokerless.log.own_file import OwnFile
from brokerless.log.storage.guarded_files import read_own
from brokerless.progress import Report
from brokerless.values import Int64, LenientValue

_SIGNATURE_LIMIT = 1 << 16


class _EvidenceJson(LenientValue, frozen=True):
    """The evidence of a drill, as far as rules of what stays need it."""

    drill: Literal[1]
    snapshot: SnapshotId
    created: Int64
    """When the snapshot was made (ms)."""
    is_clean: bool
    partitions: tuple[str, ...] | None = None
    """The partitions that alone were tried; None for all."""


EVIDENCE_FILE = OwnFile(_EvidenceJson, "the evidence of a drill", "drill again, with --record", 64 << 20)


def drilled_snapshots(
    place: BackupPlace, snapshots: Sequence[Snapshot], trusted: Sequence[bytes], report: Report
) -> frozenset[str]:
    """Return the IDs of the snapshots of which a drill of all partitions was clean. ``trusted``: public keys, by one of
    which the evidence is signed; without them, any counts. What cannot be read, or is not signed, is reported, and
    counts for nothing."""
    known = {(each.id, each.created) for each in snapshots}
    directory = place.drill_directory
    files = [each.location for each in directory.find_entries()]
    found: set[str] = set()
    for each in files:
        stem = parse_stem(each.name.removesuffix(".json"))
        if stem is None:
            continue
        try:
            data = read_own(each, EVIDENCE_FILE.limit)
            evidence = EVIDENCE_FILE.parse(data, each.path)
            signature = directory / f"{stem.stem}.sig"
            signed = read_own(signature, _SIGNATURE_LIMIT) if trusted and signature.exists() else None
        except (UnreadableError, UsageError) as error:
            report(UnreadableError("", str(error)).finding(each.path))
            continue
        if not evidence.is_clean or evidence.partitions is not None:
            continue
        if trusted and not any(is_signed_by(key, data, signed) for key in trusted):
            report(unsigned_finding(each.path, "this evidence of a drill"))
        elif (evidence.snapshot, evidence.created) in known:
            found.add(evidence.snapshot)
    return frozenset(found)
