"""Commands that a report shows beside findings and segments do what is said beside them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from brokerless import arrow
from brokerless.cli import main
from brokerless.jobs.report.job import gather
from brokerless.jobs.report.sections import FINDINGS, SEGMENTS
from brokerless.jobs.run.types import ALONE
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location

DEMO = Path(__file__).parents[3] / "demo" / "data"


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partition in a directory whose name a shell would split, with a byte changed in a batch and in an index."""
    to = tmp_path_factory.mktemp("it's a directory") / "orders-0"
    to.mkdir()
    for file in (DEMO / "orders-0").iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    for pattern, at in (("*.log", 1200), ("*.index", 0)):
        path = sorted(to.glob(pattern))[0 if pattern == "*.log" else 2]
        data = bytearray(path.read_bytes())
        data[at] ^= 0xFF
        path.write_bytes(data)
    return to


def rows(path: Path, figure: str) -> list[dict[str, Any]]:
    directory = resolve(Location(str(path)))
    return arrow.rows(gather(directory, directory.partitions, running=ALONE)[figure])


def explained(command: str, capfd: pytest.CaptureFixture[str]) -> tuple[int, list[dict[str, Any]]]:
    program, *words = shlex.split(command)
    assert program == "brokerless"
    code = main([*words, "--json"])
    return code, [json.loads(line) for line in capfd.readouterr().out.splitlines()]


def test_each_finding_leads_to_the_bytes_that_are_not_as_expected(damaged: Path, capfd: pytest.CaptureFixture[str]):
    (column,) = [each for each in FINDINGS.columns if each.label == "see its bytes"]
    found = rows(damaged, "findings")
    kinds = ("checksum-mismatch", "offset-index-mismatch")
    by_file = {Path(row["file"]).suffix: row for row in found if row["kind"] in kinds}
    assert by_file.keys() == {".log", ".index"}
    for suffix, row in by_file.items():
        code, fields = explained(column.of(row), capfd)
        assert code == 1
        wrong = [each for each in fields if each["expected"] is not None]
        assert wrong
        assert {each["file"] for each in fields} == {row["file"]}
        if suffix == ".log":
            assert {each["batchPosition"] for each in fields} == {row["position"]}
            assert next(each["name"] for each in wrong) == "crc"


def test_each_segment_leads_to_its_first_batch(capfd: pytest.CaptureFixture[str]):
    (column,) = [each for each in SEGMENTS.columns if each.label == "see its bytes"]
    segments = rows(DEMO / "orders-0", "segments")
    for row in segments:
        code, fields = explained(column.of(row), capfd)
        assert code == 0
        assert (fields[0]["name"], fields[0]["value"]) == ("base_offset", row["firstOffset"])


@pytest.mark.parametrize("file", ["/data/orders-0", "/data/orders-0/notes.txt", "/data"])
def test_what_is_no_file_of_kafkas_has_no_command(file: str):
    (column,) = [each for each in FINDINGS.columns if each.label == "see its bytes"]
    assert column.of({"file": file, "position": None}) == ""
