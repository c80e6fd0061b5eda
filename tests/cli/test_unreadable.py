"""What cannot be read is said by every command and every method: a finding with its path, and exit code 1.

The oracle is the file system: a link to a disk that is not mounted, a directory that the kernel does not list, a log
that is not there any more.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run
from tests.permissions import as_another_user, forbid

import brokerless
from brokerless import BrokerlessError, Finding
from brokerless.log.storage.location import Location

DEMO = Path(__file__).parents[2] / "demo" / "data"
LOST = "orders-0"
INTERNAL = "__consumer_offsets-0"


def link_away(directory: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A link to a disk that is not mounted."""
    shutil.rmtree(directory / name)
    (directory / name).symlink_to("/nowhere/that/is")
    return directory / name


def fail_to_list(directory: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that the kernel answers with an error, as one without permission or on a broken disk."""
    scan = os.scandir

    def refusing(path: Any = ".") -> Any:
        if not isinstance(path, int) and os.fspath(path) == str(directory / name):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(BrokerlessError, match="put/output error"):
        Location(str(directory / name)).entries()
    return directory / name


def link_log_away(directory: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log that cannot be opened."""
    log = max((directory / name).glob("*.log"))
    log.unlink()
    log.symlink_to("/nowhere/that/is")
    return log


Break = Callable[[Path, str, pytest.MonkeyPatch], Path]
BREAKS: list[Break] = [link_away, fail_to_list, link_log_away]

COMMANDS = {
    "ls": ["ls", "DATA"],
    "ls --segments": ["ls", "DATA", "--segments"],
    "ls --topics": ["ls", "DATA", "--topics", "--json"],
    "cat": ["cat", "DATA"],
    "cat --json": ["cat", "DATA", "--json"],
    "cat --tail": ["cat", "DATA", "--tail", "1"],
    "cat --grep": ["cat", "DATA", "--grep", "nothing of this kind"],
    "batches": ["batches", "DATA"],
    "sql records": ["sql", "SELECT count(*) FROM records", "DATA"],
    "sql topic": ["sql", "SELECT count(*) FROM orders", "DATA"],
    "sql batches": ["sql", "SELECT count(*) FROM batches", "DATA"],
    "sql segments": ["sql", "SELECT count(*) FROM segments", "DATA"],
    "verify": ["verify", "DATA"],
    "audit": ["audit", "DATA"],
    "restart": ["restart", "DATA"],
    "report": ["report", "DATA", "-o", "OUT"],
    "salvage": ["salvage", "DATA", "--to", "OUT"],
    "convert": ["convert", "DATA", "--codec", "zstd", "--to", "OUT"],
    "compact": ["compact", "DATA", "--to", "OUT"],
    "erase": ["erase", "DATA", "--keys", "KEYS", "--to", "OUT"],
    "merge": ["merge", "DATA", "--to", "OUT"],
    "export": ["export", "DATA", "--to", "OUT"],
    "export iceberg": ["export", "DATA", "-t", "orders", "-t", "users", "--as", "iceberg", "--to", "OUT"],
    "pipeline": ["pipeline", "DATA", "--to", "OUT", "--no-report"],
    "size": ["size", "DATA", "-t", "orders", "-t", "users", "--codec", "lz4", "--format", "v2"],
    "schema": ["schema", "DATA"],
    "cluster": ["cluster", "DATA"],
    "rebuild": ["rebuild", "DATA", "--to", "OUT"],
    "sql transactions": ["sql", "SELECT count(*) FROM transactions", "DATA"],
    "sql topics": ["sql", "SELECT count(records) FROM topics", "DATA"],
    "sql findings": ["sql", "SELECT file, message FROM findings WHERE severity = 'error'", "DATA", "--csv"],
    "trim": ["trim", "DATA", "--free", "10KB"],
}


EXIT_CODES = {"trim": 0, "sql findings": 0}
"""One frees what it was asked for, and names of what nothing goes; the rows of the other are the findings."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Copies of three partitions, Kafka's own topics, and all that is next to them."""
    shutil.copytree(DEMO, tmp_path / "data")
    (tmp_path / "keys").write_text("u-0048\n")
    return tmp_path / "data"


@pytest.mark.parametrize("broken", BREAKS)
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_what_it_could_not_read(
    name: str, broken: Break, data: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = broken(data, LOST, monkeypatch)
    places = {"DATA": str(data), "OUT": str(tmp_path / "out"), "KEYS": str(tmp_path / "keys")}
    result = run(*(places.get(each, each) for each in COMMANDS[name]))
    assert result.exit_code == EXIT_CODES.get(name, 1), result.err
    assert path.name in result.err + result.out.decode(errors="replace") + _page(tmp_path / "out")


def _page(path: Path) -> str:
    return path.read_text() if path.is_file() else ""


@pytest.mark.parametrize("broken", BREAKS)
@pytest.mark.parametrize("table", ["groups", "offsets"])
def test_so_do_kafkas_own_topics(
    table: str, broken: Break, data: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = broken(data, INTERNAL, monkeypatch)
    result = run("internals", data, "--table", table)
    assert (result.exit_code, str(path) in result.err) == (1, True)


METHODS: dict[str, Callable[[brokerless.Log, Any], object]] = {
    "records": lambda log, report: log.records(["offset"], on_damage=report).read_all(),
    "batches": lambda log, report: log.batches(["position"], on_damage=report).read_all(),
    "segments": lambda log, report: log.segments(on_damage=report),
    "sql": lambda log, report: log.sql("SELECT count(*) FROM records", on_damage=report).read_all(),
    "sql segments": lambda log, report: log.sql("SELECT count(*) FROM segments", on_damage=report).read_all(),
    "dataset": lambda log, report: log.dataset("records", on_damage=report).to_table(columns=["offset"]),
    "dataset batches": lambda log, report: log.dataset("batches", on_damage=report).to_table(columns=["position"]),
    "dataset segments": lambda log, report: log.dataset("segments", on_damage=report).to_table(),
    "dataset transactions": lambda log, report: log.dataset("transactions", on_damage=report).to_table(),
    "dataset topics": lambda log, report: log.dataset("topics", on_damage=report).to_table(),
}


@pytest.mark.parametrize("broken", BREAKS)
@pytest.mark.parametrize("name", METHODS)
def test_every_method_reports_it_or_raises(
    name: str, broken: Break, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = broken(data, LOST, monkeypatch)
    found: list[Finding] = []
    METHODS[name](brokerless.open(data), found.append)
    errors = [each for each in found if each.severity == "error"]
    assert [each.file for each in errors] == [str(path)]
    with pytest.raises(BrokerlessError, match=str(path)):
        METHODS[name](brokerless.open(data), None)


WITHOUT_PERMISSION = {name: words for name, words in COMMANDS.items() if name not in {"cat --tail", "cluster"}}
"""Not those that come to other records first."""
NOT_OPENED = {("trim", "log")}
"""It frees whole segments, by their sizes, and opens none that stays."""
REFUSED = {"salvage": 2, "merge": 2, "rebuild": 2, **EXIT_CODES}
"""Those that write a log without the records of what they cannot read write nothing."""


@pytest.mark.parametrize("what", ["log", "directory"])
@pytest.mark.parametrize("name", WITHOUT_PERMISSION)
def test_what_this_user_may_not_read_is_never_damage(
    name: str, what: str, data: Path, run: Run, tmp_path: Path
) -> None:
    forbid(max((data / LOST).glob("*.log")) if what == "log" else data / LOST)
    places = {"DATA": str(data), "OUT": str(tmp_path / "out"), "KEYS": str(tmp_path / "keys")}
    with as_another_user():
        result = run(*(places.get(each, each) for each in WITHOUT_PERMISSION[name]))
    printed = result.err + result.out.decode(errors="replace")
    text = printed + _page(tmp_path / "out")
    assert result.exit_code == REFUSED.get(name, 1), result.err
    if (name, what) not in NOT_OPENED:
        assert "no permission" in text
        assert LOST in text
    assert "missing" not in printed.replace("offsets-missing", "")
    assert "salvage" not in text
    assert "is not there" not in text
    if name in ("salvage", "merge", "rebuild"):
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", METHODS)
def test_so_is_it_to_every_method(name: str, data: Path) -> None:
    forbid(log := max((data / LOST).glob("*.log")))
    found: list[Finding] = []
    with as_another_user():
        METHODS[name](brokerless.open(data), found.append)
    assert [(each.kind, each.file) for each in found if each.severity == "error"] == [("permission-denied", str(log))]


def lose_first_log(directory: Path) -> Path:
    return _lose(directory, min)


def lose_last_log(directory: Path) -> Path:
    return _lose(directory, max)


def lose_all_logs(directory: Path) -> Path:
    for log in directory.rglob("*.log"):
        log.unlink()
    return directory / LOST


def _lose(directory: Path, which: Callable[[list[Path]], Path]) -> Path:
    log = which(sorted((directory / LOST).glob("*.log")))
    log.unlink()
    return log


LOSSES: list[Callable[[Path], Path]] = [lose_first_log, lose_last_log, lose_all_logs]
LOSING = {
    name: words
    for name, words in COMMANDS.items()
    if name not in {"cat --tail", "cat --grep", "ls --segments", "restart", "cluster", "trim"}
}
"""Not those that look at the end of what is left, or at what a broker does with it."""


OFTEN = ("ls", "export", "convert", "verify", "sql records", "salvage")
"""Commands that are tried with each loss; others with the first."""


@pytest.mark.parametrize(
    ("name", "lose"), [(name, lose) for name in LOSING for lose in LOSSES[: None if name in OFTEN else 1]]
)
def test_a_log_that_is_gone_while_its_index_is_there_is_missing_to_every_command(
    name: str, lose: Callable[[Path], Path], data: Path, run: Run, tmp_path: Path
) -> None:
    """Kafka renames all files of a segment before it deletes them, so that the log was lost, or left out of a copy."""
    path = lose(data)
    places = {"DATA": str(data), "OUT": str(tmp_path / "out"), "KEYS": str(tmp_path / "keys")}
    result = run(*(places.get(each, each) for each in LOSING[name]))
    if name == "sql findings":
        assert "the log of this segment is missing" in result.out.decode()
        return
    assert result.exit_code == 1, result.err
    text = result.err + result.out.decode(errors="replace") + _page(tmp_path / "out")
    assert path.name in text or LOST in text  # some name the partition, with the offsets that are lost


def test_salvage_counts_what_was_in_it_as_lost(data: Path, run: Run, tmp_path: Path) -> None:
    """The first segment had offsets 0..424, as the broker that wrote it made the next one begin at 425."""
    assert sorted(int(log.stem) for log in (data / LOST).glob("*.log"))[:2] == [0, 425]
    lose_first_log(data)
    result = run("salvage", data / LOST, "--to", tmp_path / "out", "--json")
    (row,) = result.json
    assert (result.exit_code, row["startOffset"]) == (1, 425)
    assert [(loss["firstOffset"], loss["lastOffset"]) for loss in row["losses"]] == [(0, 424)]
