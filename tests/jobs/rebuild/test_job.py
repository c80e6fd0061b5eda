"""Directories rebuilt of a real broker's disk: the same topics, logs and settings, and nothing that was not there.

``tests/kafka/test_rebuilt.py`` starts brokers on such directories.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.golden import broker_data
from tests.lock_holder import held_by_another

import brokerless
from brokerless import UnreadableError, UsageError
from brokerless.internals.metadata.cluster import read_cluster
from brokerless.jobs.rebuild.nodes import Node, NodeListener, server_properties
from brokerless.jobs.rebuild.plan import Rebuild
from brokerless.log.storage.atomic import write_file

DEMO = Path(__file__).parents[3] / "demo" / "data"
METADATA = "__cluster_metadata-0"


def disk(target: Path, *without: str) -> Path:
    """A copy of the demo's disk."""
    shutil.copytree(DEMO, target, ignore=shutil.ignore_patterns(*without))
    return target


def tables(path: Path | str, *names: str) -> dict[str, list[dict[str, Any]]]:
    found = brokerless.cluster(path)
    return {name: found.table(name).to_pylist() for name in names}


def records(path: Path, topic: str) -> list[tuple[Any, ...]]:
    log = brokerless.open(path)
    columns = ["partition", "offset", "timestamp", "key", "value"]
    batches = [batch for each in log.topic(topic).partitions for batch in each.records(columns)]
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def kinds(rebuilt: Rebuild) -> list[str]:
    return sorted({each.kind for each in rebuilt.findings})


def contents(path: Path) -> dict[str, bytes]:
    files = (
        each for each in sorted(path.rglob("*")) if each.is_file() and each.name not in (".lock", ".brokerless-lock")
    )
    return {str(each.relative_to(path)): each.read_bytes() for each in files}


def test_nothing_is_written_without_apply(tmp_path: Path) -> None:
    before = contents(DEMO)
    planned = brokerless.rebuild(DEMO, tmp_path / "to")
    assert not planned.is_applied
    assert not (tmp_path / "to").exists()
    assert contents(DEMO) == before


@pytest.mark.parametrize("data", ["copy", "link"])
def test_topics_settings_and_records_are_those_of_the_disk(tmp_path: Path, data: Any) -> None:
    source = disk(tmp_path / "disk")
    rebuilt = brokerless.rebuild(source, tmp_path / "to", data=data, apply=True)
    assert rebuilt.is_applied
    assert not rebuilt.lost
    assert not rebuilt.findings
    node = tmp_path / "to" / "node-1"
    names = ("topics", "configs", "acls", "users", "quotas", "features", "groups", "offsets")
    assert tables(node, *names) == tables(source, *names)
    for topic in ("orders", "users", "payments"):
        assert records(node, topic) == records(source, topic)
    assert (node / ".kafka_cleanshutdown").exists()
    links = [(node / name).samefile(source / name) for name in map(str, _logs(source))]
    assert any(links) == (data == "link")
    assert contents(source) == contents(DEMO)


@pytest.mark.parametrize("data", ["copy", "link"])
def test_indexes_that_only_a_clean_stop_trusts_are_made_again(tmp_path: Path, data: Any) -> None:
    """Without its transaction index, a broker would show aborted records of a segment that it takes for closed."""
    source = tmp_path / "disk"
    shutil.copytree(broker_data("clean"), source)
    lost = sorted((source / "txn-1").glob("*.txnindex"))
    kept = {each.name: each.read_bytes() for each in lost}
    for each in lost:
        each.unlink()
    brokerless.rebuild(source, tmp_path / "to", data=data, apply=True)
    (node,) = (each for each in (tmp_path / "to").iterdir() if each.is_dir())
    assert {each.name: each.read_bytes() for each in (node / "txn-1").glob("*.txnindex")} == kept
    assert brokerless.open(node).partition("txn", 1).restart().partitions[0].misled == ()


def _logs(path: Path) -> list[Path]:
    found = sorted(each.relative_to(path) for each in path.glob("*/*.log"))
    return [each for each in found if each.parent.name != METADATA]


