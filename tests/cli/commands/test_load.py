"""``load`` is the way back from ``cat --json``, and from Parquet; what it refuses, it refuses with file and place."""

from __future__ import annotations

import io
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import Result, Run
from tests.golden import broker_data

import brokerless

DATA = broker_data("clean")


def lines(result: Result) -> list[dict[str, Any]]:
    """Without what says where records were read."""
    assert (result.exit_code, result.err) == (0, "")
    return [
        {name: value for name, value in line.items() if name not in ("file", "batchPosition", "sequence")}
        for line in result.json
    ]


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir() if path.is_dir()} if directory.exists() else set()


@pytest.mark.parametrize("mode", ["auto", "base64"])
def test_what_cat_wrote_is_loaded_and_cat_writes_it_again(mode: str, run: Run, tmp_path: Path) -> None:
    own = [option for path in DATA.glob("*-0") if path.name[:2] != "__" for option in ("-t", path.name[:-2])]
    before = run("cat", "--json", "--bytes", mode, DATA, *own)
    (tmp_path / "all.jsonl").write_bytes(before.out)
    loaded = run("load", tmp_path / "all.jsonl", "--to", tmp_path / "new", "--bytes", mode, "--codec", "zstd", "--json")
    assert (loaded.exit_code, loaded.err) == (0, "")
    after = run("cat", "--json", "--bytes", mode, tmp_path / "new")

    def sorted_lines(result: Result) -> list[dict[str, Any]]:
        return sorted(lines(result), key=lambda line: (line["topic"], line["partition"], line["offset"]))

    assert len({(line["topic"], line["partition"]) for line in before.json}) > 30
    assert sorted_lines(after) == sorted_lines(before)
    assert sum(line["records"] for line in loaded.json) == len(before.json)
    assert run("verify", tmp_path / "new").exit_code == 0


