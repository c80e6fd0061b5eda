"""What to do about a finding at its own place: a command that can be pasted."""

from __future__ import annotations

import shlex
from pathlib import PurePosixPath

from brokerless.findings import Finding, Kind, advice_of
from brokerless.log import names


def advice_for(finding: Finding) -> str | None:
    """Return the advice of a finding's kind, with the command to paste, if there is one."""
    advice, command = advice_of(finding.kind), abort_command(finding)
    return advice if command is None else f"{advice}: {command}"


def abort_command(finding: Finding) -> str | None:
    """Return what ends a transaction that nobody ends, on a running cluster (``TransactionsCommand``, 4.4.0); None for
    other findings, and where the path does not say which partition it is."""
    if finding.kind not in (Kind.TRANSACTION_HANGING, Kind.TRANSACTION_ORPHANED) or finding.offset is None:
        return None
    place = names.parse_partition_directory(PurePosixPath(finding.file).parent.name)
    return None if place is None else abort_command_at(place.topic, place.partition, finding.offset)


def abort_command_at(topic: str | None, partition: int | None, first_offset: int | None) -> str | None:
    """Return the command that aborts the transaction which begins there; None where the place is not known."""
    if topic is None or partition is None or first_offset is None:
        return None
    of = f"--topic {shlex.quote(topic)} --partition {partition} --start-offset {first_offset}"
    return f"kafka-transactions.sh --bootstrap-server HOST:9092 abort {of}"
