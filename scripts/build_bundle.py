"""Makes one file that is brokerless with all that it needs: ``python scripts/build_bundle.py UV WHEEL CACHE OUT``.

The file begins with a launcher (``scripts/bundle/launcher.c``), which is linked statically. Behind it lie the Python
that runs this script, the C library that it was linked with, the modules of Python and of the wheel with all extras but
Spark, and their shared libraries. ``scripts/bundle/brokerless_bundle.py`` reads each when it is needed.

What takes little to decompress, or is not opened by `ls`, is compressed; see decision 46 for what that costs.
"""

from __future__ import annotations

import hashlib
import io
import marshal
import os
import platform
import re
import struct
import sys
import sysconfig
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import zstandard

sys.path.insert(0, str(Path(__file__).parent))

from bundle_libraries import needed_by, run, stripped, unused, without_needed

ROOT = Path(__file__).parents[1]
SOURCES = Path(__file__).parent / "bundle"
EXTRAS = "s3,report,erase,tiered,sql,decode,restore,iceberg,delta,pipeline"
"""All but Spark."""
LEVEL = 19
DICTIONARY = 1 << 18
"""Bytes. Modules are small and alike: with what they have in common at hand, they take a quarter less."""
BUILT_IN = {"_ctypes", "zstandard.backend_c"}
"""What opens and decompresses other libraries."""
STORED = re.compile(r"/(libarrow|libcrypto|libstdc\+\+)\.so")
"""Large libraries that are not compressed, as `ls` opens them: copying takes a third of the time of decompressing, and
what is only read of them is mapped from where it lies, so that it is no memory that must stay."""
START = ("encodings", "brokerless_bundle")
"""What Python imports before it finds anything in the bundle."""
ON_DISK = {"botocore": "reading object stores (the extra s3)", "grpc_tools": "compiling .proto files"}
"""Packages that read their data by path; and what they are for."""
NOT_OF_PYTHON = re.compile(
    r"(test|idlelib|distutils|tkinter|turtledemo|ensurepip|venv|lib2to3|pydoc_data|_pyrepl|turtle\.py|config-[^/]*|site-packages)(/|$)"
)
UNUSED = (
    r"^(grpc|setuptools|pkg_resources|_distutils_hack|hive_metastore|pygments|jsonschema/benchmarks"
    r"|sqlalchemy/dialects/(mysql|oracle|mssql|postgresql))/"
)
"""What packages ask for and brokerless calls nothing of: gRPC beside the compiler of .proto files, services and
databases of Iceberg's catalogs."""
NO_MODULES = re.compile(rf"(^|/)(tests?|f2py|__pycache__)/|_virtualenv\.py$|{UNUSED}")
NO_FILES = re.compile(
    r"\.(pyi|pxd|pxi|pyx|h|hpp|a|lib|c|cc|cpp|pyc|whl|exe|virtualenv|pth|typed|dist-info/RECORD|cmake|jar)$|dist-info/(RECORD|direct_url|INSTALLER|REQUESTED|sboms)"
    rf"|(^|/)(tests?|__pycache__|include)/|{UNUSED}"
)
NO_LIBRARIES = re.compile(
    r"pyarrow/_(flight|substrait|pyarrow_cpp_tests)\.|numpy/_core/_(simd|\w+_tests)\."
    rf"|(^|/)(_test\w*|_ctypes_test|_xxtest\w*|xxlimited\w*|xxsubtype|_tkinter|nis)\.|{UNUSED}"
)
BOTOCORE = {"s3", "sts", "sso", "sso-oidc", "signin"}
"""The services of which S3 has need."""
PAGE = 4096
PART = struct.Struct("=48sQQ")
MAGIC = b"brokerless bundle: its own parts"
SUFFIX = re.compile(r"(\.cpython-\d+-[\w-]+|\.abi3)?\.so$")


