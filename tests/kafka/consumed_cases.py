"""What a real consumer of the newest Kafka gets of any logs: one broker is started on all of them.

Each case becomes a partition of one topic, and gets one more segment with one record, so that it shows whether a
consumer comes past the case's own files.

What it got is recorded, with the files that the broker left, and known by all bytes that are given: as for starts
(:mod:`tests.kafka.recorded_starts`), a broker is asked again where any of them is another one, and nightly.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import brokerless
from brokerless.bounds import MAX_INT64
from brokerless.format.read.batch_headers import read_headers
from brokerless.format.read.batch_scan import ScanStop, scan_batches
from tests.kafka import recorded_starts
from tests.kafka.broker import SETTINGS, KafkaBroker
from tests.kafka.jars import HELPERS, NEWEST, check, run
from tests.kafka.producers import Consumed
from tests.log.odd_logs import Files, batch, log_name

TOPIC = "cases"
LAST = b"after the case"
RECORDED = f"consumed-{NEWEST}"
LONG = 64
"""Bytes of contents that are recorded as they are."""


@dataclass(frozen=True)
class ConsumedCase:
    """``records``: all that the consumer got, before it threw ``error``, or stayed at an offset for ever (``stopped``).
    ``passed``: whether it got the record after the case, which is not among them. ``since``: the records that it gets
    when it begins at an offset."""

    records: list[Consumed]
    error: str | None
    stopped: int | None
    passed: bool
    since: dict[int, list[Consumed]] = field(default_factory=dict[int, list[Consumed]])


def end_offset(files: Files) -> int | None:
    """The offset after all batches that the chains of sizes lead to, or None where there can be no segment after it."""
    end = max(int(name[:20]) for name in files) + 1
    for data in files.values():
        buffer = np.frombuffer(data, np.uint8)
        batches = read_headers(buffer, scan_batches(buffer).positions)
        if len(batches):
            deltas = np.maximum(batches.count, 0)
            end = max(end, int(batches.last_offset.max()) + 1, int((batches.entry_offset + deltas).max()))
    return end if 0 <= end < MAX_INT64 >> 1 else None


def is_served(files: Files) -> bool:
    """Whether a broker leads such a partition: at a size that is too small it throws while it becomes the leader, and
    then leads none of the partitions that it comes to later."""
    scans = [scan_batches(np.frombuffer(data, np.uint8)) for data in files.values()]
    return end_offset(files) is not None and all(each.stop != ScanStop.SIZE_TOO_SMALL for each in scans)


@dataclass(frozen=True)
class Question:
    """Files of cases. ``recovered``: whether the broker recovers a log at its start, and so cuts what it cannot read,
    and writes its indexes; else it takes the files as they are. ``starts``: by case, offsets to begin with as well."""

    cases: Sequence[Files]
    recovered: Sequence[bool]
    starts: Mapping[int, Sequence[int]] = field(default_factory=dict[int, Sequence[int]])

    def digest(self) -> str:
        found = hashlib.sha256((HELPERS / "ConsumeCases.java").read_bytes())
        starts = {number: [*offsets] for number, offsets in self.starts.items()}
        found.update(repr((NEWEST, SETTINGS, TOPIC, LAST, [*self.recovered], starts)).encode())
        for files in self.cases:
            found.update(f"\0{len(files)}".encode())
            for name, data in files.items():
                found.update(f"\0{name}\0{len(data)}\0".encode() + data)
        return found.hexdigest()


def consume_cases(question: Question, directory: Path) -> tuple[list[dict[str, ConsumedCase]], Path]:
    """For each case and isolation level what the consumer gets; and the log directory that the broker left.
    ``directory``: where that is made."""
    known = recorded_starts.unpacked(RECORDED)
    if recorded_starts.ASK_ALWAYS or (known / "digest").read_text() != question.digest():
        if not recorded_starts.ASK_ALWAYS:
            again = "python -m tests.kafka.recorded_starts"
            warnings.warn(f"a consumer is asked of cases that are not as recorded: {again}", stacklevel=2)
        answer = ask(question, directory)
    else:
        answer = (known / "answer.jsonl").read_text()
        shutil.copytree(known / "data", directory / "data")
        for number, name in json.loads((known / "unchanged.json").read_text()):
            (directory / "data" / f"{TOPIC}-{number}" / name).write_bytes(question.cases[number][name])
    return _parsed(answer, len(question.cases)), directory / "data"


def record(question: Question) -> None:
    """Files that the broker left as they were given are recorded by their names."""
    with tempfile.TemporaryDirectory() as directory:
        recorded = Path(directory) / "recorded"
        recorded.mkdir()
        (recorded / "answer.jsonl").write_text(ask(question, Path(directory)))
        (recorded / "digest").write_text(question.digest())
        data = (Path(directory) / "data").rename(recorded / "data")
        unchanged: list[tuple[int, str]] = []
        for number, files in enumerate(question.cases):
            for name, given in files.items():
                path = data / f"{TOPIC}-{number}" / name
                if path.exists() and path.read_bytes() == given:
                    path.unlink()
                    unchanged.append((number, name))
        (recorded / "unchanged.json").write_text(json.dumps(unchanged))
        recorded_starts.write_archive(RECORDED, recorded)


def ask(question: Question, directory: Path) -> str:
    """The answer of a consumer; the broker's log directory is left there."""
    broker = KafkaBroker(directory)
    with broker:
        broker.create_topic(TOPIC, len(question.cases), retention_ms=-1, message_timestamp_type="CreateTime")
    for number, (files, is_recovered) in enumerate(zip(question.cases, question.recovered, strict=True)):
        partition = broker.log_dir / f"{TOPIC}-{number}"
        for path in partition.iterdir():
            if path.name != "partition.metadata":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        end = end_offset(files)
        assert end is not None
        for name, data in {**files, log_name(end): batch(end, [(b"", LAST)])}.items():
            (partition / name).write_bytes(data)
            if not is_recovered:
                for suffix in (".index", ".timeindex"):
                    partition.joinpath(name).with_suffix(suffix).touch()
    for path in broker.log_dir.glob("*checkpoint"):
        path.unlink()
    with broker:
        broker.wait_for_leaders(TOPIC, len(question.cases))
        broker.watermarks(TOPIC, range(len(question.cases)))  # the broker itself leads them
        assert "metadata publishing fault" not in broker.output.read_text(errors="replace")
        return _consume(broker.bootstrap, len(question.cases), question.starts)


