from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.examples import some_quick
from tests.golden import Part, all_cases, broker_data, parts

DATA = broker_data("clean")
CHEAP = ["--codec", "zstd", "--codec", "none", "--format", "v2", "--format", "v1", "--batch-size", "16KiB"]


def test_json_has_a_line_for_what_is_there_and_one_for_each_choice(run: Run) -> None:
    result = run("size", DATA, "-t", "txn", "--json", "--price-per-gb", "1000000", *CHEAP)
    assert result.exit_code == 0
    now, *choices = result.json
    size = sum(path.stat().st_size for path in DATA.glob("txn-*/*.log"))
    assert (now["topic"], now["isCurrent"], now["sizeInBytes"], now["partitions"]) == ("txn", True, size, 2)
    assert now["contents"]["values"] > now["contents"]["keys"] > 0
    assert [(each["format"], each["compression"], each["batchBytes"]) for each in choices] == [
        ("v1", "none", None),
        ("v2", "none", 16384),
        ("v2", "zstd", 16384),
        ("v2", "zstd", 16384),
        ("v2", "zstd", 16384),
    ]
    for each in choices:
        assert each["low"] <= each["sizeInBytes"] <= each["high"]
        assert each["bytesPerRecord"] == pytest.approx(each["sizeInBytes"] / now["records"], abs=0.01)
        assert each["monthlyCost"] == pytest.approx(each["sizeInBytes"] / 1000)
    assert [each["isBest"] for each in choices].count(True) == 1


def test_the_last_line_converts_to_the_size_that_was_said(run: Run, tmp_path: Path) -> None:
    result = run("size", DATA / "txn-0", *CHEAP, "--full")
    program, *words = shlex.split(result.lines[-1])
    assert program == "brokerless"
    words[words.index("converted")] = str(tmp_path / "to")
    assert run(*words).exit_code == 0
    written = sum(path.stat().st_size for path in (tmp_path / "to").glob("txn-0/*.log"))
    assert any(f"  {written:,}  " in line for line in result.lines)


def test_people_get_tables_of_each_topic_and_of_all(run: Run) -> None:
    result = run("size", DATA / "txn-0", DATA / "edges-0", *CHEAP, "--price-per-gb", "0.1")
    assert result.exit_code == 0
    text = result.out.decode()
    for said in ("txn: 1 partition", "edges: 1 partition", "all topics: 2 partitions", "a month", "batch headers"):
        assert said in text
    assert "v2 has" in text
    assert "heaviest hour" in text or "heaviest key" in text


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--full --sample 10%", "--full and --sample exclude each other; use one of them"),
        ("--format v1 --codec zstd", "nothing to compare: v0 and v1 have no zstd, and levels are"),
        ("--sample 0%", "--sample: '0%' is not a share; use one such as 0.5% or 10%"),
        ("--sample x%", "--sample: 'x%' is not a share; use one such as 0.5% or 10%"),
        ("--batch-records 0", "--batch-records: 0 is not 1 to 1048576 records"),
        ("--price-per-gb free", "--price-per-gb: 'free' is not a price; use one such as 0.08"),
    ],
)
def test_what_cannot_be_compared_is_refused(run: Run, line: str, expected: str) -> None:
    result = run("size", DATA, *line.split())
    assert (result.exit_code, result.out) == (2, b"")
    assert expected in result.err


def test_damage_is_reported_and_the_rest_measured(run: Run, tmp_path: Path) -> None:
    shutil.copytree(DATA / "segments-0", tmp_path / "segments-0")
    log = sorted((tmp_path / "segments-0").glob("*.log"))[0]
    data = bytearray(log.read_bytes())
    data[300] ^= 1
    log.write_bytes(data)
    result = run("size", tmp_path, "--json", *CHEAP)
    assert result.exit_code == 1
    assert "checksum" in result.err
    assert result.json[0]["records"] > 0


DAMAGED = [each for each in all_cases() if each.category == "damaged"]
OTHERS = [each for each in all_cases() if each.category != "damaged"]
"""All damaged files are those of ``tests.jobs.size.test_exact``; each fourth is measured by the command as well."""


@pytest.mark.parametrize("part", some_quick(parts([*DAMAGED[::4], *OTHERS], 4)), ids=str)
def test_no_golden_file_breaks_it_and_what_kafka_reads_has_no_findings(run: Run, part: Part) -> None:
    for number, case in enumerate(part.cases):
        sample = [] if number % 2 else ["--sample", "50%"]
        is_read = case.category == "formats" and (case.outcome or "ok") == "ok"
        for log in sorted(case.path.rglob("*.log")):
            result = run("size", log, "--codec", "none", "--batch-records", "5", *sample)
            assert result.exit_code in ((0,) if is_read else (0, 1)), (case, result.err)
            assert (result.err == "") == (result.exit_code == 0), case
