"""What is rebuilt of a bucket alone serves every uploaded record at its offset, and its objects stay.

The rebuilt logs are then written, uploaded, expire, and are deleted from: after a restart no record is lost, and no
object is left of which the metadata has nothing.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import brokerless
from brokerless.internals.remote.storage import RemoteStorage, load_remote_storage
from brokerless.jobs.rebuild.plan import Rebuild
from brokerless.log.storage.location import Location
from tests.kafka.broker import KafkaBroker, free_ports
from tests.kafka.live import some_records
from tests.kafka.producers import Consumed, Isolation, consume, produce_confluent
from tests.kafka.rebuilt import RebuiltNode
from tests.kafka.tiered import (
    ISOLATIONS,
    alter_topic,
    checkpointed,
    delete_records,
    printed_properties,
    rows_of,
    serves_remote,
    tiered_settings,
    wait_for,
)

pytestmark = pytest.mark.xdist_group("tiered")

SEGMENT = 6000
PLACES = (("records", 0), ("records", 1), ("open", 0))
TRIMMED = 150
View = tuple[tuple[str, int], Isolation]


def fill(broker: KafkaBroker) -> None:
    for topic, partitions in (("records", 2), ("open", 1)):
        settings = {"remote_storage_enable": "true", "local_retention_bytes": 1, "internal_segment_bytes": SEGMENT}
        broker.create_topic(topic, partitions, **settings)
    produce_confluent(broker, "records", some_records(1, 900, 2, largest=900), batch_size=2000)
    produce_confluent(broker, "records", some_records(2, 300, 2, largest=900), "zstd", "commit", batch_size=2000)
    produce_confluent(broker, "records", some_records(3, 300, 2, largest=900), "none", "abort", batch_size=2000)
    produce_confluent(broker, "open", some_records(4, 300, largest=900), "none", "commit", batch_size=2000)
    wait_for_uploads(broker)
    broker.stop()
    broker.start()  # into another leader epoch
    produce_confluent(broker, "records", some_records(5, 900, 2, largest=900), batch_size=2000)
    produce_confluent(broker, "open", some_records(6, 900, largest=900), "none", "commit", batch_size=2000)
    wait_for_uploads(broker)
    delete_records(broker, "records", 0, TRIMMED)
    wait_for(lambda: checkpointed(broker, "records", 0) == TRIMMED, "the log start is in the checkpoint")


def wait_for_uploads(broker: KafkaBroker) -> None:
    for place in PLACES:
        wait_for(lambda place=place: len(broker.logs(*place)) == 1, "all but the active segment is remote")


def consume_all(broker: KafkaBroker) -> dict[View, list[Consumed]]:
    for place in PLACES:
        wait_for(lambda place=place: serves_remote(broker, *place), "remote records are served")
    return {(place, each): consume(broker, *place, isolation=each) for place in PLACES for each in ISOLATIONS}


def node_of(rebuilt: Rebuild, root: Path, bucket: Path) -> RebuiltNode:
    """With exactly the settings that are printed, and what nothing knows."""
    node = RebuiltNode(root, rebuilt, 1)
    node.properties.write_text(printed_properties(rebuilt.server_properties(1), bucket))
    return node


def mapping(file: Path) -> Path:
    with free_ports(2) as (port, controller_port):
        listeners = {"PLAINTEXT": f"127.0.0.1:{port}", "CONTROLLER": f"127.0.0.1:{controller_port}"}
    node = {"id": 1, "roles": ["broker", "controller"], "listeners": listeners}
    file.write_text(json.dumps({"nodes": [node]}))
    return file


def files_of(bucket: Path) -> set[str]:
    return {str(each.relative_to(bucket)) for each in bucket.glob("*/*")}


def test_what_is_rebuilt_of_a_bucket_serves_every_record_and_goes_on(kafka_jars: Path, tmp_path: Path) -> None:
    bucket = tmp_path / "bucket"
    broker = KafkaBroker(tmp_path / "broker", tiered_settings(bucket))
    with broker:
        fill(broker)
        known = consume_all(broker)
    ends = {place: int(broker.logs(*place)[0].stem) for place in PLACES}
    assert all(ends.values())
    shutil.rmtree(broker.directory)
    stored = files_of(bucket)
    options = {"mapping": mapping(tmp_path / "nodes.json"), "log_starts": {("records", 0): TRIMMED}}
    planned = brokerless.rebuild([], tmp_path / "to", from_bucket=bucket, **options)
    (transaction,) = [each for each in planned.findings if each.kind == "remote-transaction-open"]
    rebuilt = brokerless.rebuild(
        [], tmp_path / "to", from_bucket=bucket, abort_open_transactions=True, apply=True, **options
    )
    start = brokerless.open(tmp_path / "to" / "node-1").restart(remote=bucket).directory
    assert start is not None
    assert (start.remote_deletions, start.remote_log_starts) == ((), ())
    node = node_of(rebuilt, tmp_path, bucket)
    with node:
        found = consume_all(node)
        for place, isolation in known:
            expected = [each for each in known[place, isolation] if each.offset < ends[place]]
            if (place, isolation) == (("open", 0), "read_committed"):  # the transaction is aborted
                expected = [each for each in expected if each.offset < (transaction.offset or 0)]
            assert found[place, isolation] == expected
            assert expected
        produce_confluent(node, "open", some_records(8, 50, largest=900), transaction="commit")
        assert files_of(bucket) >= stored - files_below(stored, TRIMMED)
        goes_on(node, bucket, stored)
        expected_after = consume_all(node)
    with node:
        assert consume_all(node) == expected_after
        for place, isolation in expected_after:
            assert rows_of(node.log_dir, *place, isolation, remote=bucket) == expected_after[place, isolation]


def goes_on(node: RebuiltNode, bucket: Path, stored: set[str]) -> None:
    """Write, upload, expire and delete; no object is left of which the metadata has nothing."""
    for topic in ("records", "open"):  # a bucket has no settings
        alter_topic(node, topic, local_retention_bytes=1, internal_segment_bytes=SEGMENT)
    for number in range(3):
        transaction = ("none", "commit", "abort")[number]
        produce_confluent(
            node, "records", some_records(7 + number, 500, 2, largest=900), "lz4", transaction, batch_size=2000
        )
        produce_confluent(
            node, "open", some_records(9 + number, 500, largest=900), "none", transaction, batch_size=2000
        )
    wait_for_uploads(node)
    assert files_of(bucket) > stored - files_below(stored, TRIMMED)
    before = {place: node.watermarks(place[0], [place[1]])[place[1]] for place in PLACES}
    alter_topic(node, "open", retention_bytes=3 * SEGMENT)
    wait_for(lambda: node.watermarks("open")[0][0] > before["open", 0][0], "records expire")
    delete_records(node, "records", 1, before["records", 1][1] // 2)
    wait_for(lambda: is_settled(node, bucket), "the objects are those that the metadata has")
    for place in PLACES:
        start = wait_for(lambda place=place: node.watermarks(place[0], [place[1]])[place[1]][0], "a log start")
        wait_for(lambda place=place, start=start: checkpointed(node, *place) >= start, "it is in the checkpoint")


def files_below(stored: set[str], offset: int) -> set[str]:
    """Objects of the trimmed partition whose segments may be deleted, as they are before its log start."""
    return {each for each in stored if each.startswith("records-0-") and int(Path(each).name[:20]) < offset}


def is_settled(node: RebuiltNode, bucket: Path) -> bool:
    storage = load_remote_storage(Location(str(node.log_dir)))
    known = {each.segment_id for segments in storage.segments.values() for each in segments}
    begun = {each.segment_id for segments in storage.begun.values() for each in segments}
    there = {Path(each).name[21:43] for each in files_of(bucket)}
    return known == begun == there and all(not expires(node, storage, place) for place in PLACES)


def expires(node: RebuiltNode, storage: RemoteStorage, place: tuple[str, int]) -> bool:
    """Whether the first remote segment is still to be deleted: it is before the log start, or more than is kept."""
    segments = storage.of(*place)
    if segments[0].end_offset < node.watermarks(place[0], [place[1]])[place[1]][0]:
        return True
    size = sum(each.size for each in segments) + sum(each.stat().st_size for each in node.logs(*place))
    return place[0] == "open" and size - 3 * SEGMENT >= segments[0].size
