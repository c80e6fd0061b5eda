"""Appends as a partition's leader does: validates a produce request, assigns offsets, checks sequences, and writes.

Source: ``UnifiedLog.appendAsLeader`` (4.1.1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokerless import clock
from brokerless.bounds import check_arguments
from brokerless.format.append.leader import append
from brokerless.format.append.types import AppendConfig, AppendResult, Refusal
from brokerless.format.read.batch_headers import read_headers
from brokerless.format.read.batch_scan import scan_batches
from brokerless.log.producer.checks import Duplicate, Origin, check_append
from brokerless.log.write.log_writer import LogWriter


@check_arguments
def append_as_leader(
    log: LogWriter,
    buffer: NDArray[np.uint8],
    config: AppendConfig,
    partition_leader_epoch: int = 0,
    origin: Origin = "client",
    at_ms: int | None = None,
) -> AppendResult | Duplicate | Refusal:
    """Append one produce request's batches to a log, or return why a broker would not.

    Parameters
    ----------
    log
        The partition's log, from :func:`open_log`.
    buffer, config, partition_leader_epoch, origin
        As for :func:`append`.
    at_ms
        The time of the append (ms since the epoch), now by default.

    Returns
    -------
    AppendResult, Duplicate or Refusal
        With a :class:`Duplicate`, the batch was appended before, and nothing is written.

    Raises
    ------
    RefusedError
        Where a follower would refuse as well: a batch larger than a segment.
    UnwritableError
        Where the disk fails.
    """
    at_ms = clock.now() if at_ms is None else at_ms
    appended = append(buffer, config, log.log_end_offset, partition_leader_epoch, at_ms, origin)
    if isinstance(appended, Refusal):
        return appended
    batches = read_headers(appended.buffer, scan_batches(appended.buffer).positions)
    checked = check_append(log.producers, batches, appended.buffer, origin)
    if isinstance(checked, Duplicate):
        return checked
    if checked is not None:
        return Refusal(checked.exception, checked.message, int(batches.positions[checked.row]))
    log.append(appended.buffer)
    return appended