def consume_served(question: Question, log_dir: Path) -> list[dict[str, ConsumedCase]]:
    """The same of the files that the broker left, as brokerless serves them."""
    with brokerless.serve(log_dir) as server:
        answer = _consume(server.bootstrap_servers, len(question.cases), question.starts)
    return _parsed(answer, len(question.cases))


def _consume(bootstrap: str, count: int, starts: Mapping[int, Sequence[int]]) -> str:
    """Lines of JSON in which contents are base64, long ones :func:`shortened`."""
    pairs = [str(each) for number, offsets in starts.items() for at in offsets for each in (number, at)]
    lines = list(
        map(json.loads, check(run("ConsumeCases", bootstrap, TOPIC, str(count), *pairs, helper=True)).splitlines())
    )
    for line in lines:
        for each in line["records"]:
            each["headers"] = [(name, _short_text(value)) for name, value in each["headers"]]
            each |= {name: _short_text(each[name]) for name in ("key", "value")}
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def shortened(content: bytes | None) -> bytes | None:
    """A key, value or header as it is compared: what is long as its SHA-256."""
    return hashlib.sha256(content).digest() if content is not None and len(content) > LONG else content


def _short_text(text: str | None) -> str | None:
    short = None if text is None else shortened(base64.b64decode(text))
    return None if short is None else base64.b64encode(short).decode()


def _parsed(text: str, count: int) -> list[dict[str, ConsumedCase]]:
    found: list[dict[str, ConsumedCase]] = [{} for _ in range(count)]
    for line in map(json.loads, text.splitlines()):
        records = [_consumed(each) for each in line["records"]]
        passed = bool(records) and records[-1].value == LAST
        records = records[:-1] if passed else records
        if line["start"] is not None:
            found[line["partition"]][line["isolation"]].since[line["start"]] = records
            continue
        found[line["partition"]][line["isolation"]] = ConsumedCase(records, line["error"], line["stopped"], passed)
    return found


def _consumed(line: dict[str, object]) -> Consumed:
    def content(text: object) -> bytes | None:
        return None if text is None else base64.b64decode(str(text))

    headers = tuple((name, content(value)) for name, value in line["headers"])  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType]
    offset, timestamp = int(str(line["offset"])), int(str(line["timestamp"]))
    return Consumed(offset, timestamp, content(line["key"]), content(line["value"]), headers)
