"""A file that becomes shorter between its opening and its reading, as a broker's do: no command is killed by it, what
was there before is given, and a log that was cut is a finding. Commands run as processes, as SIGBUS ends those."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.golden import case

import brokerless
from brokerless.errors import DamageError
from brokerless.findings import Finding
from brokerless.log.storage import files

CHILD = """
import json, sys
from pathlib import Path
from brokerless.cli import main
from tests.cli.test_shrinking import CUT, COMMANDS, INDEXES, arguments_of, cutting

log = Path(sys.argv[1])
for suffix in (".log", *INDEXES):
    target = log.with_suffix(suffix)
    with cutting(target, CUT if suffix == ".log" else target.stat().st_size // 2):
        for command in COMMANDS:
            print(json.dumps([suffix, command]), file=sys.stderr)
            code = main(arguments_of(command, log, Path(sys.argv[2], suffix, command)))
            assert code in ((1,) if suffix == ".log" else (0, 1)), code
"""

LOG = case("specials/segment-v2").log
SIZE = LOG.stat().st_size
CUT, WHOLE_BEFORE = 6000, 5542
"""Where the log is cut, and where the last whole batch before that ends."""
COMMANDS = {
    "cat": ["cat"],
    "cat --json": ["cat", "--json"],
    "committed": ["cat", "--isolation", "read_committed"],
    "batches": ["batches"],
    "ls": ["ls"],
    "verify": ["verify"],
    "audit": ["audit"],
    "export": ["export", "--to", "{out}"],
    "convert": ["convert", "--codec", "zstd", "--to", "{out}"],
    "erase": ["erase", "--header", "no=such", "--to", "{out}"],
    "salvage": ["salvage", "--to", "{out}"],
}
INDEXES = (".index", ".timeindex", ".txnindex")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A partition with all three indexes and some transactions; gives its log."""
    directory = tmp_path / "orders-0"
    directory.mkdir()
    for suffix in (".log", *INDEXES):
        shutil.copy(LOG.with_suffix(suffix), directory)
        assert (directory / LOG.name).with_suffix(suffix).stat().st_size
    return directory / LOG.name


def arguments_of(command: str, log: Path, out: Path) -> list[str]:
    name, *more = COMMANDS[command]
    return [name, str(log.parent), *(each.format(out=out) for each in more)]


@contextmanager
def cutting(target: Path, size: int) -> Iterator[None]:
    """Whenever this file is opened, it is whole, and then it is cut."""
    whole, init = target.read_bytes(), files.LocalFile.__init__

    def cut_after_opening(file: files.LocalFile, path: str, descriptor: int) -> None:
        if path == str(target):
            target.write_bytes(whole)
        init(file, path, descriptor)
        if path == str(target):
            os.truncate(target, size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files.LocalFile, "__init__", cut_after_opening)
        yield
    target.write_bytes(whole)


def records_of(log: Path, end: int) -> list[int]:
    """The offsets of what is before a position."""
    before = log.parent.parent / "before" / log.name
    before.parent.mkdir()
    before.write_bytes(log.read_bytes()[:end])
    found = [each for batch in brokerless.open(before).records() for each in batch.column("offset").to_pylist()]
    shutil.rmtree(before.parent)
    return found


def test_no_process_dies_of_a_file_that_is_cut(log: Path, tmp_path: Path) -> None:
    line = [sys.executable, "-c", CHILD, str(log), str(tmp_path / "out")]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=250)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("size", [0, 10, 61, CUT, SIZE - 1])
def test_all_commands_report_a_log_that_was_cut(command: str, size: int, log: Path, tmp_path: Path, run: Run) -> None:
    if command == "export" and size < WHOLE_BEFORE:
        return  # it asks for the log's end at first, and then there is nothing to export
    with cutting(log, size):
        done = run(*arguments_of(command, log, tmp_path / "out"))
    text = done.out.decode() + done.err
    assert done.exit_code == 1, text
    assert "became shorter while it was read" in text
    if command != "salvage":  # which tells of it by offsets
        assert f"expected {SIZE} bytes, found {size} bytes" in text
    if command != "salvage" and size == CUT:
        assert f"position {WHOLE_BEFORE}" in text


def test_the_records_before_the_cut_are_given_and_the_finding_is_for_programs_too(log: Path, run: Run) -> None:
    expected = records_of(log, WHOLE_BEFORE)
    with cutting(log, CUT):
        assert [each["offset"] for each in run("cat", log.parent, "--json").json] == expected
        (error,) = [each for each in run("verify", log.parent, "--json").json if each["severity"] == "error"]
    assert error.pop("message")
    assert error == {
        "severity": "error",
        "kind": "file-shrunk",
        "file": str(log),
        "position": WHOLE_BEFORE,
        "offset": None,
        "expected": f"{SIZE} bytes",
        "found": f"{CUT} bytes",
        "scope": "log",
    }


