"""Erased partitions: Kafka's reader finds every other record unchanged, and a broker goes on with them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.golden import broker_data, broker_expected, of_type
from tests.golden import json_lines as read_lines
from tests.kafka.broker import KafkaBroker
from tests.kafka.oracle import dump_everything, read_logs
from tests.kafka.producers import consume, transactional_id

import brokerless
from brokerless.errors import DamageError, UsageError
from brokerless.jobs import manifest
from brokerless.log import segment
from brokerless.log.directory import resolve
from brokerless.log.storage.location import DirectoryEntry, Location

pytestmark = pytest.mark.xdist_group("erased")
ROOT = Path(__file__).parents[3]
SOME = '"offset" % 7 < 3'
CLEAN = ["txn-0", "codec-zstd-1", "codec-none-0", "segments-0", "compacted-lz4-0", "append-time-0", "head-deleted-0"]
OLD = ["v0-gzip-0", "v0-none-0", "v1-lz4-0", "v1-none-0", "v1-append-gzip-0", "upgraded-0", "compacted-v1-snappy-0"]
NAMES = {"clean": CLEAN, "old-formats": OLD}
PLACES = [(broker, name) for broker, names in NAMES.items() for name in names]


def is_selected(offset: int) -> bool:
    return offset % 7 < 3


@pytest.fixture(scope="module")
def erased(tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("erased")
    for broker in NAMES:
        brokerless.open(broker_data(broker)).erase(to / broker, where=SOME, manifest=to / f"{broker}.erasure.json")
    return to


def records_of(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without what may differ: the position, and what is only in the file that it comes from."""
    return [
        {name: value for name, value in line.items() if name not in ("batchPosition", "file")}
        for line in of_type(lines, "record")
    ]


@pytest.mark.parametrize(("broker", "name"), PLACES)
def test_kafkas_reader_finds_all_others_unchanged_and_none_that_was_selected(
    broker: str, name: str, erased: Path, kafka_jars: Path
) -> None:
    partition = brokerless.open(broker_data(broker)).partition(name.rpartition("-")[0], int(name.rpartition("-")[2]))
    first = partition.paths[0].start_offset or 0
    written = read_logs(sorted((erased / broker / name).glob("*.log")), version="3.9.1")
    after = [line for lines in written.values() for line in lines]
    before = read_lines(broker_expected(broker) / name / "expected.jsonl")
    expected = [
        line
        for line in records_of(before)
        if line["offset"] >= first and (line.get("control") or not is_selected(line["offset"]))
    ]
    found = [line for line in records_of(after) if line["offset"] >= first]
    assert found == expected
    assert len(found) < len(list(of_type(before, "record")))
    assert all(line["isValid"] for line in of_type(after, "batch"))


@pytest.mark.parametrize(("broker", "name"), PLACES)
def test_a_comparison_with_its_source_finds_what_was_erased_and_nothing_else(
    broker: str, name: str, erased: Path
) -> None:
    manifest = erased / f"{broker}.erasure.json"
    (found,) = brokerless.diff(broker_data(broker) / name, erased / broker / name, erasure=manifest).partitions
    claimed = json.loads(manifest.read_text())["partitions"]
    touched = next(each["touched"] for each in claimed if each["target"].endswith(f"/{name}"))
    removed = sum(len(each["offsets"]) for each in touched)
    assert (found.is_same, (found.causes or {}).get("erased"), found.uncompared) == (True, removed, ())
    assert found.same + removed == found.records


@pytest.mark.slow(reason="all that a broker wrote")
@pytest.mark.parametrize("broker", NAMES)
def test_audit_finds_what_it_found_before_and_untouched_files_are_identical(broker: str, erased: Path) -> None:
    def kinds(path: Path) -> set[tuple[str, str]]:
        audit = brokerless.open(path).audit()
        found = audit.findings
        return {(each.severity, each.kind) for each in found if each.severity != "info"}

    assert kinds(erased / broker) <= kinds(broker_data(broker))
    for each in resolve(Location(str(broker_data(broker)))).partitions:
        own = erased / broker / Path(each.path).name
        for path in Path(each.path).iterdir():
            is_of_segment = path.with_suffix(".log").exists()  # a broker deletes other snapshots
            if path.name == "partition.metadata" or (is_of_segment and path.suffix in (".snapshot", ".txnindex")):
                assert (own / path.name).read_bytes() == path.read_bytes(), path
        if not any(is_selected(offset) for offset in range(each.start_offset or 0, 3000)):
            assert {path.name for path in own.iterdir()} == {path.name for path in Path(each.path).iterdir()}


