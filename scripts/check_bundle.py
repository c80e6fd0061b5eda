"""Tries the one file that ``make bundle`` makes: ``python scripts/check_bundle.py BUNDLE [ROOT...]``.

First what is in it: every shared library finds in it what it needs, symbols of the C library included, so that nothing
depends on the system's. Then it is used where there is nothing else: in an empty root directory (and in each ROOT, such
as debootstrap makes), read-only, without a network, as a user that does not exist, with 256 MiB of memory. Prints what
it measured. Needs root, for namespaces; without it, the second half is left out, which is printed.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import zstandard

sys.path.insert(0, str(Path(__file__).parent))

from build_bundle import MAGIC, PART
from bundle_libraries import run, symbols

ROOT = Path(__file__).parents[1]
DATA = ROOT / "demo" / "data"
MEMORY = 256 << 20
USER = 54321
COMMANDS = (
    "--version",
    "ls /data",
    "verify /data",
    "audit /data",
    "cluster /data",
    "restart /data",
    "internals /data",
    "size /data",
    "cat /data/orders-0 --limit 3",
    "cat /data/orders-1 --json --tail 3",
    "cat /data/orders-0 --json --decode",
    "batches /data/payments-0",
    "explain /data/orders-0/00000000000000000000.log",
    "schema /data -t orders",
    "sql 'SELECT count(*) FROM orders' /data",
    "export /data --to /out/tables",
    "export /data -t orders --to /out/delta --as delta",
    "export /data -t orders --to /out/iceberg --as iceberg",
    "convert /data --to /out/converted --codec zstd",
    "salvage /data --to /out/salvaged",
    "compact /data -t users --to /out/compacted",
    "pipeline /data --to /out/pipeline --no-report",
    "report /data -o /out/report.html",
    "completion bash",
)
"""What the README shows, on demo/data: the exit code is 0. The first ones write nothing, the others to /out alone."""
IMPORT = """
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in ("pyspark", "pandas", "polars", "numba"):
            raise
from brokerless.format.codecs import c_functions
for codec in c_functions._EXPORTS:
    assert c_functions.codec_function(codec, sys), codec
"""
"""All our modules, and the functions of other libraries that kernels call, are there."""
WITH_MORE = "report"
"""Charts are drawn by a browser's engine, for which 256 MiB are not enough."""
REFUSED = {"verify /data --spark 'local[1]'": "all but Spark"}
"""What is not in the file, and what its message says."""
GOALS = {"ls /data": 0.5}
"""Seconds, printed beside what was measured: a busy machine fails nothing."""


def main() -> None:
    bundle, roots = Path(sys.argv[1]).resolve(), [Path(each).resolve() for each in sys.argv[2:]]
    check_contents(bundle)
    if os.geteuid() != 0 or not can_unshare():
        print("not root, or no namespaces here: the bundle is not used in an empty root directory")
        return
    for each in [None, *roots]:
        use(bundle, each)
    print("checked and used: right")


def check_contents(bundle: Path) -> None:
    """What the libraries in a bundle need of each other."""
    libraries = dict(contents(bundle))
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "library"
        defined: dict[str, set[str]] = {}
        wanted: list[tuple[str, str, str]] = []
        parts = {name for name, _ in parts_of(bundle.read_bytes())}
        everywhere: set[str] = set()
        scopes: dict[str, Scope] = {}
        for name, data in libraries.items():
            place.write_bytes(data)
            text = run(["objdump", "-p", str(place)])
            soname = next(iter(re.findall(r"SONAME\s+(\S+)", text)), name)
            defined[soname] = set(re.findall(r"^\d+ 0x\w+ 0x\w+ (\S+)", text, re.MULTILINE))
            needed = re.findall(r"NEEDED\s+(\S+)", text)
            wanted += [(name, each, "") for each in needed]
            scopes[soname] = Scope(needed, symbols(place, "--defined-only"), undefined(place))
            everywhere |= scopes[soname].defined if name in parts else set()
            for library, versions in re.findall(r"required from (\S+):\n((?:\s+0x.*\n?)+)", text):
                wanted += [(name, library, each) for each in re.findall(r" (\S+)$", versions, re.MULTILINE)]
    versions: set[str] = set()
    for name, library, version in wanted:
        expect(library in defined, f"{library} in the bundle, for {name}", sorted(defined))
        expect(not version or version in defined[library], f"{version} in {library}, for {name}", "not there")
        versions |= {version} if version.startswith("GLIBC_2") else set()
    check_symbols(scopes, everywhere)
    newest = max(versions, key=lambda each: [int(part) for part in re.findall(r"\d+", each)])
    size = bundle.stat().st_size / 1e6
    print(f"{bundle.name}: {size:.0f} MB, {len(libraries)} libraries; symbols up to {newest}, inside", flush=True)
    launcher = run(["objdump", "-p", str(bundle)])
    expect("NEEDED" not in launcher, "a launcher that needs nothing", launcher)


