"""What is said where nothing can be written."""

from __future__ import annotations

import os
from errno import EACCES, EIO, ENOSPC, EROFS
from pathlib import Path

import pytest
from tests.permissions import OWNER, as_another_user

from brokerless.errors import UnwritableError
from brokerless.log.storage.atomic import write_file
from brokerless.log.storage.files import user_name
from brokerless.log.storage.guarded_files import make_directory
from brokerless.log.storage.write_errors import NEXT, refuse_directory, refused_write, unwritable


@pytest.fixture
def refusing(tmp_path: Path) -> Path:
    """A directory in which this user may not write, once it has given up what root may."""
    directory = tmp_path / "theirs"
    directory.mkdir()
    if os.geteuid() == 0:
        os.chown(directory, OWNER, OWNER)
    directory.chmod(0o555)
    return directory


def expected(path: Path, directory: Path) -> str:
    owner = f", a directory of {user_name(OWNER)}" if os.geteuid() == 0 else ""
    return f"{path}: Permission denied: {user_name(os.geteuid())} may not write into {directory}{owner}; {NEXT}"


def test_a_directory_that_refuses_is_named_with_its_owner_and_what_to_do(refusing: Path) -> None:
    path = refusing / "report.html"
    with as_another_user(), pytest.raises(UnwritableError) as error, unwritable(path):
        write_file(path, b"")
    assert str(error.value) == expected(path, refusing)


def test_so_is_one_in_which_a_directory_was_to_be_made(refusing: Path) -> None:
    path = refusing / "a" / "b"
    with as_another_user(), pytest.raises(UnwritableError) as error, unwritable(path):
        make_directory(path)
    assert str(error.value) == expected(refusing / "a", refusing)


def test_it_is_reported_before_anything_is_read(refusing: Path) -> None:
    with as_another_user(), pytest.raises(UnwritableError) as error:
        refuse_directory(refusing / "x.prom", "a file")
    assert str(error.value) == expected(refusing / "x.prom", refusing)


def test_other_errors_say_what_the_system_does() -> None:
    full = OSError(ENOSPC, os.strerror(ENOSPC), "/a/b")
    room = "No space left on device: make room on this disk, and do this again"
    assert str(refused_write(full, "/c")) == f"/a/b: {room}"
    assert str(refused_write(OSError(ENOSPC, os.strerror(ENOSPC)), "/c")) == f"/c: {room}"
    assert "dmesg" in str(refused_write(OSError(EIO, os.strerror(EIO)), "/c"))
    assert str(refused_write(OSError("no codec"))) == "no codec"
    read_only = OSError(EROFS, os.strerror(EROFS), "/nowhere/b")
    assert str(refused_write(read_only)) == (
        "/nowhere/b: Read-only file system: nothing can be written into /; name another directory"
    )
    assert "://" in str(refused_write(OSError(EACCES, os.strerror(EACCES)), "s3://bucket/a"))
