"""Where copies of erased records may still be: every kind of place, in text, JSON, the manifest and its page."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.golden import broker_data

import brokerless
from brokerless.cli import main
from brokerless.clusters import listing
from brokerless.views.proof_page import proof_page

UNIQUE = "0123456789abcdef0123456789abcdef"
NAME = "segments-0"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    to, data = tmp_path / "from", broker_data("clean")
    shutil.copytree(data / NAME, to / NAME)
    others = [f"{NAME}.{UNIQUE}-delete", f"{NAME}.{UNIQUE}-stray", f"{NAME}.{UNIQUE}-future"]
    others += ["app-store-changelog-0", "__backup-0", "other-0", "segments-1", "__remote_log_metadata-0"]
    for name in others:
        shutil.copytree(data / NAME, to / name)
    first = min((to / NAME).glob("*.log"))
    for suffix in ("deleted", "swap", "cleaned"):
        shutil.copy(first, first.with_name(f"{first.name}.{suffix}"))
    shutil.copytree(data / "edges-0", to / "edges-0")
    return to


def test_all_kinds_of_places_are_told(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "read_setting", lambda directory, topic, name: "true")
    (key,) = {
        row["key"] for row in brokerless.open(source / NAME).records(["offset", "key"]).read_all().to_pylist()[:1]
    }
    keys = tmp_path / "keys"
    keys.write_bytes(key)
    partition = brokerless.open(source / NAME)
    every = sum(row["key"] == key for row in partition.records(["key"]).read_all().to_pylist())
    command = ["erase", str(source), "-t", "segments", "-p", "0", "--to", str(tmp_path / "to"), "--keys", str(keys)]
    assert main([*command, "--dry-run"]) == 0
    text = capsys.readouterr().out
    assert main([*command, "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    told = {Path(each["copy"]["path"]).name: each["copy"] for each in lines if "copy" in each}
    first = min((source / NAME).glob("*.log")).name
    assert {name: each["what"].split(",")[0] for name, each in told.items()} == {
        f"{NAME}.{UNIQUE}-delete": "a partition's directory that waits for its deletion",
        f"{NAME}.{UNIQUE}-stray": "a stray partition's directory",
        f"{NAME}.{UNIQUE}-future": "a replica that is being moved here from another directory",
        "app-store-changelog-0": "another topic",
        "__backup-0": "another topic",
        "other-0": "another topic",
        "segments-1": "a partition that was not selected",
        "__remote_log_metadata-0": "metadata of segments in tiered storage",
        f"{first}.deleted": "a segment that waits for its deletion",
        f"{first}.swap": "a segment of a compaction or a split that was being put in place",
        f"{first}.cleaned": "a segment of a compaction or a split that did not end",
        "segments": "tiered storage: segments that were moved there are not changed",
    }
    assert "a changelog of Kafka Streams" in told["app-store-changelog-0"]["what"]
    assert {name for name, each in told.items() if each["selected"] == every} >= {
        "app-store-changelog-0", "__backup-0", "other-0", "segments-1", f"{NAME}.{UNIQUE}-delete",
    }  # fmt: skip
    uncounted = {name for name, each in told.items() if each["selected"] is None}
    assert uncounted == {"segments", "__remote_log_metadata-0"}
    manifest = tmp_path / "to.erasure.json"
    assert json.loads(manifest.read_bytes())["copies"] == [each["copy"] for each in lines if "copy" in each]
    page = proof_page(brokerless.prove(manifest))
    for each in told.values():
        assert each["what"].replace("'", "&#x27;") in page
        assert each["what"] in text


def test_kafkas_own_topics_are_looked_through_unless_they_are_erased(tmp_path: Path) -> None:
    source = tmp_path / "from"
    for name in ("__consumer_offsets-0", "edges-0"):
        shutil.copytree(broker_data("clean") / name, source / name)
    where, manifest = "octet_length(key) > 0", tmp_path / "m.json"
    brokerless.open(source).erase(tmp_path / "to", where=where, manifest=manifest)
    copies = json.loads(manifest.read_bytes())["copies"]
    assert [(Path(each["path"]).name, each["what"]) for each in copies] == [
        ("__consumer_offsets-0", "one of Kafka's own topics, which is copied unchanged")
    ]
    own = source / "__consumer_offsets-0"
    brokerless.open(own).erase(tmp_path / "own", where=where, manifest=tmp_path / "own.json")
    assert not json.loads((tmp_path / "own.json").read_bytes())["copies"]
