"""Compiles all kernels into libraries that run without Numba: ``python scripts/build_kernels.py DIRECTORY``.

DIRECTORY gets a library for each kind of processor of this system (x86-64-v3 and x86-64-v2, or what this machine is)
and ``kernels.json``, which says what is in them. ``--check-bounds`` checks every access to an array, for tests;
``--and MODULE`` adds kernels of tests. It needs Numba and a linker: ``ld``, or ``cc`` on macOS.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parents[1] / "src"
FROM_C = {"memmove", "memset", "memcpy", "pread", "memcmp", "bcmp"}
"""What a library may need of the C library, and nothing else."""
ITEMS_OF_TUPLE = 24
"""Where a tuple's items begin (bytes); and below, where the members of NumPy's arrays are. The loader looks as well."""
TYPE, DATA, DIMENSIONS, SHAPE, STRIDES, DTYPE, FLAGS = 8, 16, 24, 32, 40, 56, 64
KIND_OF_DTYPE = 24
"""Where a dtype has its kind, order of bytes and number, and between them flags, which KIND_MASK leaves out."""
KIND_MASK = 0xFFFFFFFF00FFFFFF - (1 << 64)
IN_ORDER, WRITEABLE = 0x101, 0x400
"""Of an array's flags: contiguous in C's order and aligned; writeable."""
WORDS = {"float32": "float", "float64": "double"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--check-bounds", action="store_true")
    parser.add_argument("--and", dest="others", action="append", default=[], metavar="MODULE")
    parser.add_argument("--processor", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.processor:
        _compile(options.directory, options.processor, options.others)
    else:
        build(options.directory, [*kernel_modules(), *options.others], check_bounds=options.check_bounds)


def kernel_modules() -> list[str]:
    """All modules of the package that declare kernels."""
    declaring = (path for path in sorted(SOURCES.rglob("*.py")) if re.search(r"^@kernel", path.read_text(), re.M))
    return [".".join(path.relative_to(SOURCES).with_suffix("").parts) for path in declaring]


def processors() -> dict[str, str]:
    """For each library that is made on this machine, the processor that it is compiled for, by LLVM's name."""
    system, machine = platform.system().lower(), platform.machine().lower()
    if machine not in ("x86_64", "amd64"):
        return {f"{system}-{machine}": "apple-m1" if system == "darwin" else "generic"}
    levels = ("x86-64-v3", "x86-64-v2") if system == "linux" else ("x86-64-v2",)
    return {f"{system}-{level}": level for level in levels}


def build(directory: Path, modules: Sequence[str], *, check_bounds: bool) -> dict[str, Any]:
    """Makes the libraries of some modules' kernels, and their manifest, which it returns."""
    directory.mkdir(parents=True, exist_ok=True)
    libraries: dict[str, str] = {}
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        running = [
            (name, Path(scratch) / name, _start(Path(scratch) / name, processor, modules, check_bounds))
            for name, processor in processors().items()
        ]
        for name, place, process in running:
            if process.wait() != 0:
                raise ChildProcessError(f"{name}: not compiled")
            found = json.loads((place / "kernels.json").read_text())
            file = f"kernels-{name}.so"
            _link(sorted(place.glob("*.o")), place / file)
            _copy(place / file, directory / file)
            libraries[name] = file
    manifest = {"checks_bounds": check_bounds, "libraries": libraries, **found}
    (directory / "kernels.json").write_text(json.dumps(manifest, indent=1) + "\n")
    return manifest


def _copy(file: Path, to: Path) -> None:
    """Puts a file in place of another that a process may run from."""
    beside = to.with_name(to.name + ".new")
    beside.write_bytes(file.read_bytes())
    beside.replace(to)


def _start(place: Path, processor: str, modules: Sequence[str], check_bounds: bool) -> subprocess.Popen[bytes]:
    """A process that compiles for a processor: Numba knows one only."""
    place.mkdir()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "BROKERLESS_"))},
        "NUMBA_CPU_NAME": processor,
        "NUMBA_CPU_FEATURES": _features(processor),
        "NUMBA_CACHE_DIR": str(place),
        "BROKERLESS_KERNELS": "numba",
        "BROKERLESS_CHECK_BOUNDS": str(int(check_bounds)),
        "PYTHONPATH": os.pathsep.join([str(SOURCES), str(SOURCES.parent), os.environ.get("PYTHONPATH", "")]),
    } | ({"NUMBA_BOUNDSCHECK": "1"} if check_bounds else {})
    added = [argument for each in modules for argument in ("--and", each)]
    command = [sys.executable, __file__, str(place), "--processor", processor, *added]
    return subprocess.Popen(command, env=environment)


def _features(processor: str) -> str:
    """A processor's name says all of it, but on x86-64-v2 what reads a checksum's eight bytes in one instruction."""
    return "+sse4.2,+crc32" if processor == "x86-64-v2" else "+crc" if processor == "generic" else ""


