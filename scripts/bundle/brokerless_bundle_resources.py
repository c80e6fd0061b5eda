"""Data files and metadata of packages in the bundle, as ``importlib`` asks for them; imported when it does."""

from __future__ import annotations

import io
from importlib.metadata import Distribution
from importlib.resources.abc import Traversable, TraversableResources


class Place(Traversable):
    """A file or a directory in the bundle."""

    def __init__(self, path, archive, bundle):
        self._path, self._archive, self._bundle = path, archive, bundle

    @property
    def name(self):
        return self._path.rpartition("/")[2]

    def is_dir(self):
        return self._path in self._archive.directories

    def is_file(self):
        return self._path in self._archive.files

    def iterdir(self):
        for each in self._archive.directories.get(self._path, ()):
            yield Place(f"{self._path}/{each}", self._archive, self._bundle)

    def joinpath(self, *names):
        parts = [self._path, *(part for each in names for part in str(each).split("/") if part)]
        return Place("/".join(parts), self._archive, self._bundle)

    __truediv__ = joinpath

    def open(self, mode="r", *arguments, **options):
        entry = self._archive.files.get(self._path)
        if entry is None:
            raise FileNotFoundError(f"{self._bundle}/{self._path}")
        data = io.BytesIO(self._archive.read(entry))
        return data if "b" in mode else io.TextIOWrapper(data, *arguments, **{"encoding": "utf-8", **options})

    def read_bytes(self):
        with self.open("rb") as file:
            return file.read()

    def read_text(self, encoding=None):
        return self.read_bytes().decode(encoding or "utf-8")

    def __str__(self):
        return f"{self._bundle}/{self._path}"


class Reader(TraversableResources):
    """The data files of a package."""

    def __init__(self, *place):
        self._place = place

    def files(self):
        return Place(*self._place)


class Installed(Distribution):
    """The metadata of one package."""

    def __init__(self, directory, archive):
        self._directory, self._archive = directory, archive

    def read_text(self, filename):
        entry = self._archive.files.get(f"{self._directory}/{filename}")
        return None if entry is None else self._archive.read(entry).decode()

    def locate_file(self, path):
        return path


def distributions(archive, name):
    """The packages of a name, or all."""
    wanted = None if name is None else name.lower().replace("-", "_").replace(".", "_")
    for each in archive.directories[""]:
        if each.endswith(".dist-info") and wanted in (None, each.split("-")[0].lower().replace(".", "_")):
            yield Installed(each, archive)