class Bundle:
    """The file that is written, and what lies where in it."""

    def __init__(self, cache: Path) -> None:
        self.data = bytearray()
        self.cache = cache
        self.modules: dict[str, tuple[bool, str, tuple[int, int, int]]] = {}
        self.files: dict[str, tuple[int, int, int]] = {}
        self.libraries: dict[str, tuple[int, int, int]] = {}
        self.needs: dict[str, list[str]] = {}
        self.dictionary = zstandard.ZstdCompressionDict(b"")

    def learn(self, samples: list[bytes]) -> None:
        """Compress what is small with what these have in common."""
        self.dictionary = zstandard.train_dictionary(DICTIONARY, samples)
        self.dictionary.precompute_compress(level=LEVEL)

    def add(self, data: bytes, *, align: int = 1) -> tuple[int, int, int]:
        self.data += b"\0" * (-len(self.data) % align)
        at = len(self.data)
        self.data += data
        return at, len(data), len(data)

    def pack(self, data: bytes) -> bytes:
        return zstandard.ZstdCompressor(level=LEVEL, dict_data=self.dictionary).compress(data)

    def add_packed(self, data: bytes, packed: bytes, *, align: int = 1) -> tuple[int, int, int]:
        if len(packed) >= len(data):
            return self.add(data, align=align)
        at, size, _ = self.add(packed, align=align)
        return at, size, len(data)

    def add_library(self, data: bytes, *, is_stored: bool) -> tuple[int, int, int]:
        return self.add(data, align=PAGE) if is_stored else self.add_packed(data, self.packed(data), align=8)

    def packed(self, data: bytes) -> bytes:
        """Compressed, out of the cache where it was compressed before."""
        place = self.cache / f"{hashlib.sha256(data).hexdigest()}.{LEVEL}.zst"
        if not place.exists():
            new = place.with_name(f"{place.name}.{os.getpid()}")
            new.write_bytes(zstandard.ZstdCompressor(level=LEVEL).compress(data))
            new.replace(place)
        return place.read_bytes()


def main() -> None:
    uv, wheel, cache, directory = sys.argv[1], *map(Path, sys.argv[2:])
    system, machine = platform.system().lower(), platform.machine()
    if system != "linux":
        sys.exit("a bundle is for Linux: on macOS, install a wheel")
    blobs = cache / "blobs"
    blobs.mkdir(parents=True, exist_ok=True)
    venv = make_venv(uv, wheel, cache)
    bundle = Bundle(blobs)
    launcher = make_launcher(cache)
    bundle.add(launcher)
    parts = add_python(bundle)
    add_modules(bundle, venv)
    index = {
        "modules": bundle.modules,
        "files": bundle.files,
        "directories": directories_of(bundle),
        "libraries": bundle.libraries,
        "needs": bundle.needs,
        "on_disk": ON_DISK,
        "dictionary": bundle.add(bundle.dictionary.as_bytes()),
    }
    at, size, _ = bundle.add(marshal.dumps(index))
    fill_table(bundle.data, parts)
    bundle.data += start_archive((at, size), len(bundle.data))
    version = wheel.name.split("-")[1]
    target = directory / f"brokerless-{version}-{system}-{machine}"
    directory.mkdir(parents=True, exist_ok=True)
    new = target.with_name(f".{target.name}.{os.getpid()}")
    new.write_bytes(bundle.data)
    new.chmod(0o755)
    new.replace(target)
    print(
        f"{target}: {len(bundle.data) / 1e6:.0f} MB, Python {platform.python_version()}, {len(bundle.modules)} modules"
    )


def make_venv(uv: str, wheel: Path, cache: Path) -> Path:
    """Return the directory of the packages: the wheel with its extras, in the versions of the lock."""
    venv = cache / "venv"
    stamp = venv / "installed"
    lock = ROOT / "locks" / "newest.txt"
    now = hashlib.sha256(wheel.read_bytes() + lock.read_bytes() + EXTRAS.encode() + sys.version.encode()).hexdigest()
    if not stamp.exists() or stamp.read_text() != now:
        run([uv, "venv", "--quiet", "--clear", "--no-python-downloads", "--python", sys.executable, str(venv)])
        python = ["--python", str(venv / "bin" / "python")]
        run([uv, "pip", "install", "--quiet", *python, "--constraint", str(lock), f"{wheel}[{EXTRAS}]", "tzdata"])
        stamp.write_text(now)
    (packages,) = venv.glob("lib/python*/site-packages")
    return packages


def make_launcher(cache: Path) -> bytes:
    target = cache / "launcher"
    compiler = os.environ.get("CC", "cc")
    run(
        [
            compiler,
            "-O2",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-static",
            "-s",
            "-o",
            str(target),
            str(SOURCES / "launcher.c"),
        ]
    )
    return target.read_bytes()


def add_python(bundle: Bundle) -> list[tuple[str, tuple[int, int, int]]]:
    """Add Python, its loader and their libraries, which are not compressed; return them in the launcher's order."""
    python, needed = this_python(), boot_libraries()
    loader = next(path for name, path in needed.items() if name.startswith("ld-"))
    ours = {"python": python, **{name: path for name, path in needed.items() if path != loader}}
    parts = [("loader", bundle.add(loader.read_bytes(), align=PAGE))]
    for name, path in ours.items():
        parts.append((name, bundle.add(stripped(path), align=PAGE)))
    return parts


