"""What to do about a finding at its own place: a command that can be pasted."""

from __future__ import annotations

import shlex

from brokerless.findings import Finding, Kind, describe_kinds
from brokerless.log import names
from brokerless.log.storage.paths import TIERED
from brokerless.log.tiered.object_names import partition_directory_of

_RESTORE = (
    "look for an earlier version of the segment's objects in the bucket, and for a copy of the bucket: brokers rebuild "
    "nothing of a remote segment, and no replica has it on its disk; do not delete the partition, as a broker that "
    "starts without it deletes its remote segments"
)
_REMOTE_ADVICE = {"records": _RESTORE, "indexes": f"harmless to the data, but consumers may not get it: {_RESTORE}"}
"""In remote storage, in place of what is for a broker's disk, by what the finding concerns."""
_ANYWHERE = (Kind.LIMIT_EXCEEDED, Kind.MAGIC_UNKNOWN, Kind.SEGMENT_OVERLAP, Kind.INDEX_NOT_CHECKED)
"""Kinds whose advice is right in remote storage as well."""
_OF_BROKERS = (
    Kind.LEADER_EPOCH_ORDER,
    Kind.MARKER_BROKEN,
    Kind.LEADER_EPOCH_MISMATCH,
    Kind.LEADER_EPOCH_BEYOND_END,
    Kind.CHECKPOINT_CORRUPT,
)
"""Kinds that concern neither records nor indexes, and whose advice is for a broker's disk."""


def advice_at(finding: Finding) -> str | None:
    """Return the advice of a finding's kind at its place: on a broker's disk, or in remote storage."""
    advice, described = finding.advice, describe_kinds().get(finding.kind)
    if described is None or not finding.file.startswith(TIERED) or finding.kind in _ANYWHERE or advice == "nothing":
        return advice
    return _REMOTE_ADVICE.get("records" if finding.kind in _OF_BROKERS else described.concerns or "", advice)


def advice_for(finding: Finding) -> str | None:
    """Return the advice of a finding at its place, with the command to paste, if there is one."""
    advice, command = advice_at(finding), abort_command(finding)
    return advice if command is None else f"{advice}: {command}"


def abort_command(finding: Finding) -> str | None:
    """Return what ends a transaction that nobody ends, on a running cluster (``TransactionsCommand``, 4.4.0); None for
    other findings, and where the path does not say which partition it is."""
    if finding.kind not in (Kind.TRANSACTION_HANGING, Kind.TRANSACTION_ORPHANED) or finding.offset is None:
        return None
    place = names.parse_partition_directory(partition_directory_of(finding.file) or "")
    return None if place is None else abort_command_at(place.topic, place.partition, finding.offset)


def abort_command_at(topic: str | None, partition: int | None, first_offset: int | None) -> str | None:
    """Return the command that aborts the transaction which begins there; None where the place is not known."""
    if topic is None or partition is None or first_offset is None:
        return None
    of = f"--topic {shlex.quote(topic)} --partition {partition} --start-offset {first_offset}"
    return f"kafka-transactions.sh --bootstrap-server HOST:9092 abort {of}"