OF_EMPTY_BATCHES = re.compile(r"Found timestamp mismatch in :.*\n(  Index timestamp: \d+, log timestamp: -1\n)+")
"""What the tool of 4.4 says of a time index with an entry for a batch without records, of brokers' own logs as well."""


def test_kafkas_dump_tool_finds_nothing_in_logs_and_indexes(erased: Path, kafka_jars: Path) -> None:
    text = dump_everything((erased / "clean").rglob("*-*/*"), "--deep-iteration")
    assert text.count("isvalid: true") > 100
    text = OF_EMPTY_BATCHES.sub("", text)
    for bad in ("mismatch", "do not have", "out of order", "isvalid: false", "corrupt"):
        assert bad not in text.lower()


def test_a_broker_goes_on_without_recovery_and_so_do_producers_and_a_group(tmp_path: Path, kafka_jars: Path) -> None:
    """An idempotent producer that lived before writes on, as its sequences are known; a group goes on at its offset."""
    broker = KafkaBroker(tmp_path / "broker")
    with broker:
        broker.create_topic("orders")
        conf = {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 5, "batch.size": 700}
        producer = Producer(conf)
        for number in range(300):
            producer.produce("orders", key=f"user-{number % 10}", value=f"{number}", partition=0)
        producer.flush(30)
        transactional = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": transactional_id()})
        transactional.init_transactions()
        for ends in ("commit_transaction", "abort_transaction"):
            transactional.begin_transaction()
            transactional.produce("orders", key="user-3", value=ends, partition=0)
            transactional.produce("orders", key="user-4", value=ends, partition=0)
            transactional.flush(30)  # or an abort takes them out of the queue
            getattr(transactional, ends)()
        group = {"bootstrap.servers": broker.bootstrap, "group.id": "g", "enable.auto.commit": False}
        consumer = Consumer(group)
        consumer.commit(offsets=[TopicPartition("orders", 0, 103)], asynchronous=False)
        consumer.close()
        before = {level: consume(broker, "orders", 0, level) for level in ("read_committed", "read_uncommitted")}
    results = brokerless.open(broker.log_dir).erase(tmp_path / "erased", keys=["user-3"])
    (result,) = [each for each in results if each.task.topic == "orders"]
    assert result.totals.selected == 32
    end = result.end_offset
    shutil.rmtree(broker.log_dir)
    shutil.copytree(tmp_path / "erased", broker.log_dir)
    start = broker.output.stat().st_size
    with broker:
        for level, expected in before.items():
            assert consume(broker, "orders", 0, level) == [each for each in expected if each.key != b"user-3"], level
        producer.produce("orders", key="user-1", value="after", partition=0)
        assert producer.flush(60) == 0
        last = consume(broker, "orders")[-1]
        assert (last.offset, last.value) == (end, b"after")
        consumer = Consumer(group)
        consumer.assign([TopicPartition("orders", 0)])
        message = consumer.poll(30)
        assert message is not None
        assert message.offset() == 104  # 103 had the key user-3
        consumer.close()
    said = broker.output.read_bytes()[start:].decode(errors="replace").splitlines()
    of_topics = [line for line in said if "__cluster_metadata" not in line]  # which is recovered at each start
    assert any("Completed load" in line for line in of_topics)
    for word in ("Recovering unflushed segment", "Rebuilding producer state"):
        assert not [line for line in of_topics if word in line]


def test_a_damaged_partition_is_not_written(tmp_path: Path) -> None:
    source = shutil.copytree(broker_data("clean") / "txn-0", tmp_path / "from" / "txn-0")
    log = min(source.glob("*.log"))
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    with pytest.raises(DamageError):
        brokerless.open(source).erase(tmp_path / "to", where=SOME)
    assert not (tmp_path / "to").exists()
    (result,) = brokerless.open(source).erase(tmp_path / "to", where=SOME, on_damage=lambda _: None)
    assert result.damages
    assert not list((tmp_path / "to").glob("txn-0*"))


