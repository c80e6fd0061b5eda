"""The notebook of the documents shows what its cells print."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scripts import update_notebook

from tests.require import require

KERNEL = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": sys.argv[2]}}).execute()
nbformat.write(notebook, sys.argv[3])
"""
"""Runs a notebook in a kernel of Jupyter, in a directory."""


def has_index() -> bool:
    try:
        socket.create_connection(("pypi.org", 443), timeout=5).close()
    except OSError:
        return "PIP_FIND_LINKS" in os.environ or "PIP_INDEX_URL" in os.environ
    return True


@pytest.mark.slow
def test_a_real_kernel_runs_it_from_the_wheel_with_its_extra_alone(tmp_path: Path) -> None:
    """Neither ipywidgets nor anything else that only developers have is there."""
    require(has_index(), "packages can be downloaded")
    python = tmp_path / "venv" / "bin" / "python"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def run(*arguments: object) -> str:
        command = [str(each) for each in arguments]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
        return done.stdout

    run(sys.executable, "-m", "venv", python.parents[1])
    pip = (python, "-m", "pip", "--quiet")
    run(*pip, "wheel", "--no-deps", "--wheel-dir", tmp_path, update_notebook.ROOT)
    (wheel,) = tmp_path.glob("brokerless-*.whl")
    lock = "\n".join(
        line.removesuffix(" \\")
        for line in (update_notebook.ROOT / "locks" / "newest.txt").read_text().splitlines()
        if line[:1].isalpha()
    )
    (tmp_path / "versions.txt").write_text(lock)
    run(*pip, "install", "--constraint", tmp_path / "versions.txt", f"{wheel}[notebook]", "ipykernel", "nbclient")
    assert "ipywidgets" not in run(python, "-m", "pip", "list")
    shutil.copytree(update_notebook.ROOT / "demo" / "data", tmp_path / "demo" / "data")
    run(python, "-c", KERNEL, update_notebook.NOTEBOOK, tmp_path, tmp_path / "run.ipynb")
    shown = json.loads((tmp_path / "run.ipynb").read_text())["cells"]
    expected = json.loads(update_notebook.NOTEBOOK.read_text())["cells"]
    assert [cell.get("execution_count") for cell in shown] == [cell.get("execution_count") for cell in expected]
    assert [texts(cell) for cell in shown] == [texts(cell) for cell in expected]


def texts(cell: dict[str, Any]) -> list[str]:
    """What a cell shows as plain text; of a frame, as HTML, for in a kernel pandas has another width for its text."""
    found = (each["data"] for each in cell.get("outputs", ()) if "data" in each)
    return ["".join(each["text/html" if "dataframe" in str(each.get("text/html")) else "text/plain"]) for each in found]


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
