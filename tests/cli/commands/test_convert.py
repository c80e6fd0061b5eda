from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.golden import broker_data, broker_expected, json_lines

DATA = broker_data("clean")


def test_json_has_an_object_for_each_partition(run: Run, tmp_path: Path) -> None:
    result = run("convert", DATA, "--to", tmp_path / "to", "-t", "txn", "--format", "v1", "--json")
    (expected,) = json_lines(broker_expected("clean") / "read-committed.json")
    assert result.exit_code == 0
    for line in result.json:
        name = f"{line['topic']}-{line['partition']}"
        assert Path(line["source"]) == DATA / name
        assert Path(line["target"]) == tmp_path / "to" / name
        assert line["endOffset"] == expected["read_uncommitted"][name]["endOffset"]
        assert line["recordsOut"] == expected["read_uncommitted"][name]["records"]
        assert line["recordsIn"] - line["recordsOut"] == line["lost"]["controlBatches"]
        assert line["sourceSizeInBytes"] == sum(path.stat().st_size for path in (DATA / name).glob("*.log"))
        assert line["sizeInBytes"] == sum(path.stat().st_size for path in (tmp_path / "to" / name).glob("*.log"))
    assert [line["partition"] for line in result.json] == [0, 1]


def test_people_get_a_table_what_is_lost_and_a_sum(run: Run, tmp_path: Path) -> None:
    result = run("convert", DATA / "txn-0", DATA / "edges-0", "--to", tmp_path / "to", "--format", "v0")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.lines[:3]] == ["partition", "txn-0", "edges-0"]
    assert any(line.endswith("record headers") for line in result.lines)
    assert any(line.endswith("record timestamps") for line in result.lines)
    assert result.lines[-1].startswith("2 partitions, ")
    assert result.lines[-1].endswith(f"written to {tmp_path / 'to'}")
    assert "--isolation read_committed" in result.err


def test_a_dry_run_says_so(run: Run, tmp_path: Path) -> None:
    arguments = ("convert", DATA / "txn-0", "--to", tmp_path / "to", "--codec", "zstd")
    dry = run(*arguments, "--dry-run")
    assert dry.lines[-1].endswith("nothing was written, as in a dry run")
    assert not (tmp_path / "to").exists()
    assert run(*arguments, "--dry-run", "--json").json[0]["target"] is None
    assert run(*arguments).lines[:-1] == dry.lines[:-1]


def test_what_converted_partitions_hold_is_shown_by_the_other_commands(run: Run, tmp_path: Path) -> None:
    to = tmp_path / "to"
    assert run("convert", DATA, "-p", "1", "--to", to, "--codec", "snappy", "--batch-size", "64KiB").exit_code == 0
    assert run("verify", to).lines == ["0 errors, 0 warnings"]
    (line,) = run("ls", to / "codec-gzip-1", "--json").json
    assert line["compressions"] == ["snappy"]


def test_damage_is_reported_with_what_to_do_and_the_exit_code_is_1(run: Run, tmp_path: Path) -> None:
    source = shutil.copytree(DATA / "txn-0", tmp_path / "from" / "txn-0")
    shutil.copytree(DATA / "txn-1", tmp_path / "from" / "txn-1")
    log = source / "00000000000000000000.log"
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    result = run("convert", tmp_path / "from", "--to", tmp_path / "to", "--codec", "none")
    assert result.exit_code == 1
    told, verdict = result.err.splitlines()
    assert told.startswith(f"{log}, position 0: the checksum of the batch does not match")
    assert (
        verdict == f"txn-0 was not written, as it is damaged; see brokerless verify {source}, or use brokerless salvage"
    )
    assert result.lines[-1].startswith("1 partition, ")
    assert [path.name for path in (tmp_path / "to").glob("txn*")] == ["txn-1"]
    (line, _) = run("convert", tmp_path / "from", "--to", tmp_path / "json", "--codec", "none", "--json").json
    assert (line["target"], line["damages"]) == (None, 1)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "nothing to convert; use --format, --codec, --batch-size or --segment-bytes"),
        (("--codec", "zstd", "--format", "v1"), "message format v1 has no zstd; it has none, gzip, snappy, lz4"),
        (("--format", "v2", "--level", "3"), "a level needs a codec: set the codec too"),
        (("--codec", "snappy", "--level", "3"), "snappy has no levels"),
        (("--codec", "zstd", "--level", "99"), "zstd has no level 99; it has -131072 to 22, by default 3"),
        (("--batch-size", "1GiB"), "a batch size of 1073741824 bytes; Kafka accepts 0 to 104857600"),
    ],
)
def test_what_kafka_does_not_have_is_refused(run: Run, tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    result = run("convert", DATA / "txn-0", "--to", tmp_path / "to", *arguments)
    assert (result.exit_code, result.out, result.err) == (2, b"", f"brokerless: {told}\n")
    assert not (tmp_path / "to").exists()


def test_nothing_is_written_if_some_of_it_is_not_there(run: Run, tmp_path: Path) -> None:
    result = run("convert", DATA / "txn-0", tmp_path / "none", "--to", tmp_path / "to", "--codec", "lz4")
    assert (result.exit_code, result.out) == (2, b"")
    assert result.err.endswith("nothing was written\n")
    assert not (tmp_path / "to").exists()
    to = shutil.copytree(DATA / "txn-0", tmp_path / "to" / "txn-0").parent
    result = run("convert", DATA, "--to", to, "--codec", "lz4")
    existing = f"brokerless: {to / 'txn-0'}: this partition exists already; write to another directory\n"
    assert (result.exit_code, result.err) == (2, existing)
    assert [path.name for path in to.iterdir()] == ["txn-0"]


def test_a_directory_on_which_a_broker_runs_is_refused(run: Run, tmp_path: Path) -> None:
    holds = (
        "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX); print(flush=True); input()"
    )
    command = [sys.executable, "-c", holds, str(tmp_path / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as broker:
        assert broker.stdout is not None
        broker.stdout.readline()
        result = run("convert", DATA / "txn-0", "--to", tmp_path, "--codec", "lz4")
        broker.communicate(b"\n")
    assert (result.exit_code, result.out) == (2, b"")
    assert "a broker, or another process that writes, is running" in result.err
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_remote_segments_of_empty_partitions_are_not_counted_as_written(run: Run, tmp_path: Path) -> None:
    logs, bucket = tmp_path / "logs", tmp_path / "bucket"
    bucket.mkdir()
    shutil.copytree(broker_data("clean") / "segments-0", logs / "segments-0")
    (logs / "fresh-0").mkdir()
    (logs / "fresh-0" / f"{0:020}.log").touch()
    result = run("convert", logs, "--to", bucket, "--tiered")
    assert result.exit_code == 0
    assert result.lines[-1] == f"1 partition, 1 without records: written to {bucket}"
    result = run("convert", logs / "fresh-0", "--to", bucket, "--tiered", "--json")
    assert [(each["segments"], each["isWritten"]) for each in result.json] == [(0, False)]
