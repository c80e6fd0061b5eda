"""Where a table's data files are, and writing them: each is seen when a commit of the table lists it."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa

from brokerless.log.storage import file_tree, paths
from brokerless.log.storage.location import Location
from brokerless.log.storage.write_errors import storage_errors
from brokerless.offset_spans import Span
from brokerless.table_formats.catalog import TableFormat
from brokerless.table_formats.export_state import ExportState

_FILE = re.compile(
    r"date=[^/]+/partition-(?P<partition>[0-9]{1,10})-(?P<offset>[0-9]{20})-brokerless-[0-9a-f]{32}\.parquet"
)


class OpenDataFile(Protocol):
    """A data file that is being written."""

    sink: Any
    path: str
    unfinished: str
    """The file's name until it is published."""

    def finish(self) -> None: ...
    def abandon(self) -> None: ...


@dataclass(frozen=True, slots=True)
class DataTarget:
    """The place of a topic's data files; plain data, which tasks take along."""

    form: TableFormat
    topic: str
    directory: str
    """A local path, or a URL."""
    schema: pa.Schema
    """The schema of the files, with the table's field IDs if it has some."""
    settings: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """The settings of the storage."""

    @property
    def is_local(self) -> bool:
        return not paths.is_remote(self.directory)

    def new_file(self, name: str) -> OpenDataFile:
        if self.is_local:
            return file_tree.NewFile(Location(self.directory), name)
        return _StoredDataFile(self, name)

    def publish(self, unfinished: str, name: str) -> None:
        """Gives a finished file its name; what is in an object store has it."""
        if self.is_local:
            file_tree.publish(Location(self.directory), unfinished, name)

    def remove(self, name: str) -> None:
        """Removes a file that no commit lists."""
        if self.is_local:
            file_tree.remove(Location(self.directory), name)
        else:
            with suppress(Exception):  # no reader sees it
                remove_remote(self, name)

    def clean(self, state: ExportState, listed: Callable[[], set[str]]) -> None:
        """Removes what killed runs left in a local directory, where no other run is at work. ``listed``: the files
        that commits list, of which an older one may have some that are after what the newest has exported."""
        file_tree.remove_unfinished(Location(self.directory))
        left = self._after(state)
        if left:
            for name in sorted(left - listed()):
                file_tree.remove(Location(self.directory), name)

    def _after(self, state: ExportState) -> set[str]:
        """The data files that have no records that a table says it has."""
        found: set[str] = set()
        for name in file_tree.find(Location(self.directory)):
            match = _FILE.fullmatch(name)
            if match is None:
                continue
            exported = state.partitions.get(int(match["partition"]))
            offset = int(match["offset"])
            lacking: list[Span] = [] if exported is None else list(exported.missing)
            if exported is not None:
                lacking += [(first, last + 1) for first, last in exported.left_out if last is not None]
            if exported is None or offset >= exported.next_offset or any(a <= offset < b for a, b in lacking):
                found.add(name)
        return found


def data_file_name(date: str, partition: int, first_offset: int) -> str:
    """Return the name of a data file; no two have one, as an older commit may list a file of the same offsets."""
    return f"date={date}/partition-{partition}-{first_offset:020d}-brokerless-{uuid4().hex}.parquet"


class _StoredDataFile:
    """A data file in an object store, written through the storage of the format's library."""

    def __init__(self, target: DataTarget, name: str) -> None:
        self.path, self.unfinished = paths.join(target.directory, name), name
        self._target = target
        with storage_errors(self.path):
            self.sink: Any = _open_remote(target, name)

    def finish(self) -> None:
        with storage_errors(self.path):
            self.sink.close()

    def abandon(self) -> None:
        with suppress(Exception):
            self.sink.close()
        with suppress(Exception):
            remove_remote(self._target, self.unfinished)


class _BytesSink(io.RawIOBase):
    """A stream that takes nothing but bytes, for Arrow, which writes buffers."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._at = stream, 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._stream.write(bytes(data))
        self._at += len(data)
        return len(data)

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


def _open_remote(target: DataTarget, name: str) -> Any:
    if target.form == "iceberg":
        from pyiceberg.io import load_file_io

        url = paths.join(target.directory, name)
        return load_file_io(dict(target.settings), url).new_output(url).create()
    return _BytesSink(_delta_storage(target).open_output_stream(name, None))


def remove_remote(target: DataTarget, name: str) -> None:
    """Removes a file from an object store."""
    if target.form == "iceberg":
        from pyiceberg.io import load_file_io

        url = paths.join(target.directory, name)
        load_file_io(dict(target.settings), url).delete(url)
    else:
        _delta_storage(target).delete_file(name)


def is_there_remote(form: TableFormat, directory: str, name: str, settings: Mapping[str, str]) -> bool:
    """Return whether a file is in a directory of an object store; False where the storage does not say, as with
    credentials that a catalogue gives for its tables alone."""
    with suppress(Exception):
        if form == "iceberg":
            from pyiceberg.io import load_file_io

            url = paths.join(directory, name)
            return bool(load_file_io(dict(settings), url).new_input(url).exists())
        from deltalake.fs import DeltaStorageHandler
        from pyarrow.fs import FileType, PyFileSystem

        storage: Any = PyFileSystem(DeltaStorageHandler(directory, dict(settings)))
        return bool(storage.get_file_info(name).type == FileType.File)
    return False


def missing_files(target: DataTarget, urls: Iterable[str]) -> list[str]:
    """Return those of a table's data files that are not there, as the table names them. Of an object store, the table's
    directory is listed once; files elsewhere are not looked for."""
    if target.is_local:
        return [paths.local(each) for each in urls if not paths.is_remote(each) and not _is_there_local(each)]
    root = f"{paths.same_place(target.directory.rstrip('/'))}/"
    places = {each: paths.same_place(each) for each in urls}
    names = {each: place.removeprefix(root) for each, place in places.items() if place.startswith(root)}
    there = _listed(target) if names else frozenset[str]()
    if there is None:
        return []
    return [each for each, name in names.items() if name not in there and unquote(name) not in there]


def _is_there_local(url: str) -> bool:
    path = paths.local(url)
    return Path(path).exists() or Path(unquote(path)).exists()


def _listed(target: DataTarget) -> frozenset[str] | None:
    """The paths of all files in a table's directory; None where its storage has no way to list them."""
    from pyarrow.fs import FileSelector, PyFileSystem

    if target.form == "delta":
        from deltalake.fs import DeltaStorageHandler

        storage: Any = PyFileSystem(DeltaStorageHandler(target.directory, dict(target.settings)))
        return frozenset(each.path for each in storage.get_file_info(FileSelector("", recursive=True)))
    from pyiceberg.io import load_file_io

    directory: Any = load_file_io(dict(target.settings), target.directory).new_input(target.directory.rstrip("/"))
    if hasattr(directory, "_filesystem"):
        root = f"{directory._path}/"
        infos = directory._filesystem.get_file_info(FileSelector(directory._path, allow_not_found=True, recursive=True))
        return frozenset(each.path.removeprefix(root) for each in infos)
    if not hasattr(directory, "_fs"):
        return None
    root = f"{directory._fs._strip_protocol(target.directory)}/"
    return frozenset(each.removeprefix(root) for each in directory._fs.find(target.directory))


def _delta_storage(target: DataTarget) -> Any:
    from deltalake.fs import DeltaStorageHandler

    # What is in it, as Arrow's stream around it writes buffers, which it does not take.
    handler: Any = DeltaStorageHandler(target.directory, dict(target.settings))
    return handler._handler
