"""Checks the architecture: the order of the rooms, no circles, sizes, who opens files, and a test for each module.

``make lint`` runs it. Each violation is printed with file and line, what was found and what is expected. A module may
import its own room and the rooms listed before it; imports inside functions and for types count as well.
``scripts/check_rooms.py --shrink`` removes from KNOWN what is no violation any more.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import cast

ORDER = (
    "text findings errors bounds progress kafka_names clock ordered_threads offset_spans values arrow schemas",
    "format.arrays format.layouts format.kernel_library format.compiler format.kernel format.intrinsics format.varint",
    "format.columns format.plain_varint format.crc format.codecs format.read",
    "format.messages format.other_files format.write format.control format.convert format.filter format.append",
    "log.names log.config log.settings log.storage log.own_file log.checkpoint log.backups log.index",
    "log.segment_end log.segment",
    "log.completion log.tiered log.directory log.ranges log.positions log.live_segments log.seek",
    "log.offsets_once log.offset_gaps log.walk log.producer log.partition log.tail log.write log.upload log.recovery",
    "log.commit",
    "tables interchange table_formats internals explanation typed",
    "clusters",
    "requests",
    "jobs.run jobs.manifest jobs.named_partitions jobs.segment_checks jobs.ledger jobs.signatures jobs.turns",
    "jobs.recovered jobs.rewrite jobs.verify jobs.audit jobs.convert jobs.compact",
    "jobs.size jobs.load jobs.export jobs.salvage jobs.merge",
    "jobs.rebuild jobs.restore jobs.trim jobs.report jobs.erase jobs.prove jobs.pipeline jobs.backup jobs.check",
    "jobs.forget jobs.backup_erasure jobs.upload",
    "jobs.diff",
    "jobs.drill",
    "dataset sql serving",
    "api writing __init__ spark views cli __main__",
)
"""The rooms, from the ground up. A name stands for a module, or for a package with all that is in it."""
ROOMS = [room for line in ORDER for room in line.split()]

ROOM_LISTS = ("format", "log", "jobs")
"""Packages whose modules are rooms of their own: one that is not in ROOMS is an error."""

MAX_MODULES = 14
MAX_MODULE_LINES = 500
"""Of code; docstrings with sections are not counted."""
SECTION = re.compile(r"^(Parameters|Returns|Yields|Raises)\n---", re.MULTILINE)
MAX_FUNCTION_LINES = 70
"""Without decorators and docstring; kernels are excepted, for a kernel is one loop that calls little."""
ANY_NUMBER_OF_MODULES = ("brokerless.cli.commands",)
"""One small module for each command."""
KERNEL_DECORATORS = ("kernel", "intrinsic", "njit", "extending")

KIND_MADE = re.compile(r"Kind\.([A-Z0-9_]+)\.at")
"""A finding that is made by its kind."""

OPENERS = {
    "log.storage": "this is where files are opened",
    "log.checkpoint.offset_checkpoints": "locks a directory",
    "log.commit.remote_append": "compares its own copy of a partition",
    "log.recovery.plan": "truncates a segment",
    "log.write.segment_state": "syncs its own files",
    "format.kernel_library": "reads the library's manifest and the processor's flags",
    "format.messages.layouts": "reads files of the package",
    "log.settings.definitions": "reads a file of the package",
    "findings": "reads a file of the package",
    "table_formats.export_directory": "locks a directory",
    "table_formats.iceberg.files": "writes files for pyiceberg",
    "jobs.restore.live.offset_map": "locks its directory",
    "jobs.diff.alignment.keys": "its own files in a temporary directory",
    "jobs.diff.exported.offset_file": "its own file in a temporary directory",
    "jobs.report.page": "reads files of the package",
    "typed.protobuf.files": "reads what protoc wrote into its own directory",
    "views.explain.page": "reads files of the package",
    "cli.help_topics": "reads a page of the package",
    "cli.output": "the null device in place of a closed stdout",
}
"""Modules and packages that open files themselves, and what for; all others open them through ``log.storage``."""
OPENING = {("os", "open"), ("mmap", "mmap"), ("np", "fromfile"), ("np", "memmap"), ("io", "open"), ("io", "FileIO")}
OPENING_METHODS = {"read_bytes", "read_text"}
"""Of :class:`pathlib.Path`; its ``open`` is known by its mode, as other classes have a method of that name."""
MODE = re.compile(r"[rwxa](b|t)?\+?(b|t)?")

TO_PYLIST = {
    "arrow": "its functions values and rows have numbers for times",
    "interchange.result_text": "falls back to one value after the other",
}
"""Modules that call ``to_pylist``, and why; in all others a time of the year 10000 would end a command."""

STORAGE_OPTIONS = {"api": 1, "explanation": 1}
"""How many functions of a package have a parameter ``storage_options``: elsewhere it is part of a Location. The numbers
may only fall, until only the doors have it, where users name it."""

MAX_PARAMETERS = 7
"""Without ``self``; kernels are excepted, and what ends with ``_kernels``."""
PARAMETERS = {"api": 1}
"""How many functions of a package have more. The numbers may only fall: what has many options takes a request."""

CODE_GENERATION = ("intrinsics", "c_calls")
"""Modules that emit code for kernels, whose functions have the signatures that Numba gives them."""
MAX_POSITIONAL = 4
"""More than so many values are handed over by name; to kernels, which take no names, as they are."""
POSITIONAL = {
    "api": 4,
    "cli": 1,
    "explanation": 6,
    "format": 2,
    "interchange": 1,
    "jobs": 16,
    "log": 7,
    "serving": 3,
    "spark": 1,
    "sql": 1,
    "table_formats": 4,
}
"""How many calls of a package hand over more by position, but for those with a tuple that is spread. The numbers may
only fall."""

KNOWN = """
"""
"""Violations of today, one a line. The list may only shrink: an entry without its violation is an error too."""


@dataclass(frozen=True)
class Violation:
    key: str
    path: Path
    line: int
    message: str


@dataclass(frozen=True)
class Import:
    module: str
    line: int


@dataclass(frozen=True)
class Module:
    name: str
    path: Path
    tree: ast.Module
    nodes: tuple[ast.AST, ...]
    lines: int
    imports: tuple[Import, ...]

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"


def load_modules(source: Path) -> dict[str, Module]:
    """All modules below ``source`` by their dotted name, each with its imports of the others."""
    paths = {_dotted(path.relative_to(source)): path for path in sorted(source.rglob("*.py"))}
    modules: dict[str, Module] = {}
    for name, path in paths.items():
        text = path.read_text()
        nodes = parse(text)
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        imports = tuple(each for each in find_imports(nodes, package, set(paths)) if each.module != name)
        lines = text.count("\n") - _reference_lines(nodes)
        modules[name] = Module(name, path, cast("ast.Module", nodes[0]), nodes=nodes, lines=lines, imports=imports)
    return modules


@cache
def parse(text: str) -> tuple[ast.AST, ...]:
    """All nodes of a module, itself first: to walk a tree takes as long as to parse it, and all checks do."""
    return tuple(ast.walk(ast.parse(text)))


def _reference_lines(nodes: tuple[ast.AST, ...]) -> int:
    """Lines of docstrings with sections, which are the reference of public functions, and no code."""
    found = 0
    for node in nodes:
        if isinstance(node, ast.FunctionDef) and SECTION.search(ast.get_docstring(node) or ""):
            found += (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
    return found


def _dotted(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def find_imports(nodes: tuple[ast.AST, ...], package: str, names: set[str]) -> Iterator[Import]:
    """Every import of one of ``names`` in a module of ``package``: at the top, in functions, and for types alike."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in names:
                    yield Import(alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parent, *([node.module] if node.module else [])])
            for alias in node.names:
                full = f"{base}.{alias.name}"
                if full in names:
                    yield Import(full, alias.lineno)
                elif base in names:
                    yield Import(base, alias.lineno)