@pytest.mark.slow(reason="a process")
def test_a_pipe_is_read_and_a_topic_named_anew(run: Run, tmp_path: Path) -> None:
    text = run("cat", "--json", DATA / "segments-0").out
    command = [sys.executable, "-m", "brokerless", "load", "-", "--to", str(tmp_path), "--topic", "again", "-p", "7"]
    done = subprocess.run(command, input=text, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert names(tmp_path) == {"again-7"}
    assert run("cat", tmp_path, "-f", r"%o %k %s\n").out == run("cat", DATA / "segments-0", "-f", r"%o %k %s\n").out


def parquet(path: Path, rows: int = 1000, start: int = 0, **columns: Any) -> Path:
    value = [f"value {number}" for number in range(start, start + rows)]
    pq.write_table(pa.table({"value": value} | columns), path, row_group_size=300)
    return path


def test_parquet_is_loaded_file_after_file(run: Run, tmp_path: Path) -> None:
    directory = tmp_path / "part"
    directory.mkdir()
    for number in range(3):
        parquet(directory / f"part-{number}.parquet", 1000, number * 1000)
    (directory / "_SUCCESS").touch()
    (directory / ".part-0.parquet.crc").write_bytes(b"x")
    options = ["--topic", "t", "--start-offset", 40, "--timestamp", 5, "--segment-bytes", 20_000]
    result = run("load", directory, parquet(tmp_path / "last.parquet", 1), "--to", tmp_path / "new", *options)
    assert (result.exit_code, result.err) == (0, "")
    assert result.lines[1].split() == ["t-0", "3,001", *result.lines[1].split()[2:4], "40..3040"]
    assert result.lines[-2] == f"3,001 records in 1 partition: written to {tmp_path / 'new'}"
    assert len(list((tmp_path / "new" / "t-0").glob("*.log"))) > 1
    (batch,) = [
        pa.concat_batches(brokerless.open(tmp_path / "new").partition("t", 0).records(["offset", "timestamp", "value"]))
    ]
    assert batch["offset"].to_pylist() == list(range(40, 3041))
    assert batch["value"].to_pylist() == [b"value %d" % number for number in [*range(3000), 0]]
    assert set(batch["timestamp"].view(pa.int64()).to_pylist()) == {5}


def test_where_no_broker_starts_on_the_result_that_is_said_with_what_to_do(run: Run, tmp_path: Path) -> None:
    """An export of a whole directory, loaded into a new one: topic IDs are kept, and there is no cluster."""
    source, exported, to = tmp_path / "source", tmp_path / "exported", tmp_path / "to"
    shutil.copytree(DATA / "segments-0", source / "segments-0")
    assert run("export", source, "--to", exported).exit_code == 0
    result = run("load", exported, "--to", to)
    assert result.exit_code == 0
    assert f"written to {to}" in result.lines[-2]
    assert result.lines[-1].startswith(f"{to} has no meta.properties and no metadata of a cluster, so no broker starts")
    metadata = [(path / "segments-0" / "partition.metadata").read_text() for path in (source, to)]
    assert metadata[0] == metadata[1]
    assert "no broker starts" not in run("load", exported, "--to", tmp_path / "dry", "--dry-run").out.decode()
    assert "no broker starts" not in run("load", exported, "--to", tmp_path / "json", "--json").out.decode()
    (refused,) = [each for each in run("restart", "--json", to).json if each["topic"] is None]
    assert "meta-properties-missing" in [each["kind"] for each in refused["refusals"]]

    broker = tmp_path / "broker"
    broker.mkdir()
    (broker / "meta.properties").write_text("version=1\ncluster.id=x\nnode.id=1\n")
    assert run("load", exported, "--to", broker).lines[-1].endswith(f"written to {broker}")


def test_the_records_table_itself_is_loaded(run: Run, tmp_path: Path) -> None:
    table = pa.Table.from_batches(brokerless.open(DATA / "txn-0").records(control=True))
    pq.write_table(table, tmp_path / "records.parquet")
    controls = table["isControl"].to_pylist().count(True)
    result = run("load", tmp_path / "records.parquet", "--to", tmp_path / "new")
    assert (result.exit_code, result.err) == (0, f"{controls} control records were left out\n")
    assert lines(run("cat", "--json", tmp_path / "new")) == lines(run("cat", "--json", DATA / "txn-0"))


def test_large_values_are_read_a_few_at_a_time(run: Run, tmp_path: Path) -> None:
    value = [bytes(500_000)] * 100
    for dictionary in (False, True):
        path = tmp_path / f"{dictionary}.parquet"
        pq.write_table(pa.table({"value": value}), path, use_dictionary=dictionary)
        result = run("load", path, "--to", tmp_path / "new", "--topic", f"t{dictionary}", "--codec", "zstd", "--json")
        assert [line["records"] for line in result.json] == [100]


def test_keys_spread_over_partitions(run: Run, tmp_path: Path) -> None:
    path = parquet(tmp_path / "f.parquet", key=[f"user-{number % 50}" for number in range(1000)])
    result = run("load", path, "--to", tmp_path / "new", "-t", "t", "--partitions", 4, "--json")
    assert [(line["topic"], line["partition"]) for line in result.json] == [("t", number) for number in range(4)]
    assert sum(line["records"] for line in result.json) == 1000


def test_keys_in_json_lines_go_where_those_in_parquet_go(run: Run, tmp_path: Path) -> None:
    keys = [f"user-{number % 50}" for number in range(300)]
    lines = tmp_path / "f.jsonl"
    lines.write_text("".join(json.dumps({"key": key, "value": "v"}) + "\n" for key in keys))
    for source, to in ((lines, "one"), (parquet(tmp_path / "f.parquet", key=keys, value=["v"] * 300), "other")):
        assert run("load", source, "--to", tmp_path / to, "-t", "t", "--partitions", 4).exit_code == 0
    ways = [run("cat", tmp_path / to, "-f", "%p %o %k\\n").out for to in ("one", "other")]
    assert ways[0] == ways[1]


def test_a_directory_may_be_given_as_a_url_and_has_a_name(run: Run, tmp_path: Path) -> None:
    path = parquet(tmp_path / "f.parquet", value=["a"])
    assert run("load", path, "--to", f"file://{tmp_path}/new", "-t", "t").exit_code == 0
    assert (tmp_path / "new" / "t-0").is_dir()
    for to, reason in (("", "has no name"), ("zip://new::s3://bucket/a.zip", "into an archive")):
        refused = run("load", path, "--to", to, "-t", "t")
        assert refused.exit_code == 2
        assert reason in refused.err


def test_nothing_is_said_to_be_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_bytes(b"")
    result = run("load", tmp_path / "none.jsonl", "--to", tmp_path / "new", "-t", "t")
    assert (result.exit_code, result.lines[-1]) == (0, "0 records in 0 partitions: nothing was written")


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("format", ["v0", "v1", "v2"])
def test_codec_and_format_are_as_asked_for(codec: str, format: str, run: Run, tmp_path: Path) -> None:
    path = parquet(tmp_path / "f.parquet")
    result = run("load", path, "--to", tmp_path / "new", "-t", "t", "--codec", codec, "--format", format)
    if (codec, format) in (("zstd", "v0"), ("zstd", "v1")):
        assert (result.exit_code, names(tmp_path / "new")) == (2, set())
        assert f"message format {format} has no zstd" in result.err
    else:
        (row,) = run("ls", "--json", tmp_path / "new").json
        assert (row["records"], row["magics"], row["compressions"]) == (1000, [int(format[1])], [codec])


def test_a_level_and_a_batch_size_are_as_asked_for(run: Run, tmp_path: Path) -> None:
    path = parquet(tmp_path / "f.parquet", 20_000)
    sizes: dict[str, int] = {}
    for topic, options in {"fast": ["--level", 1], "best": ["--level", 19], "small": ["--batch-size", 500]}.items():
        run("load", path, "--to", tmp_path / "new", "-t", topic, "--codec", "zstd", *options)
        sizes[topic] = sum(file.stat().st_size for file in (tmp_path / "new" / f"{topic}-0").glob("*.log"))
    assert sizes["best"] < sizes["fast"] < sizes["small"]


def test_zero_bytes_are_a_batch_for_each_record_and_an_index_entry_for_each_batch_but_the_first(
    run: Run, tmp_path: Path
) -> None:
    """What Kafka makes of these settings is in tests/kafka/test_loaded.py."""
    options = ("--batch-size", 0, "--index-interval-bytes", 0)
    for to, command in (
        ("one", ("load", parquet(tmp_path / "f.parquet"), "-t", "t", *options)),
        ("many", ("load", tmp_path / "f.parquet", "-t", "t")),
        ("other", ("convert", tmp_path / "many", "--batch-size", 0, "--codec", "gzip")),
    ):
        assert run(*command, "--to", tmp_path / to).exit_code == 0
    counts = {to: [row["count"] for row in run("batches", "--json", tmp_path / to).json] for to in ("one", "other")}
    assert counts == {"one": [1] * 1000, "other": [1] * 1000}
    assert (tmp_path / "one" / "t-0" / f"{0:020}.index").stat().st_size == 999 * 8


def test_append_time_is_marked_where_the_topic_has_it(run: Run, tmp_path: Path) -> None:
    run(
        "load",
        parquet(tmp_path / "f.parquet"),
        "--to",
        tmp_path / "new",
        "-t",
        "t",
        "--timestamp-type",
        "LogAppendTime",
    )
    assert {line["timestampType"] for line in run("cat", "--json", tmp_path / "new").json} == {"LogAppendTime"}


def test_a_dry_run_writes_nothing_and_says_what_it_would(run: Run, tmp_path: Path) -> None:
    path = parquet(tmp_path / "f.parquet")
    dry = run("load", path, "--to", tmp_path / "new", "-t", "t", "--dry-run")
    assert (dry.exit_code, dry.lines[-1]) == (0, "1,000 records in 1 partition: nothing was written, as in a dry run")
    assert not (tmp_path / "new").exists()
    wet = run("load", path, "--to", tmp_path / "new", "-t", "t")
    assert wet.lines[:-2] == dry.lines[:-1]


GOOD = '{"value":"a","topic":"t","offset":5}'


def test_lines_without_a_timestamp_get_the_one_that_is_given(run: Run, tmp_path: Path) -> None:
    lines = tmp_path / "some.jsonl"
    lines.write_text('{"value": "a", "timestamp": 7}\n{"value": "b"}\n{"value": "c", "timestamp": null}\n')
    assert run("load", lines, "--to", tmp_path / "new", "--topic", "t", "--timestamp", 5).exit_code == 0
    got = run("cat", "--json", tmp_path / "new").json
    assert [(line["value"], line["timestamp"]) for line in got] == [("a", 7), ("b", 5), ("c", 5)]
    refused = run("load", lines, "--to", tmp_path / "other", "--topic", "t")
    assert refused.exit_code == 2
    assert "some.jsonl, line 2" in refused.err


REFUSED_FILES: list[tuple[str, str | bytes | dict[str, Any], list[str], str]] = [
    ("no-json.jsonl", GOOD + "\n{", [], "no-json.jsonl, line 2: this is not JSON"),
    ("no-value.jsonl", '{"topic":"t"}', [], "no-value.jsonl, line 1: there is no 'value'"),
    ("no-topic.jsonl", '{"value":"a"}', [], "there is no column 'topic'; say which topic it is (--topic)"),
    ("twice.jsonl", f"{GOOD}\n{GOOD}", [], "twice.jsonl, line 2, offset: is 5 and follows 5 in its partition"),
    ("below.jsonl", GOOD, ["--start-offset", "6"], "below.jsonl, line 1, offset: is 5, below the start offset 6"),
    ("text.parquet", "no parquet", [], "text.parquet: this is not a Parquet file: it does not begin with PAR1"),
    ("cut.parquet", b"PAR1 and no more", ["-t", "t"], "cut.parquet: this Parquet file cannot be read: "),
    ("extra.parquet", {"value": ["a"], "user": ["b"]}, [], "extra.parquet: a record has no column 'user'"),
    ("key.parquet", {"key": ["a"]}, [], "key.parquet: there is no column 'value'; there are key"),
    ("type.parquet", {"value": [1]}, ["-t", "t"], "type.parquet: column 'value' is of type int64; it has to be binary"),
    ("n.parquet", {"value": ["a", "b"], "offset": [1, None]}, ["-t", "t"], "row 1 (from 0), offset: is null"),
    ("old.parquet", {"value": ["a"], "timestamp": [5]}, ["-t", "t", "--format", "v0"], "format v0 has no timestamps"),
    ("p.parquet", {"value": ["a"], "partition": [5]}, ["-t", "t", "--partitions", "5"], "is 5, and there are 5"),
    ("empty.parquet", b"", ["-t", "t"], "empty.parquet: this Parquet file cannot be read: it is empty"),
    ("a.jsonl.gz", b"\x1f\x8b\x08", ["-t", "t"], "this is compressed; use gzip -dc"),
    ("far.jsonl", '{"value":"a","offset":9223372036854775807}', ["-t", "t"], "2^63 - 2 is the last"),
    ("empty", "", ["-p", "-1"], "-1"),
    ("empty", "", ["-t", "a b"], "'a b' is not a valid topic name"),
    ("empty", "", ["-p", "1", "--partitions", "2"], "exclude each other"),
    ("empty", "", ["--level", "3"], "without a codec there are no levels"),
    ("empty", "", ["--codec", "gzip", "--level", "11"], "gzip has no level 11; it has 1 to 9"),
    ("empty", "", ["--segment-bytes", "1"], "segment_bytes: 1 is not in what Kafka allows"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "options", "reason"), REFUSED_FILES)
def test_what_cannot_be_loaded_is_refused_with_its_place(
    name: str, content: str | bytes | dict[str, Any], options: list[str], reason: str, run: Run, tmp_path: Path
) -> None:
    path = tmp_path / name
    if isinstance(content, dict):
        pq.write_table(pa.table(content), path)
    else:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    result = run("load", path, "--to", tmp_path / "new", *options)
    assert (result.exit_code, result.out) == (2, b"")
    assert reason in result.err
    assert names(tmp_path / "new") == set()


def test_the_place_is_counted_in_its_own_file(run: Run, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    good.write_text('{"value":"a","topic":"t","offset":5}\n{"value":"a","topic":"t","offset":6}\n')
    bad.write_text('{"value":"a","topic":"t","offset":7}\n{"value":"a","topic":"t","offset":6}\n')
    result = run("load", good, bad, "--to", tmp_path / "new")
    assert f"{bad}, line 2, offset: is 6 and follows 7" in result.err


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: None, "there is no such file or directory"),
        (lambda path: path.mkdir(), "no file in it ends with .parquet, .jsonl, .ndjson, .json"),
        (lambda path: (path / "year=2026").mkdir(parents=True), "has directories in it (year=2026)"),
    ],
)
def test_what_is_no_input_is_refused(make: Any, reason: str, run: Run, tmp_path: Path) -> None:
    make(tmp_path / "input")
    result = run("load", tmp_path / "input", "--to", tmp_path / "new", "-t", "t")
    assert (result.exit_code, names(tmp_path)) == (2, names(tmp_path) - {"new"})
    assert reason in result.err


