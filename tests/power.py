"""A disk that loses power: what was not synced is there in any part, and in any order.

The directory is watched: each change of a name (made, renamed, removed) is an operation, each content of a file a
version. A sync of a file makes its content durable, one of a directory the changes of its names. After a failure, any
of the other operations may be there without those before them, and of a file's content any version since its sync, any
part of the last one, or zeros in place of a part. A rename is one operation, as file systems with a journal have it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

CHANGES = ("rename", "replace", "link", "unlink", "remove", "mkdir", "rmdir")
_TICK_NS = 100_000_000
"""Within which a file may change without another time."""
Names = dict[int, dict[str, int]]
"""Of each directory's inode, the names in it and their inodes."""


@dataclass(frozen=True)
class Operation:
    """A name that gets an inode (None: that goes), and the name that it had, if it is renamed."""

    directory: int
    name: str
    inode: int | None
    source: tuple[int, str] | None = None


@dataclass
class Content:
    """What a file has: when it was synced (None: never), and since then."""

    durable: bytes | None
    versions: list[bytes] = field(default_factory=list)


@dataclass(frozen=True)
class Moment:
    """What there is when something is about to change: ``durable``: which operations are."""

    durable: tuple[bool, ...]
    contents: dict[int, tuple[bytes | None, tuple[bytes, ...]]]