def test_a_dry_run_of_a_start_on_what_was_written_knows_the_topics_and_foresees_nothing_stray(tmp_path: Path) -> None:
    source = disk(tmp_path / "disk")
    brokerless.rebuild(source, tmp_path / "to", apply=True)
    node = tmp_path / "to" / "node-1"
    *partitions, directory = _restart(node)
    assert directory["isStateKnown"]
    assert [each["stray"] for each in partitions] == [None] * 8
    (node / "orders-0").rename(node / "orders-7")
    assert [each["partition"] for each in _restart(node)[:-1] if each["stray"]] == [7]


def _restart(path: Path) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "brokerless", "restart", str(path), "--json"]
    result = subprocess.run(command, capture_output=True, check=False)
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_all_is_synced_before_a_directory_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[bool, int]] = []

    def sync(_: int) -> None:
        scratch = tmp_path / "to" / ".brokerless-rebuild"
        seen.append(((tmp_path / "to" / "node-1").exists(), len(list(scratch.glob("node-1/*/*.log")))))

    monkeypatch.setattr("brokerless.log.storage.guarded_files.sync_file_system", sync)
    brokerless.rebuild(disk(tmp_path / "disk"), tmp_path / "to", apply=True)
    assert seen == [(False, len(_logs(DEMO)))]


def test_the_last_segment_is_never_a_link_for_a_broker_appends_to_it(tmp_path: Path) -> None:
    source = disk(tmp_path / "disk")
    brokerless.rebuild(source, tmp_path / "to", data="link", apply=True)
    last = max(path.name for path in _logs(source) if path.parent.name == "orders-0")
    assert not (source / "orders-0" / last).samefile(tmp_path / "to" / "node-1" / "orders-0" / last)


def test_partitions_get_epochs_above_all_that_the_logs_have_and_no_leader(tmp_path: Path) -> None:
    source = disk(tmp_path / "disk")
    (source / "orders-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n41 1265\n")
    rebuilt = brokerless.rebuild(source, tmp_path / "to", apply=True)
    before, after = (
        {(row["topic"], row["partition"]): row for row in tables(path, "partitions")["partitions"]}
        for path in (DEMO, tmp_path / "to" / "node-1")
    )
    for place, row in after.items():
        expected = 42 if place == ("orders", 0) else before[place]["leaderEpoch"] + 1
        assert (row["leader"], row["leaderEpoch"], row["isr"]) == (-1, expected, [1])
    directory_ids = {tuple(row["directories"]) for rows in rebuilt.cluster.partitions.values() for row in rows.values()}
    assert directory_ids == {(rebuilt.directories[0].directory_id,)}


def test_the_metadata_counts_up_to_its_first_damaged_batch(tmp_path: Path) -> None:
    source = disk(tmp_path / "disk")
    (log,) = (source / METADATA).glob("*.log")
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    rebuilt = brokerless.rebuild(source, tmp_path / "to", apply=True)
    assert "checksum-mismatch" in kinds(rebuilt)
    whole = brokerless.cluster(DEMO).metadata
    assert whole is not None
    assert rebuilt.offset < whole.end_offset
    assert set(rebuilt.cluster.topics) <= {row["topicId"] for row in tables(DEMO, "topics")["topics"]}


def test_of_directories_alone_ids_stay_and_what_is_lost_is_listed(tmp_path: Path) -> None:
    source = disk(tmp_path / "disk", METADATA, "meta.properties", "bootstrap.checkpoint")
    shutil.rmtree(source / "orders-1")
    rebuilt = brokerless.rebuild(source, tmp_path / "to", apply=True)
    ids = {row["topic"]: row["topicId"] for row in tables(DEMO, "topics")["topics"]}
    assert {name: known for known, name in rebuilt.cluster.topics.items()} == ids
    assert {"ACLs", "SCRAM users", "settings of topic orders"} <= set(rebuilt.lost)
    assert kinds(rebuilt) == ["meta-properties-missing", "partition-missing", "topic-settings-lost"]
    configs = {name: each for (_, name), each in rebuilt.cluster.configs.items() if each}
    assert configs["__consumer_offsets"]["cleanup.policy"] == "compact"
    assert configs["__transaction_state"]["min.insync.replicas"] == "1"  # of one replica that is left
    assert configs["users"] == {"cleanup.policy": "compact"}  # the cleaner's checkpoint has it
    assert (configs["orders"], configs["payments"]) == ({"retention.ms": "-1"}, {"retention.ms": "-1"})
    assert len(rebuilt.cluster.partitions[ids["orders"]]) == 3
    assert records(tmp_path / "to" / "node-1", "users") == records(DEMO, "users")


