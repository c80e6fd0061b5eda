"""Oracle: the file system, and what a crash at each step of writing leaves on it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from brokerless.log.storage import guarded_files
from brokerless.log.storage.atomic import open_output, rename, write_file, write_output
from brokerless.log.storage.guarded_files import sync_file_system


class Crash(BaseException):
    """Not an Exception, as a kill would be none."""


def test_a_file_is_made_or_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    for data in (b"first", b"", b"0\n0\n"):
        write_file(str(path), data)
        assert path.read_bytes() == data
        assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_the_leftover_of_an_earlier_attempt_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "partition.metadata"
    (tmp_path / "partition.metadata.tmp").write_bytes(b"a longer, torn attempt")
    write_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_what_is_written_is_synced_before_it_has_its_name_and_the_directory_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "meta.properties"
    steps: list[str] = []
    sync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        sync(descriptor)
        steps.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink().name}")

    def replaced(source: str, target: str, **directories: int) -> None:
        steps.append(f"rename {source} {target}")
        replace(source, target, **directories)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    write_file(path, b"version=1\n")
    assert steps == [
        "sync meta.properties.tmp",
        "rename meta.properties.tmp meta.properties",
        f"sync {tmp_path.name}",
    ]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_until_the_rename_the_old_file_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_bytes(b"old")

    def crash(*_: Any, **directories: int) -> None:
        raise Crash

    monkeypatch.setattr(os, step, crash)
    with pytest.raises(Crash):
        write_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_an_output_that_is_a_link_is_the_file_that_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    target, link = tmp_path / "own" / "page.html", tmp_path / "link.html"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_output(link, b"new")
    assert (link.is_symlink(), target.read_bytes()) == (True, b"new")
    assert [each.name for each in target.parent.iterdir()] == [target.name]
    target.unlink()
    write_output(link, b"new")
    assert (link.is_symlink(), link.read_bytes()) == (False, b"new")  # it led nowhere


def test_an_output_that_is_no_file_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with open_output(pipe) as file:
        file.write(b"rows")
    assert os.read(reader, 9) == b"rows"
    os.close(reader)
    assert pipe.is_fifo()
    before = Path("/dev/null").stat()
    write_output("/dev/null", b"rows")
    assert Path("/dev/null").stat().st_ino == before.st_ino
    with pytest.raises(IsADirectoryError):
        write_output(tmp_path, b"rows")


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="there is no /dev/full, which Linux has")
def test_a_device_that_takes_nothing_is_an_error() -> None:
    with pytest.raises(OSError, match="No space left"):
        write_output("/dev/full", b"rows")


def test_a_directory_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_file(tmp_path / "nowhere" / "file", b"")


def test_a_whole_directory_gets_its_name_at_once(tmp_path: Path) -> None:
    (tmp_path / "topic-0.new").mkdir()
    (tmp_path / "topic-0.new" / "00000000000000000000.log").write_bytes(b"")
    rename(tmp_path / "topic-0.new", tmp_path / "topic-0")
    assert [each.name for each in tmp_path.iterdir()] == ["topic-0"]
    (tmp_path / "other").mkdir()
    with pytest.raises(OSError, match="not empty"):
        rename(tmp_path / "other", tmp_path / "topic-0")


def test_what_is_written_together_is_synced_once_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda _: synced.append("file"))
    monkeypatch.setattr(guarded_files, "sync_file_system", lambda _: synced.append("all"))
    with guarded_files.synced_together(tmp_path):
        write_file(tmp_path / "a", b"a")
        write_file(tmp_path / "b", b"b")
        assert not synced
    assert synced == ["all"]
    write_file(tmp_path / "c", b"c")
    assert synced == ["all", "file", "file"]


def test_nothing_counts_as_synced_where_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(guarded_files, "sync_file_system", lambda _: synced.append("all"))
    with pytest.raises(ZeroDivisionError), guarded_files.synced_together(tmp_path):
        raise ZeroDivisionError
    assert not synced
    with pytest.raises(OSError, match="Bad file descriptor"):
        sync_file_system(-1)