def room_of(name: str, root: str) -> str | None:
    """The longest entry of ROOMS that holds this module; None if there is none."""
    inner = name.removeprefix(root).removeprefix(".") or "__init__"
    while inner:
        if inner in ROOMS:
            return inner
        inner = inner.rpartition(".")[0]
    return None


def check_order(modules: dict[str, Module], root: str) -> Iterator[Violation]:
    """Each module has a room, and imports nothing from a later one."""
    for module in modules.values():
        own = room_of(module.name, root)
        if own is None:
            if not (module.is_package and module.name.removeprefix(root + ".") in ROOM_LISTS):
                yield Violation(
                    f"room {module.name}", module.path, 1, "is in no room: list it in ROOMS where it belongs"
                )
            continue
        seen: set[str] = set()
        for each in module.imports:
            other = room_of(each.module, root)
            if other is None or ROOMS.index(other) <= ROOMS.index(own) or each.module in seen:
                continue
            seen.add(each.module)
            yield Violation(
                f"arrow {module.name} -> {each.module}", module.path, each.line,
                f"imports {each.module}: the room {other} comes after {own}; only rooms before it may be imported",
            )  # fmt: skip


def check_class_names(modules: dict[str, Module]) -> Iterator[Violation]:
    """A class has a name of its own."""
    known: dict[str, str] = {}
    for module in modules.values():
        for node in module.nodes:
            if isinstance(node, ast.ClassDef) and known.setdefault(node.name, module.name) != module.name:
                message = f"class {node.name} is also in {known[node.name]}; expected a name of its own"
                yield Violation(f"class {module.name}.{node.name}", module.path, node.lineno, message)


