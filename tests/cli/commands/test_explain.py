from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.golden import case

LOG = case("articles/v2-two-records").log


def test_people_get_a_line_for_each_field_and_what_it_costs(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    result = run("explain", LOG)
    assert result.exit_code == 0
    assert result.lines[0] == f"{LOG}: batch, 88 bytes from 0 to 87"
    assert result.lines[2].split() == ["at", "bytes", "field", "value", "cost", "meaning"]
    assert any("CRC-32C of the bytes from 21 to" in line for line in result.lines)
    assert result.lines[-1] == (
        "cost: header 61 bytes (69.3%), keys and values 13 bytes (14.8%), record overhead 14 bytes (15.9%)"
    )


def test_programs_get_lines_that_make_up_the_batch(run: Run) -> None:
    lines = run("explain", LOG, "--json").json
    assert sum(line["length"] for line in lines) == 88
    assert [line["position"] for line in lines] == sorted(line["position"] for line in lines)
    assert {line["file"] for line in lines} == {str(LOG)}
    assert {line["batchPosition"] for line in lines} == {0}
    assert next(line["value"] for line in lines if line["name"] == "count") == 2


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ("--format v0 --key key --value value", 34),
        ("--format v0 --value value", 31),
        ("--format v1 --key key --value value --value value", 81),
        ("--key key --value value --value value", 88),
        ("--format v2 --key key", 71),
    ],
)
def test_a_batch_is_built_and_explained(run: Run, options: str, size: int) -> None:
    lines = run("explain", *options.split(), "--json").json
    assert sum(line["length"] for line in lines) == size


def test_what_is_built_may_be_compressed_and_have_a_time(run: Run) -> None:
    lines = run("explain", "--codec", "gzip", "--timestamp", "1500000000000", "--value", "x" * 500, "--json").json
    payload = next(line for line in lines if "inflated" in line)
    assert payload["length"] < payload["inflated"]["sizeInBytes"] > 500
    assert next(line["value"] for line in lines if line["name"] == "base_timestamp") == 1_500_000_000_000


def test_the_record_of_an_offset_is_shown(run: Run) -> None:
    lines = run("explain", LOG, "--offset", "1", "--records", "1", "--json").json
    assert [line["name"] for line in lines].count("records") == 1
    assert {line["path"].split(".")[1] for line in lines if "record[" in line["path"]} == {"record[1]"}


def test_what_is_not_as_expected_is_a_line_on_stderr(run: Run, tmp_path: Path) -> None:
    damaged = tmp_path / LOG.name
    data = bytearray(LOG.read_bytes())
    data[70] ^= 1
    damaged.write_bytes(data)
    result = run("explain", damaged)
    assert result.exit_code == 1
    assert result.err.startswith(f"{damaged}, position 17: batch.crc (expected 0x")
    assert "expected: 0x" in result.out.decode()


@pytest.mark.parametrize(
    ("variables", "is_coloured"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({"FORCE_COLOR": ""}, False),
    ],
)
def test_colours_are_forced_and_refused_by_variables(
    run: Run, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], is_coloured: bool
) -> None:
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert (b"\x1b[" in run("explain", "--value", "value").out) == is_coloured


def test_a_page_is_written(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "explain.html"
    result = run("explain", LOG, "-o", page)
    assert (result.exit_code, result.lines) == (0, [f"written to {page}"])
    text = page.read_text()
    assert "base_offset" in text
    assert "0x2cc47a83, matches" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a FILE"),
        (["--format", "v1"], "name a FILE"),
        ([LOG, "--value", "x"], "needs no FILE"),
        ([LOG, "--offset", "1", "--position", "1"], "exclude each other"),
        ([LOG, "-o", "page.html", "--json"], "exclude each other"),
        ([LOG, "-o", LOG.parent / "no" / "page.html"], "no"),
        ([LOG, "--offset", "77"], "no batch has offset 77"),
        ([LOG, "--position", "88"], "there is no position 88"),
        ([LOG.parent], "this is a directory"),
        (["--format", "v1", "--codec", "zstd", "--value", "x"], "has no zstd"),
        ([LOG.parent / "nothing"], "there is no such file"),
    ],
)
def test_what_cannot_be_explained_is_refused(run: Run, arguments: list[object], message: str) -> None:
    result = run("explain", *arguments)
    assert result.exit_code == 2
    assert message in result.err


def test_of_a_partition_s_directory_the_segment_that_has_an_offset_is_explained(run: Run) -> None:
    found = run("explain", "demo/data/orders-0", "--offset", 700, "--records", 1)
    segment = "demo/data/orders-0/00000000000000000656.log"
    assert found.out == run("explain", segment, "--offset", 700, "--records", 1).out
    assert run("explain", "demo/data", "--offset", 1).exit_code == 2
