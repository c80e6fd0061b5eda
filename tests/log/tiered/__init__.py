"""Buckets that the real plugin wrote in a real broker, and what a consumer of that broker got.

``golden.tar.zst`` has for each set ``bucket`` (its objects) and ``data`` (the broker's log directory after a clean
stop), the private keys, and ``index.jsonl``: a line for each partition with its offsets, and for each isolation level
the count and the SHA-256 of all records, and of those up to the last remote offset. Written by Aiven's
tiered-storage-for-apache-kafka (8fb1581) in Kafka 4.4.0, the set ``local`` by Kafka's LocalTieredStorage.
"""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.golden import CACHE
from tests.once import unpacked_once

from brokerless import Finding, Log

ARCHIVE = Path(__file__).parent / "golden.tar.zst"


@functools.cache
def golden() -> Path:
    """The unpacked archive, which tests do not change."""
    return unpacked_once(ARCHIVE, CACHE.with_name("golden-tiered"))


@dataclass(frozen=True)
class Case:
    """A partition that the plugin copied. ``expected``: by isolation level, of ``all`` records and of ``remote``
    ones."""

    set: str
    topic: str
    partition: int
    log_start: int
    local_start: int
    remote_end: int
    expected: dict[str, dict[str, dict[str, Any]]]

    @property
    def id(self) -> str:
        return f"{self.set}-{self.topic}-{self.partition}"

    @property
    def bucket(self) -> Path:
        return golden() / self.set / "bucket"

    @property
    def data(self) -> Path:
        return golden() / self.set / "data"


@functools.cache
def cases() -> tuple[Case, ...]:
    lines = [json.loads(line) for line in (golden() / "index.jsonl").read_text().splitlines()]
    return tuple(
        Case(
            each["set"], each["topic"], each["partition"], each["logStart"], each["localLogStart"], each["remoteEnd"],
            {level: each[level] for level in ("read_uncommitted", "read_committed")},
        )
        for each in lines
    )  # fmt: skip


def key_pairs() -> dict[str, Path]:
    return {name: golden() / "keys" / f"{name}.pem" for name in ("key1", "key2")}


def copy_of(name: str, target: Path) -> Path:
    """A bucket that a test may change."""
    shutil.copytree(golden() / name / "bucket", target)
    return target


def rows_of(log: Log | Log, damage: list[Finding] | None = None, **options: Any) -> list[list[Any]]:
    """Records as the consumer's are written down; without damage unless there is a list for it."""

    def report(finding: Finding) -> None:
        if damage is None:
            assert finding.severity == "info", finding
        else:
            damage.append(finding)

    def text(value: bytes | None) -> str | None:
        return None if value is None else b64encode(value).decode()

    found: list[list[Any]] = []
    for batch in log.records(on_damage=report, **options):
        times = batch.column("timestamp").cast("int64").to_pylist()
        columns = (batch.column(name).to_pylist() for name in ("offset", "key", "value", "headers"))
        for time, offset, key, value, headers in zip(times, *columns, strict=True):
            pairs = [[each["key"], text(each["value"])] for each in headers]
            found.append([offset, time, text(key), text(value), pairs])
    return found


def summary_of(rows: Iterable[list[Any]]) -> dict[str, Any]:
    lines = [json.dumps(each).encode() + b"\n" for each in rows]
    return {"records": len(lines), "sha256": hashlib.sha256(b"".join(lines)).hexdigest()}
