"""Runs docs/notebook.ipynb and writes its outputs into it, as Jupyter would: of each cell what it prints, and the value
of its last expression as text and HTML.

python scripts/update_notebook.py            # rewrites the outputs
python scripts/update_notebook.py --check    # fails if they are stale, and changes nothing
"""

from __future__ import annotations

import ast
import io
import json
import os
import sys
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "docs" / "notebook.ipynb"


def executed(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return the notebook with the outputs of its cells, run in order in the root of the repository."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells: list[dict[str, Any]] = []
    number = 0
    with chdir(ROOT):
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                number += 1
                cell = {**cell, "execution_count": number, "outputs": outputs("".join(cell["source"]), names, number)}
            cells.append(cell)
    return {**notebook, "cells": cells}


def outputs(source: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Run one cell; return what it prints and the value of its last expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)  # type: ignore[attr-defined]
    found: list[dict[str, Any]] = []
    if printed.getvalue():
        found.append({"name": "stdout", "output_type": "stream", "text": lines(printed.getvalue())})
    if value is not None:
        data = {"text/plain": lines(repr(value))}
        if (html := getattr(value, "_repr_html_", lambda: None)()) is not None:
            data["text/html"] = lines(html)
        found.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return found


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main() -> int:
    before = NOTEBOOK.read_text()
    after = json.dumps(executed(json.loads(before)), indent=1, ensure_ascii=False) + "\n"
    if "--check" not in sys.argv[1:]:
        NOTEBOOK.write_text(after)
    elif before != after:
        print("docs/notebook.ipynb is stale: run python scripts/update_notebook.py")
        return 1
    return 0


if __name__ == "__main__":
    os.environ["TZ"] = "UTC"
    sys.exit(main())
