"""What lies in a directory that is written to may be anybody's: no name in it leads out of it, whatever a command does.

Each attack has a victim beside the directory that is given, of which nothing may change.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run

from brokerless.cli import main
from brokerless.errors import UnreadableError, UnwritableError, UsageError
from brokerless.log import names
from brokerless.log.commit.commit import recover_commit
from brokerless.log.commit.log_opener import open_log
from brokerless.log.commit.partition_writer import unfinished_name
from brokerless.log.storage.directory_lock import is_locked, lock_directory
from brokerless.table_formats import export_state as exports

LOG = f"{0:020}.log"
STAGED = unfinished_name("orders", 0)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory with two partitions."""
    at = tmp_path_factory.mktemp("source")
    lines = [{"key": f"k{n}", "value": f"v{n}", "timestamp": 1_700_000_000_000 + n} for n in range(20)]
    (at / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    arguments = ["load", at / "rows.jsonl", "--to", at / "logs", "--topic", "orders", "--partitions", "2", "--json"]
    assert main([str(each) for each in arguments]) == 0
    return at / "logs"


class Place:
    """``target`` is what commands are given; nothing in ``victim`` may change."""

    def __init__(self, root: Path, source: Path) -> None:
        self.source, self.target, self.victim = source, root / "target", root / "victim"
        self.target.mkdir()
        partition = self.victim / "orders-0"
        partition.mkdir(parents=True)
        (partition / LOG).write_bytes((source / "orders-0" / LOG).read_bytes() + b"half a batch")
        (partition / names.PARTITION_METADATA).write_bytes((source / "orders-0/partition.metadata").read_bytes())
        (partition / f"partition-0-{0:020}.parquet").write_bytes(b"PAR1")
        (partition / f"partition-1-{0:020}.parquet").write_bytes(b"PAR1")
        (self.victim / "file").write_bytes(b"precious")
        (self.victim / "empty").touch()
        (self.victim / "directory").mkdir()
        self._before = self.contents()

    def contents(self) -> dict[str, bytes | None]:
        return {
            str(path.relative_to(self.victim)): path.read_bytes() if path.is_file() else None
            for path in sorted(self.victim.rglob("*"))
        }

    def check(self) -> None:
        assert self.contents() == self._before
        assert {path.name for path in self.target.parent.iterdir()} <= {"target", "victim", "manifest"}

    def link(self, name: str, to: str) -> None:
        path = self.target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(self.victim / to)


@pytest.fixture
def place(tmp_path: Path, source: Path) -> Place:
    return Place(tmp_path, source)


def commands(place: Place) -> dict[str, list[Any]]:
    rows, to = place.source.parent / "rows.jsonl", place.target
    return {
        "load": ["load", rows, "--to", to, "--topic", "orders", "--partitions", "2"],
        "convert": ["convert", place.source, "--to", to, "--codec", "zstd"],
        "compact": ["compact", place.source, "-t", "orders", "--to", to],
        "salvage": ["salvage", place.source, "--to", to],
        "merge": ["merge", place.source, "--to", to],
        "carve": ["carve", place.source / "orders-0" / LOG, "--to", to],
    }


COMMANDS = ("load", "convert", "compact", "salvage", "merge", "carve")


def journal(new: list[Any], growing: list[Any] | None = None, *, is_decided: bool = True) -> str:
    value = {"version": 1, "growing": growing or [], "new": new, "query": None, "is_decided": is_decided}
    return json.dumps(value)


def growing(topic: str, partition: Any = 0) -> list[Any]:
    return [{"topic": topic, "partition": partition, "base_offset": 0, "end_offset": 0, "leader_epoch": -1}]


JOURNALS = {
    "a directory elsewhere": journal([["../victim", "../outside/moved"]]),
    "into the target": journal([["../victim/orders-0", "orders-0"]]),
    "out of the target": journal([[STAGED, "../victim/orders-9"]]),
    "an absolute name": journal([["/tmp", "orders-0"]]),
    "the directory itself": journal([[".", "orders-0"]]),
    "the one above": journal([["..", "orders-0"]]),
    "a live partition": journal([["other-0", "orders-0"]]),
    "another topic's": journal([[unfinished_name("others", 0), "orders-0"]]),
    "another partition's": journal([[unfinished_name("orders", 1), "orders-0"]]),
    "NUL": journal([[f"orders-0.\0{STAGED[9:]}", "orders-0"]]),
    "a line feed": journal([[STAGED, "orders-0\n"]]),
    "a number out of bounds": journal([[STAGED, "orders-99999999999"]]),
    "twice": journal([[STAGED, "orders-0"], [STAGED, "orders-0"]]),
    "a topic elsewhere": journal([], growing("../victim/orders"), is_decided=False),
    "a topic that is a path": journal([], growing("/victim/orders"), is_decided=False),
    "KRaft's log": journal([], growing("__cluster_metadata"), is_decided=False),
    "a partition that is text": journal([], growing("orders", "0"), is_decided=False),
    "a partition that is a flag": journal([], growing("orders", False), is_decided=False),
    "a huge partition": journal([], growing("orders", 10**30), is_decided=False),
    "pairs that are objects": journal([{"0": STAGED}]),
    "a pair of one": journal([[STAGED]]),
    "a flag that is text": journal([]).replace("true", '"yes"'),
    "a version that is a flag": journal([]).replace("1", "true"),
    "a member that comes twice": journal([])[:-1] + ', "is_decided": false}',
    "NaN": journal([]).replace("null", '["q", NaN]'),
    "a huge number": journal([]).replace("null", f'["q", {"9" * 5000}]'),
    "deep": '{"version": 1, "new": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "no UTF-8": '{"version": 1, "new": "\udcff"}',
    "UTF-16": journal([]).encode("utf-16").decode("latin-1"),
    "nothing": "",
}


@pytest.mark.parametrize("name", JOURNALS)
def test_a_journal_that_is_not_ours_is_refused(place: Place, run: Run, name: str) -> None:
    (place.target / "orders-0").mkdir()
    text = JOURNALS[name]
    (place.target / names.COMMIT_JOURNAL).write_bytes(text.encode(errors="surrogateescape"))
    for command in ("ls", "verify"):
        result = run(command, place.target)
        assert (result.exit_code, "move the file away" in result.err) == (2, True), result.err
    (place.target / "orders-0").rmdir()
    result = run(*commands(place)["salvage"])
    assert (result.exit_code, "move the file away" in result.err) == (2, True), result.err
    place.check()


LINKS: dict[str, tuple[str, str]] = {
    "the lock": (names.LOCK, "file"),
    "the lock, to where nothing is": (names.LOCK, "nothing"),
    "the lock of commits": (names.COMMIT_LOCK, "file"),
    "the lock of commits, to where nothing is": (names.COMMIT_LOCK, "nothing"),
    "the journal": (names.COMMIT_JOURNAL, "file"),
    "the journal, to where nothing is": (names.COMMIT_JOURNAL, "nothing"),
    "the unfinished journal": (names.COMMIT_JOURNAL + ".tmp", "file"),
    "an unfinished checkpoint": (names.RECOVERY_POINT_CHECKPOINT + ".tmp", "file"),
    "another one": (names.HIGH_WATERMARK_CHECKPOINT + ".tmp", "nothing"),
    "the unfinished mark": (names.CLEAN_SHUTDOWN + ".tmp", "file"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", LINKS)
def test_a_link_in_the_place_of_a_file_of_ours_is_refused(place: Place, run: Run, name: str, command: str) -> None:
    link, to = LINKS[name]
    place.link(link, to)
    result = run(*commands(place)[command])
    if command == "carve" and (link == names.COMMIT_LOCK or link.startswith(names.COMMIT_JOURNAL + ".")):
        assert result.exit_code == 0  # one partition takes one step, and no journal
        place.check()
        return
    assert (result.exit_code, "symbolic link" in result.err) == (2, True), result.err
    assert "Traceback" not in result.err
    place.check()
    assert (place.target / link).is_symlink()
    assert not [path for path in place.target.iterdir() if path.is_dir()]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "name", [names.RECOVERY_POINT_CHECKPOINT, names.LOG_START_OFFSET_CHECKPOINT, names.CLEAN_SHUTDOWN, "orders-0"]
)
def test_a_link_in_the_place_of_what_is_read_leads_no_write_out(
    place: Place, run: Run, name: str, command: str
) -> None:
    for to in ("file", "nothing", "orders-0", "empty"):
        place.link(name, to)
        run(*commands(place)[command])
        place.check()
        for path in place.target.iterdir():
            if path.is_symlink() or path.is_file():
                path.unlink()
            else:
                rename = place.target.parent / "manifest"
                path.rename(rename)
                __import__("shutil").rmtree(rename)


@pytest.mark.parametrize("name", [names.LOCK, names.COMMIT_JOURNAL, names.COMMIT_LOCK, names.COMMIT_JOURNAL + ".tmp"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_regular_file_is_refused_at_once(
    place: Place, run: Run, name: str, make: Callable[[Path], None]
) -> None:
    make(place.target / name)
    result = run(*commands(place)["salvage"])
    assert (result.exit_code, "not a regular file; move it away" in result.err) == (2, True), result.err
    place.check()


@pytest.mark.parametrize("name", [names.COMMIT_JOURNAL, names.COMMITTED_QUERIES])
def test_a_huge_file_of_ours_is_refused_before_it_is_read(place: Place, run: Run, name: str) -> None:
    (place.target / "orders-0").mkdir()
    with (place.target / names.COMMIT_JOURNAL).open("wb") as file:
        file.truncate(4 << 30)
    start = time.process_time()
    for arguments in (["ls", place.target], commands(place)["load"], commands(place)["salvage"]):
        result = run(*arguments)
        assert (result.exit_code, "4294967296 bytes are more than" in result.err) == (2, True), result.err
    assert time.process_time() - start < 10
    place.check()


def test_a_staged_partition_that_is_a_link_is_neither_named_nor_emptied(place: Place, run: Run) -> None:
    place.link(STAGED, "orders-0")
    (place.target / names.COMMIT_JOURNAL).write_text(journal([[STAGED, "orders-0"]]))
    with pytest.raises(UsageError, match="was deleted since"):
        recover_commit(place.target)
    assert (place.target / STAGED).is_symlink()
    assert not (place.target / "orders-0").exists()
    place.check()
    (place.target / STAGED).unlink()
    place.link(unfinished_name("orders", 0, "10b5"), "orders-0")
    for command in ("salvage", "load"):
        run(*commands(place)[command])
        place.check()


def test_a_partition_that_is_a_link_is_not_written_to(place: Place) -> None:
    place.link("orders-0", "orders-0")
    with pytest.raises(UnwritableError, match="symbolic link"):
        open_log(place.target, "orders", 0)
    (place.target / names.COMMIT_JOURNAL).write_text(journal([], growing("orders"), is_decided=False))
    with pytest.raises(UnwritableError, match="symbolic link"):
        recover_commit(place.target)
    place.check()


@pytest.mark.parametrize(
    ("name", "to"),
    [
        (LOG, f"orders-0/{LOG}"),
        (f"{0:020}.index", "file"),
        (f"{0:020}.timeindex", "nothing"),
        (f"{0:020}.snapshot", "file"),
        (f"{7:020}.log", "empty"),
        (f"{0:020}.log.swap", f"orders-0/{LOG}"),
        (names.LEADER_EPOCH_CHECKPOINT, "file"),
        (names.LEADER_EPOCH_CHECKPOINT + ".tmp", "file"),
    ],
)
def test_a_file_of_a_partition_that_is_a_link_is_not_written_through(place: Place, name: str, to: str) -> None:
    partition = place.target / "orders-0"
    partition.mkdir()
    if not name.startswith(f"{0:020}"):
        (partition / LOG).write_bytes((place.source / "orders-0" / LOG).read_bytes())
    place.link(f"orders-0/{name}", to)
    with pytest.raises(UnwritableError, match=r"(?s)symbolic link"):
        open_log(place.target, "orders", 0)
    place.check()


def test_the_lock_of_a_link_is_not_asked(place: Place) -> None:
    place.link(names.LOCK, "file")
    assert not is_locked(place.target)
    with pytest.raises(UnwritableError, match="symbolic link"), lock_directory(place.target, exclusive=True):
        pass
    (place.target / names.LOCK).unlink()
    place.link(names.CLEAN_SHUTDOWN, "file")
    with pytest.raises(UnreadableError, match="symbolic link"), lock_directory(place.target, exclusive=True):
        pass
    place.check()


def export(place: Place, *options: str) -> list[Any]:
    return ["export", place.source, "--to", place.target, *options]


def tables(place: Place, *options: str) -> list[Any]:
    return ["salvage", place.source, "--to", place.target, "--as", "parquet", *options]


WRITERS = {"export": export, "salvage": tables}


@pytest.mark.parametrize("command", WRITERS)
@pytest.mark.parametrize(
    ("link", "to"),
    [
        ("topic=orders", "orders-0"),
        ("topic=orders", "directory"),
        ("topic=orders", "nothing"),
        ("topic=orders/_unfinished", "directory"),
        ("topic=orders/_unfinished", "orders-0"),
        (f"topic=orders/{exports.NAME}", "file"),
        (f"topic=orders/{exports.NAME}", "nothing"),
        (f"topic=orders/{exports.NAME}.tmp", "file"),
    ],
)
def test_a_link_in_an_export_is_refused(place: Place, run: Run, link: str, to: str, command: str) -> None:
    place.link(link, to)
    result = run(*WRITERS[command](place))
    assert (result.exit_code, "symbolic link" in result.err) == (2, True), result.err
    place.check()


def test_a_link_in_the_place_of_a_date_is_refused(place: Place, run: Run) -> None:
    place.link("topic=orders/date=2023-11-14", "orders-0")
    (place.target / "topic=orders" / exports.NAME).write_text(noted(byDate=True))
    result = run(*export(place, "--by-date"))
    assert (result.exit_code, "symbolic link" in result.err) == (2, True), result.err
    place.check()


def noted(**changes: Any) -> str:
    value = {"version": 1, "topic": "orders", "topicId": None, "byDate": False, "isolation": "read_uncommitted"}
    return json.dumps({**value, "partitions": {"0": {"nextOffset": 0, "until": 1 << 40}}, **changes})


MANIFESTS = {
    "a topic elsewhere": noted(topic="bar/../../victim/orders-0"),
    "a topic above": noted(topic="../victim"),
    "another topic": noted(topic="orders2"),
    "a topic that is null": noted(topic=None),
    "an ID that is a number": noted(topicId=3),
    "a layout that is text": noted(byDate="no"),
    "an unknown isolation": noted(isolation=["read_committed"]),
    "partitions that are an array": noted(partitions=[1]),
    "a partition that is a path": noted(partitions={"../0": {"nextOffset": 0}}),
    "a partition in other digits": noted(partitions={"\u0660": {"nextOffset": 0}}),
    "a huge partition": noted(partitions={"99999999999999": {"nextOffset": 0}}),
    "an offset that is text": noted(partitions={"0": {"nextOffset": "0"}}),
    "a negative offset": noted(partitions={"0": {"nextOffset": -1}}),
    "an offset that is infinite": noted(partitions={"0": {"nextOffset": 0}}).replace("0}", "1e999}"),
    "no offset": noted(partitions={"0": {}}),
    "pairs that are none": noted(partitions={"0": {"nextOffset": 0, "leftOut": [[1, 2, 3]]}}),
    "a version that is text": noted(version="1"),
    "deep": '{"version": 1, "partitions": ' + '{"a":' * 50_000 + "1" + "}" * 50_000 + "}",
    "a member that comes twice": noted()[:-1] + ', "topic": "orders"}',
    "an array": "[]",
    "nothing": "",
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_that_is_not_ours_is_refused(place: Place, run: Run, name: str) -> None:
    for command, arguments in WRITERS.items():
        (place.target / "topic=orders").mkdir(exist_ok=True)
        (place.target / "topic=orders" / exports.NAME).write_text(MANIFESTS[name])
        result = run(*arguments(place))
        said = "not what says how far a topic was exported" in result.err or "this is of the topic" in result.err
        assert (result.exit_code, said) == (2, True), (command, result.err)
        place.check()
        assert (place.target / "topic=orders" / exports.NAME).read_text() == MANIFESTS[name]


def test_a_huge_manifest_is_refused_before_it_is_read(place: Place, run: Run) -> None:
    (place.target / "topic=orders").mkdir()
    with (place.target / "topic=orders" / exports.NAME).open("wb") as file:
        file.truncate(4 << 30)
    result = run(*export(place))
    assert (result.exit_code, "4294967296 bytes are more than" in result.err) == (2, True), result.err


def test_a_manifest_that_is_a_link_or_huge_is_refused(place: Place, run: Run) -> None:
    path = place.target.parent / "manifest"
    for command in ("convert", "load"):
        for to in ("file", "empty", "nothing"):
            path.symlink_to(place.victim / to)
            for more in ([], ["--dry-run"]):
                result = run(*commands(place)[command], "--manifest", path, *more)
                assert (result.exit_code, "symbolic link" in result.err) == (2, True), result.err
                place.check()
            path.unlink()
        with path.open("wb") as file:
            file.truncate(4 << 30)
        result = run(*commands(place)[command], "--manifest", path)
        assert (result.exit_code, "this is not a manifest" in result.err) == (2, True), result.err
        path.unlink()


LINES = [
    '{"task": 1, "inputs": [], "outputs": [], "result": {}}',
    '{"task": "orders-0", "inputs": {}, "outputs": [], "result": {}}',
    '{"task": "orders-0", "inputs": [1], "outputs": [], "result": {}}',
    '{"task": "orders-0", "inputs": [], "outputs": [], "result": []}',
    '{"task": "orders-0", "inputs": [{"path": "p", "sizeInBytes": 1e999, "modified": 0, "sha256": ""}], "outputs": []}',
    '{"task": "orders-0", "inputs": [], "outputs": [{"path": 1, "sizeInBytes": 1, "modified": 0, "sha256": ""}], '
    '"result": {}}',
    "[" * 100_000,
    "7",
]


@pytest.mark.parametrize("line", LINES)
def test_a_line_of_a_manifest_that_is_not_ours_is_refused(place: Place, run: Run, line: str) -> None:
    path = place.target.parent / "manifest"
    arguments = [*commands(place)["convert"], "--manifest", path]
    assert run(*arguments, "-t", "orders", "-p", "1").exit_code == 0
    path.write_text(path.read_text() + line + "\n")
    result = run(*arguments)
    assert (result.exit_code, "not a line of a manifest" in result.err) == (2, True), result.err
    place.check()


def test_topics_of_an_input_name_no_path(place: Place, run: Run, tmp_path: Path) -> None:
    rows = place.target / "rows.jsonl"
    for topic in ("../victim", "..", ".", "a/b", "/victim", "a\0b", "a\nb", "\u202eorders", "x" * 250, ""):
        rows.write_text(json.dumps({"value": "v", "topic": topic, "partition": 0}) + "\n")
        assert run("load", rows, "--to", place.target / "logs").exit_code == 2
        assert run("load", rows, "--to", place.target / "logs", "--topic", topic.replace("\0", "%00")).exit_code == 2
        assert not (place.target / "logs").exists()
        place.check()
    (place.target / "topic=..%2Fvictim").mkdir()
    rows.write_text('{"value": "v"}\n')
    rows.rename(place.target / "topic=..%2Fvictim" / "rows.jsonl")
    assert run("load", place.target, "--to", place.target / "logs").exit_code == 2
    place.check()


def test_directories_of_columns_that_lead_in_a_circle_end(place: Place, run: Run) -> None:
    for number in range(3):
        (place.target / f"topic={number}").symlink_to(".")
    result = run("load", place.target, "--to", place.target.parent / "logs")
    assert (result.exit_code, "comes twice" in result.err) == (2, True), result.err
