"""Replicas of one cluster below the least high watermark, and the turns that runs with a budget take."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import Run, run  # noqa: F401 - a fixture
from tests.jobs.diff.planted import Batches, ModelBatch, ModelRecord, random_log, write

import brokerless
from brokerless import clock
from brokerless.errors import UsageError
from brokerless.jobs.ledger import Ledger
from brokerless.log.checkpoint.meta_properties import load_meta_properties
from brokerless.log.storage.location import Location

REPLICAS = Path(__file__).parents[3] / "demo" / "replicas"
DISKS = [REPLICAS / f"broker-{number}" for number in (1, 2, 3)]


def disks(tmp_path: Path, *logs: Batches, high_watermarks: tuple[int, ...] = ()) -> list[Path]:
    found = [tmp_path / f"disk-{number}" for number in range(len(logs))]
    for number, (disk, log) in enumerate(zip(found, logs, strict=True)):
        write(disk, log, random.Random(number))
        if high_watermarks:
            checkpoint = f"0\n1\ntopic 0 {high_watermarks[number]}\n"
            (disk / "replication-offset-checkpoint").write_text(checkpoint)
    return found


def test_what_is_after_the_least_high_watermark_is_not_compared() -> None:
    """The demo's replicas diverge from offset 120 on, which is the high watermark of the one that stopped first."""
    found = brokerless.diff_replicas(DISKS)
    assert found.is_same
    assert [(each.left and each.left.path, each.records) for each in found.partitions] == [
        (f"{DISKS[2]}/orders-0", 120)
    ] * 2
    assert {each.right and each.right.path for each in found.partitions} == {f"{each}/orders-0" for each in DISKS[:2]}


def test_a_committed_record_that_a_replica_lost_is_found(tmp_path: Path) -> None:
    log = random_log(random.Random(3))
    end = log[-1].records[-1].offset + 1
    count = len(log[-1].records)
    cut = disks(tmp_path / "cut", log, log[:-1], log, high_watermarks=(end, end, end))
    found = brokerless.diff_replicas(cut)
    (short,) = [each for each in found.partitions if not each.is_same]
    assert (short.name, short.causes) == (f"{cut[1]}/topic-0", {"lagging": count})
    behind = disks(tmp_path / "behind", log, log[:-1], log, high_watermarks=(end, log[-1].first, end))
    assert brokerless.diff_replicas(behind).is_same
    unknown = brokerless.diff_replicas(disks(tmp_path / "unknown", log, log[:-1]))
    assert [each.causes for each in unknown.partitions] == [{"lagging": count}]


def test_replicas_that_were_cleaned_apart_are_compared_by_record(tmp_path: Path) -> None:
    records = [ModelRecord(offset, 1000 + offset, b"k%d" % (offset % 3), b"%d" % offset) for offset in range(60)]
    batches = [ModelBatch(tuple(records[at : at + 5])) for at in range(0, 60, 5)]
    cleaned = [ModelBatch(tuple(records[50:53])), *batches[11:]]
    wrong = [ModelBatch((records[50], records[52])), *batches[11:]]
    for right, is_same in ((cleaned, True), (wrong, True), ([*cleaned[:1], *batches[12:]], False)):
        directory = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        found = disks(directory, batches, right, high_watermarks=(60, 60))
        (found[1] / "topic-0" / f"{50:020}.log").rename(found[1] / "topic-0" / f"{0:020}.log")
        (found[1] / "cleaner-offset-checkpoint").write_text("0\n1\ntopic 0 55\n")
        assert brokerless.diff_replicas(found).is_same == is_same


