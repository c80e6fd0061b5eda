from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.golden import broker_data

DATA = broker_data("clean")


def test_an_image_of_a_disk_is_carved(run: Run, tmp_path: Path) -> None:
    chance = random.Random(1)
    image = tmp_path / "disk.img"
    logs = sorted((DATA / "segments-0").glob("*.log"))
    image.write_bytes(b"".join(chance.randbytes(5000) + log.read_bytes() for log in logs))
    result = run("carve", image, "--to", tmp_path / "carved")
    assert result.exit_code == 0
    assert result.lines[1].split()[:2] == ["carved-0", "0..699"]
    assert run("verify", tmp_path / "carved").lines == ["0 errors, 0 warnings"]
    (line,) = run("carve", image, "--to", tmp_path / "json", "--json").json
    assert (line["records"], line["runs"][0]["position"]) == (700, 5000)
    assert line["target"] == str(tmp_path / "json" / "carved-0")


def test_what_is_carved_can_be_written_as_tables(run: Run, tmp_path: Path) -> None:
    image = sorted((DATA / "segments-0").glob("*.log"))[0]
    (carved,) = run("carve", image, "--to", tmp_path / "carved", "--as", "parquet", "--json").json
    assert carved["files"] == ["topic=carved/partition-0-00000000000000000000.parquet"]


def test_where_there_are_no_batches_none_are_carved(run: Run, tmp_path: Path) -> None:
    image = tmp_path / "disk.img"
    image.write_bytes(bytes(10_000))
    result = run("carve", image, "--to", tmp_path / "carved")
    assert (result.exit_code, result.lines[-1]) == (0, "0 groups, 0 B of 10.0 KB: no batches were found")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((DATA,), "this is a directory"),
        ((DATA / "no-such",), "there is no such file"),
        ((DATA / "meta.properties", "-t", "txn"), "-t"),
        ((DATA / "meta.properties", "--as", "parquet", "--segment-bytes", "1GB"), "--segment-bytes does not apply"),
    ],
)
def test_what_cannot_be_carved_is_reported(
    run: Run, tmp_path: Path, arguments: tuple[object, ...], message: str
) -> None:
    result = run("carve", "--to", tmp_path / "to", *arguments)
    assert (result.exit_code, result.out) == (2, b"")
    assert message in result.err
    assert not (tmp_path / "to").exists()
