"""``erase`` of a backup, and ``prove`` of its manifest: exit codes, what is printed, what programs get."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.jobs.backup.disks import DEMO
from tests.jobs.backup.rsa_keys import key_files

import brokerless
from brokerless.cli.commands import erase, prove
from brokerless.cli.parser import Command
from brokerless.views.jobs.backup_erasure import erasure_rows

SHARED: tuple[Command, ...] = (erase, prove)
KEYS = ("--key", "u-0048", "--key", "o-101230", "-t", "orders", "-t", "users")


def lines_of(data: bytes) -> list[dict[str, object]]:
    return [json.loads(line) for line in data.decode().splitlines()]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    brokerless.backup(DEMO, tmp_path / "backup", name="nightly")
    return tmp_path / "backup"


def test_records_are_counted_erased_pruned_and_proved(run: Run, place: Path, tmp_path: Path) -> None:
    planned = run("erase", place, *KEYS)
    assert (planned.exit_code, planned.err) == (0, "")
    assert b"4 selected records in 2 segments; --apply writes these again" in planned.out
    manifest = tmp_path / "erased.json"
    erased = run("erase", place, *KEYS, "--manifest", manifest, "--apply")
    assert (erased.exit_code, erased.err) == (0, "")
    assert b"4 selected records: 2 segments written again" in erased.out
    keys = tmp_path / "keys.txt"
    keys.write_text("u-0048\no-101230\n")
    proved = "prove", manifest, "--keys", keys, "--only", "orders", "--only", "users"
    early = run(*proved)
    assert early.exit_code == 1
    assert b"brokerless prune removes them from 2" in early.out
    assert b"the proof does NOT hold: 4 partitions, 4 erased records" in early.out
    assert run("prune", place, "--grace", "0", "--apply").exit_code == 0
    late = run(*proved)
    assert late.exit_code == 0
    assert b"the proof holds: 4 partitions, 4 erased records, 4 segments of the bucket searched" in late.out
    assert run("cat", place, "-t", "users", "--key", "u-0048").out == b""
    again = run("backup", DEMO, "--to", place)
    assert again.exit_code == 1
    assert "1 record here that an erasure took out of the backup" in again.err


def test_programs_get_each_partition_and_the_sum(run: Run, place: Path, tmp_path: Path) -> None:
    *partitions, last = lines_of(run("erase", place, *KEYS, "--json").out)
    assert {each["topic"] for each in partitions} == {"orders", "users"}
    assert (last["selected"], last["isApplied"], last["list"]) == (4, False, None)
    own = brokerless.Backup(place).erase(keys=["u-0048", "o-101230"], topics=["orders", "users"])
    assert [*partitions, last] == list(erasure_rows(own))
    manifest = tmp_path / "erased.json"
    *_, last = lines_of(run("erase", place, *KEYS, "--apply", "--manifest", manifest, "--json").out)
    assert (last["segmentsWritten"], last["isApplied"]) == (2, True)
    *_, proof = lines_of(run("prove", manifest, "--json").out)
    assert (proof["holds"], proof["selected"], proof["partitions"]) == (False, 4, 4)


def test_a_segment_that_cannot_be_read_is_exit_code_1(run: Run, place: Path, tmp_path: Path) -> None:
    (log,) = place.glob("users-*/0/*.log")
    log.write_bytes(log.read_bytes()[:-1])
    assert run("erase", place, *KEYS, "--apply", "--manifest", tmp_path / "erased.json").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("BACKUP", *KEYS, "--apply"), "--apply needs --manifest"),
        (("BACKUP",), "select the records by one of --key KEY"),
        (("BACKUP", *KEYS, "--blank", "value"), "records are erased as a whole"),
        (("BACKUP", *KEYS, "--blank-fields", "a"), "records are erased as a whole"),
        (("BACKUP@nightly", *KEYS), "give the backup, and not one of them"),
        (("BACKUP", "BACKUP", *KEYS), "give --to DIRECTORY"),
        ((str(DEMO), *KEYS), "give --to DIRECTORY"),
        ((str(DEMO), *KEYS, "--to", "TO", "--apply"), "--apply is for a backup"),
        (("BACKUP", "--key", "a", "-t", "none"), "no snapshot has such a partition"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    arguments: tuple[str, ...], says: str, run: Run, place: Path, tmp_path: Path
) -> None:
    own = [each.replace("BACKUP", str(place)).replace("TO", str(tmp_path / "to")) for each in arguments]
    result = run("erase", *own)
    assert result.exit_code == 2
    assert says in result.err


def test_a_page_is_of_logs(run: Run, place: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "erased.json"
    run("erase", place, *KEYS, "--apply", "--manifest", manifest)
    result = run("prove", manifest, "--html", tmp_path / "proof.html")
    assert (result.exit_code, (tmp_path / "proof.html").exists()) == (2, False)
    assert "--html: a page is of logs" in result.err


def test_an_encrypted_backup_takes_a_private_key(run: Run, tmp_path: Path) -> None:
    private, public = key_files(tmp_path, "ops", "safe")
    place, manifest = tmp_path / "secret", tmp_path / "erased.json"
    brokerless.backup(DEMO, place, public_keys=public)
    erase_it = "erase", place, *KEYS, "--apply", "--manifest", manifest
    assert "this backup is encrypted" in run(*erase_it).err
    assert run(*erase_it, "--key-pair", f"safe={private['safe']}").exit_code == 0
    run("prune", place, "--grace", "0", "--apply")
    only = "--only", "orders", "--only", "users"
    assert "this backup is encrypted" in run("prove", manifest, *only).err
    assert run("prove", manifest, *only, "--key-pair", f"ops={private['ops']}").exit_code == 0


def test_help_speaks_of_backups() -> None:
    for each in SHARED:
        assert "backup" in each.DESCRIPTION


def test_a_key_that_reads_nothing_is_refused_and_nothing_is_written(run: Run, tmp_path: Path) -> None:
    _, public = key_files(tmp_path, "ops", "safe")
    wrong, _ = key_files(tmp_path, "other")
    place = tmp_path / "encrypted"
    brokerless.backup(DEMO, place, public_keys=public)
    key = "--key-pair", f"ops={wrong['other']}"
    for more in ((), ("--apply", "--manifest", tmp_path / "erased.json")):
        result = run("erase", place, *KEYS, *key, *more)
        assert (result.exit_code, result.out) == (2, b"")
        assert "key pair ops does not fit" in result.err
    assert not (tmp_path / "erased.json").exists()
    assert not (place / ".brokerless" / "replaced").exists()
