"""Options of reading times logs: what several conditions do together, held against a model of what was written.

Logs are written by aiokafka's builders, with every format and codec, gaps, transactions that end and do not, several
segments, and batches of which a byte or the size is changed. What each combination of options has to give is a list
comprehension over what was given to the builders. ``make fuzz`` tries others.
"""

from __future__ import annotations

import json
import tempfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from hypothesis import assume, given
from hypothesis import strategies as st

import brokerless
from brokerless import Finding
from brokerless.bounds import MAX_INT32
from brokerless.tables.record_filter import RecordFilter
from tests.cli.conftest import Run
from tests.cli.conftest import run as run  # a fixture
from tests.examples import examples
from tests.log import whole_batches

TIME = 1_700_000_000_000
KEYS = (None, b"a", b"b", b"key-3")
TRANSACTIONAL_ID_PRODUCERS = (7, 8)
CODECS = {0: (0, 1, 2, 3), 1: (0, 1, 2, 3), 2: (0, 1, 2, 3, 4)}
"""Those of Kafka's codes that a format has; lz4 in v0 has a wrong checksum in its frame, which this writer has not."""


class Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    producer: int
    is_control: bool


@dataclass
class Written:
    """A log by what was written: records of intact batches, and the base offsets of damaged ones."""

    segments: list[tuple[int, bytearray]] = field(default_factory=list[tuple[int, bytearray]])
    records: list[Record] = field(default_factory=list[Record])
    damaged: list[range] = field(default_factory=list[range])
    aborted: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    """Producer, first and last offset."""
    open: dict[int, int] = field(default_factory=dict[int, int])
    """Producers with an open transaction, and its first offset."""
    end: int = 0
    has_torn: bool = False

    def save(self, directory: Path) -> None:
        directory.mkdir()
        for base, data in self.segments:
            (directory / f"{base:020}.log").write_bytes(data)


@st.composite
def logs(draw: st.DrawFn) -> Written:
    log = Written()
    for _ in range(draw(st.integers(1, 9))):
        log.end += draw(st.sampled_from([0, 0, 0, 1, 50]))
        if not log.segments or draw(st.integers(0, 3)) == 0:
            log.segments.append((log.end, bytearray()))
        producer = draw(st.sampled_from([-1, -1, -1, *TRANSACTIONAL_ID_PRODUCERS]))
        if log.open.get(producer) is not None and draw(st.booleans()):
            _end_transaction(log, producer, draw(st.booleans()))
        else:
            _write(log, producer, draw)
    return log


def _end_transaction(log: Written, producer: int, is_commit: bool) -> None:
    data = whole_batches.marker(log.end, (producer, 0), commit=is_commit, timestamp=TIME + log.end).tobytes()
    log.segments[-1][1].extend(data)
    first = log.open.pop(producer)
    if not is_commit:
        log.aborted.append((producer, first, log.end))
    log.records.append(Record(log.end, TIME + log.end, bytes([0, 0, 0, is_commit]), bytes(6), (), producer, True))
    log.end += 1


def _write(log: Written, producer: int, draw: st.DrawFn) -> None:
    magic = 2 if producer >= 0 else draw(st.sampled_from([1, 2, 2]))
    steps = draw(st.lists(st.sampled_from([1, 1, 1, 3]), min_size=1, max_size=6))
    offsets = [log.end + sum(steps[:at]) for at in range(len(steps))]
    records = [
        Record(
            offset, TIME + draw(st.integers(-20, 60)), draw(st.sampled_from(KEYS)),
            draw(st.sampled_from([None, b"", b"value of %d" % offset, b"x" * 300])),
            draw(st.sampled_from([(), (("h", b"1"),), (("h", None), ("h", b"2"))])) if magic == 2 else (),
            producer, False,
        )
        for offset in offsets
    ]  # fmt: skip
    codec = draw(st.sampled_from(CODECS[magic]))
    data = bytearray(_batch_v2(log.end, records, codec) if magic == 2 else _batch_v1(log.end, records, codec))
    if producer < 0 and magic == 2 and not log.has_torn and draw(st.integers(0, 5)) == 0:
        size = draw(st.sampled_from([None, None, 0, 13, -1, *([] if log.damaged else [MAX_INT32])]))
        log.has_torn = size == MAX_INT32  # a lone batch between two such is not read, as it may be in a value
        if size is None:
            data[-1 - draw(st.integers(0, 5))] ^= 1 << draw(st.integers(0, 7))
        else:  # the chain of batches breaks, and goes on with the next one
            data[8:12] = size.to_bytes(4, "big", signed=True)
        log.damaged.append(range(offsets[0], offsets[-1] + 1))
    else:
        log.records += records
        if producer >= 0:
            log.open.setdefault(producer, offsets[0])
    log.segments[-1][1].extend(data)
    log.end = offsets[-1] + 1


