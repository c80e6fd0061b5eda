"""What each command, Python and Spark say of a log directory, run in this process by their public names."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import struct
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

import brokerless
from brokerless.cli import main
from brokerless.clusters.start import start
from brokerless.jobs.audit import job

COLUMNS = ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]
ISOLATIONS = ("read_uncommitted", "read_committed")
MOST_IDLE = 100
"""Polls without a message after which no more is expected: each partition comes to its end, or to an error."""
SETTLING = 0.05
"""Seconds between two listings of a directory in which files may be changing places."""
Records = dict[int, str]


@dataclass(frozen=True)
class Result:
    exit_code: int
    out: str
    err: str

    @property
    def json(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.split("\n") if line]


@dataclass(frozen=True)
class Said:
    """A finding. ``kind`` and ``severity`` are None where only its text is shown."""

    path: str
    text: str
    kind: str | None = None
    severity: str | None = None


@dataclass
class Face:
    """What one command gave of one partition's directory: records by isolation level, findings, and its exit code where
    it ran on this directory alone."""

    records: dict[str, Records] = field(default_factory=dict[str, Records])
    said: list[Said] = field(default_factory=list[Said])
    exit_code: int | None = None
    row: dict[str, Any] = field(default_factory=dict[str, Any])


Faces = dict[str, Face]
"""By the name of a partition's directory."""


def run(*arguments: object) -> Result:
    """Run a command line in this process."""
    kept = [os.dup(1), os.dup(2)]
    streams = sys.stdout, sys.stderr
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            for each in streams:
                each.flush()
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), "utf-8", write_through=True)
            sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), "utf-8", write_through=True)
            exit_code = main([str(argument) for argument in arguments])
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            sys.stdout, sys.stderr = streams
            for number, descriptor in enumerate(kept, 1):
                os.dup2(descriptor, number)
                os.close(descriptor)
        texts = []
        for each in (out, err):
            each.seek(0)
            texts.append(each.read().decode())
    return Result(exit_code, *texts)


def digest(timestamp: int, key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]]) -> str:
    """Hash a record as ``RecordStarts.java`` does."""

    def text(data: bytes | None) -> bytes:
        return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data

    parts = [struct.pack(">q", timestamp), text(key), text(value)]
    for name, content in headers:
        parts += [text(name.encode()), text(content)]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def add_rows(batch: pa.RecordBatch | pa.Table, to: Mapping[str, Records]) -> None:
    """Note the records of a table with COLUMNS, or with what else Spark calls them."""
    for row in _milliseconds(batch).to_pylist():
        name = f"{row['topic']}-{row['partition']}"
        headers = [(each["key"], each["value"]) for each in row["headers"] or ()]
        own, found = to[name], digest(row["timestamp"], row["key"], row["value"], headers)
        offset = row["offset"]
        own[offset] = found if offset not in own else f"again {found}"


def _milliseconds(batch: pa.RecordBatch | pa.Table) -> pa.Table:
    table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
    at = table.schema.get_field_index("timestamp")
    times = table.column(at)
    if pa.types.is_timestamp(times.type):
        times = times.cast(pa.timestamp("ms", times.type.tz), safe=False).cast(pa.int64())
    return table.set_column(at, "timestamp", times)


def _by_directory() -> defaultdict[str, Face]:
    return defaultdict(Face)


def directory_of(path: str | None, root: Path) -> str:
    """The partition's directory that a path is in, as a name in the log directory."""
    if path is None or not path.startswith(f"{root}/"):
        return ""
    return path[len(str(root)) + 1 :].split("/")[0]


def _said_in(text: str, root: Path) -> Iterator[tuple[str, Said]]:
    """Findings on standard error: lines that begin with a path."""
    for line in text.splitlines():
        if line.startswith(f"{root}/"):
            path = re.split(r"[:,] | ", line, maxsplit=1)[0]
            yield directory_of(path, root), Said(path, line[len(str(root)) + 1 :])


def each_alone(command: Sequence[str], names: Iterable[str], root: Path) -> Faces:
    """A reading command on each partition's directory."""
    found: Faces = {}
    for name in names:
        result = run(*command, root / name)
        said = [each for _, each in _said_in(result.err, root)]
        face = Face(said=said, exit_code=result.exit_code)
        if command[0] == "cat":
            face.records["read_committed" if "read_committed" in command else "read_uncommitted"] = _cat_records(result)
        elif command[0] == "verify":
            face.said = [_finding(row) for row in result.json if "kind" in row]
        else:
            face.row = next(iter(result.json), {})
        found[name] = face
    return found


