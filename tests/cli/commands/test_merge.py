from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import Run

DISKS = sorted((Path(__file__).parents[3] / "demo" / "replicas").iterdir())


def test_people_get_tables_of_partitions_copies_and_divergences_and_a_sum(run: Run, tmp_path: Path) -> None:
    result = run("merge", *DISKS, "--to", tmp_path / "merged")
    assert result.exit_code == 1
    assert not result.err
    names = [line.split()[0] for line in result.lines if line]
    assert names == ["partition", "orders-0", "partition", *["orders-0"] * 3, "partition", *["orders-0"] * 2, "1"]
    leading = [line for line in result.lines if f" {DISKS[2].name}/orders-0 *" in line]
    assert len(leading) == 1
    assert result.lines[-1].endswith(f"written to {tmp_path / 'merged'}")
    assert run("verify", tmp_path / "merged").lines == ["0 errors, 0 warnings"]


def test_json_has_an_object_for_each_partition(run: Run, tmp_path: Path) -> None:
    result = run("merge", *DISKS, "--to", tmp_path / "merged", "--json")
    assert result.exit_code == 1
    (line,) = result.json
    assert line["target"] == str(tmp_path / "merged" / "orders-0")
    assert (line["startOffset"], line["endOffset"], line["records"], line["leadingReplica"]) == (0, 270, 270, 2)
    assert [replica["path"] for replica in line["replicas"]] == [str(disk / "orders-0") for disk in DISKS]
    assert [replica["sameUntil"] for replica in line["replicas"]] == [120, 220, 270]
    assert [replica["comparedBy"] for replica in line["replicas"]] == ["epochs"] * 3
    assert [each["replica"] for each in line["contributions"]] == [2]
    found = [(each["replica"], each["firstOffset"], each["lastOffset"]) for each in line["divergences"]]
    assert found == [(0, 120, 189), (1, 220, 299)]
    assert [each["committedOffsets"] for each in line["divergences"]] == [0, 80]
    assert (line["committedUntil"], line["uncommitted"], line["losses"]) == (270, None, [])


def test_what_is_not_known_to_be_committed_is_reported_and_left_out_if_asked_for(run: Run, tmp_path: Path) -> None:
    disks = [shutil.copytree(disk, tmp_path / disk.name) for disk in DISKS]
    checkpoint = disks[2] / "replication-offset-checkpoint"
    checkpoint.write_text(checkpoint.read_text().replace(" 270", " 250"))
    (line,) = run("merge", *disks, "--to", tmp_path / "all", "--json").json
    assert line["uncommitted"] == {"firstOffset": 250, "lastOffset": 269, "isIncluded": True}
    (line,) = run("merge", *disks, "--to", tmp_path / "committed", "--committed-only", "--json").json
    assert line["uncommitted"] == {"firstOffset": 250, "lastOffset": 269, "isIncluded": False}
    assert (line["endOffset"], line["losses"]) == (250, [])


def test_the_exit_code_is_0_if_damage_is_made_good(run: Run, tmp_path: Path) -> None:
    """Without the copies that have another history."""
    disks = [Path(shutil.copytree(DISKS[2], tmp_path / name)) for name in ("one", "two")]
    for disk, position in zip(disks, (300, 3000), strict=True):
        log = min((disk / "orders-0").glob("*.log"))
        data = bytearray(log.read_bytes())
        data[position] ^= 1
        log.write_bytes(data)
    result = run("merge", *disks, "--to", tmp_path / "merged", "--json")
    assert result.exit_code == 0
    (line,) = result.json
    assert {each["replica"] for each in line["contributions"]} == {0, 1}
    assert all(replica["damagedBytes"] for replica in line["replicas"])
    assert (line["records"], line["losses"], line["divergences"]) == (270, [], [])
    (lost,) = run("merge", disks[0], "--to", tmp_path / "alone", "--json").json
    assert lost["losses"][0]["causes"] == ["checksum-mismatch"]


def test_a_dry_run_says_so(run: Run, tmp_path: Path) -> None:
    dry = run("merge", *DISKS, "--to", tmp_path / "merged", "--dry-run")
    assert dry.exit_code == 1
    assert dry.lines[-1].endswith("nothing was written, as in a dry run")
    assert not (tmp_path / "merged").exists()
    assert run("merge", *DISKS, "--to", tmp_path / "merged").lines[:-1] == dry.lines[:-1]


def test_partitions_are_chosen_of_all_disks_together(run: Run, tmp_path: Path) -> None:
    disks = [Path(shutil.copytree(disk, tmp_path / disk.name)) for disk in DISKS]
    (disks[0] / "orders-0").rename(disks[0] / "orders-7")
    result = run("merge", *disks, "--to", tmp_path / "merged", "-t", "orders", "-p", "7", "--json")
    assert result.exit_code == 0
    assert [(line["partition"], line["records"]) for line in result.json] == [(7, 190)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((DISKS[0], DISKS[0]), "given twice"),
        ((DISKS[0], "--to", DISKS[0] / "inside"), "is within"),
        ((DISKS[0], DISKS[0].parent / "no-such"), "there is no such file"),
        ((*DISKS, "-t", "no-such"), "no topic no-such (there are "),
        ((DISKS[0] / "orders-0" / "00000000000000000000.log",), "the name does not say which partition this is"),
    ],
)
def test_what_cannot_be_done_is_reported(run: Run, tmp_path: Path, arguments: tuple[object, ...], message: str) -> None:
    result = run("merge", "--to", tmp_path / "to", *arguments)
    assert result.exit_code == 2
    assert message in result.err
    assert not (tmp_path / "to").exists()


def test_a_partition_of_which_no_copy_can_be_opened_is_reported_and_not_written(run: Run, tmp_path: Path) -> None:
    disks = [Path(shutil.copytree(DISKS[2], tmp_path / name)) for name in ("one", "two")]
    (disks[0] / "users-0").symlink_to("nowhere")
    result = run("merge", *disks, "--to", tmp_path / "merged")
    assert (result.exit_code, result.err) == (1, f"{disks[0] / 'users-0'}: there is no such file or directory\n")
    assert not (tmp_path / "merged" / "users-0").exists()
    shutil.copytree(disks[1] / "orders-0", disks[1] / "users-0")
    result = run("merge", *disks, "--to", tmp_path / "again")
    assert (result.exit_code, len(result.err.splitlines())) == (0, 1)
    assert (tmp_path / "again" / "users-0").exists()
