"""Files and directories in a directory of somebody else are theirs, whoever writes them and whatever the umask is."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.require import require

from brokerless.errors import UnwritableError
from brokerless.log import names
from brokerless.log.storage.atomic import write_file
from brokerless.log.storage.guarded_files import make_directory, make_inner_directory, open_own

BROKER, GROUP = 4711, 4712
"""User and group IDs that nobody has."""


@pytest.fixture(params=[0o022, 0o077, 0o777])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The directory of a broker that is another user."""
    require(os.geteuid() == 0, "only root may give files to others")
    own = tmp_path / "data"
    own.mkdir()
    own.chmod(0o750)
    os.chown(own, BROKER, GROUP)
    return own


def found(path: Path) -> tuple[int, int, int]:
    """Owner, group and mode."""
    status = path.lstat()
    return status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)


def test_new_files_and_directories_are_as_the_directory_is(directory: Path, umask: int) -> None:
    write_file(directory / "meta.properties", b"")
    assert found(directory / "meta.properties") == (BROKER, GROUP, 0o640)
    make_inner_directory(directory / "orders-0")
    assert found(directory / "orders-0") == (BROKER, GROUP, 0o750)
    os.close(open_own(directory / "orders-0" / "0.log", os.O_CREAT | os.O_WRONLY))
    assert found(directory / "orders-0" / "0.log") == (BROKER, GROUP, 0o640)


def test_a_file_that_replaces_another_one_is_as_that_one(directory: Path, umask: int) -> None:
    for name, mode in (("own", 0o600), ("all", 0o664)):
        (directory / name).write_bytes(b"old")
        os.chown(directory / name, BROKER + 1, GROUP + 1)
        (directory / name).chmod(mode)
        write_file(directory / name, b"new")
        assert found(directory / name) == (BROKER + 1, GROUP + 1, mode)
        assert (directory / name).read_bytes() == b"new"


def test_a_file_that_is_opened_again_stays_as_it_is(directory: Path) -> None:
    (directory / ".lock").touch(0o600)
    os.close(open_own(directory / ".lock", os.O_CREAT | os.O_RDWR))
    assert found(directory / ".lock") == (0, 0, 0o600)


def test_in_a_volume_of_root_the_broker_is_who_wrote_there_first(directory: Path) -> None:
    os.chown(directory, 0, 0)
    write_file(directory / "first", b"")
    assert found(directory / "first")[:2] == (0, 0)
    (directory / names.META_PROPERTIES).touch()
    os.chown(directory / names.META_PROPERTIES, BROKER, GROUP)
    write_file(directory / "second", b"")
    assert found(directory / "second")[:2] == (BROKER, GROUP)


def test_a_directory_that_all_share_says_nothing(directory: Path, umask: int) -> None:
    directory.chmod(0o1777)
    write_file(directory / "mine", b"")
    assert found(directory / "mine") == (0, 0, 0o644 & ~umask)


def test_a_new_directory_of_the_user_has_the_users_umask_and_the_owner_of_the_one_above(
    directory: Path, umask: int
) -> None:
    make_directory(directory / "out" / "data")
    for each in (directory / "out", directory / "out" / "data"):
        assert found(each) == (BROKER, GROUP, 0o777 & ~umask)


def test_who_cannot_give_files_away_writes_none(directory: Path) -> None:
    directory.chmod(0o777)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.chdir(directory)  # above it, all may be for root alone
            os.setgid(GROUP + 2)
            os.setuid(BROKER + 2)
            with pytest.raises(UnwritableError, match=f"those of user ID {BROKER}, who could not open"):
                write_file("new", b"")
            with pytest.raises(UnwritableError, match="Nothing was written"):
                make_inner_directory("orders-0")
            status = len(list(Path().iterdir()))
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