def system_libraries(path: Path) -> dict[str, Path]:
    """Return where the system has the shared libraries that a file needs, by name."""
    text = run(["ldd", str(path)])
    found: dict[str, Path] = {}
    for line in text.splitlines():
        match = re.match(r"\s*(?:(\S+) => )?(/\S+) \(", line)
        if match is not None:
            found[match[1] or Path(match[2]).name] = Path(match[2])
        elif "not found" in line:
            sys.exit(f"{path} needs {line.strip()}")
    return found


def add_modules(bundle: Bundle, packages: Path) -> None:
    """Add the modules, data and libraries of Python and of the packages."""
    standard = Path(sysconfig.get_path("stdlib"))
    dynamic = Path(sysconfig.get_config_var("DESTSHARED"))
    code: dict[str, tuple[bool, bytes]] = {}
    data: dict[str, bytes] = {}
    modules: list[tuple[str, Path]] = []
    private: dict[str, Path] = {}
    for root in (standard, dynamic, packages):
        for path in sorted(root.rglob("*")):
            inner = path.relative_to(root).as_posix()
            if not path.is_file() or (root == standard and (dynamic in path.parents or "site-packages" in path.parts)):
                continue
            if inner.endswith(".py"):
                if not NO_MODULES.search(inner) and not (root == standard and NOT_OF_PYTHON.match(inner)):
                    code |= compiled(inner, path)
            elif re.search(r"\.so(\.[\d.]+)?$", inner) and not inner.startswith("brokerless/"):
                if NO_LIBRARIES.search(inner) or "/tests/" in inner:
                    continue
                if is_module(inner):
                    modules.append((SUFFIX.sub("", inner).replace("/", "."), path))
                else:
                    private[path.name] = path
            elif root == packages and is_data(inner):
                data[inner] = path.read_bytes()
    for each in SOURCES.glob("*.py"):
        if each.stem not in START:
            code |= compiled(each.name, each)
    add_small(bundle, code, data)
    add_libraries(bundle, modules, private)


def add_small(bundle: Bundle, code: dict[str, tuple[bool, bytes]], data: dict[str, bytes]) -> None:
    """Add modules of Python and data. Kernels are libraries that are opened at nearly every start."""
    bundle.learn([each for _, each in code.values()])
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        packed = list(pool.map(bundle.pack, [each for _, each in code.values()]))
    for (name, (is_package, inflated)), each in zip(code.items(), packed, strict=True):
        bundle.modules[name] = (is_package, "code", bundle.add_packed(inflated, each))
    for inner, each in data.items():
        is_kernel = inner.startswith("brokerless/kernels/") and inner.endswith(".so")
        bundle.files[inner] = bundle.add(each, align=8) if is_kernel else bundle.add_packed(each, bundle.pack(each))


def this_python() -> Path:
    return Path(os.path.realpath(sys._base_executable))  # pyright: ignore


def boot_libraries() -> dict[str, Path]:
    """Return the libraries that Python needs, and those that it needs to open others."""
    found = system_libraries(this_python())
    for each in Path(sysconfig.get_config_var("DESTSHARED")).glob("*.so"):
        if SUFFIX.sub("", each.name) in BUILT_IN:
            found |= system_libraries(each)
    return found


def is_module(inner: str) -> bool:
    """Whether Python imports a shared library; others are what those need."""
    name = Path(inner).name
    is_library = name.startswith("lib") and not name.startswith("lib.")
    return SUFFIX.search(inner) is not None and ".libs/" not in inner and not is_library


def is_data(inner: str) -> bool:
    if NO_FILES.search(inner):
        return False
    if inner.startswith("botocore/data/"):
        first = inner.split("/")[2]
        return "/" not in inner[len("botocore/data/") :] or first in BOTOCORE
    if inner.startswith("brokerless/kernels/"):
        return True
    return not re.search(r"\.so(\.[\d.]+)?$", inner)


