"""What was verified is known to later runs, also if the one that verified it was killed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.jobs.pipeline.works import PRIVATE, own_table, pipeline, segments

from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Finding
from brokerless.jobs.pipeline.ledger import Checked, DamagedRange, Ledger
from brokerless.log.storage.location import Location


def entry(path: str, version: str = "1/2/3", run: str = "r1", kind: str = "segment") -> Checked:
    finding = Finding("error", "checksum-mismatch", path, position=5, offset=7, message="a text", found="0x1")
    return Checked(
        kind, path, version, run, "t", 0, 1, 9, True, (finding,), (DamagedRange(path, 5, 10, 7, None, "k", "m"),)
    )


def loaded(to: Path) -> Ledger:
    ledger = Ledger(Location(str(to)))
    ledger.load()
    return ledger


def test_entries_come_back_as_they_were_and_the_newest_holds(tmp_path: Path) -> None:
    ledger = loaded(tmp_path)
    ledger.add(entry("/a"))
    ledger.flush()
    ledger.add(entry("/a", "4/5/6", "r2"))
    ledger.add(entry("/b", kind="partition"))
    ledger.flush()
    ledger.add(entry("/c"))  # lost, as it was never made durable
    again = loaded(tmp_path)
    assert again.entries == {
        ("segment", "/a"): entry("/a", "4/5/6", "r2"), ("partition", "/b"): entry("/b", kind="partition")
    }  # fmt: skip
    again.consolidate(["/"], ["/a"])
    assert len(list((tmp_path / PRIVATE / "state").glob("*.parquet"))) == 1
    assert loaded(tmp_path).entries == again.entries


def test_what_was_found_in_segments_that_are_gone_stays(tmp_path: Path) -> None:
    segments(tmp_path / "logs" / "t-0", range(0, 30), range(30, 50), range(50, 90), wrong=(10,))
    pipeline(tmp_path / "logs", tmp_path / "to")
    for base in (0, 30):
        (tmp_path / "logs" / "t-0" / f"{base:020d}.log").unlink()
    segments(tmp_path / "logs" / "t-0", range(50, 120))
    assert pipeline(tmp_path / "logs", tmp_path / "to").ranges == []
    assert [row["firstOffset"] for row in own_table(tmp_path / "to", "damaged")] == [10]
    paths = {path.rsplit("/", 1)[1] for kind, path in loaded(tmp_path / "to").entries if kind == "segment"}
    assert paths == {f"{0:020d}.log", f"{50:020d}.log"}


@pytest.mark.parametrize("data", [b"", b"PAR1", b"{}", b"\0" * 100])
def test_a_state_that_says_nothing_is_an_error_that_says_what_to_do(tmp_path: Path, data: bytes) -> None:
    segments(tmp_path / "logs" / "t-0", range(0, 30))
    pipeline(tmp_path / "logs", tmp_path / "to")
    (state,) = (tmp_path / "to" / PRIVATE / "state").glob("*.parquet")
    state.write_bytes(data)
    with pytest.raises(UnreadableError, match="remove it, and the pipeline verifies that again"):
        pipeline(tmp_path / "logs", tmp_path / "to")
    state.unlink()
    run = pipeline(tmp_path / "logs", tmp_path / "to")
    assert (run.segments_verified, run.exported) == (1, [])


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"as": 1}', b'{"as": "parquet", "running": 7}'])
def test_a_record_of_a_run_that_says_nothing_is_an_error(tmp_path: Path, data: bytes) -> None:
    segments(tmp_path / "logs" / "t-0", range(0, 30))
    pipeline(tmp_path / "logs", tmp_path / "to")
    (tmp_path / "to" / PRIVATE / "state" / "run.json").write_bytes(data)
    with pytest.raises(UnreadableError, match="does not say which format"):
        pipeline(tmp_path / "logs", tmp_path / "to")


def test_tables_stay_in_their_format(tmp_path: Path) -> None:
    ledger = loaded(tmp_path)
    assert ledger.interrupted("iceberg") is None
    ledger.begin("r1", "iceberg")
    assert ledger.interrupted("iceberg") == "r1"  # which did not end
    ledger.end("iceberg")
    assert ledger.interrupted("iceberg") is None
    with pytest.raises(UsageError, match="the tables here are iceberg, not parquet"):
        ledger.interrupted("parquet")


def test_links_under_its_names_are_refused(tmp_path: Path) -> None:
    segments(tmp_path / "logs" / "t-0", range(0, 30))
    (tmp_path / "victim").mkdir()
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / PRIVATE).mkdir()
    (tmp_path / "to" / PRIVATE / "state").symlink_to(tmp_path / "victim")
    with pytest.raises(Exception, match="symbolic link"):
        pipeline(tmp_path / "logs", tmp_path / "to")
    assert not list((tmp_path / "victim").iterdir())
