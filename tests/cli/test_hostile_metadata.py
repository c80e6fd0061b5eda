"""A ``__cluster_metadata`` whose topics have names that Kafka would not take: no path is made of them, nothing that a
terminal obeys is printed, and what is printed is bounded."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run
from tests.format.twin import write_batch, write_record
from tests.internals.written import Pair, write_partition

HUGE = 10_000_000
"""Bytes of a name; Kafka's reader takes 32,767 for a string."""
NAMES = [
    "../../victim",
    "/victim",
    "victim/../victim",
    "..",
    ".",
    "",
    "victim\0",
    "\x1b[31mvictim\x07",
    "victim\r\nvictim",
    "\x9b31mvictim",
    "victim\u202e\u2066",
    "victim" * 5461,
    "victim" * (HUGE // 6),
    "t",
]
NODE = 1
RAW = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
COMMANDS = [
    ["restart"],
    ["audit"],
    ["internals"],
    ["internals", "--history"],
    ["ls"],
    ["ls", "--segments"],
    ["verify"],
]


def unsigned(number: int) -> bytes:
    found = b""
    while number > 127:
        found, number = found + bytes([number & 127 | 128]), number >> 7
    return found + bytes([number])


def text(value: str) -> bytes:
    return unsigned(len(value.encode()) + 1) + value.encode()


def topic(name: str, topic_id: int) -> Pair:
    return None, b"\1\2\0" + text(name) + topic_id.to_bytes(16, "big") + b"\0"


def partition(topic_id: int, number: int = 0) -> Pair:
    replicas = b"\2" + NODE.to_bytes(4, "big")
    numbers = b"".join(each.to_bytes(4, "big") for each in (NODE, 0, 0))
    value = number.to_bytes(4, "big") + topic_id.to_bytes(16, "big") + 2 * replicas + 2 * b"\1" + numbers + b"\0"
    return None, b"\1\3\0" + value


def setting(name: str) -> Pair:
    return None, b"\1\4\0\2" + text(name) + text("retention.ms") + text("\x1b[2J" + name[:50]) + b"\0"


def write(offset: int, *records: Pair) -> bytes:
    payload = b"".join(write_record(key, value, (), number) for number, (key, value) in enumerate(records))
    return write_batch(payload, base_offset=offset, last_offset_delta=len(records) - 1, count=len(records))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    directory = tmp_path / "in" / "between" / "logs"
    batches = [
        write(3 * row, topic(name, row + 1), partition(row + 1), setting(name)) for row, name in enumerate(NAMES)
    ]
    end = 3 * len(NAMES)
    batches += [write(end, topic("victim-again", 1)), write(end + 1, topic("t", 99), partition(99, 2**31 - 1))]
    write_partition(directory, "__cluster_metadata", *batches)
    own = write_partition(directory, "t", write(0, (None, b"value")), write(7, (None, b"value")))
    (own / f"{20:020}.log").write_bytes(write(20, (None, b"value")))  # a hole, which asks for the topic's settings
    (own / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")  # the first name's
    (directory / "meta.properties").write_text(f"version=1\ncluster.id=x\nnode.id={NODE}\n")
    return directory


@pytest.fixture
def touched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every path that is asked for."""
    found: list[str] = []

    def watched(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *arguments: Any, **options: Any) -> Any:
            if not isinstance(path, int):
                found.append(os.fsdecode(path))
            return function(path, *arguments, **options)

        return call

    for name in ("open", "stat", "lstat", "scandir", "listdir", "mkdir", "rename", "replace", "unlink", "rmdir"):
        monkeypatch.setattr(os, name, watched(getattr(os, name)))
    return found


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_names_in_the_clusters_metadata_are_only_text(
    command: list[str], as_json: bool, directory: Path, touched: list[str], run: Run
) -> None:
    before = {path: path.is_dir() or path.read_bytes() for path in directory.parents[2].rglob("*")}
    done = run(*command, *(["--json"] if as_json else []), directory)
    assert done.exit_code in (0, 1), done.err[-3000:]
    printed = done.out.decode() + done.err
    assert "Traceback" not in printed
    assert not RAW.search(printed)
    is_of_records = as_json or "--history" in command  # a record that cannot be decoded is given as its bytes
    assert len(printed) < (10 * HUGE if is_of_records else 1_000_000)
    assert touched
    assert not [path[:200] for path in touched if "victim" in path or RAW.search(path)]
    assert {path: path.is_dir() or path.read_bytes() for path in directory.parents[2].rglob("*")} == before


def test_what_is_begun_empty_is_said_by_name(directory: Path, run: Run) -> None:
    text = run("restart", directory).out.decode()
    assert "victim" in text
    assert "\\x1b[31mvictim" in text or "\\u001b[31mvictim" in text