def _compile(place: Path, processor: str, modules: Sequence[str]) -> None:
    """Writes an object file for each kernel, and what they take and return."""
    from llvmlite import binding

    from brokerless.format import kernel_library
    from brokerless.format.compiler import compile_bare

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple()
    machine = target.create_target_machine(
        cpu=processor, features=_features(processor), opt=3, reloc="pic", codemodel="default"
    )
    kernels: dict[str, Any] = {}
    files: set[Path] = set()
    for name, result, sources in compile_bare(modules):
        files |= sources
        kernels[name] = {
            "arguments": [_kind(each) for each in result.signature.args],
            "results": _results(result.signature.return_type),
        }
        symbol = f"kernel_{kernel_library.symbol(name)}"
        module = _with_adapter(result, symbol, kernels[name])
        (place / f"{symbol}.o").write_bytes(machine.emit_object(module))
    paths = [str(path.relative_to(kernel_library.PACKAGE)) for path in files if SOURCES in path.parents]
    # Intrinsics are not among the sources that Numba knows; nor how this is compiled and called.
    paths = sorted({*paths, *_beside_kernels(), "format/compiler.py", "format/kernel_library.py"})
    found = {"kernels": kernels, "sources": paths, "digest": kernel_library.digest(paths)}
    (place / "kernels.json").write_text(json.dumps(found))


def _beside_kernels() -> Iterator[str]:
    """Files of the package that define what only kernels can use."""
    package = SOURCES / "brokerless"
    for path in package.rglob("*.py"):
        if re.search(r"^@(kernel|inlined|separate|intrinsic)", path.read_text(), re.M):
            yield str(path.relative_to(package))


def _kind(type_: Any) -> str | list[Any]:
    if hasattr(type_, "dtype"):
        return [str(type_.dtype), type_.ndim, not type_.mutable]
    return str(type_) if str(type_) != "bool" else "boolean"


def _results(type_: Any) -> list[str]:
    if str(type_) == "none":
        return []
    return [str(each) if str(each) != "bool" else "boolean" for each in getattr(type_, "types", [type_])]


def _with_adapter(result: Any, symbol: str, spec: dict[str, Any]) -> Any:
    """A kernel's code with the function that Python calls, and nothing else that can be seen from outside."""
    from llvmlite import binding

    name = result.fndesc.llvm_func_name
    module = binding.parse_assembly(result.library.get_llvm_str())
    signature = str(module.get_function(name)).split("{", 1)[0]
    for each in [*module.functions, *module.global_variables]:
        if not each.is_declaration:
            each.linkage = "internal"
    module.get_function(name).linkage = "external"
    module.link_in(binding.parse_assembly(_adapter(name, signature, symbol, spec)))
    module.get_function(name).linkage = "internal"
    module.verify()
    return module


def _adapter(name: str, signature: str, symbol: str, spec: dict[str, Any]) -> str:
    """A function in LLVM's language: the tuple of arguments, the block of numbers, the types; returns 0, 1 if the
    kernel reached out of an array, or ``-1 - n`` if argument n is no array of the type."""
    lines: list[str] = []
    values = ["ptr %results", "ptr %wrong"]
    number, array = 0, 0
    for place, kind in enumerate(spec["arguments"]):
        if isinstance(kind, str):
            lines += _load_number(place, number, kind)
            values.append(f"{_word(kind)} %n{place}")
            number += 1
        else:
            array += 1
            lines += _load_array(place, array, kind)
            axes = range(kind[1])
            sizes = [f"i64 %a{place}.{what}{axis}" for what in ("shape", "stride") for axis in axes]
            values += ["ptr null", "ptr null", f"i64 %a{place}.items", f"i64 {_size(kind[0])}"]
            values += [f"ptr %a{place}.data", *sizes]
    kinds = [_word(each) for each in spec["results"]]
    made = f"{{{', '.join(kinds)}}}" if len(kinds) > 1 else (kinds or ["ptr"])[0]
    types = ", ".join(each.split()[0] for each in values)
    count = len(re.findall(r"%[\w.\"-]+(?=[,)])", signature))
    if count != len(values):
        sys.exit(f"{symbol}: the compiled function has {count} arguments, and not {len(values)}")
    lines += [
        f"%status = call i32 @{_quoted(name)}({', '.join(values)})",
        "%failed = icmp ne i32 %status, 0",
        "br i1 %failed, label %outside, label %finished",
        "outside:\nret i64 1",
        "finished:",
    ]
    for index, (kind, word) in enumerate(zip(spec["results"], kinds, strict=True)):
        place = f"i32 0, i32 {index}" if len(kinds) > 1 else "i32 0"
        lines += [
            f"%r{index}.at = getelementptr {made}, ptr %results, {place}",
            f"%r{index} = load {word}, ptr %r{index}.at",
            _widened(index, kind, word),
            f"%r{index}.to = getelementptr i64, ptr %block, i64 {index}",
            f"store i64 %r{index}.word, ptr %r{index}.to",
        ]
    body = "\n".join(lines)
    return (
        f"declare i32 @{_quoted(name)}({types})\n"
        f"define i64 @{symbol}(ptr %arguments, ptr %block, ptr %types) {{\nentry:\n"
        f"%results = alloca {made}\n%wrong = alloca ptr\nstore ptr null, ptr %wrong\n{body}\nret i64 0\n}}\n"
    )


