"""Record batches become partitions that Kafka's reader and dump tool take for Kafka's own, or nothing at all."""

from __future__ import annotations

import base64
import errno
import functools
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

import brokerless
from brokerless.api.loading import load
from brokerless.errors import RefusedError, UnwritableError, UsageError
from brokerless.jobs.load.routing import Routing
from brokerless.log.config import LogConfig
from brokerless.schemas import HEADERS, TIMESTAMP_TYPES
from brokerless.tables.batcher import BatchSettings
from brokerless.tables.rows import RowError

pytestmark = pytest.mark.xdist_group("loaded_rows")
COUNT = 2000
START = 1_767_225_600_000
SMALL = LogConfig(segment_bytes=20_000, index_interval_bytes=1000)


@functools.cache
def rows(magic: int = 2) -> list[dict[str, Any]]:
    """Of two topics with three partitions each, in no order of partitions."""
    random = np.random.default_rng(7)
    types = {0: [-1], 1: [0, 0, 0, 1], 2: [0, 0, 0, 1]}[magic]
    offsets: dict[tuple[str, int], int] = {}
    found: list[dict[str, Any]] = []
    for number in range(COUNT):
        topic, partition = str(random.choice(["a", "b.c-d"])), int(random.integers(3))
        offset = offsets.get((topic, partition), 100) + int(random.integers(1, 4))
        offsets[topic, partition] = offset
        pairs = [
            {"key": "k" * int(random.integers(3)), "value": random.choice([b"", b"\xff", None])}
            for _ in range(number % 3)
        ]
        found.append(
            {
                "topic": topic,
                "partition": partition,
                "offset": offset,
                "timestamp": START + number * 10 + int(random.integers(100)) if magic else -1,
                "timestampType": int(random.choice(types)),
                "key": random.choice([None, b"", b"user-%d" % random.integers(100), random.bytes(5)]),
                "value": random.choice([None, b"", b"value " * int(random.integers(60)), random.bytes(90)]),
                "headers": pairs if magic == 2 else [],
            }
        )  # fmt: skip
    return found


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    schema = pa.schema(
        {
            "topic": pa.string(), "partition": pa.int32(), "offset": pa.int64(), "timestamp": pa.int64(),
            "timestampType": pa.int32(), "key": pa.binary(), "value": pa.binary(), "headers": HEADERS,
        }
    )  # fmt: skip
    names = [name for name in schema.names if not rows or name in rows[0]]
    return pa.RecordBatch.from_pylist(rows, pa.schema([schema.field(name) for name in names]))


def pieces(batch: pa.RecordBatch, size: int = 700) -> Iterator[pa.RecordBatch]:
    return (batch.slice(start, size) for start in range(0, batch.num_rows, size))


def of_partition(rows: list[dict[str, Any]], directory: Path) -> list[dict[str, Any]]:
    return [row for row in rows if f"{row['topic']}-{row['partition']}" == directory.name]


CASES = [
    (codec, magic)
    for magic in (2, 1, 0)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd")
    if (codec, magic) not in (("zstd", 1), ("zstd", 0))
]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Path]:
    """A log directory of each codec and format."""
    directories: dict[tuple[str, int], Path] = {}
    for codec, magic in CASES:
        directory = directories[codec, magic] = tmp_path_factory.mktemp(f"{codec}-v{magic}")
        chosen = BatchSettings(codec, batch_size=2000, message_format=magic)
        load(pieces(batch_of(rows(magic))), str(directory), Routing(), chosen, SMALL)
    return directories


@pytest.fixture(scope="module")
def told(loaded: dict[tuple[str, int], Path], kafka_jars: Path) -> dict[Path, list[dict[str, Any]]]:
    """What Kafka's reader gives for each partition: that of 3.9 for the old formats."""
    from tests.kafka.jars import NEWEST, OLD_FORMATS
    from tests.kafka.oracle import read_logs

    found: dict[Path, list[dict[str, Any]]] = {}
    for versions, is_old in ((NEWEST, False), (OLD_FORMATS, True)):
        directories = [path for (_, magic), path in loaded.items() if (magic < 2) == is_old]
        for path, lines in read_logs(
            [log for each in directories for log in sorted(each.glob("*/*.log"))], versions
        ).items():
            found.setdefault(path.parent, []).extend(lines)
    return found


