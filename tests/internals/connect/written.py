"""Records of MirrorMaker and Kafka Connect as Kafka's own classes make them."""

from __future__ import annotations

import subprocess
from base64 import b64decode
from dataclasses import dataclass
from functools import cache

from tests.archive import QUICK
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
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    path = str(jars.connect_jars() / "*")
    command = [jars.java(), *QUICK, quiet, "-cp", path, str(jars.CONNECT_RECORDS)]
    done = subprocess.run(command, capture_output=True, timeout=120, check=False)
    lines = [line.split("\t") for line in jars.check(done).decode().splitlines()]
    return tuple(
        Made(table, b64decode(key), None if value == "-" else b64decode(value), b64decode(says).decode())
        for table, key, value, says in lines
    )
