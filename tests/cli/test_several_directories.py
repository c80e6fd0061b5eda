"""Several log directories, such as those of several brokers, in every command that writes partitions again.

Each becomes what it would become alone, in a directory of its own name."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run

import brokerless
from brokerless.log import names

DEMO = Path(__file__).parents[2] / "demo" / "data"
NOW = 1_793_318_400_000
COMMANDS: dict[str, list[object]] = {
    "compact": ["--from-start", "--now", NOW],
    "convert": ["--codec", "zstd"],
    "erase": ["--where", '"offset" % 7 = 3'],
    "salvage": [],
}
IN_PYTHON: dict[str, dict[str, Any]] = {
    "compact": {"from_start": True, "now": NOW},
    "convert": {"codec": "zstd"},
    "erase": {"where": '"offset" % 7 = 3'},
    "salvage": {},
}


@pytest.fixture
def brokers(tmp_path: Path) -> Path:
    """``b1`` and ``b2``: both have a replica of ``users-0``, of which that of ``b2`` ends earlier, and others."""
    for name, left_out in (("b1", "orders-*"), ("b2", "payments-*")):
        shutil.copytree(DEMO, tmp_path / name, ignore=shutil.ignore_patterns(left_out))
    users = tmp_path / "b2" / "users-0"
    last = max(users.glob("*.log"))
    for path in users.glob("0*"):
        if path.stem >= last.stem:
            path.unlink()
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        checkpoint = tmp_path / "b2" / name
        lines = checkpoint.read_text().splitlines()
        shorter = [f"users 0 {int(last.stem)}" if line.startswith("users 0 ") else line for line in lines]
        checkpoint.write_text("\n".join(shorter) + "\n")
    return tmp_path


def contents(directory: Path) -> dict[str, bytes]:
    """All files but the manifests' and what is of the time of a run."""
    found = {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    return {name: data for name, data in found.items() if not name.endswith(names.LOCK)}


@pytest.mark.parametrize("command", COMMANDS)
def test_each_directory_becomes_what_it_becomes_alone(run: Run, brokers: Path, command: str) -> None:
    options = COMMANDS[command]
    both = run(command, brokers / "b1", brokers / "b2", "--to", brokers / "both", "--json", *options)
    assert both.exit_code == 0, both.err
    assert sorted(path.name for path in (brokers / "both").iterdir()) == ["b1", "b2"]
    for name in ("b1", "b2"):
        (brokers / "alone").mkdir(exist_ok=True)
        alone = run(command, brokers / name, "--to", brokers / "alone" / name, "--json", *options)
        assert alone.exit_code == 0
        assert contents(brokers / "both" / name) == contents(brokers / "alone" / name)
        assert names.META_PROPERTIES in contents(brokers / "both" / name)
        targets = {line["target"] for line in both.json if "target" in line}
        assert {str(path) for path in (brokers / "both" / name).iterdir() if path.is_dir()} <= targets
    ends = [brokerless.open(brokers / "both" / name / "users-0").partitions[0].end_offset for name in ("b1", "b2")]
    assert ends[0] > ends[1]


@pytest.mark.parametrize("command", COMMANDS)
def test_in_python_as_well_and_a_dry_run_says_the_same(run: Run, brokers: Path, command: str) -> None:
    options = COMMANDS[command]
    paths = brokers / "b1", brokers / "b2"
    first, second = map(brokerless.open, paths)
    dry = getattr(first, command)(brokers / "none", others=[second], dry_run=True, **IN_PYTHON[command])
    assert not (brokers / "none").exists()
    made = getattr(first, command)(brokers / "python", others=second, **IN_PYTHON[command])
    assert run(command, *paths, "--to", brokers / "command", *options).exit_code == 0
    for name in ("b1", "b2"):
        assert contents(brokers / "python" / name) == contents(brokers / "command" / name)
    said = {each.task.source.paths[0].path if command == "salvage" else each.task.source.path: each for each in made}
    assert len(said) == len(made)
    for each in dry:
        path = each.task.source.paths[0].path if command == "salvage" else each.task.source.path
        assert (each.start_offset, each.end_offset) == (said[path].start_offset, said[path].end_offset)


def test_tables_of_each_directory_are_apart(run: Run, brokers: Path) -> None:
    result = run("salvage", brokers / "b1", brokers / "b2", "--to", brokers / "to", "--as", "parquet", "--json")
    assert result.exit_code == 0
    assert sorted(path.name for path in (brokers / "to").iterdir()) == ["b1", "b2"]
    for name in ("b1", "b2"):
        assert (
            run("salvage", brokers / name, "--to", brokers / name / ".." / "one" / name, "--as", "parquet").exit_code
            == 0
        )
        tables = {path.name for path in (brokers / "to" / name).iterdir() if path.is_dir()}
        assert tables == {path.name for path in (brokers / "one" / name).iterdir() if path.is_dir()}


def test_a_manifest_goes_on_with_each_of_several_directories(run: Run, brokers: Path) -> None:
    log = max((brokers / "b2" / "orders-1").glob("*.log"))
    intact = log.read_bytes()
    log.write_bytes(intact[:-5] + b"wrong")
    command = [brokers / "b1", brokers / "b2", "--to", brokers / "to", "--codec", "zstd"]
    command += ["--manifest", brokers / "manifest.jsonl"]
    first = run("convert", *command, "--json")
    assert first.exit_code == 1
    assert (brokers / "to" / "b1" / names.META_PROPERTIES).exists()
    assert not (brokers / "to" / "b2" / names.META_PROPERTIES).exists()  # a broker would begin orders-1 again, empty
    log.write_bytes(intact)
    shutil.rmtree(brokers / "to" / "b1" / "users-0")
    again = run("convert", *command, "--json")
    assert again.exit_code == 0
    made = {line["target"] for line in again.json if not line.get("isFinished")}
    assert made == {str(brokers / "to" / name) for name in ("b1/users-0", "b2/orders-1")}
    assert f"{len(again.json) - 2} of {len(again.json)} partitions are done" in again.err
    assert (brokers / "to" / "b2" / names.META_PROPERTIES).exists()
    for name in ("b1", "b2"):
        assert run("convert", brokers / name, "--to", brokers / "alone" / name, "--codec", "zstd").exit_code == 0
        ours, alone = contents(brokers / "to" / name), contents(brokers / "alone" / name)
        assert {key for key in ours if ours[key] != alone.get(key)} <= set(names.OFFSET_CHECKPOINTS)
    last = run("convert", *command)
    assert (last.exit_code, last.lines) == (0, ["nothing is left to do"])


def test_node_files_come_with_a_later_run_if_a_kill_came_before_them(run: Run, brokers: Path) -> None:
    command = [brokers / "b1", "--to", brokers / "to", "--codec", "zstd", "--manifest", brokers / "manifest.jsonl"]
    assert run("convert", *command).exit_code == 0
    (brokers / "to" / names.META_PROPERTIES).unlink()
    assert run("convert", *command).exit_code == 0
    assert (brokers / "to" / names.META_PROPERTIES).read_bytes() == (
        brokers / "b1" / names.META_PROPERTIES
    ).read_bytes()
