"""A tiered topic whose records are all in remote storage is not empty: every command names the offsets.

``tests/internals/remote/tiered.tar.gz`` is a directory of a 3.9.1 broker with a topic of 2,000 records in
LocalTieredStorage, of which offsets 0..959 and 0..1039 were in remote segments, as its ``__remote_log_metadata`` says.
"""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.log.tiered import golden

import brokerless
from brokerless import Finding
from brokerless.cli import main

ARCHIVE = Path(__file__).parents[1] / "internals" / "remote" / "tiered.tar.gz"
OFFSETS = ["offsets 0..959 are in remote storage", "offsets 0..1039 are in remote storage"]
COMMANDS = {
    "ls": ["ls", "DATA"],
    "cat": ["cat", "DATA", "-t", "orders"],
    "cat --tail": ["cat", "DATA", "-t", "orders", "--tail", "3"],
    "batches": ["batches", "DATA"],
    "sql": ["sql", "SELECT count(*) FROM orders", "DATA"],
    "sql segments": ["sql", "SELECT count(*) FROM segments", "DATA"],
    "audit": ["audit", "DATA"],
    "export": ["export", "DATA", "--to", "OUT"],
    "export delta": ["export", "DATA", "--as", "delta", "--to", "OUT"],
    "pipeline": ["pipeline", "DATA", "--to", "OUT", "--no-report"],
    "salvage": ["salvage", "DATA", "--to", "OUT"],
    "convert": ["convert", "DATA", "--codec", "zstd", "--to", "OUT"],
    "compact": ["compact", "DATA", "-t", "orders", "--to", "OUT"],
    "erase": ["erase", "DATA", "--where", "true", "--to", "OUT"],
    "size": ["size", "DATA", "-t", "orders"],
    "schema": ["schema", "DATA"],
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "data"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_names_what_is_in_remote_storage(name: str, data: Path, run: Run, tmp_path: Path) -> None:
    places = {"DATA": str(data), "OUT": str(tmp_path / "out")}
    result = run(*(places.get(each, each) for each in COMMANDS[name]))
    assert result.exit_code == 1
    assert [each for each in OFFSETS if each not in result.err + result.out.decode()] == []


def test_an_export_that_is_repeated_still_names_it(data: Path, run: Run, tmp_path: Path) -> None:
    for _ in range(2):
        result = run("export", data, "--to", tmp_path / "out")
        assert (result.exit_code, "nothing new" in result.out.decode()) == (1, True)
        assert OFFSETS[0] in result.err


@pytest.mark.parametrize("path", ["", "orders-0"])
def test_python_reports_it_and_a_partition_by_itself_has_it_too(path: str, data: Path) -> None:
    found: list[Finding] = []
    brokerless.open(data / path).records(["offset"], on_damage=found.append).read_all()
    assert OFFSETS[0] in str([each.message for each in found if each.kind == "remote-offsets"])


def test_without_the_metadata_of_its_segments_nothing_is_read_for_it(data: Path, run: Run) -> None:
    """Most clusters have no tiered topic: then no metadata is read to list a directory."""
    for each in data.glob("__remote_log_metadata-*"):
        each.rename(each.with_name("moved-away"))
    result = run("ls", data)
    assert (result.exit_code, result.err) == (0, "")


def test_segments_without_their_key_are_one_line(run: Run) -> None:
    for command in (["cat", "-n", "1"], ["ls"], ["batches"], ["verify", "--json"]):
        result = run(*command, str(golden() / "encrypted" / "bucket"))
        assert result.exit_code == 1, command
        assert len(result.err.splitlines()) == 1, command
        assert "it is encrypted with key pair key1, which was not given" in result.err
        assert " files; the last: " in result.err


def test_a_key_pair_that_is_given_twice_is_refused(run: Run) -> None:
    pairs = [f"key1={golden() / 'keys' / name}" for name in ("key1.pem", "key2.pem")]
    result = run("ls", str(golden() / "encrypted" / "bucket"), "--key-pair", pairs[0], "--key-pair", pairs[1])
    assert (result.exit_code, result.out) == (2, b"")
    assert "key1 is given twice" in result.err


def test_verify_names_the_partition_whose_remote_segment_is_damaged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket = Path(shutil.copytree("demo/bucket", tmp_path / "a-bucket-7"))
    log = min(bucket.glob("plain.headers-*/0/*350-*.log"))
    content = bytearray(log.read_bytes())
    content[200] ^= 1
    log.write_bytes(content)
    assert main(["verify", str(bucket)]) == 1
    assert "damaged or missing in plain.headers-0" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["salvage", "merge"])
def test_segments_without_manifests_are_lost_offsets_and_not_silence(tmp_path: Path, run: Run, command: str) -> None:
    bucket = Path(shutil.copytree("demo/bucket", tmp_path / "bucket"))
    for each in bucket.glob("plain.headers-*/0/*.rsm-manifest"):
        each.unlink()
    result = run(command, bucket, "--to", tmp_path / "to", "--json")
    assert result.exit_code == 1
    logs = sorted(bucket.glob("plain.headers-*/0/*.log"))
    assert [int(line.rpartition("/")[2][:20]) for line in result.err.splitlines() if "without a manifest" in line] == [
        int(each.name[:20]) for each in logs
    ]
    (row,) = [each for each in result.json if each.get("topic") == "plain.headers"]
    last = int(logs[-1].name[:20])  # how many are in that one is not known
    assert [(each["firstOffset"], each["lastOffset"]) for each in row["losses"]] == [(0, last)]