def _cat_records(result: Result) -> Records:
    found: Records = {}
    for row in result.json:
        headers = [(name, None if text is None else text.encode()) for name, text in row["headers"]]
        texts = [None if row[each] is None else row[each].encode() for each in ("key", "value")]
        found[row["offset"]] = digest(row["timestamp"], *texts, headers)
    return found


def _finding(row: Mapping[str, Any]) -> Said:
    return Said(row["file"], row["message"], row["kind"], row["severity"])


def findings(command: Sequence[object], root: Path) -> tuple[Result, Faces]:
    """A command whose JSON has findings, on the whole directory."""
    result = run(*command)
    faces = _by_directory()
    for row in result.json:
        if "kind" in row and "severity" in row:
            faces[directory_of(row["file"], root)].said.append(_finding(row))
        elif row.get("topic") is not None and row.get("path"):
            faces[directory_of(row["path"], root)].row = row
        elif "table" not in row:
            faces[""].row = row
    return result, faces


def python(root: Path) -> Faces:
    """Python's records, in both isolation levels."""
    faces = _by_directory()
    for partition in brokerless.open(root).partitions:
        name = Path(str(partition.path)).name
        if name.startswith("__"):
            continue
        face = faces[name]
        for isolation in ISOLATIONS:
            records: dict[str, Records] = defaultdict(dict)
            reported: list[Any] = []
            for batch in partition.records(COLUMNS, isolation=isolation, on_damage=reported.append):
                add_rows(batch, records)
            face.records[isolation] = {offset: each for own in records.values() for offset, each in own.items()}
            face.said += [Said(str(each.file), each.message, str(each.kind), each.severity) for each in reported]
    return faces


def sql(root: Path, scratch: Path) -> Faces:
    """SQL's records."""
    faces = _by_directory()
    for isolation in ISOLATIONS:
        to = scratch / f"{isolation}.arrow"
        names = ", ".join(f'"{name}"' for name in COLUMNS)
        query = f"select {names} from records where topic not like '\\_\\_%' escape '\\'"
        result = run("sql", query, root, "-o", to, "--isolation", isolation)
        records: dict[str, Records] = defaultdict(dict)
        with pa.memory_map(str(to)) as file:
            add_rows(pa.ipc.open_file(file).read_all(), records)
        _add(faces, isolation, records, result, root)
    return faces


def _add(faces: Faces, isolation: str, records: Mapping[str, Records], result: Result, root: Path) -> None:
    for name, own in records.items():
        faces[name].records[isolation] = own
    for name, said in _said_in(result.err, root):
        faces[name].said.append(said)


def export(root: Path, scratch: Path) -> Faces:
    """What Parquet files have."""
    import pyarrow.dataset as ds

    faces = _by_directory()
    for isolation in ISOLATIONS:
        to = scratch / f"export-{isolation}"
        result = run("export", root, "--to", to, "--isolation", isolation)
        records: dict[str, Records] = defaultdict(dict)
        add_rows(ds.dataset(to, partitioning="hive").to_table(COLUMNS), records)
        _add(faces, isolation, records, result, root)
    return faces


def written(command: str, options: Sequence[str], root: Path, scratch: Path) -> Faces:
    """What a command writes, as Python reads it."""
    to = scratch / command
    result = run(command, root, "--to", to, "--json", *options)
    faces = _by_directory()
    for name, face in (python(to) if to.exists() else {}).items():
        faces[name].records = face.records
    for name, said in _said_in(result.err, root):
        faces[name].said.append(said)
    for row in result.json:
        if "kind" in row and "file" in row:
            faces[directory_of(row["file"], root)].said.append(_finding(row))
        elif row.get("topic") is not None:
            face = faces[f"{row['topic']}-{row['partition']}"]
            face.row = row
            face.said += [Said(str(root), json.dumps(each)) for each in row.get("losses") or ()]
    return faces