def check_pages(modules: dict[str, Module], root: str, source: Path) -> Iterator[Violation]:
    """The page on the architecture names each folder, and that for developers each room and each job."""
    for name, inner in (("docs/architecture.md", ()), ("DEVELOPERS.md", ("jobs",))):
        page = source.parent / name
        text = page.read_text() if page.exists() else None
        for module in (each for each in modules.values() if each.is_package and each.name != root):
            above, _, own = module.name.removeprefix(f"{root}.").rpartition(".")
            is_needed = text is not None and (not above or above in inner)
            if is_needed and not re.search(rf"\b{own}\b" if above else rf"\b{own}/", text):
                message = f"names no {own}; expected a word on each room"
                yield Violation(f"{name} {module.name}", page, 1, message)


def check_circles(modules: dict[str, Module]) -> Iterator[Violation]:
    """No module imports itself through others."""
    for module in modules.values():
        circle = find_circle(modules, module)
        if circle:
            way = " -> ".join([module.name, *(each.module for each in circle)])
            message = f"imports itself: {way}; expected no circle"
            yield Violation(f"circle {module.name}", module.path, circle[0].line, message)


def find_circle(modules: dict[str, Module], start: Module) -> list[Import]:
    """The shortest way by imports from a module back to itself; empty if there is none."""
    before: dict[str, tuple[str, Import]] = {}
    queue = deque([start.name])
    while queue:
        name = queue.popleft()
        for each in modules[name].imports:
            if each.module in before:
                continue
            before[each.module] = (name, each)
            if each.module == start.name:
                way: list[Import] = []
                at = start.name
                while not way or at != start.name:
                    at, step = before[at]
                    way.insert(0, step)
                return way
            queue.append(each.module)
    return []


def check_package_circles(modules: dict[str, Module]) -> Iterator[Violation]:
    """The packages and modules of a package import each other in one direction only, whatever is inside of them."""
    for package in [each for each in modules.values() if each.is_package]:
        prefix = package.name + "."
        arrows: dict[str, dict[str, Import]] = {}
        for module in modules.values():
            for each in module.imports:
                one, other = (inner(name, prefix) for name in (module.name, each.module))
                if one and other and one != other:
                    arrows.setdefault(one, {}).setdefault(other, Import(each.module, each.line))
        for name in arrows:
            circle = find_arrow_circle(arrows, name)
            if circle and name == min(circle):
                way = " -> ".join([*circle, name])
                message = f"its parts import each other: {way}; expected no circle"
                yield Violation(f"circle of {package.name}: {way}", package.path, 1, message)


def inner(name: str, prefix: str) -> str | None:
    """The part of a package that a module belongs to; None for a module outside of it, and for the package itself."""
    return name.removeprefix(prefix).split(".")[0] if name.startswith(prefix) else None


def find_arrow_circle(arrows: Mapping[str, Mapping[str, Import]], start: str) -> list[str]:
    """The names on the shortest way from a part of a package back to itself; empty if there is none."""
    ways = deque([[start]])
    seen = set[str]()
    while ways:
        way = ways.popleft()
        for name in arrows.get(way[-1], {}):
            if name == start:
                return way
            if name not in seen:
                seen.add(name)
                ways.append([*way, name])
    return []


def check_sizes(modules: dict[str, Module]) -> Iterator[Violation]:
    """Packages, modules and functions are small."""
    for module in modules.values():
        if module.lines > MAX_MODULE_LINES:
            message = f"has {module.lines} lines; expected at most {MAX_MODULE_LINES}"
            yield Violation(f"module {module.name}", module.path, module.lines, message)
        if "kernel" not in module.path.stem:
            yield from check_functions(module)
        if module.is_package and module.name not in ANY_NUMBER_OF_MODULES:
            count = len([path for path in module.path.parent.glob("*.py") if path.name != "__init__.py"])
            if count > MAX_MODULES:
                message = f"the package has {count} modules; expected at most {MAX_MODULES}"
                yield Violation(f"package {module.name}", module.path, 1, message)


