"""Findings about partitions that these disks have no replica of, but something else knows."""

from __future__ import annotations

from typing import Literal

from brokerless.findings import Finding, Kind, Severity

KnownBy = Literal["metadata", "topic", "bucket", "checkpoint", "earlier-run", "set"]

_TEXTS: dict[KnownBy, tuple[Severity, str]] = {
    "metadata": ("error", "no disk has a replica of {}: a broker on these disks begins it again, empty"),
    "topic": ("error", "no disk has a replica of {}: it begins again, empty"),
    "bucket": ("warning", "the bucket has nothing of {}: it begins again, empty"),
    "checkpoint": ("warning", "there is a recovery point for {}, but no such directory"),
    "set": ("error", "{} is in no part of the set"),
    "earlier-run": (
        "warning",
        "an earlier run found {}, and no segment of it is here any more; its table stays",
    ),
}


def partition_missing(
    path: str,
    name: str,
    known_by: KnownBy,
    *,
    severity: Severity | None = None,
    offset: int | None = None,
    expected: str | None = None,
    found: str | None = None,
) -> Finding:
    """Return the finding about a partition that is known and not here.

    Parameters
    ----------
    path
        The log directory, checkpoint, bucket or directory that should have it.
    name
        Of the partition, such as ``orders-0``.
    known_by
        The cluster's metadata; other partitions of its topic; a bucket's; a checkpoint; an earlier
        run; or the metadata of a set of backups.
    severity
        That of who knows it, unless it is passed.
    offset, expected, found
        As in :meth:`Kind.at`.
    """
    usual, text = _TEXTS[known_by]
    return Kind.PARTITION_MISSING.at(
        path, text.format(name), severity=severity or usual, offset=offset, expected=expected, found=found
    )