def test_a_lost_node_of_both_roles_comes_back_as_a_controller_with_a_controllers_listeners(tmp_path: Path) -> None:
    """A controller does not start with a broker's listeners, nor a broker with its controllers'."""
    both = (NodeListener("PLAINTEXT", "h", 1, "PLAINTEXT"), NodeListener("SASL", "h", 2, "SASL_PLAINTEXT"))
    quorum = NodeListener("CONTROLLER", "h", 3, "PLAINTEXT")
    nodes = [
        Node(1, 1, ("broker", "controller"), (*both, quorum), None, (), "CONTROLLER"),
        Node(2, 2, ("controller",), (*both, quorum), None, (), "CONTROLLER"),
        Node(3, 3, ("broker",), (*both, quorum), None, (), None),
    ]
    found = [server_properties(each, nodes, ["/d"], is_dynamic=False)["listeners"] for each in nodes]
    own = "PLAINTEXT://h:1,SASL://h:2"
    assert found == [f"{own},CONTROLLER://h:3", "CONTROLLER://h:3", own]


def test_producer_ids_are_above_all_that_were_used(tmp_path: Path) -> None:
    with_metadata = brokerless.rebuild(DEMO, tmp_path / "a")
    without = brokerless.rebuild(DEMO, tmp_path / "b", without_metadata=True)
    used = max(
        max(batch.column("producerId").to_pylist())
        for each in brokerless.open(DEMO).partitions
        for batch in each.batches(["producerId"])
    )
    for each in (with_metadata, without):
        following = each.cluster.next_producer_id
        assert following is not None
        assert following > used
        assert following % 1000 == 0


def test_the_tables_that_a_dry_run_prints_are_a_state_to_rebuild_from(tmp_path: Path) -> None:
    from brokerless.views.internals.rebuild import rebuild_rows

    first = brokerless.rebuild(DEMO, tmp_path / "to")
    file = tmp_path / "state.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rebuild_rows(first)))
    again = brokerless.rebuild(DEMO, tmp_path / "to", state=file)
    assert again.cluster.topics == first.cluster.topics
    assert again.cluster.configs == first.cluster.configs
    assert again.cluster.features == first.cluster.features
    assert again.held.keys() == first.held.keys()


def test_edited_tables_are_the_state_and_what_does_not_fit_is_refused_with_its_line(tmp_path: Path) -> None:
    lines = [{"table": name, **row} for name, rows in brokerless.cluster(DEMO).rows.items() for row in rows]
    lines.append({"table": "acls", "id": "A" * 21 + "g", "resourceType": 2, "resourceName": "orders", "patternType": 3,
                  "principal": "User:alice", "host": "*", "operation": 3, "permissionType": 3})  # fmt: skip
    lines.append(
        {"table": "users", "name": "alice", "mechanism": "SCRAM-SHA-256", "iterations": 4096, "salt": "AA==",
         "storedKey": "AQ==", "serverKey": "Ag=="}
    )  # fmt: skip
    lines = [each for each in lines if each.get("resourceName") != "users"]
    file = tmp_path / "edited.jsonl"
    file.write_text("\n\n".join(map(json.dumps, lines)))
    rebuilt = brokerless.rebuild(DEMO, tmp_path / "to", state=file, apply=True)
    found = tables(tmp_path / "to" / "node-1", "acls", "users", "configs")
    assert [row["principal"] for row in found["acls"]] == ["User:alice"]
    assert [row["storedKey"] for row in found["users"]] == ["AQ=="]
    assert "users" not in {row["resourceName"] for row in found["configs"]}
    assert rebuilt.cluster.topics.keys() == {row["topicId"] for row in tables(DEMO, "topics")["topics"]}
    for wrong in (
        '{"table": "topics", "topic": "x"}', "[]", "no JSON", '{"table": "topics", "topic": 1, "topicId": "x"}',
        '{"table": "users", "mechanism": "x"}', '{"table": "configs", "resourceType": "x"}',
    ):  # fmt: skip
        file.write_text(f"\n{wrong}\n")
        with pytest.raises(UsageError, match="line 2: "):
            brokerless.rebuild(DEMO, tmp_path / "b", state=file)


