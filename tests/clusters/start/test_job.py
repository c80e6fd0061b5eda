"""Oracle: what a real broker made of a killed one's folder, and ``LogSegment.recover`` of damaged files.

``tests/kafka/test_restart.py`` then starts a broker.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.examples import some_quick
from tests.golden import Case, broker_data, broker_expected, cases

import brokerless
from brokerless.clusters.directory_state import load_directory_state
from brokerless.clusters.start.job import StartAt, plan_restart
from brokerless.clusters.start.results import LostRecords, Restart
from brokerless.findings import remedy_of
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location
from brokerless.views.restart import detail_lines

DEMO = Path(__file__).parents[3] / "demo" / "data"
NOW = 1_795_300_000_000
RECOVERED = json.loads((broker_expected("unclean") / "recovered.json").read_bytes())
DAMAGED = [
    case for case in cases("damaged", "framing") if case.case_json().get("recovery") and case.log.suffix == ".log"
]


def restarts(path: Path) -> dict[str, Restart]:
    directory = resolve(Location(str(path)))
    notes = load_directory_state(directory)
    return {
        f"{each.topic}-{each.partition}": plan_restart(each, notes.of(each), StartAt(now_ms=NOW), clean=notes.was_clean)
        for each in directory.partitions
    }


def test_a_killed_brokers_partitions_become_what_the_broker_made_of_them() -> None:
    found = restarts(broker_data("unclean"))
    # The broker went on appending to its metadata log.
    assert RECOVERED["__cluster_metadata-0"].pop("logEndOffset") > found["__cluster_metadata-0"].log_end_offset
    for name, restart in found.items():
        sizes = {path.name: path.stat().st_size for path in (broker_data("unclean") / name).glob("*.log")}
        sizes.update({Path(each.file).name: each.kept for each in restart.cut})
        for file, _ in restart.deleted:
            del sizes[Path(file).name]
        expected = {file: segment["size"] for file, segment in RECOVERED[name]["segments"].items()}
        if name == "__cluster_metadata-0":
            assert sizes.keys() == expected.keys()
            assert not restart.lost_bytes
        else:
            assert sizes == expected
            assert restart.log_end_offset == RECOVERED[name]["logEndOffset"]


def test_after_a_clean_stop_nothing_happens_but_to_the_metadata_log() -> None:
    found = restarts(broker_data("clean"))
    assert found.pop("__cluster_metadata-0").recovered == ((0, "not-flushed"),)
    assert not any(each.recovered or each.deleted or each.removed or each.lost_bytes for each in found.values())
    assert found["head-deleted-0"].log_start_offset == 105


@pytest.mark.parametrize("case", some_quick(DAMAGED, 8), ids=str)
def test_as_much_of_a_damaged_segment_stays_as_with_kafka(case: Case, tmp_path: Path) -> None:
    expected = case.case_json()["recovery"]
    (tmp_path / "damaged-0").mkdir()
    log = Path(shutil.copy(case.log, tmp_path / "damaged-0"))
    restart = restarts(tmp_path / "damaged-0")["damaged-0"]
    if "error" in expected:
        # Where Kafka crashes on what a marker holds, the log ends with it.
        crashes = "NullPointer" in expected["error"]["class"]
        assert (restart.refused is None) == crashes
        return
    kept = [each.kept for each in restart.cut] or [log.stat().st_size]
    assert (kept, restart.log_end_offset) == ([expected["validBytes"]], expected["nextOffset"])
    assert restart.lost_bytes == expected["truncatedBytes"]
    assert log.read_bytes() == case.log.read_bytes()


def test_what_consumers_would_lose_is_what_is_intact_after_the_end(tmp_path: Path) -> None:
    """Of four segments, a bit is flipped in the second batch of the second."""
    source = broker_data("clean") / "segments-0"
    shutil.copytree(source, tmp_path / "segments-0")
    logs = sorted((tmp_path / "segments-0").glob("*.log"))
    data = bytearray(logs[1].read_bytes())
    first = 12 + int.from_bytes(data[8:12], "big")
    data[first + 70] ^= 1
    logs[1].chmod(0o644)
    logs[1].write_bytes(data)
    restart = restarts(tmp_path / "segments-0")["segments-0"]
    end = int.from_bytes(data[first : first + 8], "big")
    behind = [
        line
        for line in map(
            json.loads, (broker_expected("clean") / "segments-0" / "expected.jsonl").read_text().splitlines()
        )
        if line["type"] == "batch" and line["baseOffset"] > end
    ]
    assert restart.log_end_offset == end
    assert [Path(each.file).name for each in restart.cut] == [logs[1].name]
    assert [Path(file).name for file, _ in restart.deleted] == [path.name for path in logs[2:]]
    assert restart.lost_bytes == len(data) - first + sum(path.stat().st_size for path in logs[2:])
    assert restart.lost == LostRecords(
        len(behind), sum(line["count"] for line in behind), behind[0]["baseOffset"], behind[-1]["lastOffset"]
    )


def test_a_log_that_ends_before_its_start_offset_loses_all_that_is_intact(tmp_path: Path) -> None:
    disk = Path(shutil.copytree(DEMO, tmp_path / "disk"))
    (whole,) = (each for each in brokerless.open(disk).restart().partitions if each.path.endswith("orders-0"))
    (disk / "log-start-offset-checkpoint").write_text(f"0\n1\norders 0 {whole.log_end_offset + 1}\n")
    (found,) = (each for each in brokerless.open(disk).restart().partitions if each.path.endswith("orders-0"))
    assert found.beyond_end is not None
    assert found.beyond_end.kind == "log-start-beyond-end"
    records = sum(batch.num_rows for batch in brokerless.open(DEMO / "orders-0").records(["offset"]))
    assert (found.lost.first_offset, found.lost.last_offset) == (0, whole.log_end_offset - 1)
    assert found.lost.records >= records > 0
    text = " ".join(line.strip() for line in detail_lines(found))
    assert ".log: the log ends before its start offset" in text
    assert f"remedy: {remedy_of(found.beyond_end)}" in text
    (disk / "log-start-offset-checkpoint").write_text("0\n1\norders 0 0\n")
    (mended,) = (each for each in brokerless.open(disk).restart().partitions if each.path.endswith("orders-0"))
    assert (mended.log_start_offset, mended.log_end_offset, mended.lost) == (0, whole.log_end_offset, LostRecords())
