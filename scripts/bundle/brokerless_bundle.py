"""Starts brokerless out of the one file that ``make bundle`` makes: modules, shared libraries and data lie behind the
launcher in it, and nothing is unpacked to a disk.

Modules are unmarshalled from where they lie. A shared library becomes a file in memory, which the loader of the C
library opens by number, after the libraries that it needs. ``open`` and ``ctypes.CDLL`` know paths below the bundle's
own. What insists on a directory (``ON_DISK`` in ``scripts/build_bundle.py``) is unpacked to a temporary one, until the
process ends.
"""

# pathlib would take a tenth of a start.
# ruff: noqa: PTH103, PTH110, PTH115, PTH120

import _imp
import _io
import marshal
import os
import sys
from _frozen_importlib import ModuleSpec  # importlib itself is found only later
from _frozen_importlib_external import ExtensionFileLoader

BUNDLE = os.environ.pop("BROKERLESS_BUNDLE")
DESCRIPTOR = int(os.environ.pop("BROKERLESS_BUNDLE_FD"))
_MEMFD_EXEC = 0x10
_RTLD_NOW = 2
_MAP_PRIVATE_FIXED = 0x12
_PUNCH_HOLE = 3
_PAGE = 4096
_LARGE = 96 << 20
_WORTH_SHARING = 1 << 20
_CHUNK = 1 << 17


class Archive:
    """What lies in the bundle. ``modules``: by name, whether it is a package, its kind (code or library) and the entry.
    ``files``: data by path. ``libraries``: by name, those that others need. An entry is where, how many bytes, and how
    many they are when they are inflated."""

    def __init__(self, start: int, size: int) -> None:
        index = marshal.loads(os.pread(DESCRIPTOR, size, start))
        self.modules: dict[str, tuple[bool, str, tuple[int, int, int]]] = index["modules"]
        self.files: dict[str, tuple[int, int, int]] = index["files"]
        self.directories: dict[str, list[str]] = index["directories"]
        self.libraries: dict[str, tuple[int, int, int]] = index["libraries"]
        self.needs: dict[str, list[str]] = index["needs"]
        self.on_disk: dict[str, str] = index["on_disk"]
        self._opened: dict[str, str] = {}
        at, size, _ = index["dictionary"]
        self._zstandard = self.load("zstandard.backend_c")
        known = self._zstandard.ZstdCompressionDict(os.pread(DESCRIPTOR, size, at))
        self._decompress = self._zstandard.ZstdDecompressor(dict_data=known).decompress
        self._decompressor = self._zstandard.ZstdDecompressor()

    def load(self, name: str):
        """Load a module that is a shared library, before Python finds modules here."""
        if name in sys.modules or name in sys.builtin_module_names:
            return __import__(name)
        spec = ModuleSpec(name, None, origin=self.library(name, self.modules[name][2]))
        module = _imp.create_dynamic(spec)
        _imp.exec_dynamic(module)
        sys.modules[name] = module
        self.share(name, self.modules[name][2])
        return module

    def read(self, entry: tuple[int, int, int]) -> bytes:
        at, size, inflated = entry
        data = os.pread(DESCRIPTOR, size, at)
        if len(data) != size:
            sys.exit("brokerless: this file is cut off; copy it again")
        return self._decompress(data) if size != inflated else data

    def library(self, name: str, entry: tuple[int, int, int]) -> str:
        """Return a path of a library, which the loader can open, after those that it needs."""
        path = self._opened.get(name)
        if path is None:
            for each in self.needs.get(name, ()):
                self._load(each)
            path = self._opened[name] = f"/proc/self/fd/{self._as_file(name, entry)}"
        return path

    def _load(self, name: str) -> None:
        if name not in self._opened:
            entry = self.libraries[name]
            self.load("_ctypes").dlopen(self.library(name, entry), _RTLD_NOW)
            self.share(name, entry)

    def share(self, name: str, entry: tuple[int, int, int]) -> None:
        """Map what nobody writes of a library that was opened out of the bundle itself, where it lies uncompressed, and
        free the copy: memory that the system can take back, and that other processes share."""
        at, size, inflated = entry
        if size != inflated or size < _WORTH_SHARING or at % _PAGE:
            return
        descriptor = int(self._opened[name].rpartition("/")[2])
        inode = f" {os.fstat(descriptor).st_ino} "
        with _open("/proc/self/maps") as file:
            ours = [line for line in file if inode in line]
        begins = [int(line.partition("-")[0], 16) for line in ours if line.split()[2] == "00000000"]
        if not begins:
            return
        import ctypes

        system = ctypes.CDLL(None)
        system.mmap.restype = ctypes.c_void_p
        system.mmap.argtypes = (
            ctypes.c_void_p,
            *(ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int),
            ctypes.c_long,
        )
        system.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long)
        for begin, end, address, flags in segments(os.pread(DESCRIPTOR, 4096, at)):
            protection = 1 | (4 if flags & 1 else 0)
            place = begins[0] + address
            if system.mmap(place, end - begin, protection, _MAP_PRIVATE_FIXED, DESCRIPTOR, at + begin) != place:
                sys.exit("brokerless: a library cannot be mapped")
            system.fallocate(descriptor, _PUNCH_HOLE, begin, end - begin)

    def _as_file(self, name: str, entry: tuple[int, int, int]) -> int:
        at, size, inflated = entry
        descriptor = new_file(name, inflated)
        if size == inflated:
            while size:
                sent = os.sendfile(descriptor, DESCRIPTOR, at, size)
                at, size = at + sent, size - sent
            return descriptor
        for chunk in self._decompressor.read_to_iter(Packed(at, size), write_size=_CHUNK):
            if os.write(descriptor, chunk) != len(chunk):
                sys.exit("brokerless: no space is left for a library in the directory for temporary files")
        return descriptor


