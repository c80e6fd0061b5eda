"""What control records say, for all views on records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from brokerless.arrow import flags
from brokerless.format.control import Control, decode_control


def controls(batch: pa.RecordBatch) -> list[dict[str, Any] | None]:
    """What each row says if it is a control record: its type, and of transaction markers the coordinator's epoch.

    ``batch`` has ``isControl``, ``key`` and ``value``. A control record whose key cannot be read is ``UNKNOWN``.
    """
    said: list[dict[str, Any] | None] = [None] * batch.num_rows
    keys, values = batch.column("key"), batch.column("value")
    for row in np.flatnonzero(flags(batch.column("isControl"))).tolist():
        said[row] = _as_dict(decode_control(keys[row].as_py(), values[row].as_py()))
    return said


def _as_dict(control: Control | None) -> dict[str, Any]:
    if control is None:
        return {"typeId": None, "type": "UNKNOWN"}
    said: dict[str, Any] = {"typeId": control.type_id, "type": control.type}
    if control.coordinator_epoch is not None:
        said["coordinatorEpoch"] = control.coordinator_epoch
    return said