def compiled(inner: str, path: Path) -> dict[str, tuple[bool, bytes]]:
    """Return a module by its name: whether it is a package, and its code."""
    parts = inner[:-3].split("/")
    is_package = parts[-1] == "__init__"
    name = ".".join(parts[:-1] if is_package else parts)
    if not all(re.fullmatch(r"[\w-]+", part) for part in name.split(".")):
        return {}
    try:
        code = compile(path.read_bytes(), inner, "exec", dont_inherit=True, optimize=0)
    except (SyntaxError, ValueError):
        return {}  # of another version of Python
    return {name: (is_package, marshal.dumps(code))}


def add_libraries(bundle: Bundle, modules: list[tuple[str, Path]], private: dict[str, Path]) -> None:
    """Add shared libraries: those that are modules, and those that they use and Python has not loaded."""
    loaded = boot_libraries()
    wanted: dict[str, Path] = {}
    left_out: dict[Path, set[str]] = {}
    everything = list(modules)
    while everything:
        name, path = everything.pop()
        if path in left_out:
            continue
        left_out[path] = unused(path, private)
        found = system_libraries_by_name(path)
        direct = [each for each in needed_by(path) if each not in {*loaded, *left_out[path]} and each[:3] != "ld-"]
        for each in direct:
            target = private.get(each) or found.get(each)
            if target is None:
                sys.exit(f"{path} needs {each}, which is nowhere")
            if each not in wanted:
                wanted[each] = target
                everything.append((each, target))
        if direct:
            bundle.needs[name] = direct

    def prepare(path: Path) -> bytes:
        data = without_needed(stripped(path), left_out[path])
        bundle.packed(data)
        return data

    paths = {**dict(modules), **wanted}
    first = BUILT_IN.union(*(bundle.needs.get(each, ()) for each in BUILT_IN))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        prepared = dict(zip(paths, pool.map(prepare, paths.values()), strict=True))
    for name, data in prepared.items():
        entry = bundle.add_library(data, is_stored=name in first or STORED.search(str(paths[name])) is not None)
        if name in wanted:
            bundle.libraries[name] = entry
        else:
            bundle.modules[name] = (False, "library", entry)


def system_libraries_by_name(path: Path) -> dict[str, Path]:
    try:
        return system_libraries(path)
    except SystemExit:
        return {}


def directories_of(bundle: Bundle) -> dict[str, list[str]]:
    """Return what each directory has, of data files and packages."""
    found: dict[str, set[str]] = {"": set()}
    packages = [f"{name.replace('.', '/')}/__init__" for name, (is_package, *_) in bundle.modules.items() if is_package]
    for path in [*bundle.files, *packages]:
        while path:
            parent, _, name = path.rpartition("/")
            if name != "__init__":
                found.setdefault(parent, set()).add(name)
            else:
                found.setdefault(parent, set())
            path = parent
    for name in bundle.modules:
        path = name.replace(".", "/")
        while "/" in path:
            path = path.rpartition("/")[0]
            found.setdefault(path, set())
    return {each: sorted(names) for each, names in found.items()}


def fill_table(data: bytearray, parts: list[tuple[str, tuple[int, int, int]]]) -> None:
    at = data.find(MAGIC)
    if at < 0 or data.find(MAGIC, at + 1, 1 << 20) >= 0:
        sys.exit("the launcher has no table of parts, or two")
    struct.pack_into("=Q", data, at + 32, len(parts))
    for number, (name, (offset, size, _)) in enumerate(parts):
        PART.pack_into(data, at + 40 + number * PART.size, f"brokerless-{name}"[:47].encode(), offset, size)


def start_archive(place: tuple[int, int], before: int) -> bytes:
    """Return the archive that Python starts from, which lies at the end: ``zipimport`` looks for it there."""
    standard = Path(sysconfig.get_path("stdlib"))
    target = io.BytesIO()
    magic = __import__("importlib.util").util.MAGIC_NUMBER
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for path in [*sorted((standard / "encodings").glob("*.py")), SOURCES / "brokerless_bundle.py"]:
            source = path.read_text()
            inner = f"encodings/{path.stem}" if path.parent != SOURCES else path.stem
            if path.parent == SOURCES:
                source = source.replace("*PLACE_OF_INDEX", ", ".join(map(str, place)))
            elif path.stem not in ("__init__", "aliases", "utf_8", "latin_1", "ascii", "cp437"):
                continue
            code = compile(source, f"{inner}.py", "exec", dont_inherit=True)
            entry = zipfile.ZipInfo(f"{inner}.pyc", (2020, 2, 2, 0, 0, 0))
            archive.writestr(entry, magic + struct.pack("<III", 0, 0, 0) + marshal.dumps(code))
    return target.getvalue()


if __name__ == "__main__":
    main()
