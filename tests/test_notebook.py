"""The notebook of the documents shows what its cells print; ``make check-wheel`` runs it in a real kernel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scripts import update_notebook


def test_the_notebook_was_run() -> None:
    notebook = json.loads(update_notebook.NOTEBOOK.read_text())
    assert update_notebook.executed(notebook) == notebook, "stale: python scripts/update_notebook.py"


def test_a_cell_has_what_it_prints_and_its_last_value() -> None:
    names: dict[str, Any] = {}
    assert update_notebook.outputs("a = 1\nprint(a)\n", names, 1) == [
        {"name": "stdout", "output_type": "stream", "text": ["1\n"]}
    ]
    (shown,) = update_notebook.outputs("a + 1", names, 2)
    assert (shown["data"], shown["execution_count"]) == ({"text/plain": ["2"]}, 2)
    assert update_notebook.outputs("None", names, 3) == []


def test_its_links_and_cells_are_those_of_the_format() -> None:
    notebook = json.loads(Path(update_notebook.NOTEBOOK).read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 4)
    for cell in notebook["cells"]:
        needed = {"cell_type", "metadata", "source"}
        assert cell.keys() == (needed | {"execution_count", "outputs"} if cell["cell_type"] == "code" else needed)