class FailingDisk:
    """A directory, and all the moments at which the power may fail while something writes there."""

    def __init__(self, root: Path, synced: str = "/") -> None:
        """``synced``: how names of files begin that are durable at once, as those of SQLite."""
        self._synced = synced
        self.root, self.moments, self.operations = root, list[Moment](), list[Operation]()
        self._held: dict[int, int] = {}
        self._durable: list[bool] = []
        self._contents: dict[int, Content] = {}
        self._read_at: dict[int, tuple[int, int]] = {}
        self._directories: set[int] = set()
        self._root = self._inode(root)
        self._names: Names = {self._root: {}}
        self._look()
        self.sync_all()  # it was there before
        self.moments.clear()

    def _inode(self, path: Path) -> int:
        inode = path.lstat().st_ino
        if inode not in self._held:  # else the inode of a file that is gone would be another file's soon
            self._held[inode] = os.open(path, os.O_PATH | os.O_NOFOLLOW)
        return inode

    def release(self) -> None:
        """Closes what has a name, in a directory that stays: no other file gets its inode."""
        for inode in {inode for own in self._names.values() for inode in own.values()}:
            os.close(self._held.pop(inode))

    def close(self) -> None:
        for descriptor in self._held.values():
            os.close(descriptor)

    def _look(self) -> None:
        """Notices what has changed."""
        names: Names = {}
        for directory, inner, files in os.walk(self.root):
            path = Path(directory)
            own = names[self._inode(path)] = {name: self._inode(path / name) for name in (*inner, *files)}
            self._directories |= {own[name] for name in inner}
            for name in files:
                self._read(path / name, own[name])
        before = {(at, name): inode for at, own in self._names.items() for name, inode in own.items()}
        now = {(at, name): inode for at, own in names.items() for name, inode in own.items()}
        gone = {inode: at for at, inode in before.items() if now.get(at) != inode and inode not in now.values()}
        moved = {inode: at for at, inode in before.items() if now.get(at) != inode and inode in now.values()}
        for (directory, name), inode in now.items():
            if before.get((directory, name)) != inode:
                self._add(Operation(directory, name, inode, moved.get(inode)))
        for directory, name in gone.values():
            if (directory, name) not in now:
                self._add(Operation(directory, name, None))
        self._names = names
        for number, each in enumerate(self.operations):
            if each.name.startswith(self._synced):
                self._durable[number] = True
                if each.inode in self._contents:
                    self._make_durable(self._contents[each.inode])

    def _make_durable(self, content: Content) -> None:
        if content.versions:
            content.durable = content.versions[-1]
            content.versions.clear()

    def _read(self, path: Path, inode: int) -> None:
        status = path.stat()
        state = status.st_size, status.st_mtime_ns
        if self._read_at.get(inode) == state and time.time_ns() - status.st_mtime_ns > _TICK_NS:
            return
        self._read_at[inode] = state
        data = path.read_bytes()
        content = self._contents.setdefault(inode, Content(None))
        if data != (content.versions[-1] if content.versions else content.durable):
            content.versions.append(data)

    def _add(self, operation: Operation) -> None:
        self.operations.append(operation)
        self._durable.append(False)

    def sync(self, descriptor: int) -> None:
        """``os.fsync``."""
        self._moment()
        inode = os.fstat(descriptor).st_ino
        if inode in self._names:
            for number, each in enumerate(self.operations):
                if each.directory == inode or (each.source is not None and each.source[0] == inode):
                    self._durable[number] = True
        elif (content := self._contents.get(inode)) is not None:
            self._make_durable(content)
        self._moment()

    def sync_all(self, _: int = -1) -> None:
        """``syncfs``."""
        self._moment()
        self._durable = [True] * len(self._durable)
        for content in self._contents.values():
            self._make_durable(content)
        self._moment()

    def _moment(self) -> None:
        self._look()
        contents = {inode: (each.durable, tuple(each.versions)) for inode, each in self._contents.items()}
        self.moments.append(Moment(tuple(self._durable), contents))

    @contextmanager
    def watched(self) -> Generator[None]:
        """Watches what is written meanwhile."""
        real = {name: getattr(os, name) for name in CHANGES}

        def watch(name: str) -> Callable[..., Any]:
            def call(*arguments: Any, **options: Any) -> Any:
                self._moment()
                try:
                    return real[name](*arguments, **options)
                finally:
                    self._look()

            return call

        with (
            mock.patch.multiple("os", fsync=self.sync, **{name: watch(name) for name in CHANGES}),
            mock.patch("brokerless.log.storage.guarded_files.sync_file_system", self.sync_all),
        ):
            yield
        self._moment()

    def after_failure(
        self, target: Path, moment: Moment, random: Random | None = None, share: float | None = None
    ) -> dict[int, int]:
        """Makes a directory with what there may be after the power failed at a moment; returns the inodes that its
        directories have now, by those that they had. ``share``: of what was not synced, how much is there; with 0
        nothing, and with 1 all."""
        random = random or Random(0)
        inodes: dict[int, int] = {}
        share = random.choice((0.0, 0.5, 0.5, 1.0)) if share is None else share
        names: Names = {}
        for is_durable, each in zip(moment.durable, self.operations, strict=False):
            if not is_durable and random.random() >= share:
                continue
            own = names.setdefault(each.directory, {})
            if each.inode is None:
                own.pop(each.name, None)
                continue
            own[each.name] = each.inode
            if each.source is not None and names.get(each.source[0], {}).get(each.source[1]) == each.inode:
                del names[each.source[0]][each.source[1]]
        contents: dict[int, bytes] = {}

        def put(inode: int, path: Path) -> None:
            if inode in self._directories or inode == self._root:
                path.mkdir()
                inodes[inode] = path.stat().st_ino
                for name, each in names.get(inode, {}).items():
                    put(each, path / name)
                return
            if inode not in contents:
                contents[inode] = _content(*moment.contents.get(inode, (None, ())), random, share)
            path.write_bytes(contents[inode])

        put(self._root, target)
        return inodes


def _content(durable: bytes | None, versions: tuple[bytes, ...], random: Random, share: float) -> bytes:
    synced = durable or b""
    if not versions or share == 0.0:
        return synced
    last = versions[-1]
    if share == 1.0:
        return last
    form = random.randrange(6)
    if form < 2:
        return random.choice((synced, *versions))
    kept = next((at for at, (one, two) in enumerate(zip(synced, last, strict=False)) if one != two), len(synced))
    cut = random.randint(kept, max(kept, len(last)))
    if len(last) < len(synced):
        return random.choice((synced, last))
    if form < 4:
        return last[:cut]
    following = len(last) if form == 4 else random.randint(cut, len(last))  # a page that was not written
    return last[:cut] + bytes(following - cut) + last[following:]
