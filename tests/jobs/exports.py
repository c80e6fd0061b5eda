"""Exports for tests, and what a reader of Parquet makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq

from brokerless.findings import Finding
from brokerless.jobs.export.commit import ExportedPartition
from brokerless.jobs.export.job import export, plan
from brokerless.jobs.export.tasks import Export
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location


def exported(source: Path, to: Path, settings: Export | None = None, found: Any = None) -> list[ExportedPartition]:
    """One run; findings go to ``found``, and without it there are to be none."""
    findings = list[Finding]() if found is None else found
    planned = plan(resolve(Location(str(source))).partitions, [str(source)], Location.of(to), settings or Export())
    results = list(export(planned, findings.append))
    assert found is not None or not findings
    return results


def table(to: Path) -> list[dict[str, Any]]:
    """What a reader that knows nothing of us makes of the directory, by topic, partition and offset."""
    if not list(to.rglob("*.parquet")):
        return []
    rows = ds.dataset(to, partitioning="hive").to_table().to_pylist()
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))


def facts(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    names = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers")
    return [tuple(row[name] for name in names) for row in rows]


def listing(to: Path) -> dict[str, tuple[int, int]]:
    """All files that a reader sees, with what would be other if they were written again."""
    paths = (path for path in to.rglob("*.parquet") if "_unfinished" not in path.parts)
    return {str(path.relative_to(to)): (path.stat().st_mtime_ns, path.stat().st_ino) for path in paths}


def partition(directory: Path, log: bytes, topic_id: str | None = "AAAAAAAAAAAAAAAAAAAAAQ") -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "00000000000000000000.log").write_bytes(log)
    if topic_id is not None:
        (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
    return directory


def raw(to: Path) -> list[dict[str, Any]]:
    """The same for records of which some have one offset, in their order."""
    rows = [
        row
        for path in sorted(to.rglob("*.parquet"))
        for row in pq.read_table(path, columns=["offset", "key", "value"], partitioning=None).to_pylist()
    ]
    return rows
