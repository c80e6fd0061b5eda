"""Local and remote as one log, in every command that reads: what a consumer of the broker got."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from tests.cli.conftest import Run
from tests.internals.remote.metadata import broker_directory
from tests.log.tiered import cases, golden, rows_of, summary_of

import brokerless
from brokerless.cli.commands import COMMANDS
from brokerless.cli.parser import Parser, load_command

KILLED = next(each for each in cases() if each.set == "killed").expected["read_uncommitted"]["all"]
BUCKET = golden() / "killed" / "bucket"
WITHOUT = {
    "cluster": "reads Kafka's own topics, which are never tiered",
    "internals": "reads Kafka's own topics, which are never tiered",
    "compact": "a topic that is compacted cannot be tiered",
    "rebuild": "takes --from-bucket: brokers will read the bucket, and not what is made of it",
    "keys": "changes keys of a backup, which is no log of brokers",
    "erase": "what it writes takes the place of a log; records in the bucket would stay",
}
"""Commands that read logs, and take no ``--remote``."""


@pytest.mark.parametrize("name", COMMANDS)
def test_what_reads_logs_takes_the_option(name: str) -> None:
    parser = Parser(prog=f"brokerless {name}")
    parser.add_command(load_command(name))
    options = {each.dest for each in parser.actions}
    if "key_pair" in options:
        assert ("remote" in options) == (name not in WITHOUT)


@pytest.mark.parametrize("command", ["convert", "salvage", "merge"])
def test_logs_that_are_written_have_all_records(command: str, tmp_path: Path, run: Run) -> None:
    data, to = broker_directory("killed", tmp_path / "data"), tmp_path / "to"
    more = ["--format", "v2"] if command == "convert" else []
    assert run(command, data, "-t", "killed", "--remote", BUCKET, "--to", to, *more).exit_code == 0
    assert summary_of(rows_of(brokerless.open(to))) == KILLED
    assert not [each for each in brokerless.open(to).verify() if each.severity == "error"]


def test_a_restored_disk_has_all_records(tmp_path: Path, run: Run) -> None:
    data, disk = broker_directory("killed", tmp_path / "data"), tmp_path / "disk"
    shutil.copytree(data, disk)
    shutil.rmtree(disk / "killed-0")
    assert run("restore", data, "-t", "killed", "--remote", BUCKET, "--to", disk, "--apply").exit_code == 0
    assert summary_of(rows_of(brokerless.open(disk).partition("killed", 0))) == KILLED


def test_tables_have_all_records_once(tmp_path: Path, run: Run) -> None:
    data, to = broker_directory("killed", tmp_path / "data"), tmp_path / "tables"
    arguments = ("pipeline", data, "-t", "killed", "--remote", BUCKET, "--to", to, "--as", "parquet", "--no-report")
    for _ in range(2):
        assert run(*arguments).exit_code == 0
        rows = ds.dataset(to / "topic=killed").to_table(["offset"]).sort_by("offset")
        assert rows.column("offset").to_pylist() == list(range(KILLED["records"]))
    again = brokerless.pipeline(data, tmp_path / "other", topic="killed", remote=BUCKET, as_="parquet", report=False)
    assert [each.records for each in again.exported] == [KILLED["records"]]


def test_results_for_programs_count_all_records(tmp_path: Path, run: Run) -> None:
    data = broker_directory("killed", tmp_path / "data")
    log = ("-t", "killed", "--remote", BUCKET)
    found: dict[str, Any] = {}
    found["cat"] = len(run("cat", data, *log, "--json").json)
    found["ls"] = sum(each["records"] for each in run("ls", data, *log, "--json").json)
    found["batches"] = sum(each["count"] for each in run("batches", data, *log, "--json").json)
    found["sql"] = json.loads(run("sql", "SELECT count(*) AS n FROM records", data, *log, "--json").out)["n"]
    found["size"] = run("size", data, *log, "--json", "--codec", "zstd").json[0]["records"]
    assert set(found.values()) == {KILLED["records"]}, found


def test_a_place_without_remote_segments_is_refused(tmp_path: Path, run: Run) -> None:
    data = broker_directory("killed", tmp_path / "data")
    (tmp_path / "empty").mkdir()
    for command in (["audit"], ["cat"], ["salvage", "--to", tmp_path / "to"], ["merge", "--to", tmp_path / "to"]):
        for wrong in (tmp_path / "empty", tmp_path / "nowhere"):
            result = run(command[0], data, "--remote", wrong, *command[1:])
            assert (result.exit_code, result.out) == (2, b""), (command, wrong)
            assert str(wrong) in result.err
            assert not (tmp_path / "to").exists()


def test_a_disk_with_its_bucket_is_the_log_that_is_written_of_it(tmp_path: Path, run: Run) -> None:
    data, to = broker_directory("killed", tmp_path / "data"), tmp_path / "to"
    assert run("merge", data, "-t", "killed", "--remote", BUCKET, "--to", to).exit_code == 0
    compared = ("diff", data, to, "-t", "killed", "--json")
    (line,) = run(*compared, "--remote", BUCKET).json
    assert (line["isSame"], line["causes"]) == (True, {})
    assert line["records"] == line["same"] > 0
    assert brokerless.diff(
        brokerless.open(data, remote=BUCKET).topic("killed").partitions, to, topics=["killed"]
    ).is_same
    alone = run(*compared)  # without the bucket, the offsets in it could not be compared, and are no retention
    assert alone.exit_code == 1
    (line,) = alone.json
    assert [each["finding"]["kind"] for each in line["uncompared"]] == ["remote-offsets"]
    assert line["uncompared"][0]["recordsOnTheOtherSide"] > 0
    assert line["causes"] == {}