@pytest.mark.parametrize(("line", "reason"), [
    ('{"table": "config", "resourceType": "topic"}', "there is no table 'config'; near are configs"),
    ('{"topic": "a"}', "there is no table's name, as table; there are topics, partitions"),
    ('{"table": "configs", "resourceType": ["topic"]}', "of another type"),
    ('{"table": "users", "mechanism": []}', "of another type"),
    ('{"table": "topics", "topic": ' + "[" * 100_000 + "}", "nested too deep"),
])  # fmt: skip
def test_a_table_that_is_unknown_and_a_row_that_is_none_are_refused_in_plain_words(
    tmp_path: Path, line: str, reason: str
) -> None:
    file = tmp_path / "edited.jsonl"
    file.write_text(line)
    with pytest.raises(UsageError, match="line 1: ") as caught:
        brokerless.rebuild(DEMO, tmp_path / "to", state=file)
    assert reason in str(caught.value)


def test_the_state_can_be_that_of_a_snapshot_or_log_that_is_given(tmp_path: Path) -> None:
    brokerless.rebuild(DEMO, tmp_path / "first", apply=True)
    (snapshot,) = (tmp_path / "first" / "node-1" / METADATA).glob("*.checkpoint")
    source = disk(tmp_path / "disk", METADATA)
    again = brokerless.rebuild(source, tmp_path / "to", state=snapshot, apply=True)
    assert tables(tmp_path / "to" / "node-1", "topics", "configs") == tables(DEMO, "topics", "configs")
    (before,) = brokerless.open(snapshot).partitions
    assert again.cluster.configs == read_cluster(before.paths[0], pytest.fail).configs
    assert again.epoch > int(snapshot.name[21:31])


def test_stray_and_deleted_directories_are_left_out_and_reported(tmp_path: Path) -> None:
    source = disk(tmp_path / "disk")
    unique = "3e17" * 8
    for topic, state in (("payments", "stray"), ("payments", "delete"), ("payments", "future"), ("gone", "delete")):
        shutil.copytree(source / "payments-0", source / f"{topic}-0.{unique}-{state}")
    (source / "users-0").rename(source / f"users-0.{unique}-stray")
    rebuilt = brokerless.rebuild(source, tmp_path / "to", apply=True)
    found = {
        Path(each.file).name: (each.severity, each.kind) for each in rebuilt.findings if unique in each.file
    }  # fmt: skip
    assert found == {
        f"payments-0.{unique}-stray": ("info", "stray-directory"),
        f"payments-0.{unique}-delete": ("info", "deleted-directory"),
        f"payments-0.{unique}-future": ("error", "future-repeated"),
        f"gone-0.{unique}-delete": ("info", "deleted-directory"),
        f"users-0.{unique}-stray": ("warning", "stray-directory"),
    }
    assert not list((tmp_path / "to" / "node-1").glob(f"*{unique}*"))
    (source / f"users-0.{unique}-stray").rename(source / "users-0")
    kinds_then = {
        each.kind for each in brokerless.rebuild(source, tmp_path / "again").findings if each.severity != "info"
    }
    assert kinds_then == {"future-repeated"}


def test_what_the_metadata_does_not_know_is_left_out_unless_it_is_adopted(tmp_path: Path) -> None:
    source = disk(tmp_path / "disk")
    shutil.copytree(source / "payments-0", source / "unknown-0")
    metadata = source / "unknown-0" / "partition.metadata"
    metadata.write_text(f"version: 0\ntopic_id: {'B' * 21}A")
    left_out = brokerless.rebuild(source, tmp_path / "a", apply=True)
    assert kinds(left_out) == ["topic-unknown"]
    assert not (tmp_path / "a" / "node-1" / "unknown-0").exists()
    adopted = brokerless.rebuild(source, tmp_path / "b", adopt=True, apply=True)
    assert adopted.lost == ("settings of topic unknown",)
    assert records(tmp_path / "b" / "node-1", "unknown") == records(source, "payments")