class Scope(NamedTuple):
    """A library: those that it names, the symbols that it defines, and those that it takes from others."""

    needed: list[str]
    defined: set[str]
    undefined: set[str]


def undefined(library: Path) -> set[str]:
    """The symbols without which a library cannot be opened: not the weak ones."""
    text = run(["nm", "--dynamic", "--without-symbol-versions", "--undefined-only", str(library)])
    return {each for kind, each in (line.split()[-2:] for line in text.splitlines()) if kind == "U"}


def check_symbols(scopes: dict[str, Scope], everywhere: set[str]) -> None:
    """Each symbol that a library takes is in one that it names, or that one names, or in Python and the C library."""
    for name, scope in scopes.items():
        reached, left = set[str](), list(scope.needed)
        while left:
            each = left.pop()
            if each not in reached:
                reached.add(each)
                left += scopes[each].needed
        found = everywhere.union(scope.defined, *(scopes[each].defined for each in reached))
        expect(scope.undefined <= found, f"all symbols of {name}", sorted(scope.undefined - found))


def contents(bundle: Path) -> Iterator[tuple[str, bytes]]:
    """All shared libraries in a bundle."""
    data = bundle.read_bytes()
    yield from parts_of(data)
    index = index_of(bundle, data)
    modules = {name: entry for name, (_, kind, entry) in index["modules"].items() if kind == "library"}
    for name, (offset, size, inflated) in {**modules, **index["libraries"]}.items():
        stored = data[offset : offset + size]
        yield name, stored if size == inflated else zstandard.ZstdDecompressor().decompress(stored, inflated)


def parts_of(data: bytes) -> Iterator[tuple[str, bytes]]:
    """What is opened before anything else: Python and what it needs itself."""
    at = data.find(MAGIC)
    (count,) = struct.unpack_from("=Q", data, at + 32)
    for number in range(count):
        name, offset, size = PART.unpack_from(data, at + 40 + number * PART.size)
        yield name.rstrip(b"\0").decode().removeprefix("brokerless-"), data[offset : offset + size]


def index_of(bundle: Path, data: bytes) -> Any:
    with zipfile.ZipFile(bundle) as archive:
        begin = min(each.header_offset for each in archive.infolist())
        code = marshal.loads(archive.read("brokerless_bundle.pyc")[16:])
    place = next(each for each in code.co_consts if type(each) is int and 0 < begin - each < 1 << 22)
    return marshal.loads(data[place:begin])


