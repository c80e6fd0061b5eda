"""A pipeline goes on where it was killed, in the format of its tables, and with what others verified."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.jobs.pipeline.works import PRIVATE, own_table, pipeline, segments

import brokerless
from brokerless.errors import UnreadableError, UsageError
from brokerless.jobs.ledger import Ledger
from brokerless.jobs.pipeline.recording import Recording
from brokerless.log.storage.location import Location


def loaded(to: Path) -> Ledger:
    ledger = Ledger(Location(str(to)) / PRIVATE / "state")
    ledger.load()
    return ledger


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
    with pytest.raises(UnreadableError, match="remove it, and that is verified again"):
        pipeline(tmp_path / "logs", tmp_path / "to")
    state.unlink()
    run = pipeline(tmp_path / "logs", tmp_path / "to")
    assert (run.segments_verified, run.exported) == (1, [])


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"as": 1}', b'{"as": "parquet", "running": 7}'])
def test_a_record_of_a_run_that_says_nothing_is_an_error(tmp_path: Path, data: bytes) -> None:
    segments(tmp_path / "logs" / "t-0", range(0, 30))
    pipeline(tmp_path / "logs", tmp_path / "to")
    (tmp_path / "to" / PRIVATE / "state" / "run.json").write_bytes(data)
    with pytest.raises(UnreadableError, match="not the record of a pipeline's runs"):
        pipeline(tmp_path / "logs", tmp_path / "to")


def test_tables_stay_in_their_format(tmp_path: Path) -> None:
    recording = Recording(Location(str(tmp_path)))
    assert recording.interrupted("iceberg") is None
    recording.begin("r1", "iceberg")
    assert recording.interrupted("iceberg") == "r1"  # which did not end
    recording.end("iceberg")
    assert recording.interrupted("iceberg") is None
    with pytest.raises(UsageError, match="the tables here are iceberg, not parquet"):
        recording.interrupted("parquet")


def test_links_under_its_names_are_refused(tmp_path: Path) -> None:
    segments(tmp_path / "logs" / "t-0", range(0, 30))
    (tmp_path / "victim").mkdir()
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / PRIVATE).mkdir()
    (tmp_path / "to" / PRIVATE / "state").symlink_to(tmp_path / "victim")
    with pytest.raises(Exception, match="symbolic link"):
        pipeline(tmp_path / "logs", tmp_path / "to")
    assert not list((tmp_path / "victim").iterdir())


def test_what_verify_found_intact_is_not_verified_again_and_the_reverse(tmp_path: Path) -> None:
    logs, to = tmp_path / "logs", tmp_path / "to"
    segments(logs / "t-0", range(0, 30), range(30, 50), range(50, 90), wrong=(40,))
    state = to / PRIVATE / "state"
    state.mkdir(parents=True)
    found = list(brokerless.open(logs).verify(budget=1 << 40, state=state))
    assert any(each.severity == "error" for each in found)
    run = pipeline(logs, to)
    assert run.segments_verified == 1, "the damaged one, as its ranges were not looked for"
    assert [each.firstOffset for each in run.ranges] == [40]
    assert {each.kind for each in run.findings} == {each.kind for each in found}
    again = brokerless.open(logs).verify(budget=1, state=state)
    assert {each.kind for each in again} == {each.kind for each in found}, "the damaged one, in each run"
    assert pipeline(logs, to).segments_verified == 1