def _load_number(place: int, number: int, kind: str) -> Iterator[str]:
    yield f"%n{place}.at = getelementptr i64, ptr %block, i64 {number}"
    yield f"%n{place} = load {_word(kind)}, ptr %n{place}.at"


def _load_array(place: int, array: int, kind: list[Any]) -> Iterator[str]:
    """Reads an array's members after it was seen to be one, in two steps: another object may be shorter."""
    own = f"%a{place}"

    def load(name: str, base: str, offset: int, word: str) -> Iterator[str]:
        yield f"{own}.{name}.at = getelementptr i8, ptr {base}, i64 {offset}"
        yield f"{own}.{name} = load {word}, ptr {own}.{name}.at"

    yield from load("object", "%arguments", ITEMS_OF_TUPLE + 8 * place, "ptr")
    yield from load("type", f"{own}.object", TYPE, "i64")
    yield from load("array", "%types", 0, "i64")
    yield f"{own}.is_array = icmp eq i64 {own}.type, {own}.array"
    yield f"br i1 {own}.is_array, label {own}.known, label {own}.other"
    yield f"a{place}.other:\nret i64 {-1 - place}"
    yield f"a{place}.known:"
    yield from load("dtype", f"{own}.object", DTYPE, "ptr")
    yield from load("word", f"{own}.dtype", KIND_OF_DTYPE, "i64")
    yield f"{own}.kind = and i64 {own}.word, {KIND_MASK}"
    yield from load("expected", "%types", 8 * array, "i64")
    yield from load("dimensions", f"{own}.object", DIMENSIONS, "i32")
    yield from load("flags", f"{own}.object", FLAGS, "i32")
    needed = IN_ORDER | (0 if kind[2] else WRITEABLE)
    yield f"{own}.set = and i32 {own}.flags, {needed}"
    yield f"{own}.fits1 = icmp eq i64 {own}.kind, {own}.expected"
    yield f"{own}.fits2 = icmp eq i32 {own}.dimensions, {kind[1]}"
    yield f"{own}.fits3 = icmp eq i32 {own}.set, {needed}"
    yield f"{own}.fits4 = and i1 {own}.fits1, {own}.fits2"
    yield f"{own}.fits = and i1 {own}.fits3, {own}.fits4"
    yield f"br i1 {own}.fits, label {own}.good, label {own}.other"
    yield f"a{place}.good:"
    yield from load("data", f"{own}.object", DATA, "ptr")
    yield from load("shape", f"{own}.object", SHAPE, "ptr")
    yield from load("strides", f"{own}.object", STRIDES, "ptr")
    items = "1"
    for axis in range(kind[1]):
        yield from load(f"shape{axis}", f"{own}.shape", 8 * axis, "i64")
        yield from load(f"stride{axis}", f"{own}.strides", 8 * axis, "i64")
        last = axis == kind[1] - 1
        yield f"{own}.items{'' if last else axis} = mul i64 {items}, {own}.shape{axis}"
        items = f"{own}.items{axis}"


def _widened(index: int, kind: str, word: str) -> str:
    """The line that makes 64 bits of a result."""
    if word == "i64":
        return f"%r{index}.word = or i64 %r{index}, 0"
    if word in ("float", "double"):
        sys.exit("no kernel returns a float: say here how")
    how = "sext" if kind.startswith("int") else "zext"
    return f"%r{index}.word = {how} {word} %r{index} to i64"


def _word(kind: str) -> str:
    """LLVM's type of a number."""
    return WORDS.get(kind) or ("i8" if kind == "boolean" else "i" + kind.removeprefix("u").removeprefix("int"))


def _size(kind: str) -> int:
    return 1 if kind in ("bool", "boolean") else int(re.sub(r"\D", "", kind)) // 8


def _quoted(name: str) -> str:
    return f'"{name}"'


def _link(objects: Sequence[Path], library: Path) -> None:
    """One library of all objects, which needs nothing but a little of the C library."""
    if sys.platform == "darwin":
        command = ["cc", "-dynamiclib", "-Wl,-undefined,dynamic_lookup", "-Wl,-dead_strip"]
    else:
        command = ["ld", "-shared", "--gc-sections", "--strip-all", "-z", "noexecstack", "--build-id=none"]
    subprocess.run([*command, "-o", str(library), *map(str, objects)], check=True)
    if sys.platform != "darwin":
        needed = _undefined(library)
        if needed - FROM_C:
            sys.exit(f"{library.name} needs {', '.join(sorted(needed - FROM_C))}")


def _undefined(library: Path) -> set[str]:
    listed = subprocess.run(["nm", "-D", "--undefined-only", str(library)], check=True, capture_output=True, text=True)
    return {line.split()[-1].split("@")[0] for line in listed.stdout.splitlines()}


if __name__ == "__main__":
    main()