def test_in_place_only_the_metadata_changes_and_undo_puts_it_back(tmp_path: Path) -> None:
    source = disk(tmp_path / "disk")
    (source / "orders-0" / "partition.metadata").unlink()
    before = contents(source)
    rebuilt = brokerless.rebuild(source, tmp_path / "to", data="in-place", quorum="dynamic", apply=True)
    after = contents(source)
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert {name for name in changed if not name.startswith(METADATA)} == {
        "meta.properties", "orders-0/partition.metadata",
    }  # fmt: skip
    assert tables(source, "topics", "configs") == tables(DEMO, "topics", "configs")
    assert [each.path for each in rebuilt.directories] == [str(source)]
    with pytest.raises(UsageError, match="undo it with undo="):
        brokerless.rebuild(source, tmp_path / "to", data="in-place", apply=True)
    assert brokerless.undo_rebuild(source, tmp_path / "to") == (str(source),)
    assert contents(source) == before
    assert not list((tmp_path / "to").iterdir())
    with pytest.raises(UnreadableError):
        brokerless.undo_rebuild(source, tmp_path / "to")


@pytest.mark.parametrize("broken", [b"", b"version: 0\ntopic_id: no", b"\xff" * 9])
def test_undo_puts_back_a_partition_metadata_that_could_not_be_read(tmp_path: Path, broken: bytes) -> None:
    source = disk(tmp_path / "disk")
    (source / "orders-0" / "partition.metadata").write_bytes(broken)
    (source / "orders-1" / "partition.metadata").unlink()
    before = contents(source)
    brokerless.rebuild(source, tmp_path / "to", data="in-place", apply=True)
    written = {(source / f"orders-{number}" / "partition.metadata").read_bytes() for number in range(3)}
    assert written == {before["orders-2/partition.metadata"]}
    brokerless.undo_rebuild(source, tmp_path / "to")
    assert contents(source) == before


def test_undo_refuses_where_a_broker_has_run_since_or_the_saved_files_changed(tmp_path: Path) -> None:
    source = disk(tmp_path / "disk")
    before = contents(source)
    brokerless.rebuild(source, tmp_path / "to", data="in-place", apply=True)
    (log := source / METADATA / f"{86:020}.log").write_bytes(b"")
    with pytest.raises(UsageError, match="a broker has run here since"):
        brokerless.undo_rebuild(source, tmp_path / "to")
    log.unlink()
    saved = tmp_path / "to" / "rebuild-saved" / "0" / "meta.properties"
    text = saved.read_bytes()
    saved.write_bytes(text + b"#")
    with pytest.raises(UnreadableError, match="not what was saved"):
        brokerless.undo_rebuild(source, tmp_path / "to")
    saved.write_bytes(text)
    log.write_bytes(b"")
    brokerless.undo_rebuild(source, tmp_path / "to", force=True)
    assert contents(source) == before


def test_a_rebuild_that_was_killed_in_place_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = disk(tmp_path / "disk")
    before = contents(source)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("brokerless.jobs.rebuild.in_place.write_metadata", killed)
    with pytest.raises(KeyboardInterrupt):
        brokerless.rebuild(source, tmp_path / "to", data="in-place", apply=True)
    assert not (source / "meta.properties").exists()
    brokerless.undo_rebuild(source, tmp_path / "to")
    assert contents(source) == before


def test_an_undo_that_was_killed_is_completed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = disk(tmp_path / "disk")
    before = contents(source)
    brokerless.rebuild(source, tmp_path / "to", data="in-place", apply=True)

    def killed(path: Path, data: bytes) -> None:
        write_file(path, data)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("brokerless.jobs.rebuild.in_place.write_file", killed)
        with pytest.raises(KeyboardInterrupt):
            brokerless.undo_rebuild(source, tmp_path / "to")
    assert list((source / METADATA).iterdir())
    brokerless.undo_rebuild(source, tmp_path / "to")
    assert contents(source) == before


