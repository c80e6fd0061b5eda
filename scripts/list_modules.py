"""Lists all modules with the first lines of their docstrings, by rooms, as docs/modules.md has them on the site.

A command's module needs no docstring: the first line of its ``DESCRIPTION``, which ``--help`` prints, is used instead.
A module without either is an error.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src"
ROOMS = (
    "format",
    "log",
    "tables",
    "internals",
    "interchange",
    "table_formats",
    "explanation",
    "jobs",
    "spark",
    "views",
    "cli",
)
"""The order of the rooms on the page; one that is not listed comes after these."""


class UndocumentedError(Exception):
    """A module or package has no first line that says what it is for."""


def first_line(module: Path) -> str:
    tree = ast.parse(module.read_text())
    text = ast.get_docstring(tree) or _constant(tree, "DESCRIPTION")
    if not text:
        raise UndocumentedError(f"{module.relative_to(ROOT)}: has no docstring for the table of modules")
    line = " ".join(text.partition("\n\n")[0].split())
    line = re.sub(r":\w+:`~?([^`]*)`", r"`\1`", line.replace("``", "`"))
    return line.removesuffix(".").replace("|", "\\|")


def _constant(tree: ast.Module, name: str) -> str | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [name]:
            return ast.literal_eval(node.value)
    return None


def packages() -> list[Path]:
    """All packages, in the order of the page: the ground first, then the rooms, each before its sub-packages."""

    def order(package: Path) -> tuple[int, Path]:
        room, *_ = (*package.relative_to(SOURCES).parts[1:], "")
        if not room:
            return (-1 if package.name == "brokerless" else len(ROOMS) + 1, package)
        return (ROOMS.index(room) if room in ROOMS else len(ROOMS), package)

    return sorted((path.parent for path in SOURCES.rglob("__init__.py")), key=order)


def table() -> str:
    sections: list[str] = []
    for package in packages():
        name = package.relative_to(SOURCES).as_posix().removeprefix("brokerless/")
        modules = sorted(path for path in package.glob("*.py") if path.name != "__init__.py")
        rows = [f"| `{module.stem}` | {first_line(module)} |" for module in modules]
        title = "##" if "/" not in name else "###"
        heading = f"{title} `{name}/`\n\n{first_line(package / '__init__.py')}.\n"
        header = ["| module | what it does |", "|---|---|"]
        sections.append("\n".join([heading, *header, *rows, ""] if rows else [heading]))
    return "\n".join(sections)


def main() -> str | None:
    try:
        print(table())
    except UndocumentedError as error:
        return str(error)
    return None


if __name__ == "__main__":
    sys.exit(main())
