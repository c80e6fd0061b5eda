"""How long a deleted partition stays: a real broker renames its directory, and removes it a minute later."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from tests.kafka.broker import KafkaBroker
from tests.kafka.producers import Record, produce_confluent

import brokerless
from brokerless.cli import main
from brokerless.clusters.deletion import DELAY_MS, deletion_of
from brokerless.log.settings.definitions import settings_of, versions

pytestmark = pytest.mark.xdist_group("kafka")
TOPIC = "deleted-by-accident"


def test_what_is_left_of_a_topic_is_shown_with_the_time_that_is_left(
    kafka: KafkaBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kafka.create_topic(TOPIC)
    produce_confluent(kafka, TOPIC, [Record(b"k", b"v")], "none")
    before = time.time_ns() // 1_000_000
    admin = kafka.admin()
    admin.delete_topics([TOPIC])[TOPIC].result()
    pattern = f"{TOPIC}-0.*-delete"
    while not (found := [*kafka.log_dir.glob(pattern)]):
        time.sleep(0.05)
    after = time.time_ns() // 1_000_000
    (partition,) = brokerless.open(found[0]).partitions
    deletion = deletion_of(partition.paths[0])
    assert deletion is not None
    assert deletion.deleted_ms is not None
    assert before - 10 <= deletion.deleted_ms <= after + 10  # the kernel's clock for files is a tick coarser
    assert deletion.removed_ms == deletion.deleted_ms + DELAY_MS
    assert main(["ls", str(kafka.log_dir), "-t", TOPIC, "--include", "delete"]) == 0
    shown = capsys.readouterr().out
    assert f"{TOPIC}-0 was deleted: a broker runs here, and removes its files in " in shown
    assert "cp -al DIRECTORY/*-delete KEPT/" in shown

    kept = tmp_path / "kept"
    kept.mkdir()
    shutil.copytree(found[0], kept / found[0].name)
    assert main(["ls", str(kept), "--include", "delete"]) == 0
    assert "no broker runs here, so its files stay until one starts, which removes them" in capsys.readouterr().out
    assert main(["cat", str(kept), "--include", "delete", "--csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith(f"{TOPIC},0,0,")


def test_the_delay_is_kafka_s_default() -> None:
    assert settings_of("topic", versions()[-1])["file.delete.delay.ms"]["default"] == str(DELAY_MS)


def test_what_is_not_deleted_has_no_time() -> None:
    assert all(deletion_of(each.paths[0]) is None for each in brokerless.open("demo/data").partitions)
