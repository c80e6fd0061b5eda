"""What a killed ``rebuild`` left is removed by the next run, and nothing else is.

``python -m tests.jobs.rebuild.killed`` kills it at random moments.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import brokerless
from brokerless import UnreadableError, UsageError

DEMO = Path(__file__).parents[3] / "demo" / "data"
METADATA = "__cluster_metadata-0"


def killed_while_names_are_given(to: Path, patch: pytest.MonkeyPatch, source: Path = DEMO, **how: str) -> None:
    """A run that ends after the first new directory has its name."""
    controllers = [
        {"id": number, "roles": ["controller"], "listeners": {"CONTROLLER": f"localhost:{number}"}} for number in (8, 9)
    ]
    nodes = [{"id": 1, "roles": ["broker"], "listeners": {"PLAINTEXT": "localhost:1"}}, *controllers]
    (to.parent / "nodes.json").write_text(json.dumps({"nodes": nodes}))
    from brokerless.jobs.rebuild import node_directories

    def rename(source: Path, target: Path) -> None:
        source.rename(target)
        raise KeyboardInterrupt

    with patch.context() as inner:
        inner.setattr(node_directories, "rename", rename)
        with pytest.raises(KeyboardInterrupt):
            brokerless.rebuild(source, to, mapping=to.parent / "nodes.json", apply=True, **how)  # type: ignore[arg-type]


def test_the_same_command_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    to = tmp_path / "to"
    killed_while_names_are_given(to, monkeypatch)
    assert {each.name for each in to.iterdir()} == {"node-1", ".brokerless-rebuild"}
    before = (to / "node-1").stat().st_ino
    planned = brokerless.rebuild(DEMO, to, mapping=tmp_path / "nodes.json")
    assert not planned.is_applied
    assert (to / "node-1").stat().st_ino == before
    brokerless.rebuild(DEMO, to, mapping=tmp_path / "nodes.json", apply=True)
    assert {each.name for each in to.iterdir()} == {"node-1", "node-8", "node-9"}
    with pytest.raises(UsageError, match="exists already"):
        brokerless.rebuild(DEMO, to, mapping=tmp_path / "nodes.json", apply=True)


def test_where_a_broker_has_run_nothing_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    to = tmp_path / "to"
    killed_while_names_are_given(to, monkeypatch)
    (to / "node-1" / METADATA / f"{85:020}.log").touch()
    with pytest.raises(UsageError, match="a broker has run on it since"):
        brokerless.rebuild(DEMO, to, mapping=tmp_path / "nodes.json", apply=True)


def test_another_directory_of_that_name_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    to = tmp_path / "to"
    killed_while_names_are_given(to, monkeypatch)
    shutil.move(to / "node-1", tmp_path / "elsewhere")
    shutil.copytree(tmp_path / "elsewhere", to / "node-1")
    with pytest.raises(UsageError, match="exists already"):
        brokerless.rebuild(DEMO, to, mapping=tmp_path / "nodes.json", apply=True)
    (to / "node-1").rename(tmp_path / "copy")
    (to / "node-1").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="exists already"):
        brokerless.rebuild(DEMO, to, mapping=tmp_path / "nodes.json", apply=True)
    assert (tmp_path / "elsewhere" / "meta.properties").exists()


def test_a_record_with_other_names_is_refused(tmp_path: Path) -> None:
    record = tmp_path / "to" / ".brokerless-rebuild" / "named.json"
    record.parent.mkdir(parents=True)
    for wrong in ('{"../victim": 1}', '{"node-1/..": 1}', '{"node-1": "x"}', "[]"):
        record.write_text(f'{{"version": 1, "directories": {wrong}}}')
        with pytest.raises(UnreadableError, match="not a record of brokerless rebuild"):
            brokerless.rebuild(DEMO, tmp_path / "to")


def test_an_undo_removes_the_directories_that_are_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    to, source = tmp_path / "to", tmp_path / "disk"
    shutil.copytree(DEMO, source)
    killed_while_names_are_given(to, monkeypatch, source, data="in-place")
    assert (source / METADATA / f"{0:020}.log").exists()  # not yet changed
    for expected in (["node-8", "node-9"], []):
        if expected:
            brokerless.rebuild(source, to, mapping=tmp_path / "nodes.json", data="in-place", apply=True)
        else:
            brokerless.undo_rebuild(source, to)
        assert sorted(each.name for each in to.glob("node-*")) == expected
    brokerless.rebuild(source, to, mapping=tmp_path / "nodes.json", data="in-place", apply=True)
    (to / "node-9" / METADATA / f"{85:020}.log").touch()
    with pytest.raises(UsageError, match="a broker has run here since"):
        brokerless.undo_rebuild(source, to)
    brokerless.undo_rebuild(source, to, force=True)
    assert [each.name for each in to.glob("node-*")] == ["node-9"]
