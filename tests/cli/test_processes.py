"""With a process for each processor, commands write and say what they do in one process."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.golden import broker_data

from brokerless.jobs.run import job


def files(directory: Path) -> dict[str, bytes]:
    paths = (path for path in directory.rglob("*") if path.is_file() and path.parent != directory)
    return {str(path.relative_to(directory)): path.read_bytes() for path in paths}


@pytest.mark.parametrize(
    "command",
    [
        ("verify",),
        ("audit",),
        ("salvage", "--to"),
        ("salvage", "--as", "parquet", "--to"),
        ("merge", "--to"),
        ("convert", "--codec", "gzip", "--to"),
        ("erase", "--where", '"offset" % 5 = 0', "--to"),
    ],
    ids=" ".join,
)
def test_processes_write_and_say_the_same(
    run: Run, command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "from"
    for name in ("busy-0", "busy-1", "busy-small-0", "busy-txn-0", "busy-prealloc-0"):
        shutil.copytree(broker_data("unclean") / name, source / name)
    to = [tmp_path / "to"] if command[-1] == "--to" else []
    sources = [source]
    if command[0] == "merge":
        sources.append(shutil.copytree(source, tmp_path / "another"))
        min((tmp_path / "another" / "busy-0").glob("*.log")).unlink()

    alone = run(command[0], *sources, *command[1:], *to)
    written = files(tmp_path / "to")
    shutil.rmtree(tmp_path / "to", ignore_errors=True)
    monkeypatch.setattr(job, "SOME_BYTES", 0)
    monkeypatch.setattr(job, "processors", lambda: 2)
    together = run(command[0], *sources, *command[1:], *to)

    assert (together.exit_code, together.lines) == (alone.exit_code, alone.lines)
    assert sorted(together.err.splitlines()) == sorted(alone.err.splitlines())
    assert files(tmp_path / "to") == written
    assert bool(written) == bool(to)
    assert not list(tmp_path.glob("to/*-delete"))