def test_what_a_killed_run_left_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("brokerless.jobs.rebuild.node_directories.write_properties", killed)
        with pytest.raises(KeyboardInterrupt):
            brokerless.rebuild(DEMO, tmp_path / "to", apply=True)
    assert not (tmp_path / "to" / "node-1").exists()
    brokerless.rebuild(DEMO, tmp_path / "to", apply=True)
    assert {each.name for each in (tmp_path / "to").iterdir()} == {"node-1"}


def test_a_journal_that_names_other_files_is_refused(tmp_path: Path) -> None:
    entry = {"path": str(tmp_path), "files": {"../victim": "0"}, "hasMetadata": True, "addedTo": []}
    journal = {"brokerless": "rebuild", "format": 1, "directories": [entry], "new": {}}
    added = {**entry, "files": {}, "addedTo": ["/"]}
    for wrong in (journal, {**journal, "format": 0}, {**journal, "directories": [added]}):
        (tmp_path / "rebuild-journal.json").write_text(json.dumps(wrong))
        with pytest.raises(UnreadableError, match="not a journal of brokerless rebuild"):
            brokerless.undo_rebuild(DEMO, tmp_path)
    of_another = {**entry, "files": {}}
    (tmp_path / "rebuild-journal.json").write_text(json.dumps({**journal, "directories": [of_another]}))
    with pytest.raises(UsageError, match="name that directory, too"):
        brokerless.undo_rebuild(DEMO, tmp_path)


def test_disks_that_are_in_use_or_of_several_clusters_are_refused(tmp_path: Path) -> None:
    one, other = disk(tmp_path / "one"), disk(tmp_path / "other")
    with pytest.raises(UsageError, match="give one of both"):
        brokerless.rebuild([one, other], tmp_path / "to")
    text = (other / "meta.properties").read_text().replace("bdhh6u6GT8yYm_jDxKDkxQ", "x" * 22)
    (other / "meta.properties").write_text(text)
    with pytest.raises(UsageError, match="of several clusters"):
        brokerless.rebuild([one, other], tmp_path / "to")
    with pytest.raises(UsageError, match="is not a log directory"):
        brokerless.rebuild(one / "orders-0", tmp_path / "to")
    with pytest.raises(UsageError, match="write to another directory"):
        brokerless.rebuild(one, one / "to")
    (tmp_path / "to" / "node-1" / "x").mkdir(parents=True)
    with pytest.raises(UsageError, match="exists already"):
        brokerless.rebuild(one, tmp_path / "to")
    with held_by_another(one), pytest.raises(UsageError, match="is running on this log directory; stop it"):
        brokerless.rebuild(one, tmp_path / "b")


def test_disks_that_stay_in_place_may_not_have_a_partition_twice(tmp_path: Path) -> None:
    one, other = disk(tmp_path / "one"), disk(tmp_path / "other", METADATA)
    text = (other / "meta.properties").read_text()
    found = next(line for line in text.splitlines() if line.startswith("directory.id="))
    (other / "meta.properties").write_text(text.replace(found, f"directory.id={'B' * 21}A"))
    with pytest.raises(UsageError, match=r"no broker starts on both.*give data=copy"):
        brokerless.rebuild([one, other], tmp_path / "to", data="in-place")
    rebuilt = brokerless.rebuild([one, other], tmp_path / "to", apply=True)
    assert kinds(rebuilt) == ["partition-repeated"]
    assert len(list((tmp_path / "to").glob("node-1*/orders-0"))) == 1


def test_a_version_that_cannot_express_the_state_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"does not know eligible.*; give metadata_version=4"):
        brokerless.rebuild(DEMO, tmp_path / "to", metadata_version="3.9")
    with pytest.raises(UsageError, match="no metadata version"):
        brokerless.rebuild(DEMO, tmp_path / "to", metadata_version="2.8")
    of_the_future = tmp_path / "state.jsonl"
    of_the_future.write_text('{"table": "features", "name": "metadata.version", "featureLevel": 99}\n')
    with pytest.raises(UsageError, match=r"is 99, and the newest that is known here is 33.*use a newer brokerless"):
        brokerless.rebuild(DEMO, tmp_path / "to", state=of_the_future, adopt=True)
    with pytest.raises(UsageError, match=r"a dynamic quorum needs metadata version 3\.9 or newer"):
        brokerless.rebuild(DEMO, tmp_path / "to", without_metadata=True, quorum="dynamic", metadata_version="3.8")
    newer = brokerless.rebuild(DEMO, tmp_path / "to", metadata_version="4.4", apply=True)
    assert newer.level == 33
    (features,) = [
        row for row in tables(tmp_path / "to" / "node-1", "features")["features"] if row["name"] == "metadata.version"
    ]
    assert features["featureLevel"] == 33


