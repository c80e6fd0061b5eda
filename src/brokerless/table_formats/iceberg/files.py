"""Writes files of local tables of Iceberg durably, which pyiceberg does not: what a catalogue names, whose file is
durable at once, has to be there after a power failure."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from brokerless.log.storage import guarded_files, paths
from brokerless.log.storage.guarded_files import sync_path


class SyncedFiles(PyArrowFileIO):
    """pyiceberg's files, of which a local one is durable when it is closed."""

    def new_output(self, location: str) -> PyArrowFile:
        own: Any = super().new_output(location)
        if paths.is_remote(location):
            return own
        return _SyncedFile(own.location, own._path, own._filesystem)


class _SyncedFile(PyArrowFile):
    def create(self, overwrite: bool = False) -> Any:
        path = Path(self._path)
        guarded_files.make_directory(path.parent)
        return _OutputStream(path, os.O_TRUNC if overwrite else os.O_EXCL)


class _OutputStream(io.BufferedWriter):
    def __init__(self, path: Path, flags: int) -> None:
        super().__init__(io.FileIO(guarded_files.open_own(path, os.O_WRONLY | os.O_CREAT | flags), "wb"))
        self._parent = path.parent

    def close(self) -> None:
        if not self.closed:
            self.flush()
            guarded_files.sync(self.fileno())
            super().close()
            sync_path(self._parent)