@pytest.mark.parametrize(("codec", "magic"), CASES)
def test_kafkas_reader_gives_every_record_as_it_was(codec: str, magic: int, loaded: Any, told: Any) -> None:
    def text(data: bytes | None) -> str | None:
        return None if data is None else base64.b64encode(data).decode()

    partitions = sorted(loaded[codec, magic].glob("*-?"))
    assert len(partitions) == 6
    for partition in partitions:
        lines = told[partition]
        assert {line["type"] for line in lines} == {"batch", "record", "end"}
        assert codec != "none" or len(list(partition.glob("*.log"))) > 1
        got = [line for line in lines if line["type"] == "record"]
        expected = of_partition(rows(magic), partition)
        assert [line["offset"] for line in got] == [row["offset"] for row in expected]
        for name in ("key", "value"):
            assert [line[name] for line in got] == [text(row[name]) for row in expected]
        assert [line["timestamp"] for line in got] == [row["timestamp"] for row in expected]
        assert [line["timestampType"] for line in got] == [TIMESTAMP_TYPES[row["timestampType"]] for row in expected]
        headers = [[[each["key"], text(each["value"])] for each in row["headers"]] for row in expected]
        assert [line["headers"] for line in got] == headers
        batches = [line for line in lines if line["type"] == "batch"]
        assert {line["magic"] for line in batches} == {magic}
        assert {line["compression"] for line in batches} == {codec}


def test_kafkas_dump_tool_finds_nothing_wrong_with_the_indexes(
    loaded: dict[tuple[str, int], Path], kafka_jars: Path
) -> None:
    from tests.kafka.oracle import run_dump

    files = [
        path for each in loaded.values() for kind in ("index", "timeindex") for path in sorted(each.glob(f"*/*.{kind}"))
    ]
    assert sum(path.stat().st_size for path in files) > 10_000
    for options in (["--index-sanity-check"], ["--verify-index-only"]):
        done = run_dump(files, *options)
        text = (done.stdout + done.stderr).decode()
        assert done.returncode == 0, text
        assert not re.search("mismatch|out of order|fail|exception", text, re.IGNORECASE), text
        if options == ["--index-sanity-check"]:
            sound = text.count("passed sanity check") + text.count(" is empty")
            assert sound == len(files), text


def test_verify_finds_nothing(loaded: dict[tuple[str, int], Path]) -> None:
    assert [finding for each in loaded.values() for finding in brokerless.open(each).verify()] == []


def records(directory: Path) -> dict[tuple[str, int], list[dict[str, Any]]]:
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for partition in brokerless.open(directory).partitions:
        assert partition.topic_partition is not None
        names = ["offset", "timestamp", "timestampType", "key", "value", "headers"]
        found[partition.topic_partition] = [
            row | {"timestamp": row["timestamp"]} for batch in partition.records(names) for row in in_ms(batch)
        ]
    return found


