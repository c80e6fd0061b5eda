"""``brokerless.merge`` and ``brokerless.carve``: the same results and files as the commands of these names."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import brokerless
from brokerless import Finding, UnreadableError, UsageError
from brokerless.api import recovery
from brokerless.cli import main
from brokerless.views.jobs.merge import row
from brokerless.views.jobs.salvage import carved_row
from tests.golden import broker_data

DISKS = sorted((Path(__file__).parents[2] / "demo" / "replicas").iterdir())
DATA = broker_data("clean")


def command(capfd: pytest.CaptureFixture[str], *arguments: object) -> list[dict[str, Any]]:
    main([*map(str, arguments), "--json"])
    return [json.loads(line) for line in capfd.readouterr().out.splitlines()]


def bytes_below(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files if ".lock" not in path.name}


def as_json(value: object, to: Path, other: Path) -> Any:
    return json.loads(json.dumps(value, default=str).replace(str(to), str(other)))


@pytest.mark.parametrize("committed_only", [False, True])
def test_replicas_are_merged_as_by_the_command(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], committed_only: bool
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    told: list[Finding] = []
    results = brokerless.merge(DISKS, ours, committed_only=committed_only, on_damage=told.append)
    (line,) = command(capfd, "merge", *DISKS, "--to", theirs, *["--committed-only"] * committed_only)
    assert [as_json(row(each), ours, theirs) for each in results] == [line]
    assert not results[0].is_whole
    assert bytes_below(ours) == bytes_below(theirs)
    assert brokerless.open(ours).partition("orders", 0).records().read_all().num_rows == results[0].records


def test_a_dry_run_of_some_topics_writes_nothing(tmp_path: Path) -> None:
    read = [0]
    results = brokerless.merge(
        map(str, DISKS), tmp_path / "to", topics=["orders"], dry_run=True, done=lambda n: read.append(n)
    )
    assert [each.records for each in results] == [270]
    assert sum(read) > 0
    assert not (tmp_path / "to").exists()
    with pytest.raises(UsageError, match="there is no topic 'x'; topics: orders"):
        brokerless.merge(DISKS, tmp_path / "to", topics=["x"])


def test_logs_that_were_opened_are_merged_as_their_paths_are_and_as_they_were_narrowed(tmp_path: Path) -> None:
    assert brokerless.merge(map(brokerless.open, DISKS), tmp_path / "to", dry_run=True)[0].records == 270
    assert brokerless.merge([brokerless.open(DISKS[0]), *DISKS[1:]], tmp_path / "to", dry_run=True)[0].records == 270
    data = brokerless.open("demo/data")
    for narrowed in (data.topic("orders"), data.partition("orders", 1)):
        merged = brokerless.merge(narrowed, tmp_path / "to", dry_run=True)
        assert [each.records for each in merged] == [each.records().read_all().num_rows for each in parts(narrowed)]


def parts(log: brokerless.Log) -> list[brokerless.Log]:
    return [log.partition(each.topic or "", each.partition or 0) for each in log.paths]


def image(tmp_path: Path) -> Path:
    chance = random.Random(1)
    logs = sorted((DATA / "segments-0").glob("*.log"))
    path = tmp_path / "disk.img"
    path.write_bytes(b"".join(chance.randbytes(5000) + log.read_bytes() for log in logs))
    return path


@pytest.mark.parametrize("form", ["segments", "parquet"])
def test_batches_are_carved_as_by_the_command(tmp_path: Path, capfd: pytest.CaptureFixture[str], form: Any) -> None:
    path, ours, theirs = image(tmp_path), tmp_path / "ours", tmp_path / "theirs"
    results = brokerless.carve(path, ours, as_=form)
    lines = command(capfd, "carve", path, "--to", theirs, "--as", form)
    assert [as_json(carved_row(each), ours, theirs) for each in results] == lines
    assert sum(each.records for each in results) == 700
    assert bytes_below(ours).keys() == bytes_below(theirs).keys()


def test_what_cannot_be_done_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    to = tmp_path / "to"
    with pytest.raises(UsageError, match="segment_bytes= does not apply to as_=parquet"):
        brokerless.carve(image(tmp_path), to, as_="parquet", segment_bytes=1_000_000)
    with pytest.raises(UnreadableError, match="no such file"):
        brokerless.carve([tmp_path / "nothing"], to)
    for call in (recovery.merge, recovery.carve):
        with pytest.raises(UsageError, match="at least one path"):
            call([], to)
    assert not to.exists()
