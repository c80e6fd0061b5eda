"""``ls``: sums over what Kafka's reader lists."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run
from tests.golden import broker_data, broker_expected, case, json_lines

from brokerless.log.checkpoint.commit_journal import Journal, Renaming, committing, write_journal
from brokerless.log.commit.partition_writer import unfinished_name

DATA = broker_data("clean")
START = {"head-deleted-0": 105}
"""Log start offsets after records were deleted."""


def kafka_lists(partition: str) -> list[dict[str, Any]]:
    lines = json_lines(broker_expected("clean") / partition / "expected.jsonl")
    return [line for line in lines if line["type"] == "batch" and line["file"].endswith(".log")]


def kafka_reads(partition: str) -> list[dict[str, Any]]:
    """Without control records."""
    lines = json_lines(broker_expected("clean") / partition / "expected.jsonl")
    records = (line for line in lines if line["type"] == "record" and line["file"].endswith(".log"))
    return [line for line in records if line.get("control") is None]


def test_what_is_left_out_is_said_in_a_last_line(run: Run, tmp_path: Path) -> None:
    name = "segments-0.0123456789abcdef0123456789abcdef"
    for each in ("segments-0", f"{name}-delete", f"{name}-stray"):
        shutil.copytree(broker_data("clean") / "segments-0", tmp_path / each)
    result = run("ls", tmp_path)
    assert result.lines[-1] == "(left out: 1 delete, 1 stray; --include delete,stray lists them)"
    assert len(run("ls", tmp_path, "--include", "delete,stray").lines) == 6  # two of them say how long they stay
    assert len(run("ls", tmp_path, "--json").json) == 1
    assert len(run("ls", tmp_path / "segments-0").lines) == 2


def test_partitions_add_up_to_their_batches(run: Run) -> None:
    rows = {f"{row['topic']}-{row['partition']}": row for row in run("ls", "--json", DATA).json}
    assert set(rows) == {path.name for path in DATA.iterdir() if path.is_dir()}
    for name, row in rows.items():
        batches = kafka_lists(name)
        assert row["segments"] == len(list((DATA / name).glob("*.log")))
        assert row["batches"] == len(batches)
        assert row["records"] == sum(1 for record in kafka_reads(name) if record["offset"] >= START.get(name, 0))
        assert row["lastOffset"] == max((batch["lastOffset"] for batch in batches), default=None)
        first = min((batch["baseOffset"] for batch in batches), default=None)
        assert row["firstOffset"] == START.get(name, first)
        times = [batch["maxTimestamp"] for batch in batches if batch["maxTimestamp"] >= 0]
        assert row["maxTimestamp"] == max(times, default=None)
        assert set(row["compressions"]) == {batch["compression"] for batch in batches}
        assert set(row["magics"]) == {batch["magic"] for batch in batches}
        assert row["path"] == str(DATA / name)


def test_segments_and_topics_are_other_views_of_the_same(run: Run) -> None:
    partitions = run("ls", "--json", DATA).json
    for option in ("--segments", "--topics"):
        rows = run("ls", "--json", option, DATA).json
        for name in ("batches", "records", "sizeInBytes"):
            assert sum(row[name] for row in rows) == sum(row[name] for row in partitions)
    assert [row["topic"] for row in run("ls", "--json", "--topics", DATA).json] == sorted(
        {row["topic"] for row in partitions}
    )


def test_people_get_aligned_columns(run: Run) -> None:
    result = run("ls", DATA)
    assert (result.exit_code, result.err) == (0, "")
    head, *rows = result.lines
    assert head.split()[:3] == ["partition", "segments", "records"]
    assert len(rows) == len([path for path in DATA.iterdir() if path.is_dir()])
    (row,) = (row for row in rows if row.startswith("codec-lz4-0 "))
    assert row.split()[-2:] == ["v2", "lz4"]
    assert "empty-0" in {row.split()[0] for row in rows}


def test_several_paths_have_their_names_above(run: Run) -> None:
    log = case("formats/v1-gzip-create").log
    lines = run("ls", log, DATA / "txn-0").lines
    assert lines[0] == f"{log}:"
    assert lines[2].startswith(str(log))
    assert lines[4] == f"{DATA / 'txn-0'}:"


def test_a_damaged_file_is_listed_and_reported(run: Run) -> None:
    result = run("ls", broker_data("unclean"))
    assert result.exit_code == 1
    assert "busy-prealloc-0" in result.out.decode()
    assert ", position " in result.err


def test_what_is_not_there_is_reported(run: Run) -> None:
    result = run("ls", "nowhere", DATA / "meta.properties")
    assert (result.exit_code, result.out) == (2, b"nowhere:\n"[:0])
    assert len(result.err.splitlines()) == 2


def test_a_table_of_nothing_that_was_asked_for_has_no_head(run: Run) -> None:
    for paths in ([DATA], [DATA, broker_data("unclean")]):
        result = run("ls", "-t", "nope", *paths)
        assert (result.exit_code, result.out) == (2, b"")
        assert result.err.count("\n") == len(paths)


def test_what_a_storage_says_in_many_lines_is_reported_in_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*_: object, **__: object) -> None:
        raise OSError("Unable to load libjvm\ndlopen(a) failed\ndlopen(b) failed")

    monkeypatch.setattr("fsspec.core.url_to_fs", load)
    result = run("ls", "hdfs://x/y")
    assert (result.exit_code, result.out) == (2, b"")
    assert result.err == "hdfs://x/y: Unable to load libjvm\n"


def test_segments_by_topic_are_not_both_possible(run: Run) -> None:
    assert run("ls", "--segments", "--topics", DATA).exit_code == 2


@pytest.mark.parametrize("include", ["delete", "deleted"])
def test_segments_that_wait_for_their_deletion_have_lines_of_their_own(run: Run, include: str, tmp_path: Path) -> None:
    source = shutil.copytree(broker_data("clean") / "segments-0", tmp_path / "segments-0")
    first, *rest = sorted(source.glob("*.log"))
    gone = first.rename(first.with_name(f"{first.name}.deleted"))
    assert [row["state"] for row in run("ls", "--json", source).json] == ["live"]
    rows = run("ls", "--json", "--include", include, source).json
    assert [(row["state"], row["segments"]) for row in rows] == [("live", len(rest)), ("deleted", 1)]
    assert rows[1]["sizeInBytes"] == gone.stat().st_size


def test_where_the_log_start_offset_is_not_known_that_is_said(run: Run, tmp_path: Path) -> None:
    shutil.copytree(DATA / "head-deleted-0", tmp_path / "head-deleted-0")
    (tmp_path / "log-start-offset-checkpoint").write_bytes(b"\xff")
    result = run("ls", tmp_path)
    assert "records that were deleted may be read, as the log start offset is not known" in result.err
    assert result.exit_code == 0


def test_offsets_are_those_of_an_audit_where_the_first_segment_is_empty(run: Run, tmp_path: Path) -> None:
    """As compaction leaves one."""
    shutil.copytree(DATA / "segments-0", tmp_path / "segments-0")
    (tmp_path / "segments-0" / f"{0:020}.log").write_bytes(b"")
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nsegments 0 342\n")
    offsets: list[str] = []
    for command in ("ls", "audit"):
        lines = run(command, tmp_path).lines
        at = next(at for at, line in enumerate(lines) if line.startswith("partition "))
        head, row = lines[at : at + 2]
        offsets.append(row[head.index("offsets") :].split()[0])
    assert offsets == ["169..699", "169..699"]


def test_a_partition_whose_commit_was_cut_short_is_reported(run: Run, tmp_path: Path) -> None:
    shutil.copytree(DATA / "segments-0", tmp_path / "segments-0")
    staged = unfinished_name("segments", 1)
    shutil.copytree(DATA / "segments-0", tmp_path / staged)
    write_journal(tmp_path, Journal.begun().decide([Renaming(staged, "segments-1")]))
    for command in ("ls", "cat", "verify"):
        result = run(command, tmp_path)
        assert f"{staged}: all of segments-1 is here, under another name" in result.err
    assert "all of segments-1 is here" not in run("audit", tmp_path).err
    with committing(tmp_path):
        assert not run("ls", tmp_path).err