def in_ms(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    at = batch.schema.get_field_index("timestamp")
    return batch.set_column(at, "timestamp", batch.column("timestamp").view(pa.int64())).to_pylist()


BYTES = st.none() | st.binary(max_size=30)
PAIRS = st.fixed_dictionaries({"key": st.text(max_size=3), "value": BYTES})
ROW = st.fixed_dictionaries(
    {"timestamp": st.integers(-1, 2**62), "timestampType": st.sampled_from([0, 1]), "key": BYTES, "value": BYTES,
     "headers": st.lists(PAIRS, max_size=2)}
)  # fmt: skip


@examples(40)
@given(
    each=st.lists(st.tuples(ROW, st.integers(1, 2**33)), min_size=1, max_size=20),
    codec=st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"]),
    batch_size=st.sampled_from([0, 200, 16384]),
    size=st.integers(1, 20),
)
def test_any_records_are_read_again(
    each: list[tuple[dict[str, Any], int]],
    codec: str,
    batch_size: int,
    size: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    directory = tmp_path_factory.mktemp("any")
    offsets = np.cumsum([gap for _, gap in each]).tolist()
    given = [row | {"offset": offset} for (row, _), offset in zip(each, offsets, strict=True)]
    load(pieces(batch_of(given), size), str(directory), Routing("t"), BatchSettings(codec, batch_size=batch_size))
    assert records(directory) == {("t", 0): [{name: row[name] for name in found} for row, found in
                                             zip(given, records(directory)["t", 0], strict=True)]}  # fmt: skip


def test_gaps_of_given_offsets_do_not_read_as_missing_segments(tmp_path: Path) -> None:
    week = 604_800_001  # after which a segment is rolled, by default
    batch = pa.RecordBatch.from_pydict(
        {"value": [b"a", b"b"], "offset": [1, 3], "timestamp": pa.array([0, week], pa.timestamp("ms", "UTC"))}
    )
    load([batch], str(tmp_path), Routing("t"), BatchSettings(batch_size=0))
    partition = brokerless.open(tmp_path).partition("t", 0)
    assert len(list((tmp_path / "t-0").glob("*.log"))) == 2
    assert [offset for rows in partition.records(["offset"]) for offset in rows["offset"].to_pylist()] == [1, 3]
    assert not list(partition.verify())


def test_what_is_written_does_not_depend_on_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    value = [b"some text %d, " % (number**2) * (number % 9) for number in range(20_000)]
    batch = pa.RecordBatch.from_pydict({"value": value})
    for name, processors in (("one", {0}), ("many", {0, 1, 2, 3})):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, found=processors: found, raising=False)
        load(pieces(batch), str(tmp_path / name), Routing("t", timestamp=5), BatchSettings("lz4", batch_size=1000))
    one, many = ((tmp_path / name / "t-0" / f"{0:020}.log").read_bytes() for name in ("one", "many"))
    assert one == many


def test_what_was_written_is_reported(tmp_path: Path) -> None:
    given = rows()
    found = load([batch_of(given)], str(tmp_path))
    assert (found.rows, found.control_records) == (COUNT, 0)
    for each in found.partitions:
        log = tmp_path / f"{each.topic}-{each.partition}"
        expected = of_partition(given, log)
        assert (each.records, each.first_offset, each.last_offset) == (
            len(expected), expected[0]["offset"], expected[-1]["offset"],
        )  # fmt: skip
        assert each.size_in_bytes == sum(path.stat().st_size for path in log.glob("*.log"))
        assert min(path.stem for path in log.glob("*.log")) == f"{each.first_offset:020}"
    assert len(found.partitions) == 6


def test_control_records_are_left_out_and_their_offsets_stay_free(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pydict(
        {"value": [b"a", b"marker", b"b"], "offset": [4, 5, 6], "isControl": [False, True, False]}
    )
    found = load([batch], str(tmp_path), Routing("t"))
    assert (found.rows, found.control_records) == (3, 1)
    assert [row["offset"] for row in records(tmp_path)["t", 0]] == [4, 6]


def test_the_partitions_of_a_topic_have_one_id(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pydict({"value": [b"a", b"b"], "topic": ["t", "u"], "partition": [0, 0]})
    load([batch], str(tmp_path))
    load([batch], str(tmp_path), Routing(partition=1))
    ids = {path.name: (path / "partition.metadata").read_text() for path in tmp_path.glob("*-?")}
    assert ids["t-0"] == ids["t-1"] != ids["u-0"] == ids["u-1"]


def test_an_id_is_that_of_the_topics_other_partitions_or_refused(tmp_path: Path) -> None:
    batch, id = pa.RecordBatch.from_pydict({"value": [b"a"]}), "P4KqAlm-RcmdL3bLO8vOmg"
    load([batch], str(tmp_path), Routing("t", 0, topic_id=id))
    load([batch], str(tmp_path), Routing("t", 1))
    assert {path.read_text() for path in tmp_path.glob("*/partition.metadata")} == {f"version: 0\ntopic_id: {id}"}
    other = Routing("t", 2, topic_id="GGfzE_HvRoGT7m9N-0_chw")
    for dry_run in (False, True):
        with pytest.raises(UsageError, match=f"the partitions of t that are there have the ID {id}"):
            load([batch], str(tmp_path), other, dry_run=dry_run)


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_record_larger_than_a_segment_is_refused_by_a_dry_run_too(dry_run: bool, tmp_path: Path) -> None:
    rows = pa.RecordBatch.from_pydict({"value": [bytes(2000)]})
    with pytest.raises(RefusedError, match=r"more bytes than a segment, which has 1000 at most \(segment.bytes\)"):
        load([rows], str(tmp_path / "to"), Routing("t", 0), config=LogConfig(segment_bytes=1000), dry_run=dry_run)
    assert not list(tmp_path.glob("to/*-*"))


def test_a_dry_run_writes_nothing_and_reports_the_same(tmp_path: Path) -> None:
    batch = batch_of(rows())
    told = load(pieces(batch), str(tmp_path / "new"), dry_run=True)
    assert list(tmp_path.iterdir()) == []
    assert told == load(pieces(batch), str(tmp_path / "new"))
    with pytest.raises(UsageError, match="exists already"):
        load(pieces(batch), str(tmp_path / "new"), dry_run=True)


def broken(kind: str) -> Iterator[pa.RecordBatch]:
    """Enough rows for several groups, and then something wrong."""
    value = [bytes(1000)] * 20_000
    for start in range(0, 60_000, 20_000):
        yield pa.RecordBatch.from_pydict({"value": value, "offset": range(start, start + 20_000)})
    if kind == "row":
        yield pa.RecordBatch.from_pydict({"value": [b""], "offset": [59_999]})
    elif kind == "columns":
        yield pa.RecordBatch.from_pydict({"value": [b""]})
    else:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("kind", "error"), [("row", "row 60000 .*offset: is 59999 and follows 59999"),
                        ("columns", "row 60000 .*offset: is there in some parts of the input and not in others"),
                        ("interrupt", "^$")]
)  # fmt: skip
def test_after_an_error_nothing_is_left(kind: str, error: str, tmp_path: Path) -> None:
    with pytest.raises((RowError, KeyboardInterrupt), match=error):
        load(broken(kind), str(tmp_path / "new"), Routing("t"))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises((RowError, KeyboardInterrupt)):
        load(broken(kind), str(tmp_path), Routing("t"))
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_a_topic_has_no_fewer_partitions_than_are_there(tmp_path: Path) -> None:
    rows = pa.RecordBatch.from_pydict({"key": [b"a", b"b"], "value": [b"1", b"2"]})
    load([rows], str(tmp_path), Routing("t", partition=2))
    with pytest.raises(UsageError, match="there is a partition t-2, so t has more than 2 partitions"):
        load([rows], str(tmp_path), Routing("t", partitions=2))
    assert {path.name for path in tmp_path.glob("t-*")} == {"t-2"}
    load([rows], str(tmp_path), Routing("other", partitions=2))


@pytest.mark.parametrize("small", [0, 1 << 20], ids=["in-a-thread", "small"])
@pytest.mark.parametrize("failing", [1, 2, 5])
def test_a_disk_that_is_full_ends_it_and_nothing_is_left(
    failing: int, small: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, calls = os.write, itertools.count(1)

    def fail_once(descriptor: int, data: bytes) -> int:
        if next(calls) == failing:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", fail_once)
    monkeypatch.setattr("brokerless.jobs.load.loader._SMALL", small)
    with pytest.raises(UnwritableError, match="No space left on device"):
        load([batch_of(rows())], str(tmp_path), settings=BatchSettings(batch_size=500))
    assert next(calls) > failing
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_existing_partitions_are_refused_and_not_changed(tmp_path: Path) -> None:
    def listed() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    load([pa.RecordBatch.from_pydict({"value": [b"a"]})], str(tmp_path), Routing("t", 1))
    before = listed()
    batch = pa.RecordBatch.from_pydict({"value": [b"a", b"b"], "partition": [0, 1]})
    with pytest.raises(UsageError, match="t-1: this partition exists already"):
        load([batch], str(tmp_path), Routing("t"))
    assert listed() == before


def test_a_directory_on_which_a_broker_runs_is_refused(tmp_path: Path) -> None:
    hold = (
        "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX); print(flush=True); input()"
    )
    command = [sys.executable, "-c", hold, str(tmp_path / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline()
        for dry_run in (False, True):
            with pytest.raises(UsageError, match="is running on this log directory"):
                load([pa.RecordBatch.from_pydict({"value": [b"a"]})], str(tmp_path), Routing("t"), dry_run=dry_run)
        broker.communicate(b"\n")
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_nothing_to_load_writes_nothing(tmp_path: Path) -> None:
    assert load([], str(tmp_path / "new"), Routing("t")).partitions == ()
    assert list(tmp_path.iterdir()) == []


def test_archives_are_refused() -> None:
    with pytest.raises(UsageError, match="into an archive"):
        load([], "zip://kafka::s3://bucket/a.zip", Routing("t"))


CHILD = """
import sys
import pyarrow as pa
from brokerless.tables.batcher import BatchSettings
from brokerless.api.loading import load
from brokerless.jobs.load.routing import Routing

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) // 1024

def batches(count):
    for start in range(count):
        value = [b"%d " % number * 100 for number in range(start, start + 5000)]
        yield pa.RecordBatch.from_pydict({"key": [each[:9] for each in value], "value": value})

settings = BatchSettings("lz4")
load(batches(1), sys.argv[1], Routing("warm"), settings, dry_run=True)
before = peak()
load(batches(100), sys.argv[1], Routing("t", partitions=50), settings, dry_run=True)
print(peak() - before)
"""


@pytest.mark.slow(reason="loads 300 MB")
def test_memory_is_bounded_however_much_is_loaded(tmp_path: Path) -> None:
    """300 MB of records into 50 partitions."""
    done = subprocess.run([sys.executable, "-c", CHILD, str(tmp_path)], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 200