class Packed:
    """A compressed library, for what reads it."""

    def __init__(self, at: int, size: int) -> None:
        self._at, self._end = at, at + size

    def read(self, size: int) -> bytes:
        data = os.pread(DESCRIPTOR, min(size, self._end - self._at), self._at)
        self._at += len(data)
        return data


def new_file(name: str, size: int) -> int:
    """Return a new file in memory. Where the system does not let such files be executed, and for a large one if it can
    be, one of a temporary directory without a name: what is read of it is no memory that must stay."""
    places = (
        [on_disk, in_memory] if size > _LARGE or "BROKERLESS_BUNDLE_ON_DISK" in os.environ else [in_memory, on_disk]
    )
    for place in places:
        descriptor = place(name)
        if descriptor is not None:
            return descriptor
    sys.exit("brokerless: no file in memory can be made, and none in $TMPDIR, /var/tmp, /tmp or /dev/shm")


def in_memory(name: str) -> int | None:
    for flags in (_MEMFD_EXEC, 0):
        try:
            return os.memfd_create(name, flags | os.MFD_CLOEXEC)
        except OSError:
            continue
    return None


def on_disk(name: str) -> int | None:
    for each in (os.environ.get("TMPDIR"), "/var/tmp", "/tmp", "/dev/shm"):
        try:
            if each and not os.statvfs(each).f_flag & os.ST_NOEXEC:
                return os.open(each, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o700)
        except OSError:
            continue
    return None