def spark(root: Path) -> Faces:
    """Spark's source, as its Python workers ask it: the planner, and the rows of its splits."""
    from pyspark_brokerless import DefaultSource

    faces = _by_directory()
    for isolation in ISOLATIONS:
        options = {"path": str(root), "mode": "PERMISSIVE", "includeHeaders": "true"}
        source = DefaultSource({**options, "kafka.isolation.level": isolation, "subscribePattern": "[^_].*"})
        reader = source.reader(source.schema().add("_corrupt_record", "string"))
        records: dict[str, Records] = defaultdict(dict)
        for task in reader.partitions():
            for batch in reader.read(task):
                _note_spark_rows(batch, records, faces)
        for name, own in records.items():
            faces[name].records[isolation] = own
    return faces


def _note_spark_rows(batch: pa.RecordBatch, records: Mapping[str, Records], faces: Faces) -> None:
    table = pa.Table.from_batches([batch])
    reported = [row for row in table.to_pylist() if row.get("_corrupt_record") is not None]
    for row in reported:
        faces[f"{row['topic']}-{row['partition']}"].said.append(Said("", str(row["_corrupt_record"])))
    if "_corrupt_record" in table.column_names:
        table = table.filter(pa.compute.is_null(table["_corrupt_record"]))
    add_rows(table, records)


def serve(root: Path, names: Sequence[str]) -> Faces:
    """What a consumer of our endpoint gets: librdkafka, of all partitions at once."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

    faces = _by_directory()
    reported: list[Any] = []
    with brokerless.serve(root, on_damage=reported.append) as server:
        for isolation in ISOLATIONS:
            settings = {
                "bootstrap.servers": server.bootstrap_servers, "group.id": "any", "enable.auto.commit": False,
                "enable.partition.eof": True, "isolation.level": isolation, "auto.offset.reset": "error",
                "check.crcs": True, "fetch.wait.max.ms": 20, "log_level": 0,
            }  # fmt: skip
            consumer = Consumer(settings)
            parts = [TopicPartition(*_split(name), OFFSET_BEGINNING) for name in names]
            for name in names:
                faces[name].records[isolation] = {}
            left = {(each.topic, each.partition) for each in parts}
            consumer.assign(parts)
            idle = 0
            while left and idle < MOST_IDLE:
                messages = consumer.consume(10_000, 0.3)
                idle = 0 if messages else idle + 1
                for message in messages:
                    at = message.topic(), message.partition()
                    error = message.error()
                    if error is None:
                        record = digest(message.timestamp()[1], message.key(), message.value(), message.headers() or ())
                        faces[f"{at[0]}-{at[1]}"].records[isolation][message.offset()] = record
                    else:
                        if error.code() != KafkaError._PARTITION_EOF and at[0] is not None:
                            faces[f"{at[0]}-{at[1]}"].said.append(Said("", str(error)))
                        left.discard(at)
            consumer.close()
    for each in reported:
        faces[directory_of(str(each.file), root)].said.append(
            Said(str(each.file), each.message, str(each.kind), each.severity)
        )
    return faces


@contextlib.contextmanager
def one_audit() -> Iterator[None]:
    """The command ``audit`` may be run for programs and for people: what it says in words is of the audit that it had
    said in JSON, and files are read once."""
    audits, starts = job.audit_partitions, start.foresee_start
    known: dict[object, Any] = {}

    def audited(partitions: Sequence[Any], *options: Any, **named: Any) -> Generator[Any]:
        key = tuple(each.path for each in partitions)
        if key not in known:
            known[key] = list(audits(partitions, *options, **named))
        yield from known[key]

    def foreseen(directories: Sequence[Any], *options: Any, **named: Any) -> Any:
        key = "start", *(each.path for each in directories)
        if key not in known:
            known[key] = starts(directories, *options, **named)
        return known[key]

    with mock.patch.object(job, "audit_partitions", audited), mock.patch.object(start, "foresee_start", foreseen):
        yield


def _split(name: str) -> tuple[str, int]:
    topic, _, number = name.rpartition("-")
    return topic, int(number)


@contextlib.contextmanager
def without_waiting() -> Iterator[None]:
    """Nobody replaces files here, so that no listing is to be repeated because of that, 20 times in a second."""
    sleep = time.sleep
    with mock.patch("time.sleep", lambda seconds: None if seconds == SETTLING else sleep(seconds)):
        yield
