from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.golden import broker_data

DATA = broker_data("clean")


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Two partitions, of which one has a flipped bit in its second batch."""
    for name in ("segments-0", "txn-0"):
        shutil.copytree(DATA / name, tmp_path / "disk" / name)
    log = min((tmp_path / "disk" / "segments-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[int.from_bytes(data[8:12], "big") + 12 + 100] ^= 1
    log.write_bytes(data)
    return tmp_path / "disk"


def test_people_get_a_table_of_partitions_one_of_losses_and_a_sum(run: Run, disk: Path, tmp_path: Path) -> None:
    result = run("salvage", disk, "--to", tmp_path / "saved")
    assert result.exit_code == 1
    assert not result.err
    assert [line.split()[0] for line in result.lines[:3]] == ["partition", "segments-0", "txn-0"]
    assert result.lines[4].startswith("partition   lost offsets")
    assert result.lines[5].endswith("checksum does not match")
    assert result.lines[-1].endswith(f"written to {tmp_path / 'saved'}")
    assert run("verify", tmp_path / "saved").lines == ["0 errors, 0 warnings"]


def test_json_has_an_object_for_each_partition_with_its_losses(run: Run, disk: Path, tmp_path: Path) -> None:
    result = run("salvage", disk, "--to", tmp_path / "saved", "--json")
    assert result.exit_code == 1
    damaged, sound = result.json
    assert sound["losses"] == []
    assert sound["target"] == str(tmp_path / "saved" / "txn-0")
    (loss,) = damaged["losses"]
    (region,) = loss["regions"]
    assert loss["causes"] == [region["kind"]] == ["checksum-mismatch"]
    assert loss["sizeInBytes"] == damaged["damagedBytes"] == region["end"] - region["position"]
    assert loss["offsets"] == loss["lastOffset"] + 1 - loss["firstOffset"]
    assert damaged["records"] + loss["offsets"] == damaged["endOffset"]


def test_the_exit_code_is_0_if_nothing_is_lost(run: Run, disk: Path, tmp_path: Path) -> None:
    result = run("salvage", disk, "-t", "txn", "--to", tmp_path / "saved")
    assert result.exit_code == 0
    assert not any("lost" in line for line in result.lines[1:])


def test_a_partition_that_cannot_be_opened_is_reported_and_not_written(run: Run, disk: Path, tmp_path: Path) -> None:
    (disk / "payments-3").symlink_to("nowhere")
    for form in ((), ("--as", "parquet")):
        result = run("salvage", disk, "-t", "payments", "--to", tmp_path / "new", *form)
        assert (result.exit_code, result.err) == (1, f"{disk / 'payments-3'}: there is no such file or directory\n")
        assert not list((tmp_path / "new").glob("*payments*/*.*"))


def test_a_dry_run_says_so(run: Run, disk: Path, tmp_path: Path) -> None:
    dry = run("salvage", disk, "--to", tmp_path / "saved", "--dry-run")
    assert dry.exit_code == 1
    assert dry.lines[-1].endswith("nothing was written, as in a dry run")
    assert not (tmp_path / "saved").exists()
    assert run("salvage", disk, "--to", tmp_path / "saved").lines[:-1] == dry.lines[:-1]


def test_tables_are_written_with_the_same_report_and_can_be_loaded(run: Run, disk: Path, tmp_path: Path) -> None:
    logs, tables = run("salvage", disk, "--to", tmp_path / "to"), tmp_path / "tables"
    shutil.move(tmp_path / "to", tmp_path / "logs")
    result = run("salvage", disk, "--to", tmp_path / "to", "--as", "parquet")
    assert (result.exit_code, result.lines, result.err) == (logs.exit_code, logs.lines, logs.err)
    shutil.move(tmp_path / "to", tables)
    assert run("load", tables, "--to", tmp_path / "loaded").exit_code == 0
    read = [run("cat", tmp_path / each, "--json").json for each in ("logs", "loaded")]
    facts = [[(row["topic"], row["partition"], row["offset"], row["value"]) for row in rows] for rows in read]
    assert facts[0] == facts[1] != []
    damaged, sound = run("salvage", disk, "--to", tmp_path / "json", "--as", "parquet", "--json").json
    assert damaged["target"] == sound["target"] == str(tmp_path / "json")
    assert all((tmp_path / "json" / file).stat().st_size for each in (damaged, sound) for file in each["files"])
    assert "is in it already" in run("salvage", disk, "--to", tables, "--as", "parquet").err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((DATA / "txn-0" / "00000000000000000000.log",), "the name does not say which partition this is"),
        ((DATA / "txn-0", "--to", DATA / "txn-0" / "inside"), "is within"),
        ((DATA / "no-such-0",), "there is no such file"),
        ((DATA, "-t", "no-such"), "no topic no-such"),
        ((DATA, "--as", "parquet", "--segment-bytes", "1GB"), "--segment-bytes does not apply to --as parquet"),
    ],
)
def test_what_cannot_be_done_is_reported(run: Run, tmp_path: Path, arguments: tuple[object, ...], message: str) -> None:
    result = run("salvage", "--to", tmp_path / "to", *arguments)
    assert result.exit_code == 2
    assert message in result.err
    assert not (tmp_path / "to").exists()
