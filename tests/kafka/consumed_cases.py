"""What a real consumer of the newest Kafka gets of any logs: one broker is started on all of them.

Each case becomes a partition of one topic, and gets one more segment with one record, so that it shows whether a
consumer comes past the case's own files.
"""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import brokerless
from brokerless.bounds import MAX_INT64
from brokerless.format.read.batch_headers import read_headers
from brokerless.format.read.batch_scan import ScanStop, scan_batches
from tests.kafka.broker import KafkaBroker
from tests.kafka.jars import check, run
from tests.kafka.producers import Consumed
from tests.log.odd_logs import Files, batch, log_name

TOPIC = "cases"
LAST = b"after the case"


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


def consume_cases(
    directory: Path,
    cases: Sequence[Files],
    recovered: Sequence[bool],
    starts: Mapping[int, Sequence[int]] | None = None,
) -> list[dict[str, ConsumedCase]]:
    """For each case and isolation level what the consumer gets. ``recovered``: whether the broker recovers a log at
    its start, and so cuts what it cannot read, and writes its indexes; else it takes the files as they are. ``starts``:
    by case, offsets to begin with as well."""
    broker = KafkaBroker(directory)
    with broker:
        broker.create_topic(TOPIC, len(cases), retention_ms=-1, message_timestamp_type="CreateTime")
    for number, (files, is_recovered) in enumerate(zip(cases, recovered, strict=True)):
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
        broker.wait_for_leaders(TOPIC, len(cases))
        broker.watermarks(TOPIC, range(len(cases)))  # the broker itself leads them
        assert "metadata publishing fault" not in broker.output.read_text(errors="replace")
        return _consume(broker.bootstrap, len(cases), starts)


def consume_served(
    directory: Path, count: int, starts: Mapping[int, Sequence[int]] | None = None
) -> list[dict[str, ConsumedCase]]:
    """The same of the files that the broker of :func:`consume_cases` left there, as brokerless serves them."""
    with brokerless.serve(KafkaBroker(directory).log_dir) as server:
        return _consume(server.bootstrap_servers, count, starts)


def _consume(bootstrap: str, count: int, starts: Mapping[int, Sequence[int]] | None) -> list[dict[str, ConsumedCase]]:
    pairs = [str(each) for number, offsets in (starts or {}).items() for at in offsets for each in (number, at)]
    text = check(run("ConsumeCases", bootstrap, TOPIC, str(count), *pairs, helper=True))
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
