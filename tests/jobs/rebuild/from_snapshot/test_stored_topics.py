"""Topics that stay in the bucket of a snapshot. ``tests/kafka/test_backed_up.py`` starts brokers on what is made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.jobs.backup.disks import DEMO, objects_in, rows_of
from tests.jobs.rebuild.from_snapshot.disks import three_nodes

import brokerless
from brokerless import UsageError
from brokerless.cli import main
from brokerless.internals.remote.storage import load_remote_storage
from brokerless.log.backups.snapshot import OngoingTransaction, Snapshot, parse_snapshot
from brokerless.log.storage.location import Location

REMAINING = ("orders", "payments")


@pytest.fixture
def stored(tmp_path: Path) -> str:
    brokerless.backup(DEMO, tmp_path / "backup", segment_size=30_000)
    return f"{tmp_path / 'backup'}@latest"


def local_logs(node: Path, topic: str) -> int:
    """Bytes of logs of a topic on a node."""
    return sum(each.stat().st_size for each in node.glob(f"{topic}-*/*.log"))


def test_what_is_not_compacted_stays_and_all_else_is_written(stored: str, tmp_path: Path) -> None:
    rebuilt = brokerless.rebuild(stored, tmp_path / "to", in_bucket=True, copy_to=tmp_path / "copy", apply=True)
    node = tmp_path / "to" / "node-1"
    assert rebuilt.lost == ()
    assert [local_logs(node, topic) for topic in REMAINING] == [0, 0]
    assert local_logs(node, "users")
    assert rebuilt.cluster.configs[2, "orders"]["remote.storage.enable"] == "true"
    assert "remote.storage.enable" not in rebuilt.cluster.configs[2, "users"]
    assert rows_of(brokerless.open(node, remote=tmp_path / "copy"), ["orders", "payments", "users"]) == rows_of(
        DEMO, ["orders", "payments", "users"]
    )


def test_a_start_serves_the_segments_and_deletes_none(stored: str, tmp_path: Path) -> None:
    brokerless.rebuild(stored, tmp_path / "to", in_bucket=True, copy_to=tmp_path / "copy", apply=True)
    start = brokerless.open(tmp_path / "to" / "node-1").restart(remote=tmp_path / "copy")
    assert start.is_harmless
    assert start.directory is not None
    assert (start.directory.remote_deletions, start.directory.remote_log_starts) == ((), ())
    storage = load_remote_storage(Location(str(tmp_path / "to" / "node-1")))
    found = {each.segment_id for number in range(3) for each in storage.of("orders", number)}
    assert found == {each.stem[-22:] for each in (tmp_path / "copy").glob("orders-*/*/*.log")}


def test_settings_stay_and_brokers_do_not_get_those_of_a_bucket_alone(stored: str, tmp_path: Path) -> None:
    rebuilt = brokerless.rebuild(stored, tmp_path / "to", in_bucket=True, read_only_credentials=True)
    assert rebuilt.cluster.configs[2, "orders"]["internal.segment.bytes"] == "32768"
    properties = rebuilt.server_properties(1)
    assert properties["remote.log.storage.system.enable"] == "true"
    assert "log.retention.ms" not in properties


def test_spread_over_nodes_each_replica_begins_after_the_last_remote_segment(tmp_path: Path) -> None:
    brokerless.backup(three_nodes(tmp_path), tmp_path / "backup")
    rebuilt = brokerless.rebuild(
        f"{tmp_path / 'backup'}@latest", tmp_path / "to", spread=True, in_bucket=True, copy_to=tmp_path / "copy",
        apply=True,
    )  # fmt: skip
    found = sorted(str(each.relative_to(tmp_path / "to")) for each in (tmp_path / "to").glob("*/orders-0/*.log"))
    assert found == [f"node-{node}/orders-0/{1265:020}.log" for node in (1, 2, 3)]
    (orders,) = (rows for key, rows in rebuilt.cluster.partitions.items() if rebuilt.cluster.topics[key] == "orders")
    assert (orders[0]["replicas"], orders[0]["isr"]) == ([1, 2, 3], [1, 2, 3])
    for node in (1, 2, 3):
        assert brokerless.open(tmp_path / "to" / f"node-{node}").restart(remote=tmp_path / "copy").is_harmless


def test_the_metadata_of_remote_segments_has_replicas_on_three_nodes(tmp_path: Path) -> None:
    brokerless.backup(three_nodes(tmp_path), tmp_path / "backup")
    rebuilt = brokerless.rebuild(
        f"{tmp_path / 'backup'}@latest", tmp_path / "to", spread=True, in_bucket=True, copy_to=tmp_path / "copy",
        apply=True,
    )  # fmt: skip
    metadata_id = rebuilt.cluster.id_of("__remote_log_metadata")
    rows = rebuilt.cluster.partitions[metadata_id or ""]
    assert [sorted(row["isr"]) for row in rows.values()] == [[1, 2, 3]] * 50
    assert {row["replicas"][0] for row in rows.values()} == {1, 2, 3}
    logs = [
        {each.parent.name: each.read_bytes() for each in (tmp_path / "to").glob(f"node-{node}/__remote_log_*/*.log")}
        for node in (1, 2, 3)
    ]
    assert len(logs[0]) == 50
    assert logs[0] == logs[1] == logs[2]


def test_a_topic_with_an_open_transaction_is_written(stored: str, tmp_path: Path, monkeypatch: Any) -> None:
    def with_open(location: Location, data: bytes) -> Snapshot:
        found = parse_snapshot(location, data)
        own = (OngoingTransaction(1, 7),)
        partitions = (
            replace(each, open_transactions=own) if each.name == "orders-1" else each for each in found.partitions
        )
        return replace(found, partitions=tuple(partitions))

    monkeypatch.setattr("brokerless.log.backups.place.parse_snapshot", with_open)
    rebuilt = brokerless.rebuild(stored, tmp_path / "to", in_bucket=True, read_only_credentials=True, apply=True)
    (found,) = (each for each in rebuilt.findings if each.kind == "remote-transaction-open")
    assert (found.severity, found.offset) == ("info", 7)
    assert local_logs(tmp_path / "to" / "node-1", "orders")
    assert not local_logs(tmp_path / "to" / "node-1", "payments")


def test_the_backup_itself_is_refused_unless_brokers_cannot_delete(stored: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give copy_to=URL, or read_only_credentials="):
        brokerless.rebuild(stored, tmp_path / "to", in_bucket=True)
    before = objects_in(tmp_path / "backup")
    brokerless.rebuild(stored, tmp_path / "to", in_bucket=True, read_only_credentials=True, apply=True)
    assert objects_in(tmp_path / "backup") == before


@pytest.mark.parametrize(
    ("path", "options", "reason"),
    [
        ("stored", {"copy_to": "copy"}, "are for in_bucket="),
        ("stored", {"read_only_credentials": True}, "are for in_bucket="),
        ("stored", {"in_bucket": True, "from_bucket": "bucket"}, "from_bucket= is for the bucket of brokers"),
        ("stored", {"in_bucket": True, "copy_to": "copy", "read_only_credentials": True}, "give one of copy_to="),
        ("disk", {"in_bucket": True, "copy_to": "copy"}, "in_bucket= is for a snapshot"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    path: str, options: dict[str, Any], reason: str, stored: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=reason):
        brokerless.rebuild(stored if path == "stored" else DEMO, tmp_path / "to", **options)


def test_the_command_line_does_the_same_and_its_warning_is_of_the_settings_of_the_storage(
    stored: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to, copy = tmp_path / "to", tmp_path / "copy"
    assert main(["rebuild", stored, "--to", str(to), "--in-bucket", "--copy-to", str(copy), "--apply", "--json"]) == 1
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = {(row["topic"], row["partition"]) for row in rows if row["table"] == "remotePartitions"}
    assert found == {("orders", 0), ("orders", 1), ("orders", 2), ("payments", 0)}
    assert [row["kind"] for row in rows if row["table"] == "findings"] == ["remote-storage-settings"]
