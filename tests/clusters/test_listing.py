"""Readers give the replicas that a start promotes; real starts are in ``tests/states``."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from tests.kafka.broker import KafkaBroker
from tests.kafka.producers import Record, produce_confluent

import brokerless
from brokerless.cli import main

DEMO = Path(__file__).parents[2] / "demo" / "data"
FUTURE = f"payments-0.{'a' * 32}-future"


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A replica that was being moved within its log directory, which the metadata has there already."""
    copy = Path(shutil.copytree(DEMO, tmp_path / "disk"))
    (copy / "payments-0").rename(copy / FUTURE)
    return copy


def listed(path: Path, *, as_it_lies: bool = False) -> dict[str, int]:
    log = brokerless.open(path, as_it_lies=as_it_lies)
    return {Path(each.path).name: each.to_table().num_rows for each in log.partitions if each.name == "payments-0"}


def test_a_replica_that_a_start_promotes_is_listed_and_read(disk: Path) -> None:
    records = listed(DEMO)["payments-0"]
    assert records > 0
    assert listed(disk) == {FUTURE: records}
    assert listed(disk, as_it_lies=True) == {}


def test_one_beside_a_live_replica_is_not(disk: Path) -> None:
    shutil.copytree(DEMO / "payments-0", disk / "payments-0")
    assert set(listed(disk)) == {"payments-0"}


def test_without_the_cluster_s_metadata_nothing_is_promoted(disk: Path) -> None:
    shutil.rmtree(disk / "__cluster_metadata-0")
    assert listed(disk) == {}


@pytest.mark.xdist_group("kafka")
def test_a_name_that_a_broker_cut_is_the_topic_s_own_by_its_metadata(
    kafka: KafkaBroker, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of directories that it renames, it cuts the topic where the name has more than 255 characters (KAFKA-4893)."""
    topics = ["cut-" + "x" * 230 + end for end in ("-eu", "-us")]
    for name in topics:
        kafka.create_topic(name)
        produce_confluent(kafka, name, [Record(b"k", name[-2:].encode())], "none")
    admin = kafka.admin()
    for done in admin.delete_topics(topics).values():
        done.result(30)
    while len([*kafka.log_dir.glob("cut-*-delete")]) < len(topics):
        time.sleep(0.05)
    disk = kafka.copy_log_dir(tmp_path / "disk")
    there = brokerless.open(disk, include="delete").partitions
    found = [each for each in there if each.name.startswith("cut-")]
    assert {each.paths[0].topic: each.to_table()["value"].to_pylist() for each in found} == {
        name: [name[-2:].encode()] for name in topics
    }
    assert not [each for one in found for each in one.paths[0].findings]
    assert brokerless.open(found[0].path).topic_partition == found[0].topic_partition
    assert main(["salvage", str(disk), "--include", "delete", "-t", "cut-*", "--to", str(tmp_path / "saved")]) == 0
    assert {each.name for each in (tmp_path / "saved").glob("cut-*")} == {f"{name}-0" for name in topics}

    shutil.rmtree(disk / "__cluster_metadata-0")
    capfd.readouterr()
    for command in ("ls", "cat", "verify", "audit"):
        included = [] if command == "audit" else ["--include", "delete"]
        main([command, str(disk), *included, *(["-t", "cut-*"] if included else [])])
        shown = capfd.readouterr()
        assert "name may be cut" in shown.out + shown.err, command
    shutil.rmtree(next(disk.glob("cut-*-delete")))
    assert main(["salvage", str(disk), "--include", "delete", "-t", "cut-*", "--to", str(tmp_path / "cut")]) == 0
    assert "name may be cut" in capfd.readouterr().err
