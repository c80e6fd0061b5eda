"""Describes control records, for all views on records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from brokerless.arrow import flags
from brokerless.format.control import ControlRecord, decode_control


def describe_controls(batch: pa.RecordBatch, data: bool = True) -> list[dict[str, Any] | None]:
    """Return, for each row that is a control record: its type, the coordinator's epoch of a transaction marker, and the
    ``data`` of KRaft's records under Kafka's field names, where it can be decoded and ``data`` is true.

    ``batch`` has ``isControl``, ``key`` and ``value``. A control record whose key cannot be read is ``UNKNOWN``.
    """
    described: list[dict[str, Any] | None] = [None] * batch.num_rows
    keys, values = batch.column("key"), batch.column("value")
    for row in np.flatnonzero(flags(batch.column("isControl"))).tolist():
        described[row] = _as_dict(decode_control(keys[row].as_py(), values[row].as_py()), data)
    return described


def _as_dict(control: ControlRecord | None, data: bool) -> dict[str, Any]:
    if control is None:
        return {"typeId": None, "type": "UNKNOWN"}
    described: dict[str, Any] = {"typeId": control.type_id, "type": control.type}
    if control.coordinator_epoch is not None:
        described["coordinatorEpoch"] = control.coordinator_epoch
    if data and control.data is not None:
        described["data"] = control.data
    return described