def test_partitions_that_are_there_are_refused(run: Run, tmp_path: Path) -> None:
    path = parquet(tmp_path / "f.parquet")
    assert run("load", path, "--to", tmp_path / "new", "-t", "t").exit_code == 0
    result = run("load", path, "--to", tmp_path / "new", "-t", "t")
    assert (result.exit_code, result.out) == (2, b"")
    assert "t-0: this partition exists already; write to another directory" in result.err


def test_parquet_does_not_come_through_a_pipe(tmp_path: Path) -> None:
    out = io.BytesIO()
    pq.write_table(pa.table({"value": ["a"]}), out)
    command = [sys.executable, "-m", "brokerless", "load", "-", "--to", str(tmp_path / "new"), "-t", "t"]
    done = subprocess.run(command, input=out.getvalue(), capture_output=True, check=False)
    assert done.returncode == 2
    assert b"stdin: Parquet cannot be read from a pipe; give the file" in done.stderr


@pytest.mark.parametrize(
    ("how", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
@pytest.mark.slow(reason="kills processes")
def test_a_load_that_is_killed_leaves_nothing_that_is_seen(how: int, code: int, run: Run, tmp_path: Path) -> None:
    lines = b"".join(b'{"value":"%d %s"}\n' % (number, b"x" * 1000) for number in range(1000))
    command = [sys.executable, "-m", "brokerless", "load", "-", "--to", str(tmp_path), "-t", "t"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as load:
        assert load.stdin is not None
        give_up = time.monotonic() + 60
        while not any(path.stat().st_size for path in tmp_path.glob("t-0.*-delete/*.log")):
            assert load.poll() is None
            assert time.monotonic() < give_up
            load.stdin.write(lines)
            time.sleep(0.02)
        load.send_signal(how)
        load.wait(30)
        assert load.returncode == code
    assert [name for name in names(tmp_path) if not name.endswith("-delete")] == []
    assert how == signal.SIGKILL or names(tmp_path) == set()
    path = parquet(tmp_path / "f.parquet")
    assert run("load", path, "--to", tmp_path, "-t", "t").exit_code == 0
    assert [row["records"] for row in run("ls", "--json", tmp_path).json] == [1000]


def test_stdin_may_be_closed(tmp_path: Path) -> None:
    command = f"{sys.executable} -m brokerless load - --to {tmp_path / 'new'} -t t <&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (2, b"brokerless: stdin: it is closed\n")


def test_json_says_what_was_written(run: Run, tmp_path: Path) -> None:
    (line,) = run("load", parquet(tmp_path / "f.parquet"), "--to", tmp_path / "new", "-t", "t", "--json").json
    size = (tmp_path / "new" / "t-0" / f"{0:020}.log").stat().st_size
    assert line == {
        "topic": "t", "partition": 0, "records": 1000, "firstOffset": 0, "lastOffset": 999, "sizeInBytes": size,
    }  # fmt: skip
    assert json.dumps(line)
