"""Appends records to a log, with the leader epoch of its last batch."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from brokerless.format.write.builder import BatchAttributes, BatchBuilder
from brokerless.log.write.log_writer import LogWriter

_BATCH_SIZE = 1 << 16


def append_records(log: LogWriter, records: Iterable[tuple[int, bytes | None, bytes | None]]) -> None:
    """Append records, each a timestamp (ms), a key and a value, in batches of up to 64 KiB. Raises as
    :meth:`LogWriter.append`."""
    epoch = log.leader_epochs[-1][0] if log.leader_epochs else 0
    builder = None
    for timestamp, key, value in records:
        if builder is None or not builder.has_room_for(timestamp, key, value):
            if builder is not None:
                log.append(np.frombuffer(builder.close(), np.uint8))
            attributes = BatchAttributes(base_offset=log.log_end_offset, partition_leader_epoch=epoch)
            builder = BatchBuilder(_BATCH_SIZE, attributes=attributes)
        builder.append(timestamp, key, value)
    if builder is not None:
        log.append(np.frombuffer(builder.close(), np.uint8))
