"""What Kafka's dump tool prints of internal topics, as values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.kafka.oracle import dump

import brokerless
from brokerless.internals.records import InternalRecord, decode_record

DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
    "__share_group_state": "--share-group-state-decoder",
}
Dumped = tuple[Any, Any]
"""A record's ``key`` and ``payload``: None for what is not there, and for the payload of a tombstone."""


def dumped_files(topic: str, files: Iterable[Path]) -> dict[Path, dict[int, Dumped | None]]:
    """The records of several logs of one internal topic."""
    files = list(files)
    parts = re.split("^Dumping .*\n", dump(files, DECODERS[topic]), flags=re.MULTILINE)[1:]
    return {file: dumped_records(part) for file, part in zip(files, parts, strict=True)}


def decoded_records(topic: str, log: Path) -> dict[int, InternalRecord]:
    """What we decode of a log."""
    return {
        row["offset"]: decode_record(topic, row["key"], row["value"])
        for batch in brokerless.open(log).records(["offset", "key", "value"])
        for row in batch.to_pylist()
    }


TRANSACTION_STATES = {
    "Empty": 0, "Ongoing": 1, "PrepareCommit": 2, "PrepareAbort": 3, "CompleteCommit": 4, "CompleteAbort": 5, "Dead": 6,
    "PrepareEpochFence": 7,
}  # fmt: skip
"""``TransactionState`` (4.4.0)."""


def _with_numbers(payload: Any) -> Any:
    """Give ``transactionStatus`` its value in the record: since 4.4 the tool prints its name, or the number as text."""
    data = payload.get("data") if isinstance(payload, dict) else None
    if isinstance(data, dict) and isinstance(status := data.get("transactionStatus"), str):
        data["transactionStatus"] = TRANSACTION_STATES[status] if status in TRANSACTION_STATES else int(status)
    return payload


def as_text(said: Dumped | None) -> str:
    """Equal texts have equal fields in equal order."""
    return json.dumps(said)


def dumped_records(text: str) -> dict[int, Dumped | None]:
    """Each record but control records, by its offset; None for one that the tool itself could not decode."""
    found: dict[int, Dumped | None] = {}
    decoder = json.JSONDecoder()
    for line in text.split("\n"):
        match = re.match(r"\| offset: (\d+) ", line)
        if match is None or re.search(r" (key|payload): ", line) is None:
            continue
        if re.search(r"headerKeys: \[\] (key|payload): (Error at|Unknown record type|unknown::)", line):
            found[int(match[1])] = None
            continue
        key, end = None, 0
        if " key: " in line:
            key, end = decoder.raw_decode(line, line.index(" key: ") + len(" key: "))
        payload = line[line.index(" payload: ", end) + len(" payload: ") :]
        found[int(match[1])] = key, None if payload == "<DELETE>" else _with_numbers(json.loads(payload))
    return found