def can_unshare() -> bool:
    """Whether namespaces can be made here, and what :func:`in_root` mounts can be mounted in them."""
    with tempfile.TemporaryDirectory() as place:
        steps = [
            "mount --make-rprivate /",
            f"mount -t tmpfs -o size=1m tmpfs {place}",
            f"mkdir {place}/proc {place}/data",
            f"mount -t proc proc {place}/proc",
            f"mount --bind -o ro {DATA} {place}/data",
            f"mount -o remount,ro,size=1m {place}",
        ]
        command = ["unshare", "-mnpf", "sh", "-c", " && ".join(steps)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


def use(bundle: Path, root: Path | None) -> None:
    """Runs all commands in a root directory, read-only; first without any place to write to."""
    print(f"in {root or 'an empty root directory'}:")
    with tempfile.TemporaryDirectory() as scratch, limited() as group:
        out = Path(scratch) / "out"
        out.mkdir(0o777)
        out.chmod(0o777)
        for command in (*COMMANDS, import_all(bundle)):
            where = out if "/out/" in command else None
            bounded = None if command.startswith(WITH_MORE) else group
            code, printed, seconds, wall = in_root(bundle, root, where, Path(scratch), bounded, command)
            expect(code == 0, f"exit code 0 of {command}", f"{code}: {printed[-600:]}")
            named = "all modules imported" if command.startswith("-c") else command[:60]
            goal = f" (goal: {GOALS[command]} s)" if command in GOALS else ""
            print(f"  {named:60} {seconds:.2f} s of the processor, {wall:.2f} s by the clock{goal}", flush=True)
        for command, text in REFUSED.items():
            code, printed, *_ = in_root(bundle, root, None, Path(scratch), group, command)
            expect(code == 2 and text in printed, f"{text!r} of {command}", f"{code}: {printed[-600:]}")
        for each in ("memory.peak", "memory.max_usage_in_bytes"):
            if group is not None and (group / each).exists():
                print(f"  memory: {int((group / each).read_text()) / 2**20:.0f} of {MEMORY >> 20} MiB at most")


def import_all(bundle: Path) -> str:
    """Return the command that imports all our modules: of other packages, nothing that they ask for was left out."""
    names = [each for each in index_of(bundle, bundle.read_bytes())["modules"] if each.startswith("brokerless.")]
    return f"-c {shlex.quote(IMPORT)} {' '.join(names)}"


def in_root(
    bundle: Path, root: Path | None, out: Path | None, scratch: Path, group: Path | None, command: str
) -> tuple[int, str, float, float]:
    """Run one command there; return its exit code, what it printed, its seconds of the processor and by the clock."""
    place = scratch / "root"
    place.mkdir(exist_ok=True)
    base = f"mount --bind {root} {place}" if root else f"mount -t tmpfs -o size=1m tmpfs {place}"
    overlay = (
        f"mount -t tmpfs -o size=1m tmpfs {scratch}/upper && mkdir {scratch}/upper/u {scratch}/upper/w && "
        f"mount -t overlay overlay -o lowerdir={root},upperdir={scratch}/upper/u,workdir={scratch}/upper/w {place}"
    )
    (scratch / "upper").mkdir(exist_ok=True)
    steps = [
        "mount --make-rprivate /",
        overlay if root else base,
        f"mkdir -p {place}/proc {place}/dev {place}/data {place}/out && touch {place}/brokerless {place}/dev/null",
        f"mount -t proc proc {place}/proc",
        f"mount --bind /dev/null {place}/dev/null",
        f"mount --bind {bundle} {place}/brokerless",
        f"mount --bind -o ro {DATA} {place}/data",
        f"mount --bind {out} {place}/out" if out else "true",
        f"mount -o remount,ro{'' if root else ',size=1m'} {place}",
        f"cd {place}",
        "times > /dev/null",
        f"exec chroot --userspec={USER}:{USER} --groups= {place} /brokerless {command}",
    ]
    joined = f"echo $$ > {group}/cgroup.procs && " if group is not None else ""
    inner = joined + "exec unshare -mnpf sh -c " + shlex.quote(" && ".join(steps))
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/nowhere",
        "TMPDIR": "/out",
        "PYTHONHOME": "/wrong",
        "TERM": "dumb",
    }
    before, began = os.times(), time.monotonic()
    done = subprocess.run(
        ["sh", "-c", inner],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=300,
    )
    after = os.times()
    used = after.children_user - before.children_user + after.children_system - before.children_system
    return done.returncode, done.stdout + done.stderr, used, time.monotonic() - began


@contextlib.contextmanager
def limited() -> Iterator[Path | None]:
    """A group of processes with so much memory, and no swap, if this system lets one make it."""
    # The second version of such groups, or the first.
    is_new = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    group = Path("/sys/fs/cgroup" if is_new else "/sys/fs/cgroup/memory") / f"brokerless-{os.getpid()}"
    try:
        group.mkdir()
        (group / ("memory.max" if is_new else "memory.limit_in_bytes")).write_text(str(MEMORY))
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        print(f"  no group with a bound of memory can be made ({error.strerror}): memory is not bounded")
        yield None
        return
    try:
        yield group
    finally:
        with contextlib.suppress(OSError):
            group.rmdir()


def expect(holds: bool, expected: str, found: object) -> None:
    if not holds:
        sys.exit(f"expected {expected}, found {str(found)[-1500:]}")


if __name__ == "__main__":
    main()
