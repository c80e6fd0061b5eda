"""``brokerless export``: what it says of what it did."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from tests.cli.conftest import Run
from tests.golden import broker_data
from tests.jobs.exports import partition
from tests.log.whole_batches import batch

DATA = broker_data("clean")


def test_what_is_new_is_reported_for_each_partition_and_together(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = run("export", DATA, "-t", "codec-lz4", "-p", "1", "-p", "2", "--to", out)
    assert (first.exit_code, first.err) == (0, "")
    header, *rows, _, summary = first.lines
    assert header.split() == ["partition", "offsets", "records", "files", "size"]
    assert [row.split()[:4] for row in rows] == [
        ["codec-lz4-1", "0..151", "152", "1"],
        ["codec-lz4-2", "0..151", "152", "1"],
    ]
    assert summary.startswith("304 records of 2 partitions in 2 files, ")
    assert summary.endswith(f": written to {out}")
    again = run("export", DATA, "-t", "codec-lz4", "--to", out)
    assert [line.split()[0] for line in again.lines[1:-2]] == ["codec-lz4-0", "codec-lz4-3"]
    assert ", nothing new in 2 partitions: written to" in again.lines[-1]
    last = run("export", DATA, "-t", "codec-lz4", "--to", out)
    assert last.lines == ["nothing new in 4 partitions, so nothing was written"]
    assert ds.dataset(out, partitioning="hive").count_rows() == 148 + 3 * 152


def test_json_says_the_same(run: Run, tmp_path: Path) -> None:
    (row,) = run(
        "export", DATA / "txn-1", "--to", tmp_path, "--by-date", "--isolation", "read_committed", "--json"
    ).json
    size = row.pop("sizeInBytes")
    assert row == {
        "topic": "txn", "partition": 1, "source": str(DATA / "txn-1"), "startOffset": 0, "nextOffset": 200,
        "endOffset": 202, "records": 96, "leftOut": [], "missing": [], "filled": [],
        "damages": 0,
        "files": [f"topic=txn/date={date}/partition-1-{offset:020d}.parquet"
                  for date, offset in (("2020-09-13", 0), ("2022-04-17", 94), ("2022-04-15", 102))],
    }  # fmt: skip
    assert size == sum((tmp_path / name).stat().st_size for name in row["files"])


def test_an_open_transaction_is_reported(run: Run, tmp_path: Path) -> None:
    result = run("export", DATA / "txn-1", "--to", tmp_path, "--isolation", "read_committed")
    assert (result.exit_code, result.err) == (0, "txn-1: offsets 200 to 201 wait for an open transaction to end\n")


def test_damage_is_reported_with_what_it_leaves_out(run: Run, tmp_path: Path) -> None:
    data = [bytearray(batch(offset * 10, 10).tobytes()) for offset in range(5)]
    for number in (1, 4):
        data[number][-1] ^= 1
    source = partition(tmp_path / "t-0", b"".join(data))
    result = run("export", source, "--to", tmp_path / "out")
    assert result.exit_code == 1
    log, *told = result.err.splitlines()
    assert log.startswith(f"{source}/00000000000000000000.log, position ")
    assert "checksum" in log
    assert told[1:] == [
        "t-0: offsets 10 to 19 are damaged and were left out; a run on an intact copy fills them in",
        "t-0: nothing was exported from offset 40 on; the next run tries again from there",
    ]
    (row,) = run("export", source, "--to", tmp_path / "json", "--json").json
    assert (row["leftOut"], row["nextOffset"], row["damages"]) == ([[10, 19], [40, None]], 40, 2)


def test_a_dry_run_writes_nothing(run: Run, tmp_path: Path) -> None:
    result = run("export", DATA / "segments-0", "--to", tmp_path / "out", "--dry-run")
    assert result.lines[-1].endswith(": nothing was written, as in a dry run")
    assert run("export", DATA / "segments-0", "--to", tmp_path / "out", "--dry-run", "--json").json[0]["files"] == []
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_is_refused_before_anything_is_written(run: Run, tmp_path: Path) -> None:
    shutil.copytree(DATA / "segments-0", tmp_path / "segments-0")
    for arguments, text in (
        ([DATA, tmp_path / "segments-0"], "segments-0 is both in"),
        ([DATA, "-t", "nothing"], "no topic nothing"),
        ([DATA / "segments-0", tmp_path / "missing"], "there is no such file"),
        ([DATA, "--file-bytes", "0"], "is not a number of bytes"),
        ([DATA, "--compression", "brotli"], "is not one of"),
    ):
        result = run("export", *arguments, "--to", tmp_path / "out")
        assert (result.exit_code, result.out) == (2, b""), arguments
        assert text in result.err
        assert not (tmp_path / "out").exists()


def test_files_that_were_removed_since_are_missed(run: Run, tmp_path: Path) -> None:
    source, to = tmp_path / "log", tmp_path / "out"
    for name in ("segments-0", "txn-0", "txn-1"):
        shutil.copytree(broker_data("clean") / name, source / name)
    last = max((source / "segments-0").glob("*.log"))
    late = {path: path.read_bytes() for path in last.parent.glob(f"{last.stem}.*")}
    for path in late:  # as a broker has it that has not begun the segment yet
        path.unlink()
    export = ("export", source, "--to", to, "--file-bytes", "2000")
    assert run(*export).exit_code == 0
    assert run(*export).exit_code == 0
    files = sorted((to / "topic=segments").glob("*.parquet"))
    assert len(files) > 3
    for file in files[:2]:
        file.unlink()

    for again in (run(*export), run(*export)):
        assert again.exit_code == 1
        assert f"{to / 'topic=segments'}: 2 of {len(files)} exported files of segments-0 went missing here" in again.err
        assert again.lines[-1] == "nothing new in 3 partitions, so nothing was written"
    assert not run(*export, "-t", "txn").err

    # On purpose: the export goes on, and what is there then is what is to be there.
    assert run(*export, "--allow-removed").exit_code == 0
    for path, content in late.items():
        path.write_bytes(content)
    assert run(*export, "--allow-removed").exit_code == 0
    assert run(*export).exit_code == 0
    # By accident: all of it again.
    (to / "topic=segments").rename(tmp_path / "away")
    assert run(*export).exit_code == 0
    offsets = ds.dataset(to / "topic=segments").to_table(columns=["offset"]).column("offset").to_pylist()
    assert sorted(offsets) == list(range(700))


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_schemas_that_are_not_there_are_refused_though_there_are_no_records(
    run: Run, tmp_path: Path, form: str
) -> None:
    (tmp_path / "logs" / "t-0").mkdir(parents=True)
    (tmp_path / "logs" / "t-0" / f"{0:020}.log").touch()
    to = ("--to", tmp_path / "tables", "--as", form)
    result = run("export", tmp_path / "logs", *to, "--schemas", tmp_path / "nowhere")
    assert result.exit_code == 2
    assert "nowhere: there is no such file" in result.err
