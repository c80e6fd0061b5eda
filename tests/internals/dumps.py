"""What Kafka's dump tool prints of internal topics, as values."""

from __future__ import annotations

import json
import re
from typing import Any

DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
    "__share_group_state": "--share-group-state-decoder",
}
Dumped = tuple[Any, Any]
"""A record's ``key`` and ``payload``: None for what is not there, and for the payload of a tombstone."""


def dumped_records(text: str) -> dict[int, Dumped]:
    """Each record but control records, by its offset. Raises for a record that the tool itself could not decode."""
    found: dict[int, Dumped] = {}
    decoder = json.JSONDecoder()
    for line in text.splitlines():
        match = re.match(r"\| offset: (\d+) ", line)
        if match is None or " payload: " not in line:
            continue
        key, end = None, 0
        if " key: " in line:
            key, end = decoder.raw_decode(line, line.index(" key: ") + len(" key: "))
        payload = line[line.index(" payload: ", end) + len(" payload: ") :]
        found[int(match[1])] = key, None if payload == "<DELETE>" else json.loads(payload)
    return found