def _batch_v2(base: int, records: Sequence[Record], codec: int) -> bytes:
    producer = records[0].producer
    builder: Any = DefaultRecordBatchBuilder(
        magic=2, compression_type=codec, is_transactional=int(producer >= 0), producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1, base_sequence=base if producer >= 0 else -1, batch_size=1 << 20,
    )  # fmt: skip
    for each in records:
        builder.append(each.offset - base, each.timestamp, each.key, each.value, list(each.headers))
    return base.to_bytes(8, "big") + bytes(builder.build())[8:]


def _batch_v1(base: int, records: Sequence[Record], codec: int) -> bytes:
    builder: Any = LegacyRecordBatchBuilder(magic=1, compression_type=codec, batch_size=1 << 20)
    for each in records:
        builder.append(each.offset - (base if codec else 0), timestamp=each.timestamp, key=each.key, value=each.value)
    data = bytearray(builder.build())
    if codec:  # a broker gives a wrapper its last offset and its largest timestamp
        data[:8] = records[-1].offset.to_bytes(8, "big")
        data[18:26] = max(each.timestamp for each in records).to_bytes(8, "big")
        data[12:16] = zlib.crc32(bytes(data[16:])).to_bytes(4, "big")
    return bytes(data)


OFFSETS = st.one_of(st.none(), st.integers(0, 90))
TIMES = st.one_of(st.none(), st.integers(TIME - 25, TIME + 65))
COLUMNS = ("offset", "timestamp", "key", "value", "headers", "isControl")
FILTERS: list[dict[str, Any]] = [
    {}, {"keys": [b"a"]}, {"keys": [b"b", b"key-3"]}, {"key_regex": "^key"}, {"grep": "value"}, {"header": ("h", b"2")},
    {"where": "\"offset\" % 3 = 0 AND value IS NOT NULL"}, {"keys": [b"a"], "grep": "h"},
]  # fmt: skip
OPTIONS = st.fixed_dictionaries(
    {
        "start_offset": OFFSETS,
        "end_offset": OFFSETS,
        "start_timestamp": TIMES,
        "end_timestamp": TIMES,
        "isolation": st.sampled_from(["read_uncommitted", "read_committed"]),
        "control": st.booleans(),
        "limit": st.sampled_from([None, None, 0, 1, 5]),
        "jobs": st.sampled_from([None, 1, 2]),
    }
)


def expected(log: Written, options: dict[str, Any], how: dict[str, Any]) -> list[Record]:
    """What was written and is requested."""
    stable = min(log.open.values(), default=log.end)
    start, end = options["start_offset"] or 0, log.end if options["end_offset"] is None else options["end_offset"]
    since = -(2**62) if options["start_timestamp"] is None else options["start_timestamp"]
    until = 2**62 if options["end_timestamp"] is None else options["end_timestamp"]
    is_committed = options["isolation"] == "read_committed"
    found = [
        each
        for each in log.records
        if start <= each.offset < (min(end, stable) if is_committed else end)
        and since <= each.timestamp < until
        and not (each.is_control and (is_committed or not options["control"]))
        and not (is_committed and any(p == each.producer and a <= each.offset <= z for p, a, z in log.aborted))
        and _is_selected(each, how)
    ]
    return found if options["limit"] is None else found[: options["limit"]]


def _is_selected(record: Record, how: dict[str, Any]) -> bool:
    texts = [record.key, record.value, *(part for name, value in record.headers for part in (name.encode(), value))]
    conditions = {
        "keys": lambda: record.key in how["keys"],
        "key_regex": lambda: record.key is not None and record.key.startswith(b"key"),
        "grep": lambda: any(how["grep"].encode() in each for each in texts if each is not None),
        "header": lambda: how["header"] in record.headers,
        "where": lambda: record.offset % 3 == 0 and record.value is not None,
    }
    return all(conditions[name]() for name in how)


def as_row(record: Record, columns: Sequence[str]) -> dict[str, Any]:
    row = {
        "offset": record.offset, "timestamp": record.timestamp, "key": record.key, "value": record.value,
        "headers": [{"key": name, "value": value} for name, value in record.headers], "isControl": record.is_control,
    }  # fmt: skip
    return {name: row[name] for name in columns}


