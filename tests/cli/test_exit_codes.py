"""Which exit code a command ends with where something cannot be read: 2 for a path that was given, 1 for what is within
one, after all that could be done."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.examples import some_quick
from tests.golden import broker_data

COMMANDS = {
    "ls": ["ls"],
    "cat": ["cat"],
    "cat --tail": ["cat", "--tail", "5"],
    "cat read_committed": ["cat", "--isolation", "read_committed"],
    "batches": ["batches"],
    "verify": ["verify"],
    "audit": ["audit", "--all"],
    "report": ["report", "--json"],
    "restart": ["restart"],
    "salvage": ["salvage", "--to", "TO"],
    "carve": ["carve", "--to", "TO"],
    "salvage --as parquet": ["salvage", "--as", "parquet", "--to", "TO"],
    "merge": ["merge", "--to", "TO"],
    "convert": ["convert", "--codec", "gzip", "--to", "TO"],
    "erase": ["erase", "--header", "no=such", "--to", "TO"],
    "compact": ["compact", "--to", "TO"],
    "size": ["size", "--codec", "none"],
    "export": ["export", "--to", "TO"],
    "export --as iceberg": ["export", "--as", "iceberg", "--to", "TO"],
    "export --as delta": ["export", "--as", "delta", "--to", "TO"],
    "pipeline": ["pipeline", "--no-report", "--to", "TO"],
    "load": ["load", "--topic", "t", "--to", "TO"],
    "internals": ["internals"],
    "sql": ["sql", "SELECT topic || '-' || partition AS name, count(value) FROM records GROUP BY ALL"],
    "schema": ["schema"],
    "cluster": ["cluster"],
    "rebuild": ["rebuild", "--to", "TO", "--apply"],
    "restore": ["restore", "--to", "BROKER", "--replace", "--apply"],
}


NEEDS_A_NAME = {"restart", "salvage", "salvage --as parquet", "merge", "convert", "compact", "erase", "export"}
NEEDS_A_NAME |= {"internals", "pipeline", "cluster", "rebuild", "restore", "export --as iceberg", "export --as delta"}
"""Commands that have to know which partition a file is, which a lone one does not say."""
EXPECTED = {
    "missing": dict.fromkeys(COMMANDS, 2),
    "unreadable": dict.fromkeys(COMMANDS, 2),
    "nothing": dict.fromkeys(COMMANDS, 2),
    # The last records are in another segment; carve takes files, and internals none of these topics.
    "within": dict.fromkeys(COMMANDS, 1) | {"cat --tail": 0, "carve": 2, "internals": 2, "load": 2},
    "empty": {name: 2 if name in NEEDS_A_NAME else 0 for name in COMMANDS},
}


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    fifo = tmp_path / "fifo-0" / "00000000000000000000.log"
    fifo.parent.mkdir()
    os.mkfifo(fifo)  # a file whose mode forbids it could be read by root
    (tmp_path / "nothing").mkdir()
    (tmp_path / "nothing" / "notes.txt").write_text("no log")
    within = tmp_path / "within"
    for name in ("segments-0", "txn-0"):
        shutil.copytree(broker_data("clean") / name, within / name)
    second = sorted((within / "segments-0").glob("*.log"))[1]
    second.unlink()
    second.symlink_to("gone")
    empty = tmp_path / "empty-0" / "00000000000000000000.log"
    empty.parent.mkdir()
    empty.touch()
    missing = tmp_path / "missing-0"
    return {"missing": missing, "unreadable": fifo, "nothing": tmp_path / "nothing", "within": within, "empty": empty}


@pytest.mark.parametrize("place", EXPECTED)
@pytest.mark.parametrize("name", some_quick(sorted(COMMANDS), 2))
def test_what_cannot_be_read_ends_all_commands_alike(
    run: Run, name: str, place: str, places: dict[str, Path], tmp_path: Path
) -> None:
    where = {"TO": str(tmp_path / "to"), "BROKER": str(tmp_path / "broker")}
    if "BROKER" in COMMANDS[name]:
        shutil.copytree(broker_data("clean"), tmp_path / "broker")
    result = run(*(where.get(each, each) for each in COMMANDS[name]), places[place])
    assert result.exit_code == EXPECTED[place][name]
    if result.exit_code:
        text = result.err + result.out.decode()
        # verify and pipeline show files from the path on that was given
        assert str(places[place]) in text or (place == "within" and "segments-0/00000000000000000169.log" in text)
    if place == "within" and result.exit_code == 1 and name != "verify":
        written = "".join(map(str, (tmp_path / "to").rglob("*")))
        assert (
            "txn" if name in ("size", "schema", "cluster") else "txn-0"
        ) in result.out.decode() + result.err + written


def test_load_does_all_or_nothing(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "lines"
    source.mkdir()
    (source / "a.jsonl").write_text('{"value": "one"}\n')
    (source / "b.jsonl").symlink_to("gone")
    result = run("load", source, "--topic", "t", "--to", tmp_path / "to")
    assert result.exit_code == 2
    assert "b.jsonl" in result.err
    assert not list((tmp_path / "to").glob("t-*"))


def test_the_other_paths_are_read_when_one_cannot_be_opened(run: Run, places: dict[str, Path]) -> None:
    for command in ("ls", "cat", "batches", "verify", "audit"):
        alone = run(command, places["within"] / "txn-0")
        result = run(command, places["missing"], places["within"] / "txn-0")
        assert result.exit_code == 2
        assert set(alone.lines[1:]) <= set(result.lines)