def test_runs_with_a_budget_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(1000, 9000))
    monkeypatch.setattr(clock, "now", lambda: next(times))
    copies = [tmp_path / name for name in ("one", "two")]
    for each in copies:
        shutil.copytree("demo/data", each)
    state = tmp_path / "state"

    def compared() -> list[str]:
        return [each.name for each in brokerless.diff_replicas(copies, budget=1, state=state).partitions]

    first_round = [compared() for _ in range(8)]
    assert all(len(each) == 1 for each in first_round)
    assert {Path(each[0]).name for each in first_round} == {
        "__cluster_metadata-0", "__consumer_offsets-0", "__transaction_state-0", "orders-0", "orders-1", "orders-2",
        "payments-0", "users-0",
    }  # fmt: skip
    assert compared() == first_round[0]
    (second, *_) = sorted((copies[1] / "orders-2").glob("*.log"))
    data = bytearray(second.read_bytes())
    data[100] ^= 1
    second.write_bytes(data)
    everything = brokerless.diff_replicas(copies, budget=1 << 40, state=state)
    assert [each.name for each in everything.partitions if not each.is_same] == [f"{copies[1]}/orders-2"]
    assert [compared() for _ in range(2)] == [[f"{copies[1]}/orders-2"]] * 2, "what differs is compared in each run"
    ledger = Ledger(Location(str(state)))
    ledger.load()
    cluster_id = load_meta_properties(Location(str(copies[0] / "meta.properties"))).cluster_id
    assert ledger.entries["replicas", f"{cluster_id}/orders-2"].version == "different"


def test_the_state_of_another_cluster_says_nothing_of_this_one(tmp_path: Path) -> None:
    """Both have a topic of the same name, which one budget does not take in one run."""
    log = random_log(random.Random(4))
    state = tmp_path / "state"
    for cluster in ("first", "second"):
        for disk in disks(tmp_path / cluster, log, log):
            shutil.copytree(disk / "topic-0", disk / "other-0")
            (disk / "meta.properties").write_text(f"version=1\ncluster.id={cluster}\nnode.id=1\n")

    def compared(cluster: str) -> str:
        own = [tmp_path / cluster / f"disk-{number}" for number in (0, 1)]
        (found,) = brokerless.diff_replicas(own, budget=1, state=state).partitions
        return Path(found.name).name

    assert [compared("first"), compared("first")] == ["other-0", "topic-0"]
    assert [compared("second"), compared("second")] == ["other-0", "topic-0"]
    assert compared("first") == "other-0", "the one that was compared longest ago"
    with pytest.raises(UsageError, match="are disks of two clusters"):
        brokerless.diff_replicas([tmp_path / "first" / "disk-0", tmp_path / "second" / "disk-0"])


def test_what_is_no_state_or_has_no_replicas_is_refused(tmp_path: Path, run: Run) -> None:  # noqa: F811
    with pytest.raises(UsageError, match="no partition has two replicas here"):
        brokerless.diff_replicas(DISKS[:1])
    with pytest.raises(UsageError, match="a budget needs a directory for the state"):
        brokerless.diff_replicas(DISKS, budget=5)
    (tmp_path / "state").write_text("{}")
    with pytest.raises(UsageError, match="this is a file, and the state is a directory"):
        brokerless.diff_replicas(DISKS, budget=5, state=tmp_path / "state")
    for options in (("--replicas", *DISKS, "--only", "groups"), ("demo/data",), ("a", "b", "--budget", "3")):
        result = run("diff", *options)
        assert (result.exit_code, result.out) == (2, b"")


def test_the_command_names_replicas_and_what_was_left_out(run: Run, tmp_path: Path) -> None:  # noqa: F811
    result = run("diff", "--replicas", *DISKS)
    assert result.exit_code == 0
    assert result.out.decode().splitlines()[-1] == "2 replicas: the same"
    copies = ["demo/data", tmp_path / "copy"]
    shutil.copytree("demo/data", tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "users-0")
    result = run("diff", "--replicas", *copies, "-t", "*", "--budget", "1kB", "--state", tmp_path / "state")
    assert result.exit_code == 0
    assert "1 partition with one replica on these disks: nothing to compare" in result.err
    assert "6 partitions left for the next runs by --budget" in result.err


def test_a_disk_is_given_once() -> None:
    with pytest.raises(brokerless.UsageError, match=r"broker-1/.* is given twice"):
        brokerless.diff_replicas(["demo/replicas/broker-1", "demo/replicas/broker-1"])
