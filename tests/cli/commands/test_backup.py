"""``backup``, ``snapshots`` and ``check``: exit codes, what is printed, what programs get."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.jobs.backup.disks import DEMO, REPLICAS, batches_of, rows_of
from tests.jobs.backup.rsa_keys import key_files
from tests.log.tiered import golden
from tests.permissions import OWNER, as_another_user

import brokerless
from brokerless.cli.commands import backup, check, forget, keys, prune, snapshots
from brokerless.cli.parser import Command
from brokerless.views.jobs.backup import snapshot_row


def lines_of(data: bytes) -> list[dict[str, object]]:
    return [json.loads(line) for line in data.decode().splitlines()]


def test_a_backup_says_what_it_stored_and_is_read_by_its_name(run: Run, tmp_path: Path) -> None:
    place = tmp_path / "backup"
    result = run("backup", DEMO, "--to", place, "--name", "nightly")
    assert (result.exit_code, result.err) == (0, "")
    text = result.out.decode()
    assert "1 node, 1 disk, metadata up to offset 84" in text
    assert "8 of 8 partitions, 463.9 KB, 463.9 KB of them new" in text
    assert rows_of(f"{place}@nightly") == rows_of(DEMO)
    listed = run("snapshots", place)
    assert listed.exit_code == 0
    assert "nightly" in listed.out.decode()
    checked = run("check", place, "--read", "all")
    assert (checked.exit_code, checked.err) == (0, "")
    assert "1 snapshot, 32 objects" in checked.out.decode()
    assert "read, and as they were stored" in checked.out.decode()


def test_programs_get_the_snapshot_its_partitions_and_what_is_lost(run: Run, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    shutil.copytree(DEMO, disk)
    shutil.rmtree(disk / "orders-1")
    result = run("backup", disk, "--to", tmp_path / "backup", "--json")
    assert result.exit_code == 1
    assert "no disk has a replica of orders-1" in result.err
    snapshot, *others = lines_of(result.out)
    assert (snapshot["isComplete"], snapshot["partitions"]) == (False, 7)
    assert [each["topic"] for each in others if "reason" in each] == ["orders"]
    (own,) = brokerless.Backup(tmp_path / "backup").snapshots()
    assert snapshot == json.loads(json.dumps(snapshot_row(own)))
    assert lines_of(run("snapshots", tmp_path / "backup", "--json").out) == [snapshot]
    offsets = lines_of(run("snapshots", tmp_path / "backup", "--offsets", "--json").out)
    assert {(each["topic"], each["partition"]): each["endOffset"] for each in offsets} == {
        (each.topic, each.partition): each.end_offset for each in own.partitions
    }
    (lost,) = lines_of(run("snapshots", tmp_path / "backup", "--lost", "--json").out)
    assert (lost["topic"], lost["partition"]) == ("orders", 1)
    assert "orders-1" in run("snapshots", tmp_path / "backup", "--lost").out.decode()


def test_selected_topics_are_all_that_is_expected(run: Run, tmp_path: Path) -> None:
    result = run("backup", DEMO, "-t", "orders", "-p", "1", "--to", tmp_path / "backup")
    assert result.exit_code == 0
    assert "1 of 1 partition" in result.out.decode()


def test_replicas_that_differ_and_lost_offsets_are_findings(run: Run, tmp_path: Path) -> None:
    result = run("backup", *REPLICAS, "--to", tmp_path / "backup")
    assert result.exit_code == 1
    assert result.err.count("records of another history") == 2
    assert "without the cluster's metadata" in result.out.decode()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["backup", "DEMO/orders-0", "--to", "OUT"], "not a log directory"),
        (["backup", "DEMO", "nowhere", "--to", "OUT"], "nothing was stored"),
        (["backup", "DEMO", "--to", "BUCKET"], "objects of tiered storage, and no backup"),
        (["backup", "DEMO", "--to", "OUT", "--name", "a/b"], "the name of a snapshot"),
        (["backup", "DEMO", "--to", "OUT", "--segment-size", "1"], "segment_bytes"),
        (["snapshots", "DEMO"], "no backup here"),
        (["check", "BUCKET"], "no backup here"),
        (["check", "nowhere@latest"], "no backup here"),
    ],
)
def test_what_cannot_begin_is_one_line_and_exits_with_2(
    arguments: list[str], text: str, run: Run, tmp_path: Path
) -> None:
    places = {"DEMO": str(DEMO), "OUT": str(tmp_path / "out"), "BUCKET": str(DEMO.parent / "bucket")}
    words = [each.replace("DEMO", places["DEMO"]) if "DEMO" in each else places.get(each, each) for each in arguments]
    result = run(*words)
    assert result.exit_code == 2
    assert text in result.err
    assert not (tmp_path / "out").exists()


def test_no_right_to_write_is_one_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "backup").mkdir(mode=0o500)
    if os.geteuid() == 0:
        os.chown(tmp_path / "backup", OWNER, OWNER)
        (tmp_path / "backup").chmod(0o555)
    with as_another_user():
        result = run("backup", DEMO, "--to", tmp_path / "backup")
    assert result.exit_code == 2
    assert f"{tmp_path / 'backup'}" in result.err
    assert result.err.count("\n") == 1


def test_a_damaged_backup_exits_with_1(run: Run, tmp_path: Path) -> None:
    run("backup", DEMO, "--to", tmp_path / "backup")
    path = min(tmp_path.glob("backup/orders-*/0/*.log"))
    path.write_bytes(path.read_bytes()[:-1])
    result = run("check", tmp_path / "backup")
    assert result.exit_code == 1
    assert path.name in result.out.decode()
    assert "1 finding" in result.out.decode()
    (finding, row) = lines_of(run("check", tmp_path / "backup", "--json").out)
    assert finding["kind"] == "stored-object-differs"
    assert row["findings"] == 1


def test_without_a_snapshot_the_newest_is_read_and_stderr_says_which(run: Run, tmp_path: Path) -> None:
    run("backup", DEMO, "--to", tmp_path / "backup", "--name", "first")
    result = run("ls", tmp_path / "backup")
    (snapshot,) = brokerless.Backup(tmp_path / "backup").snapshots()
    assert result.exit_code == 0
    assert f"snapshot {snapshot.id}" in result.err
    assert run("ls", f"{tmp_path}/backup@first").err == ""
    run("backup", DEMO, "-t", "users", "--to", tmp_path / "backup")
    assert (
        f"{snapshot.id} is read, the latest of all topics; newer ones have some" in run("ls", tmp_path / "backup").err
    )
    assert "some" in run("snapshots", tmp_path / "backup").out.decode().splitlines()[2]
    run("backup", DEMO, "-p", "1", "--to", tmp_path / "other")
    assert "there is none of all topics" in run("ls", f"{tmp_path}/other@latest").err


def test_a_snapshot_without_its_segments_is_a_finding(run: Run, tmp_path: Path) -> None:
    run("backup", DEMO, "--to", tmp_path / "backup")
    (file,) = (tmp_path / "backup" / ".brokerless" / "snapshots").glob("*.parquet")
    file.unlink()
    for arguments in ([], ["--offsets"], ["--lost", "--json"]):
        result = run("snapshots", tmp_path / "backup", *arguments)
        assert result.exit_code == 1
        assert str(file) in result.err
    assert "in no snapshot" not in run("check", tmp_path / "backup").out.decode()


def test_other_commands_take_a_snapshot_for_what_it_is(run: Run, tmp_path: Path) -> None:
    run("backup", DEMO, "--to", tmp_path / "backup", "--name", "first")
    audited = run("audit", f"{tmp_path}/backup@first")
    assert "whose metadata is not here" not in audited.out.decode()
    rebuilt = run("rebuild", f"{tmp_path}/backup@first", "--to", tmp_path / "to")
    assert (rebuilt.exit_code, rebuilt.err) == (0, "")
    assert "nothing is written without --apply" in rebuilt.out.decode()


def test_rebuild_takes_the_keys_of_an_encrypted_backup(run: Run, tmp_path: Path) -> None:
    private, public = key_files(tmp_path, "ops", "safe")
    brokerless.backup(DEMO, tmp_path / "backup", public_keys=public)
    rebuild = ("rebuild", f"{tmp_path}/backup@latest", "--to", tmp_path / "to", "--apply")
    without = run(*rebuild)
    assert (without.exit_code, (tmp_path / "to").exists()) == (2, False)
    assert "--key-pair ops=FILE" in without.err
    assert run(*rebuild, "--key-pair", f"safe={private['safe']}").exit_code == 0
    topics = ("orders", "payments", "users")
    assert rows_of(tmp_path / "to" / "node-1", topics) == rows_of(DEMO, topics)


@pytest.mark.parametrize("command", [backup, snapshots, check, keys, forget, prune])
def test_the_help_has_the_exit_codes(command: Command) -> None:
    assert "The exit code is 0" in command.DESCRIPTION


def test_tiered_topics_are_stored_as_one_log_and_named_where_their_bucket_is_not_given(
    run: Run, tmp_path: Path
) -> None:
    place = tmp_path / "backup"
    data, bucket = golden() / "plain" / "data", golden() / "plain" / "bucket"
    assert run("backup", data, "--remote", bucket, "--to", place).exit_code == 0
    assert batches_of(f"{place}@latest") == batches_of(brokerless.open(data, remote=bucket))
    assert rows_of(f"{place}@latest") == rows_of(brokerless.open(data, remote=bucket))
    result = brokerless.backup(data, tmp_path / "local")
    assert not result.is_complete
    lost = {
        each.name: [(one.first_offset, one.last_offset) for one in each.lost] for each in result.snapshot.partitions
    }
    assert lost["epochs-0"] == [(0, 323)]


def test_an_encrypted_backup_is_read_with_a_key_and_keys_are_changed(run: Run, tmp_path: Path) -> None:
    place = tmp_path / "backup"
    private, public = key_files(tmp_path, "ops", "safe", "new")
    for_both = ["--public-key", f"ops={public['ops']}", "--public-key", f"safe={public['safe']}"]
    refused = run("backup", DEMO, "--to", place, *for_both[:2])
    assert refused.exit_code == 2
    assert "or --one-key" in refused.err
    assert run("backup", DEMO, "--to", place, "--compress", *for_both).exit_code == 0
    assert run("check", place, "--read", "all").exit_code == 0
    without = run("cat", f"{place}@latest", "-t", "users")
    assert (without.exit_code, without.out) == (1, b"")
    assert "encrypted with key pair ops, which was not given (--key-pair ops=FILE)" in without.err
    with_key = run("cat", f"{place}@latest", "-t", "users", "--tail", "1", "--key-pair", f"safe={private['safe']}")
    assert (with_key.exit_code, b"u-0200" in with_key.out) == (0, True)
    assert run("keys", place, "--add", f"new={public['new']}").exit_code == 2
    added = run("keys", place, "--add", f"new={public['new']}", "--key-pair", f"ops={private['ops']}")
    assert "ops, safe, new" in added.out.decode()
    (row,) = lines_of(run("keys", place, "--remove", "safe", "--json").out)
    assert row["keyPairs"] == ["ops", "new"]
    restored = run("merge", f"{place}@latest", "--to", tmp_path / "restored", "--key-pair", f"new={private['new']}")
    assert restored.exit_code == 0, restored.err
    assert rows_of(tmp_path / "restored") == rows_of(DEMO)


@pytest.mark.parametrize(
    "arguments",
    [
        ["backup", DEMO, "--to", "OUT", "--public-key", "ops=PRIVATE", "--one-key"],
        ["backup", DEMO, "--to", "OUT", "--public-key", "ops=/nowhere", "--one-key"],
        ["backup", DEMO, "--to", "OUT", "--public-key", "ops=PUBLIC", "--public-key", "ops=PUBLIC"],
        ["backup", DEMO, "--to", "OUT", "--public-key", "a:b=PUBLIC", "--one-key"],
        ["backup", DEMO, "--to", "OUT", "--public-key", "-----BEGIN PRIVATE KEY-----"],
        ["backup", DEMO, "--to", "OUT", "--one-key"],
        ["keys", DEMO],
    ],
)  # fmt: skip
def test_keys_that_are_none_are_one_line(arguments: list[str], run: Run, tmp_path: Path) -> None:
    private, public = key_files(tmp_path, "ops")
    words = [
        str(each).replace("PRIVATE", str(private["ops"]), int(str(each) == "ops=PRIVATE"))
        .replace("PUBLIC", str(public["ops"])).replace("OUT", str(tmp_path / "out"))
        for each in arguments
    ]  # fmt: skip
    result = run(*words)
    assert result.exit_code == 2
    assert "-----" not in result.err
    assert not (tmp_path / "out").exists()


def test_forget_and_prune_are_plans_until_they_are_applied(run: Run, tmp_path: Path) -> None:
    place = tmp_path / "backup"
    for name in ("one", "two"):
        run("backup", DEMO, "--to", place, "--name", name)
    assert run("forget", place).exit_code == 2
    planned = run("forget", place, "--keep-last", "1")
    assert (planned.exit_code, planned.err) == (0, "")
    assert "1 snapshot would be forgotten" in planned.out.decode()
    one, two = lines_of(run("forget", place, "--keep-last", "1", "--apply", "--json").out)
    assert (one["stays"], two["stays"], two["reasons"]) == (False, True, ["last"])
    assert [each["name"] for each in lines_of(run("snapshots", place, "--json").out)] == ["two"]
    assert "too young" in run("prune", place, "--apply").out.decode()
    (row,) = lines_of(run("prune", place, "--grace", "0", "--apply", "--json").out)
    assert (row["objects"], row["isApplied"]) == (2, True)
    assert rows_of(f"{place}@two") == rows_of(DEMO)
    assert run("prune", f"{place}@two").exit_code == 2


def test_a_seal_is_written_and_compared(run: Run, tmp_path: Path) -> None:
    place, seal = tmp_path / "backup", tmp_path / "seal.json"
    private, public = tmp_path / "sign.pem", tmp_path / "sign.public.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", private], check=True)
    subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True)
    for name in ("one", "two"):
        assert run("backup", DEMO, "--to", place, "--name", name, "--sign-key", private).exit_code == 0
    written = run("snapshots", place, "--seal", seal)
    assert (written.exit_code, written.out.decode()) == (0, f"2 snapshots sealed in {seal}; keep it elsewhere\n")
    assert lines_of(run("snapshots", place, "--seal", seal, "--json").out) == [{"seal": str(seal), "snapshots": 2}]
    check_it = "check", place, "--seal", seal, "--trust", public
    assert run(*check_it).exit_code == 0
    assert run("forget", place, "--keep-last", "1", "--trust", public, "--apply").exit_code == 0
    explained = run(*check_it)
    assert explained.exit_code == 0
    assert b"was forgotten since it was sealed" in explained.out
    run("prune", place, "--grace", "0", "--apply")
    gone = run(*check_it)
    assert gone.exit_code == 1
    assert b"was sealed, and is gone" in gone.out
    assert run("snapshots", place, "--seal", seal, "--offsets").exit_code == 2
    assert run("check", place, "--seal", public).exit_code == 2
