"""A log is written as remote segments of a bucket, byte for byte, which readers and brokers take for their own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.jobs.backup.disks import DEMO, batches_of, rows_of
from tests.jobs.backup.rsa_keys import key_files

import brokerless
from brokerless import DamageError, Finding, UsageError
from brokerless.cli import main

TOPICS = ("orders", "payments", "users")


def test_readers_get_the_same_batches_and_records(tmp_path: Path) -> None:
    results = brokerless.open(DEMO).upload(tmp_path / "bucket")
    assert {each.topic for each in results} == set(TOPICS)
    bucket = brokerless.open(tmp_path / "bucket")
    assert rows_of(bucket, TOPICS) == rows_of(DEMO, TOPICS)
    own = batches_of(DEMO)
    assert batches_of(bucket) == {place: own[place] for place in own if place[0] in TOPICS}


def test_segments_are_those_of_the_log_byte_for_byte(tmp_path: Path) -> None:
    brokerless.open(DEMO).topic("orders").upload(tmp_path / "bucket")
    for number in range(3):
        source = {each.stem: each.read_bytes() for each in (DEMO / f"orders-{number}").glob("*.log")}
        stored = {each.name[:20]: each.read_bytes() for each in (tmp_path / "bucket").glob(f"orders-*/{number}/*.log")}
        assert stored == {name: data for name, data in source.items() if data}
        assert len(stored) > 1


def test_a_cluster_is_rebuilt_of_it(tmp_path: Path) -> None:
    brokerless.open(DEMO).topic("orders").upload(tmp_path / "bucket")
    rebuilt = brokerless.rebuild([], tmp_path / "to", from_bucket=tmp_path / "bucket", apply=True)
    assert not [each for each in rebuilt.findings if each.severity == "error"]
    assert brokerless.open(tmp_path / "to" / "node-1").restart(remote=tmp_path / "bucket").is_harmless


def test_it_is_compressed_and_encrypted_for_a_key_pair_of_the_plugin(tmp_path: Path) -> None:
    private, public = key_files(tmp_path, "ops", "safe")
    with pytest.raises(UsageError, match="give one"):
        brokerless.open(DEMO).upload(tmp_path / "bucket", public_keys=public)
    own = {"ops": public["ops"]}
    results = brokerless.open(DEMO).topic("users").upload(tmp_path / "bucket", public_keys=own, compress=True)
    assert sum(each.stored_size for each in results) < sum(each.size for each in results)
    logs = [each.read_bytes() for each in (tmp_path / "bucket").glob("users-*/0/*.log")]
    assert logs
    assert b"u-0048" not in b"".join(logs)
    bucket = brokerless.open(tmp_path / "bucket", key_pairs={"ops": private["ops"]})
    assert rows_of(bucket, ("users",)) == rows_of(DEMO, ("users",))


def test_of_a_damaged_partition_nothing_is_left(tmp_path: Path) -> None:
    shutil.copytree(DEMO, tmp_path / "disk")
    log = max((tmp_path / "disk" / "orders-1").glob("*.log"), key=lambda each: each.stat().st_size)
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    found: list[Finding] = []
    results = brokerless.open(tmp_path / "disk").topic("orders").upload(tmp_path / "bucket", on_damage=found.append)
    assert [bool(each.damages) for each in results] == [False, True, False]
    assert found == list(results[1].damages)
    assert not list((tmp_path / "bucket").glob("orders-*/1/*"))
    assert list((tmp_path / "bucket").glob("orders-*/2/*"))
    with pytest.raises(DamageError):
        brokerless.open(tmp_path / "disk").topic("orders").upload(tmp_path / "other")


def test_nothing_is_written_over_and_no_backup_is_written_to(tmp_path: Path) -> None:
    log = brokerless.open(DEMO).topic("users")
    assert not [each for each in log.upload(tmp_path / "bucket", dry_run=True) if not each.records]
    assert not (tmp_path / "bucket").exists()
    log.upload(tmp_path / "bucket")
    with pytest.raises(UsageError, match="are there already"):
        log.upload(tmp_path / "bucket")
    brokerless.backup(DEMO, tmp_path / "backup")
    with pytest.raises(UsageError, match="this is a backup"):
        log.upload(tmp_path / "backup")


def test_a_topic_without_an_id_gets_the_same_one_each_time(tmp_path: Path) -> None:
    shutil.copytree(DEMO, tmp_path / "disk")
    for each in (tmp_path / "disk").glob("users-*/partition.metadata"):
        each.unlink()
    ids = {brokerless.open(tmp_path / "disk").topic("users").upload(tmp_path / name)[0].topic_id for name in ("a", "b")}
    assert len(ids) == 1


def test_kafkas_own_topics_are_written_if_they_are_named(tmp_path: Path) -> None:
    results = brokerless.open(DEMO).topic("__consumer_offsets").upload(tmp_path / "bucket")
    assert {each.topic for each in results} == {"__consumer_offsets"}
    with pytest.raises(UsageError, match="KRaft"):
        brokerless.open(DEMO).topic("__cluster_metadata").upload(tmp_path / "other")


def test_the_command_says_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    to = str(tmp_path / "bucket")
    assert main(["convert", str(DEMO), "-t", "orders", "--to", to, "--tiered", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["partition"], each["records"], each["isWritten"]) for each in rows] == [
        (0, 1265, True), (1, 1235, True), (2, 1296, True),
    ]  # fmt: skip
    assert main(["convert", str(DEMO), "-t", "users", "--to", to, "--tiered"]) == 0
    assert f"1 partition: written to {to}" in capsys.readouterr().out
    assert main(["convert", str(DEMO), "--to", to, "--tiered", "--codec", "zstd"]) == 2
    assert "byte for byte" in capsys.readouterr().err
    assert main(["convert", str(DEMO), "--to", to, "--codec", "zstd", "--compress"]) == 2
    assert "are for --tiered" in capsys.readouterr().err
