"""Files of ours that anybody may have written: whatever is in them, they are read or refused, and nothing else."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from brokerless.errors import UnreadableError, UsageError
from brokerless.jobs import manifest
from brokerless.jobs.salvage import tables
from brokerless.log import names
from brokerless.log.checkpoint import commit_journal
from brokerless.log.commit.partition_writer import unfinished_name
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.location import Location
from brokerless.table_formats import export_state as exports
from tests.examples import examples


@dataclass(frozen=True)
class Settings:
    codec: str = "zstd"


HEAD = {"manifest": 1, "job": "convert", "settings": {"codec": "zstd"}}
FILE = {"path": "/a", "sizeInBytes": 1, "modified": None, "sha256": "00"}
GROWING = {"topic": "orders", "partition": 0, "base_offset": 0, "end_offset": 0, "leader_epoch": -1}


def load_journal(at: Path) -> None:
    found = commit_journal.load_journal(Location(str(at / names.COMMIT_JOURNAL)))
    for name in [*found.hidden, *(name for each in found.new for name in (each.staged, each.name))]:
        assert names.parse_partition_directory(name) is not None
        assert "/" not in name


def load_queries(at: Path) -> None:
    commit_journal.last_batch(at, "query")


def load_export(at: Path) -> None:
    found = exports.load(Location(str(at)), "orders")
    assert found is not None
    assert found.topic == "orders"


def load_run(at: Path) -> None:
    tables._begun(Destination.of(at))


def load_manifest(at: Path) -> None:
    with manifest.JobManifest.open(str(at / "manifest"), "convert", Settings(), dry_run=True) as found:
        found.is_done("orders-0", [])
        found.change("orders-0", [])


KINDS: dict[str, tuple[Callable[[Path], None], str, Any]] = {
    "journal": (
        load_journal,
        names.COMMIT_JOURNAL,
        {
            "version": 1,
            "growing": [GROWING],
            "new": [[unfinished_name("a", 0), "a-0"]],
            "query": ["query", 1],
            "is_decided": True,
        },
    ),
    "queries": (load_queries, names.COMMITTED_QUERIES, {"version": 1, "queries": {"query": 3}}),
    "export": (
        load_export,
        f"topic=orders/{exports.NAME}",
        {
            "version": 1,
            "topic": "orders",
            "topicId": None,
            "byDate": False,
            "isolation": "read_committed",
            "partitions": {"0": {"nextOffset": 3, "until": 9, "leftOut": [[1, 2], [4, None]], "files": 1}},
        },
    ),
    "run": (load_run, tables.RUN, {"version": 1, "partitions": {"orders": [0, 1]}}),
    "manifest": (
        load_manifest,
        "manifest",
        [HEAD, {"task": "orders-0", "inputs": [FILE], "outputs": [FILE], "result": {}}],
    ),
}

SPECIAL = ["../victim", "/", "", "\0", "\ud800", "orders-0", "a" * 300, -1, True, 2**63, 10**400, 1e999, float("nan")]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(SPECIAL),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to each value within a value."""
    inner = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    return [path, *(place for key, each in inner for place in places(each, (*path, key)))]


@st.composite
def documents(draw: st.DrawFn, valid: Any) -> Any:
    """Any JSON at all, or a valid document in which some values are others, are not there, or have others beside."""
    value = copy.deepcopy(valid)
    for _ in range(draw(st.integers(0, 3))):
        *above, last = draw(st.sampled_from([(None,), *[place for place in places(value) if place]]))
        if last is None:
            return draw(VALUES)
        holder = value
        for key in above:
            holder = holder[key]
        change = draw(st.sampled_from(["replace", "remove", "add"]))
        if change == "remove":
            del holder[last]
        elif change == "add" and isinstance(holder, list):
            holder.append(draw(VALUES))
        elif change == "add":
            holder[draw(st.text(max_size=4))] = draw(VALUES)
        else:
            holder[last] = draw(VALUES)
    return value


def encode(value: Any, *, is_lines: bool) -> bytes:
    lines = value if is_lines and isinstance(value, list) else [value]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def check(kind: str, at: Path, data: bytes) -> bool:
    """Whether it is read; whatever is raised is an error of ours, with the name of the file."""
    load, name, _ = KINDS[kind]
    (at / name).parent.mkdir(exist_ok=True)
    (at / name).write_bytes(data)
    try:
        load(at)
    except (UnreadableError, UsageError) as error:
        said = str(error)
    else:
        return True
    assert Path(name).name in said
    assert len(said) < 10_000
    return False


COMMON = examples(120, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_valid_is_read(kind: str, tmp_path: Path) -> None:
    assert check(kind, tmp_path, encode(KINDS[kind][2], is_lines=kind == "manifest"))


@pytest.mark.parametrize("kind", KINDS)
@COMMON
@given(data=st.data())
def test_any_json_is_read_or_refused(kind: str, tmp_path: Path, data: st.DataObject) -> None:
    value = data.draw(documents(KINDS[kind][2]))
    check(kind, tmp_path, encode(value, is_lines=kind == "manifest"))


@pytest.mark.parametrize("kind", KINDS)
@COMMON
@given(data=st.data())
def test_any_bytes_are_read_or_refused(kind: str, tmp_path: Path, data: st.DataObject) -> None:
    valid = encode(KINDS[kind][2], is_lines=kind == "manifest")
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(valid))] * 2)))
    check(kind, tmp_path, data.draw(st.sampled_from([valid[:start], b""])) + data.draw(st.binary()) + valid[end:])


@pytest.mark.parametrize("kind", KINDS)
def test_deep_json_is_refused(kind: str, tmp_path: Path) -> None:
    for depth in (*range(100, 1100, 100), 100_000):
        deep = "[" * depth + "]" * depth
        for text in (deep, '{"version": ' + deep + "}", '{"manifest": 1, "settings": ' + deep + "}"):
            assert not check(kind, tmp_path, text.encode() + b"\n")
