"""Checks the words of the first lines of docstrings, and of all texts in ``cli``.

``make lint`` runs it. Those in WORDS are a dialect that readers would have to learn; the field has words of its own.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

WORDS = {
    "told": "reported",
    "noted": "recorded",
    "anew": "again",
    "leftovers": "orphaned files",
    "odd": "invalid",
    "behind": "after, past",
    "by now": "already, now",
    "looked at": "checked, read",
}
ALLOWED = ("offsets behind in",)
"""How far a group lags, in Kafka's words."""


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """First lines of docstrings; in ``cli``, every string, which may be shown."""
    tree = ast.parse(path.read_text(), str(path))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            yield getattr(node, "lineno", 1), (ast.get_docstring(node) or "").partition("\n")[0]
        elif "cli" in path.parts and isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def main(source: Path) -> int:
    pattern = re.compile(rf"\b({'|'.join(WORDS)})\b")
    found = 0
    for path in sorted(source.rglob("*.py")):
        for line, text in texts_of(path):
            match = None if any(each in text for each in ALLOWED) else pattern.search(text)
            if match:
                found += 1
                print(f"{path}:{line}: {match[0]!r}; write: {WORDS[match[0]]}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).parents[1] / "src"))