@pytest.mark.parametrize("data", ["copy", "link"])
def test_small_files_that_a_start_parses_are_written_again(tmp_path: Path, data: Any) -> None:
    source = disk(tmp_path / "disk")
    whole = contents(source)
    break_small_files(source)
    rebuilt = brokerless.rebuild(source, tmp_path / "to", data=data, apply=True)
    assert {(each.kind, each.severity) for each in rebuilt.findings} == {
        ("checkpoint-corrupt", "warning"),
        ("partition-metadata-corrupt", "warning"),
        ("partition-metadata-missing", "warning"),
    }
    after = contents(tmp_path / "to" / "node-1")
    for name in (
        "orders-0/partition.metadata",
        "__consumer_offsets-0/partition.metadata",
        "orders-1/leader-epoch-checkpoint",
    ):
        assert after[name].strip() == whole[name].strip()


def test_a_checkpoint_of_epochs_that_stays_in_place_is_an_error(tmp_path: Path) -> None:
    source = disk(tmp_path / "disk")
    break_small_files(source)
    rebuilt = brokerless.rebuild(source, tmp_path / "to", data="in-place")
    (finding,) = [each for each in rebuilt.findings if each.severity == "error"]
    assert (finding.kind, finding.severity) == ("checkpoint-corrupt", "error")
    assert "give data=" in str(finding)


def break_small_files(source: Path) -> None:
    """As after a power cut (KAFKA-16814, KAFKA-16541)."""
    (source / "orders-0" / "partition.metadata").write_bytes(b"")
    (source / "__consumer_offsets-0" / "partition.metadata").unlink()
    (source / "orders-1" / "leader-epoch-checkpoint").write_text("0\n3\n0 0\n")


def test_settings_that_a_kafka_refuses_are_reported_with_the_remedy(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "brokerless", "internals", str(DEMO / METADATA), "--json"]
    rows = [json.loads(row) for row in subprocess.run(line, capture_output=True, check=True).stdout.splitlines()]
    of_any_version = [each for each in rows if each["table"] != "features" or each["name"] == "metadata.version"]
    setting = {"table": "configs", "resourceType": "topic", "resourceName": "orders"}
    refused = {**setting, "name": "segment.bytes", "value": "16384"}
    file = tmp_path / "edited.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in [*of_any_version, refused]))
    severities = {}
    for version in ("3.9", "4.4"):
        rebuilt = brokerless.rebuild(DEMO, tmp_path / "to", state=file, metadata_version=version)
        (finding,) = [each for each in rebuilt.findings if each.kind == "setting-refused"]
        assert finding.found == "segment.bytes=16384"
        assert ("ends Kafka 4.1 to 4.4 at" if version == "3.9" else "Kafka 4.4.0 ends at") in finding.message
        assert "kafka-configs" in finding.message
        severities[version] = finding.severity
    assert severities == {"3.9": "warning", "4.4": "error"}


def test_a_reserved_directory_id_is_not_taken_over(tmp_path: Path) -> None:
    source = disk(tmp_path / "disk")
    properties = source / "meta.properties"
    lines = [line for line in properties.read_text().splitlines() if not line.startswith("directory.id")]
    properties.write_text("\n".join([*lines, f"directory.id={'A' * 21}Q", ""]))
    rebuilt = brokerless.rebuild(source, tmp_path / "to", apply=True)
    assert rebuilt.directories[0].directory_id != f"{'A' * 21}Q"
    assert not [each["refused"] for each in _restart(tmp_path / "to" / "node-1") if each["refused"]]
