"""Records of MirrorMaker and Kafka Connect as Kafka's own classes make them."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import dataclass
from functools import cache

from tests.kafka import jars


@dataclass(frozen=True, slots=True)
class Made:
    """A record of a table's topic; ``says``: what Kafka's ``toString`` says of it, of MirrorMaker's."""

    table: str
    key: bytes
    value: bytes | None
    says: str


@cache
def made() -> tuple[Made, ...]:
    """All that ``ConnectRecords.java`` makes, in its order."""
    lines = [line.split("\t") for line in jars.run_with_connect(jars.CONNECT_RECORDS).decode().splitlines()]
    return tuple(
        Made(table, b64decode(key), None if value == "-" else b64decode(value), b64decode(says).decode())
        for table, key, value, says in lines
    )
