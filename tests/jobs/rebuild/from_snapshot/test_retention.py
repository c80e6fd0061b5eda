"""What retention deletes of a restored cluster is named, and paused. Oracle: the dry run of a start on the result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.jobs.backup.disks import DEMO

import brokerless
from brokerless.cli import main
from brokerless.jobs.rebuild.from_snapshot.retention import PausedRetention
from brokerless.jobs.rebuild.plan import Rebuild
from brokerless.views.internals.rebuild import rebuild_rows

SETTINGS = {
    "orders": {"retention.ms": "60000"},
    "payments": {"cleanup.policy": "compact,delete"},
    "users": {"cleanup.policy": "compact", "retention.ms": "1"},
}


def config(topic: str, name: str, value: str) -> dict[str, str]:
    return {"table": "configs", "resourceType": "topic", "resourceName": topic, "name": name, "value": value}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The demo's state with other settings of retention."""
    rows = [
        each
        for each in rebuild_rows(brokerless.rebuild(DEMO, tmp_path / "to"))
        if each["table"] != "configs"
        or not each["name"].startswith(("retention", "cleanup"))
        or each["resourceName"][:2] == "__"
    ]
    rows += [config(topic, *setting) for topic, own in SETTINGS.items() for setting in own.items()]
    file = tmp_path / "state.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in rows))
    return file


@pytest.fixture
def stored(tmp_path: Path) -> str:
    brokerless.backup(DEMO, tmp_path / "backup")
    return f"{tmp_path / 'backup'}@latest"


def expiring(rebuilt: Rebuild) -> dict[str, str | None]:
    return {each.message.partition(":")[0]: each.found for each in rebuilt.findings if each.kind == "retention-deletes"}


def deleted_at_a_start(node: Path) -> set[str | None]:
    return {each.topic for each in brokerless.open(node).restart().partitions if each.retention is not None}


def test_what_a_start_would_delete_is_a_warning_of_the_plan(state: Path, stored: str, tmp_path: Path) -> None:
    rebuilt = brokerless.rebuild(stored, tmp_path / "to", state=state, apply=True)
    assert expiring(rebuilt) == {"orders": "retention.ms=60000", "payments": "retention.ms=604800000, Kafka's default"}
    assert deleted_at_a_start(tmp_path / "to" / "node-1") == {"orders", "payments"}
    (orders, _) = (each for each in rebuilt.findings if each.kind == "retention-deletes")
    assert "3,796 records" in orders.message


def test_retention_is_paused_and_what_was_is_known(state: Path, stored: str, tmp_path: Path) -> None:
    rebuilt = brokerless.rebuild(stored, tmp_path / "to", state=state, pause_retention=True, apply=True)
    assert rebuilt.paused == (PausedRetention("orders", "60000"), PausedRetention("payments", None))
    assert expiring(rebuilt) == {}
    assert deleted_at_a_start(tmp_path / "to" / "node-1") == set()
    configs = {(key[1], name): value for key, own in rebuilt.cluster.configs.items() for name, value in own.items()}
    assert {topic: configs.get((topic, "retention.ms")) for topic in SETTINGS} == {
        "orders": "-1", "payments": "-1", "users": "1",
    }  # fmt: skip


def test_what_goes_by_size_is_still_named(state: Path, tmp_path: Path) -> None:
    brokerless.backup(DEMO, tmp_path / "backup", segment_size=30_000)
    state.write_text(state.read_text() + json.dumps(config("orders", "retention.bytes", "50000")) + "\n")
    rebuilt = brokerless.rebuild(f"{tmp_path / 'backup'}@latest", tmp_path / "to", state=state, pause_retention=True)
    assert expiring(rebuilt) == {"orders": "retention.bytes=50000"}


def test_the_command_line_shows_how_to_set_it_back(
    state: Path, stored: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command: list[Any] = ["rebuild", stored, "--to", tmp_path / "to", "--state", state, "--pause-retention"]
    assert main([*map(str, command)]) == 0
    shown = capsys.readouterr().out
    assert "--entity-name orders --add-config retention.ms=60000\n" in shown
    assert "--entity-name payments --delete-config retention.ms\n" in shown
    assert main([*map(str, command), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row for row in rows if row["table"] == "pausedRetention"] == [
        {"table": "pausedRetention", "topic": "orders", "retentionMs": "60000"},
        {"table": "pausedRetention", "topic": "payments", "retentionMs": None},
    ]
