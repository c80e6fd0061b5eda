"""Control records: what the key of a record in a control batch says.

A control record's key is a version (int16) and a type (int16); a transaction marker's value is a version (int16) and
the coordinator's epoch (int32). Sources: KIP-98, KIP-595, KIP-853; ``ControlRecordType`` and ``EndTransactionMarker``
(4.1.1), which take unknown types and newer versions as they come.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brokerless.format.columns import Columns

ABORT, COMMIT = 0, 1

TYPES = {
    ABORT: "ABORT",
    COMMIT: "COMMIT",
    2: "LEADER_CHANGE",
    3: "SNAPSHOT_HEADER",
    4: "SNAPSHOT_FOOTER",
    5: "KRAFT_VERSION",
    6: "KRAFT_VOTERS",
}
"""Control record types by their id; any other is ``UNKNOWN``."""
UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Control:
    """A decoded control record. ``coordinator_epoch`` of transaction markers, where the value has one."""

    type_id: int
    type: str
    coordinator_epoch: int | None


def decode_control(key: bytes | None, value: bytes | None) -> Control | None:
    """What a control record says; None where its key is too short to say anything."""
    if key is None or len(key) < 4:
        return None
    type_id = int.from_bytes(key[2:4], "big", signed=True)
    epoch = None
    if type_id in (ABORT, COMMIT) and value is not None and len(value) >= 6:
        epoch = int.from_bytes(value[2:6], "big", signed=True)
    return Control(type_id, TYPES.get(type_id, UNKNOWN), epoch)


def controls(columns: Columns) -> list[Control | None]:
    """Of each row, which must come from a control batch."""

    def value(null: NDArray[np.uint8], ends: NDArray[np.int32], data: NDArray[np.uint8], row: int) -> bytes | None:
        return None if null[row] else data[ends[row] : ends[row + 1]].tobytes()

    return [
        decode_control(
            value(columns.key_null, columns.key_ends, columns.key_data, row),
            value(columns.value_null, columns.value_ends, columns.value_data, row),
        )
        for row in range(columns.rows)
    ]