def segments(head: bytes):
    """Yield which whole pages of a library are only read: where they begin and end in its file, where in memory, and
    what may be done with them. ``head``: the file's first bytes."""
    word = int.from_bytes
    table, size, count = word(head[32:40], "little"), word(head[54:56], "little"), word(head[56:58], "little")
    found = []
    for each in range(count):
        entry = head[table + each * size : table + (each + 1) * size]
        if word(entry[:4], "little") == 1:
            numbers = [word(entry[place : place + 8], "little") for place in (8, 16, 32, 40)]
            found.append((word(entry[4:8], "little"), *numbers))
    written = [(at // _PAGE, (at + length) // _PAGE) for flags, at, _, length, _ in found if flags & 2]
    for flags, at, address, length, _ in found:
        begin, end = -(-at // _PAGE), (at + length) // _PAGE
        for first, last in written:
            if first < end and begin <= last:
                begin, end = (last + 1, end) if first <= begin else (begin, first)
        if not flags & 2 and begin < end:
            yield begin * _PAGE, end * _PAGE, address - at + begin * _PAGE, flags


class Loader:
    """Loads a module of Python code."""

    def __init__(self, name: str, entry: tuple[int, int, int]) -> None:
        self._name, self._entry = name, entry

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: object) -> None:
        exec(self.get_code(self._name), module.__dict__)

    def get_code(self, name: str):
        return marshal.loads(archive.read(self._entry))

    def get_source(self, name: str) -> None:
        return None

    def is_package(self, name: str) -> bool:
        return archive.modules[name][0]

    def get_filename(self, name: str) -> str:
        return path_of(name)

    def get_data(self, path: str) -> bytes:
        return read_data(path)

    def get_resource_reader(self, name: str):
        from brokerless_bundle_resources import Reader

        return Reader(name.replace(".", "/"), archive, BUNDLE)


class NamespaceLoader(Loader):
    """Loads a package without code."""

    def __init__(self, name: str) -> None:
        super().__init__(name, (0, 0, 0))

    def get_code(self, name: str):
        return compile("", path_of(name), "exec")


class LibraryLoader(ExtensionFileLoader):
    """Loads a module that is a shared library."""

    def create_module(self, spec: ModuleSpec):
        real = ModuleSpec(spec.name, self, origin=archive.library(spec.name, archive.modules[spec.name][2]))
        module = _imp.create_dynamic(real)
        archive.share(spec.name, archive.modules[spec.name][2])
        return module

    def get_resource_reader(self, name: str):
        from brokerless_bundle_resources import Reader

        return Reader(name.replace(".", "/"), archive, BUNDLE)


class Finder:
    """Finds modules in the bundle."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        found = archive.modules.get(name)
        if found is None:
            if name.replace(".", "/") not in archive.directories:
                return None
            spec = ModuleSpec(name, NamespaceLoader(name), origin=None, is_package=True)
            spec.submodule_search_locations = [f"{BUNDLE}/{name.replace('.', '/')}"]
            return spec
        is_package, kind, entry = found
        at = path_of(name)
        if name in archive.on_disk:
            at = f"{unpack(name)}/{name}/__init__.py"
        of_code = CtypesLoader if name == "ctypes" else Loader
        loader = LibraryLoader(name, at) if kind == "library" else of_code(name, entry)
        spec = ModuleSpec(name, loader, origin=at, is_package=is_package)
        spec.has_location = True
        if is_package:
            spec.submodule_search_locations = [at.rpartition("/")[0]]
        return spec

    @staticmethod
    def find_distributions(context: object):
        from brokerless_bundle_resources import distributions

        return distributions(archive, context.name)

    @staticmethod
    def invalidate_caches() -> None:
        pass


def path_of(name: str) -> str:
    is_package, kind, _ = archive.modules.get(name, (True, "code", None))
    end = "/__init__" if is_package else ""
    return f"{BUNDLE}/{name.replace('.', '/')}{end}{'.so' if kind == 'library' else '.py'}"


def entry_of(path: object) -> tuple[int, int, int] | None:
    """Where a path below the bundle's own lies, if it is one."""
    try:
        text = os.fspath(path)
    except TypeError:
        return None
    if type(text) is str and text.startswith(BUNDLE + "/"):
        return archive.files.get(os.path.normpath(text)[len(BUNDLE) + 1 :])
    return None


def read_data(path: str) -> bytes:
    entry = entry_of(path)
    if entry is None:
        with _open(path, "rb") as file:
            return file.read()
    return archive.read(entry)


_open = _io.open


def open_any(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, closefd=True, opener=None):
    """As ``open``; also of what lies in the bundle."""
    entry = None if isinstance(file, int) else entry_of(file)
    if entry is None or set(mode) & set("wax+"):
        return _open(file, mode, buffering, encoding, errors, newline, closefd, opener)
    data = _io.BytesIO(archive.read(entry))
    return data if "b" in mode else _io.TextIOWrapper(data, encoding or "utf-8", errors, newline)


def unpack(package: str) -> str:
    """Unpack the data of a package that wants a directory, until the process ends; return where."""
    import atexit
    import shutil
    import tempfile

    try:
        directory = tempfile.mkdtemp(prefix="brokerless-")
    except OSError:
        use = archive.on_disk[package]
        raise ModuleNotFoundError(
            f"{use} needs a directory for temporary files: set TMPDIR to one", name=package
        ) from None
    own = os.getpid()
    atexit.register(lambda: os.getpid() == own and shutil.rmtree(directory, ignore_errors=True))
    for each, entry in archive.files.items():
        if each.startswith(package + "/"):
            place = f"{directory}/{each}"
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with _open(place, "wb") as file:
                file.write(archive.read(entry))
    return directory


def install() -> None:
    """Makes Python find what lies in the bundle, and start its processes from it."""
    import builtins
    import io

    sys.path[:] = []
    sys.path_importer_cache.clear()
    # What is built in and frozen comes first, as ever.
    sys.meta_path[:] = [each for each in sys.meta_path if "PathFinder" not in repr(each)]
    sys.meta_path.append(Finder)
    for each in ("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE"):
        os.environ.pop(each, None)
    os.set_inheritable(DESCRIPTOR, False)
    for each in range(3, DESCRIPTOR + 40):
        try:
            if os.readlink(f"/proc/self/fd/{each}").startswith("/memfd:brokerless-"):
                os.set_inheritable(each, False)
        except OSError:
            continue
    sys.executable = sys._base_executable = BUNDLE
    sys.prefix = sys.exec_prefix = sys.base_prefix = sys.base_exec_prefix = BUNDLE
    builtins.open = io.open = open_any
    if "SSL_CERT_FILE" not in os.environ and "SSL_CERT_DIR" not in os.environ:
        places = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem")
        for each in places:
            if os.path.exists(each):
                os.environ["SSL_CERT_FILE"] = each
                break


class CtypesLoader(Loader):
    """Loads ctypes, and lets it open libraries of the bundle."""

    def exec_module(self, module: object) -> None:
        super().exec_module(module)
        given = module._dlopen

        def dlopen(path, *arguments):
            text = path if isinstance(path, str) else ""
            if text.startswith(BUNDLE + "/"):
                inner = os.path.normpath(text)[len(BUNDLE) + 1 :]
                name = inner.rpartition(".")[0].replace("/", ".")
                if inner in archive.files:
                    path = archive.library(inner, archive.files[inner])
                elif name in archive.modules:
                    path = archive.library(name, archive.modules[name][2])
            return given(path, *arguments)

        module._dlopen = dlopen


def run() -> None:
    """The command line; or, for the processes of a job, Python's."""
    install()
    arguments = sys.argv[1:]
    place = 0
    while place < len(arguments) and arguments[place][:1] == "-" and arguments[place][:2] in _FLAGS:
        place += 1 + (arguments[place] in ("-X", "-W"))
    if arguments[place : place + 1] in (["-c"], ["-m"]) and place + 1 < len(arguments):
        import __main__

        kind, what = arguments[place : place + 2]
        if kind == "-c":
            sys.argv = ["-c", *arguments[place + 2 :]]
            exec(compile(what, "<string>", "exec"), __main__.__dict__)
            return
        import runpy

        sys.argv = [what, *arguments[place + 2 :]]
        runpy.run_module(what, run_name="__main__", alter_sys=True)
        return
    sys.argv = ["brokerless", *arguments]
    from brokerless.__main__ import run as run_command

    run_command()


_FLAGS = ("-B", "-E", "-I", "-s", "-S", "-X", "-W", "-O", "-P", "-u", "-d", "-v", "-b", "-q")
# Filled in by scripts/build_bundle.py: where the index lies.
archive = Archive(*PLACE_OF_INDEX)  # noqa: F821  # pyright: ignore