def test_the_clusters_own_log_is_refused_and_what_exists_is_not_written_to(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="KRaft's own log"):
        brokerless.open(broker_data("clean") / "__cluster_metadata-0").erase(tmp_path / "to", where=SOME)
    source = brokerless.open(broker_data("clean") / "epochs-0")
    source.erase(tmp_path / "to", where=SOME)
    with pytest.raises(UsageError, match="exists already"):
        source.erase(tmp_path / "to", where=SOME)


KILLED = """
import sys
from tests.jobs.killed import kill_at_changes
import brokerless
source, out = sys.argv[1:]
def job(to):
    brokerless.open(source).erase(to, where='"offset" % 7 < 3', manifest=to + ".json")
kill_at_changes(job, out, 12)
"""


@pytest.mark.slow(reason="killed at twelve changes")
def test_after_a_kill_the_same_call_completes(tmp_path: Path) -> None:
    """The source is unchanged, what is visible is whole, and a second run leaves the same as one without a kill."""
    source = tmp_path / "from"
    for name in ("txn-0", "segments-0", "codec-zstd-1"):
        shutil.copytree(broker_data("clean") / name, source / name)
    before = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    (tmp_path / "out").mkdir()
    subprocess.run([sys.executable, "-c", KILLED, str(source), str(tmp_path / "out")], check=True, timeout=300)
    assert {path: path.read_bytes() for path in source.rglob("*") if path.is_file()} == before
    whole = contents(tmp_path / "out" / "whole")
    killed = [each for each in (tmp_path / "out").iterdir() if each.name.isdigit()]
    assert len(killed) > 8
    for each in killed:
        for name in ("txn-0", "segments-0", "codec-zstd-1"):
            part = {path: data for path, data in contents(each).items() if path.startswith(name + "/")}
            assert not part or part == {path: data for path, data in whole.items() if path.startswith(name + "/")}
        brokerless.open(source).erase(each, where=SOME, manifest=f"{each}.json")
        assert contents(each) == whole
        assert not list(each.glob("*-delete"))


@pytest.mark.slow(reason="runs that are killed, and their second runs")
def test_killed_at_random_moments() -> None:
    """``python -m tests.jobs.erase.killed 100`` does it a hundred times."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.jobs.erase.killed", "6", str(os.getpid())]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)
    *wrong, seen = done.stdout.splitlines()
    assert not wrong
    assert sum(json.loads(seen).values()) == 6


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.glob("*/*")
        if not path.parent.name.endswith("-delete")
    }


@pytest.mark.parametrize("where", ['"offset" % 150 = 149', '"offset" = 0', '"offset" > 400'])
def test_hashes_of_logs_are_those_of_the_files_and_none_is_read_for_them(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With windows of a few batches: some before the first touched batch, and segments without one."""
    described: list[str] = []

    def describe(entry: DirectoryEntry, *arguments: Any) -> manifest.ManifestFile:
        described.append(entry.name)
        return describe_file(entry, *arguments)

    describe_file = manifest.describe_file
    monkeypatch.setattr(manifest, "describe_file", describe)
    for name in ("WINDOW", "FIRST_WINDOW", "LEAST_WINDOW"):
        monkeypatch.setattr(segment, name, 3000)
    source = tmp_path / "from"
    for name in ("segments-0", "txn-0", "codec-zstd-1"):
        shutil.copytree(broker_data("clean") / name, source / name)
    brokerless.open(source).erase(tmp_path / "to", where=where, manifest=tmp_path / "proof.json")
    found = json.loads((tmp_path / "proof.json").read_bytes())["partitions"]
    assert any(each["touched"] for each in found)
    for each in found:
        for file in each["after"]:
            data = (Path(each["target"]) / file["name"]).read_bytes()
            assert (file["sizeInBytes"], file["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    assert described
    assert not any(name.endswith(".log") for name in described)