def read(directory: Path, columns: Sequence[str], told: list[Finding], **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for batch in brokerless.open(directory).records(columns, on_damage=told.append, **options):
        for row in batch.to_pylist():
            if row.get("timestamp") is not None:
                row["timestamp"] = round(row["timestamp"].timestamp() * 1000)
            if "headers" in row:
                row["headers"] = [{"key": each["key"], "value": each["value"]} for each in row["headers"] or ()]
            found.append(row)
    return found


@examples(150)
@given(
    log=logs(),
    options=OPTIONS,
    how=st.sampled_from(FILTERS),
    columns=st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=4, unique=True),
)
def test_options_together_give_what_was_written(
    log: Written, options: dict[str, Any], how: dict[str, Any], columns: list[str]
) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch) / "t-0"
        log.save(directory)
        told: list[Finding] = []
        given_filter = {"filter": RecordFilter(**how)} if how else {}
        found = read(directory, columns, told, **options, **given_filter)
        assert found == [as_row(each, columns) for each in expected(log, options, how)]
        kinds = {"checksum-mismatch", "missing-segment", "batch-size-invalid", "truncated-batch"}
        assert {each.kind for each in told if each.severity == "error"} <= kinds
        if options["limit"] is None and all(options[name] is None for name in RANGES):
            stable = min(log.open.values(), default=log.end) if options["isolation"] == "read_committed" else log.end
            damaged = [each for each in log.damaged if each.start < stable]
            assert any(each.severity != "info" for each in told) or not damaged


RANGES = ("start_offset", "end_offset", "start_timestamp", "end_timestamp")


@pytest.mark.slow(reason="DuckDB for each example")
@examples(40)
@given(log=logs(), options=OPTIONS)
def test_sql_gives_the_same(log: Written, options: dict[str, Any]) -> None:
    """Conditions of SQL on offsets and times, which prune, and the topic's view."""
    with tempfile.TemporaryDirectory() as scratch:
        log.save(Path(scratch) / "t-0")
        forms = {
            "start_offset": '"offset" >= {}', "end_offset": '"offset" < {}',
            "start_timestamp": "epoch_ms(timestamp) >= {}", "end_timestamp": "timestamp < make_timestamptz({}000)",
        }  # fmt: skip
        conditions = [form.format(options[name]) for name, form in forms.items() if options[name] is not None]
        where = " AND ".join(conditions) or "true"
        query = f'SELECT "offset" FROM t WHERE {where} ORDER BY "offset"'
        rows = brokerless.open(scratch).sql(query, on_damage=lambda _: None).read_all()["offset"].to_pylist()
        asked = {**options, "limit": None, "isolation": "read_uncommitted", "control": False}
        assert rows == [each.offset for each in expected(log, asked, {})]


def test_the_command_line_gives_the_same(run: Run) -> None:
    @examples(40)
    @given(log=logs(), options=OPTIONS, how=st.sampled_from([{}, {"keys": [b"a"]}, {"grep": "value"}]))
    def check(log: Written, options: dict[str, Any], how: dict[str, Any]) -> None:
        for first, last in (RANGES[:2], RANGES[2:]):  # the other way round, they are refused
            assume(None in (options[first], options[last]) or options[first] <= options[last])
        with tempfile.TemporaryDirectory() as scratch:
            log.save(Path(scratch) / "t-0")
            result = run("cat", scratch, "--json", "--bytes", "base64", *_words(options, how))
            rows = [json.loads(line) for line in result.out.splitlines()]
            assert [(row["offset"], row["timestamp"]) for row in rows] == [
                (each.offset, each.timestamp) for each in expected(log, options, how)
            ]
            assert result.exit_code in (0, 1), result.err

    check()


def _words(options: dict[str, Any], how: dict[str, Any]) -> list[object]:
    """The options as the command line has them."""
    words: list[object] = ["--isolation", options["isolation"]]
    start, end = options["start_offset"], options["end_offset"]
    if start is not None or end is not None:
        words += ["--offset", f"{'' if start is None else start}" + ("" if end is None else f":{end}")]
    for name, option in (("--from", "start_timestamp"), ("--until", "end_timestamp"), ("-n", "limit")):
        words += [name, options[option]] if options[option] is not None else []
    words += ["--control"] if options["control"] else []
    words += ["--jobs", options["jobs"]] if options["jobs"] is not None else []
    return words + (["--key", "a"] if "keys" in how else ["--grep", "value"] if "grep" in how else [])