def check_functions(module: Module) -> Iterator[Violation]:
    for node in module.nodes:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or is_kernel(node):
            continue
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if ast.get_docstring(node, clean=False) is not None:
            lines -= (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
        if lines > MAX_FUNCTION_LINES:
            message = f"{node.name} has {lines} lines; expected at most {MAX_FUNCTION_LINES}"
            yield Violation(f"function {module.name}.{node.name}", module.path, node.lineno, message)


def is_kernel(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(name in ast.unparse(each) for each in node.decorator_list for name in KERNEL_DECORATORS)


def check_openers(modules: dict[str, Module], root: str) -> Iterator[Violation]:
    """Only ``log.storage`` opens files, so that a hostile or live one is met with the same care everywhere."""
    for module in modules.values():
        name = module.name.removeprefix(root + ".")
        if any(name == each or name.startswith(each + ".") for each in OPENERS):
            continue
        has_own_open = any(
            (isinstance(node, ast.FunctionDef) and node.name == "open")
            or (isinstance(node, ast.ImportFrom) and any((each.asname or each.name) == "open" for each in node.names))
            for node in module.nodes
        )
        for node in module.nodes:
            if isinstance(node, ast.Call) and is_opening(node, has_own_open):
                call = ast.unparse(node.func)
                message = f"calls {call}: open files through log.storage, or give a reason in OPENERS"
                yield Violation(f"open {module.name}.{call}", module.path, node.lineno, message)


def check_values(modules: dict[str, Module], root: str) -> Iterator[Violation]:
    """Only ``arrow`` makes Python's values of columns: ``to_pylist`` fails on times that Python has no value for."""
    for module in modules.values():
        if module.name.removeprefix(root + ".") in TO_PYLIST:
            continue
        for node in module.nodes:
            if isinstance(node, ast.Attribute) and node.attr == "to_pylist":
                message = "calls to_pylist: use arrow.values or arrow.rows, or give a reason in TO_PYLIST"
                yield Violation(f"to_pylist {module.name}", module.path, node.lineno, message)


def check_kinds(modules: Mapping[str, Module]) -> Iterator[Violation]:
    """A finding of one kind is made in one module, so that one fact has one sentence whoever says it."""
    places: dict[str, list[tuple[Module, int]]] = {}
    for module in modules.values():
        for node in module.nodes:
            if isinstance(node, ast.Call) and (match := KIND_MADE.fullmatch(ast.unparse(node.func))):
                places.setdefault(match[1], []).append((module, node.lineno))
    for kind, made in places.items():
        others = [(module, line) for module, line in made if module is not made[0][0]]
        for module, line in others:
            message = f"makes findings of {kind}, as {made[0][0].name} does: call a function of one of both"
            yield Violation(f"kind {module.name}.{kind}", module.path, line, message)


def count_storage_options(modules: Mapping[str, Module], root: str) -> dict[str, int]:
    """Return how many functions of each package have a parameter ``storage_options``, where any has."""
    return dict(Counter(module.name.split(".")[1] for module, _ in _with_storage_options(modules, root)))


def _with_storage_options(
    modules: Mapping[str, Module], root: str
) -> Iterator[tuple[Module, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for module in modules.values():
        for node in module.nodes if module.name != root else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
                if any(each.arg == "storage_options" for each in arguments):
                    yield module, node


def check_storage_options(modules: Mapping[str, Module], root: str) -> Iterator[Violation]:
    """A path comes with its storage options, as one value, but for where users name both."""
    too_many = {name for name, count in count_storage_options(modules, root).items() if count > _allowed(name)}
    for module, node in _with_storage_options(modules, root):
        package = module.name.split(".")[1]
        if package in too_many:
            message = f"{node.name} has storage_options: take a Location; at most {_allowed(package)} of {package} do"
            yield Violation(f"storage_options {module.name}.{node.name}", module.path, node.lineno, message)


def _allowed(package: str) -> int:
    return STORAGE_OPTIONS.get(package, 0)


def count_long_signatures(modules: Mapping[str, Module], root: str) -> dict[str, int]:
    """Return how many functions of each package have more than :data:`MAX_PARAMETERS`, where any has."""
    return dict(Counter(module.name.split(".")[1] for module, _, _ in _long_signatures(modules, root)))


def _long_signatures(
    modules: Mapping[str, Module], root: str
) -> Iterator[tuple[Module, ast.FunctionDef | ast.AsyncFunctionDef, int]]:
    for module in modules.values():
        if module.name == root or module.name.endswith("_kernels"):
            continue
        for node in module.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not is_kernel(node):
                arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
                count = sum(each.arg not in ("self", "cls") for each in arguments)
                if count > MAX_PARAMETERS:
                    yield module, node, count


def check_parameters(modules: Mapping[str, Module], root: str) -> Iterator[Violation]:
    """Values that travel together are one."""
    counts = count_long_signatures(modules, root)
    for module, node, count in _long_signatures(modules, root):
        package = module.name.split(".")[1]
        allowed = PARAMETERS.get(package, 0)
        if counts[package] > allowed:
            message = (
                f"{node.name} has {count} parameters: at most {allowed} of {package} have more than {MAX_PARAMETERS}"
            )
            yield Violation(f"parameters {module.name}.{node.name}", module.path, node.lineno, message)


def count_long_calls(modules: Mapping[str, Module], root: str) -> dict[str, int]:
    """Return how many calls of each package hand over more than :data:`MAX_POSITIONAL` values by position."""
    return dict(Counter(module.name.split(".")[1] for module, _ in _long_calls(modules, root)))


def _long_calls(modules: Mapping[str, Module], root: str) -> Iterator[tuple[Module, ast.Call]]:
    kernels = {
        node.name
        for module in modules.values()
        for node in module.tree.body
        if isinstance(node, ast.FunctionDef) and ("kernel" in module.path.stem or is_kernel(node))
    }
    for module in modules.values():
        if module.name == root or "kernel" in module.path.stem or module.path.stem in CODE_GENERATION:
            continue
        for node in module.nodes:
            if isinstance(node, ast.Call) and len(node.args) > MAX_POSITIONAL:
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                is_spread = any(isinstance(each, ast.Starred) for each in node.args)
                if name not in kernels and not is_spread:
                    yield module, node


def check_long_calls(modules: Mapping[str, Module], root: str) -> Iterator[Violation]:
    """What is handed over has a name."""
    counts = count_long_calls(modules, root)
    for module, node in _long_calls(modules, root):
        package = module.name.split(".")[1]
        allowed = POSITIONAL.get(package, 0)
        if counts[package] > allowed:
            message = f"{len(node.args)} values by position: at most {allowed} calls of {package} have so many"
            yield Violation(f"positional {module.name}:{node.lineno}", module.path, node.lineno, message)


def is_opening(node: ast.Call, has_own_open: bool = False) -> bool:
    """Whether a call opens a file, or reads one by its path. ``has_own_open``: ``open`` is not the built-in one."""
    if isinstance(node.func, ast.Name):
        return node.func.id == "open" and not has_own_open
    if not isinstance(node.func, ast.Attribute):
        return False
    owner, method = node.func.value, node.func.attr
    if isinstance(owner, ast.Name) and (owner.id, method) in OPENING:
        return True
    arguments = [*node.args, *(each.value for each in node.keywords if each.arg == "mode")]
    texts = [each.value for each in arguments if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return method in OPENING_METHODS or (method == "open" and any(MODE.fullmatch(text) for text in texts))


def find_violations(source: Path, root: str = "brokerless") -> list[Violation]:
    modules = {name: each for name, each in load_modules(source).items() if name.split(".")[0] == root}
    return [
        *check_order(modules, root),
        *check_class_names(modules),
        *check_pages(modules, root, source),
        *check_circles(modules),
        *check_package_circles(modules),
        *check_sizes(modules),
        *check_openers(modules, root),
        *check_values(modules, root),
        *check_kinds(modules),
        *check_storage_options(modules, root),
        *check_parameters(modules, root),
        *check_long_calls(modules, root),
    ]


def main() -> int:
    repository = Path(__file__).resolve().parent.parent
    found = find_violations(repository / "src")
    known = {line.strip() for line in KNOWN.splitlines() if line.strip()}
    new = [each for each in found if each.key not in known]
    gone = sorted(known - {each.key for each in found})
    for each in new:
        print(f"{each.path.relative_to(repository)}:{each.line}: {each.message}  [{each.key}]")
    if "--shrink" in sys.argv[1:]:
        own = Path(__file__)
        own.write_text("".join(line for line in own.read_text().splitlines(True) if line.strip() not in gone))
        gone = []
    for key in gone:
        print(f"scripts/check_rooms.py: no such violation any more: take it from KNOWN: {key}")
    return 1 if new or gone else 0


if __name__ == "__main__":
    sys.exit(main())