def test_nothing_is_exported_of_a_log_that_was_cut_and_all_by_the_next_run(log: Path, tmp_path: Path, run: Run) -> None:
    export = arguments_of("export", log, tmp_path / "out")
    with cutting(log, CUT):
        assert run(*export).exit_code == 1
    assert not list((tmp_path / "out").rglob("*.parquet"))
    assert run(*export).exit_code == 0
    assert list((tmp_path / "out").rglob("*.parquet"))


@pytest.mark.parametrize("command", ["cat", "committed", "batches", "verify", "audit", "export"])
@pytest.mark.parametrize("suffix", INDEXES)
def test_an_index_that_is_cut_changes_no_record(command: str, suffix: str, log: Path, tmp_path: Path, run: Run) -> None:
    index = log.with_suffix(suffix)
    for size in (0, index.stat().st_size // 2 + 1):
        whole = run(*arguments_of(command, log, tmp_path / f"whole-{size}"))
        with cutting(index, size):
            cut = run(*arguments_of(command, log, tmp_path / f"cut-{size}"))
        assert cut.exit_code in (0, 1), cut.err
        if command in ("cat", "committed", "batches"):
            assert (cut.exit_code, cut.out) == (whole.exit_code, whole.out)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_that_is_trimmed_as_its_segment_rolls_is_no_finding(suffix: str, log: Path, run: Run) -> None:
    """A broker preallocates them, and cuts them to what is in them (``AbstractIndex.trimToValidSize``, 4.1.1)."""
    index = log.with_suffix(suffix)
    used = index.stat().st_size
    os.truncate(index, 10 << 20)
    with cutting(index, used):
        assert "ndex" not in run("verify", log.parent).out.decode().replace(str(log.parent), "")
        found = run("cat", log.parent, "--offset", 1000000100)
    assert found.exit_code == 0
    assert found.lines == run("cat", log.parent, "--offset", 1000000100).lines != []


def cut_while_reading(log: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    read = files.LocalFile.read

    def cut_before(file: files.LocalFile, position: int, length: int) -> object:
        if file.path == str(log):
            os.truncate(log, size)
        return read(file, position, length)

    monkeypatch.setattr(files.LocalFile, "read", cut_before)


def test_records_are_given_up_to_the_cut_and_then_it_is_raised_or_reported(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, expected = log.read_bytes(), records_of(log, WHOLE_BEFORE)
    opened = brokerless.open(log.parent)
    cut_while_reading(log, CUT, monkeypatch)
    found: list[int] = []
    with pytest.raises(DamageError) as raised:  # noqa: PT012 - what comes before is looked at as well
        for batch in opened.records():
            found += batch.column("offset").to_pylist()
    assert found == expected
    assert (raised.value.finding.kind, raised.value.finding.position) == ("file-shrunk", WHOLE_BEFORE)
    log.write_bytes(whole)
    told: list[Finding] = []
    assert sum(batch.num_rows for batch in opened.records(on_damage=told.append)) == len(expected)
    assert [each.kind for each in told] == ["file-shrunk"]


def test_a_slow_consumer_of_a_log_that_is_cut_goes_on_to_the_cut(tmp_path: Path) -> None:
    """Several windows, of which the broker takes some away while the consumer does its work."""
    path = tmp_path / "orders-0" / LOG.name
    path.parent.mkdir()
    batch = bytearray(case("specials/segment-v2").log.read_bytes()[:WHOLE_BEFORE])
    path.write_bytes(bytes(batch) * 5000)
    size = path.stat().st_size
    told: list[Finding] = []
    batches = brokerless.open(path).records(on_damage=told.append)
    rows = next(batches).num_rows
    os.truncate(path, size // 2)
    rows += sum(each.num_rows for each in batches)
    assert 0 < rows < len(records_of(path, WHOLE_BEFORE)) * 5000
    assert [each.found for each in told if each.kind == "file-shrunk"] == [f"{size // 2} bytes"]


def test_an_input_of_load_that_is_cut_does_not_end_without_a_word(tmp_path: Path, run: Run) -> None:
    lines = tmp_path / "records.jsonl"
    line = '{"offset": %d, "timestamp": 5, "value": "v"}\n'
    lines.write_text("".join(line % number for number in range(50_000)))
    size = lines.read_text().find("\n", 1 << 20) + 1
    with cutting(lines, size):
        done = run("load", lines, "-t", "orders", "-p", 0, "--to", tmp_path / "out")
    assert done.exit_code in (1, 2)
    assert "became shorter while it was read" in done.err
    assert not (tmp_path / "out" / "orders-0").exists()
