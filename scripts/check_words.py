"""Checks the words of all docstrings, comments and other texts of the source, and how docstrings begin.

``make lint`` runs it. Those in WORDS are a dialect that readers would have to learn; the field has words of its own.
A docstring that begins with one of HEADLESS has no verb that one can see, and is read twice: a function returns what
it is about, and says so.
"""

from __future__ import annotations

import ast
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

WORDS = {
    "told": "reported, distinguished",
    "noted": "recorded",
    "anew": "again",
    "once more": "again",
    "leftovers": "orphaned files",
    "odd": "invalid",
    "behind": "after, past",
    "by now": "already, now",
    "looked at": "checked, read",
    "asked for": "requested, selected",
    "given out": "assigned, yielded",
    "thereof": "the thing's name",
}
ALLOWED = ("offsets behind in", "farthest behind", "hides behind")
"""How far a group lags, in Kafka's words; and an error that another one covers."""

HEADLESS = ("What", "Whether", "Which", "How", "Why", "Where", "That")
"""How no function that returns a value begins; and nothing begins with "Of"."""
NOT_YET = "log/commit"
"""Where docstrings still begin so."""


def headless_docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Docstrings without a visible verb, each with its line."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = (ast.get_docstring(node) or "-").split()[0]
        if first == "Of" or (first in HEADLESS and is_value_returned(node)):
            yield node.body[0].lineno, first


def is_value_returned(node: ast.AST) -> bool:
    """Return whether this is a function that is called for its value; a property is named for that."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.returns is None:
        return False
    decorators = " ".join(ast.unparse(each) for each in node.decorator_list)
    return ast.unparse(node.returns) != "None" and "property" not in decorators and "contextmanager" not in decorators


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """Docstrings and other strings, and comments, each with its line."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, " ".join(node.value.split())
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string


def main(source: Path) -> int:
    pattern = re.compile(rf"\b({'|'.join(WORDS)})\b")
    found = 0
    for path in sorted(source.rglob("*.py")):
        for line, text in texts_of(path):
            match = None if any(each in text for each in ALLOWED) else pattern.search(text)
            if match:
                found += 1
                print(f"{path}:{line}: {match[0]!r}; write: {WORDS[match[0]]}")
        if NOT_YET not in path.as_posix():
            for line, word in headless_docstrings(path):
                found += 1
                print(f"{path}:{line}: begins with {word!r}; begin with a verb, as in: Return what ...")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).parents[1] / "src"))
