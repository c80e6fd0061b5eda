"""What Kafka itself says about files: its reader, and its dump tool."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from brokerless.schemas import TIMESTAMP_TYPES
from tests.kafka.jars import NEWEST, check, dump_tool, run


def read_log(*paths: Path, version: str = NEWEST) -> list[dict[str, Any]]:
    """What Kafka's Java reader gives for log files: lines such as those of the golden archive's ``expected.jsonl``.

    Each file's lines are closed by one of type ``end``; keys and values longer than 1024 bytes are given as length and
    SHA-256, as in the archive. ``control`` has the type and the coordinator's epoch, but not the decoded data of
    KRaft's control records.
    """
    text = check(run("ReadLog", *map(str, paths), version=version, helper=True))
    return [json.loads(line) for line in text.split(b"\n") if line]


def read_logs(paths: Iterable[Path], version: str = NEWEST) -> dict[Path, list[dict[str, Any]]]:
    """:func:`read_log`, with the lines of each file by themselves."""
    paths = list(paths)
    lines: dict[Path, list[dict[str, Any]]] = {path: [] for path in paths}
    at = iter(paths)
    path = next(at, None)
    for line in read_log(*paths, version=version):
        assert path is not None
        lines[path].append(line)
        if line["type"] == "end":
            path = next(at, None)
    return lines


def as_line(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the records table as such a line, without ``type`` and ``control``."""

    def text(data: bytes | None) -> str | None:
        return None if data is None else base64.b64encode(data).decode()

    line = {name: row[name] for name in ("batchPosition", "offset", "timestamp", "sequence")}
    line["file"] = Path(row["file"]).name
    line["timestampType"] = TIMESTAMP_TYPES[row["timestampType"]]
    line["headers"] = [[header["key"], text(header["value"])] for header in row["headers"]]
    for name in ("key", "value"):
        data = row[name]
        if data is None or len(data) <= 1024:
            line[name] = text(data)
        else:
            line |= {f"{name}Len": len(data), f"{name}Sha256": hashlib.sha256(data).hexdigest()}
    return line


def dump(files: Iterable[Path], *options: str, version: str = NEWEST) -> str:
    """The text of ``kafka-dump-log``; for instance ``dump([log], "--deep-iteration", "--print-data-log")``."""
    return check(run_dump(files, *options, version=version)).decode(errors="replace")


def run_dump(files: Iterable[Path], *options: str, version: str = NEWEST) -> subprocess.CompletedProcess[bytes]:
    """The same with its exit code, for damaged files."""
    names = ",".join(map(str, files))
    return run("Dump", dump_tool(version), names, *options, version=version, helper=True)


def dump_everything(files: Iterable[Path], *options: str) -> str:
    """What it says of all logs, indexes and snapshots among the files, where it compares these; it must end with 0."""
    suffixes = (".log", ".index", ".timeindex", ".snapshot", ".txnindex")
    chosen = [path for path in sorted(files) if path.suffix in suffixes]
    if not chosen:
        return ""
    done = run_dump(chosen, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
