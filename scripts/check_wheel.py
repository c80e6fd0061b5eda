"""Installs a wheel into an environment of its own and uses it there: ``python scripts/check_wheel.py UV WHEEL``.

What the README promises of a wheel: it needs no Numba and no compiler, answers at once on a fresh machine, writes no
cache, asks for nothing that is missing, and leaves nothing when it is uninstalled. A kernel of Jupyter runs the
documents' notebook with it. Then the wheel is tried with other versions of Python, if they are here, and what it needs
is looked for as wheels for other kinds of machines. Prints what it measured.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
GOALS = {"cat": 0.6, "cat --json": 0.8}
"""Seconds that the first commands are to take, printed beside what was measured: a busy machine fails nothing."""
VERSIONS = ("--constraint", str(ROOT / "locks" / "newest.txt"))
PLATFORMS = ("aarch64-apple-darwin", "aarch64-manylinux_2_28")
LOG = ROOT / "demo/data/orders-0"
ABSENT = ("numba", "llvmlite")
NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
KERNEL = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": sys.argv[2]}}).execute()
nbformat.write(notebook, sys.argv[3])
"""
"""Runs a notebook in a kernel of Jupyter, in a directory."""


def main() -> None:
    uv, wheel = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        check(uv, Path(wheel), Path(directory))
        check_notebook(uv, Path(wheel), Path(directory) / "notebook")
        check_pythons(uv, Path(wheel), Path(directory))
    check_platforms(uv)


def check(uv: str, wheel: Path, directory: Path) -> None:
    venv, home = directory / "venv", directory / "home"
    python = venv / "bin" / "python"
    run([uv, "venv", "--quiet", "--no-python-downloads", "--python", sys.executable, str(venv)])
    before = files_of(venv)
    run([uv, "pip", "install", "--quiet", "--python", str(python), "--compile-bytecode", *VERSIONS, str(wheel)])
    run([uv, "pip", "check", "--quiet", "--python", str(python)])
    size = sum(path.stat().st_size for path in venv.rglob("*") if path.is_file() and not path.is_symlink())
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB; with all that it needs, {size / 1e6:.0f} MB")
    for name in ABSENT:
        expect(not list(venv.rglob(f"site-packages/{name}")), f"no {name}", "one")
    run([uv, "pip", "install", "--quiet", "--python", str(python), "--compile-bytecode", *VERSIONS, f"{wheel}[sql]"])
    pages = sorted(each.name for each in (venv / "share" / "man" / "man1").glob("brokerless*"))
    expect("brokerless.1" in pages and "brokerless-verify.1" in pages, "pages for man", pages)
    home.mkdir()
    home.chmod(0o500)
    installed = files_of(venv)
    use(venv / "bin" / "brokerless", home, directory)
    expect(files_of(venv) == installed, "no file written where it is installed", files_of(venv) - installed)
    expect(not list(home.iterdir()), "no file in the home directory", list(home.iterdir()))
    run([uv, "pip", "uninstall", "--quiet", "--python", str(python), "brokerless"])
    left = sorted(each for each in files_of(venv) - before if "brokerless" in each)
    expect(not left, "nothing left after uninstalling", left)
    print("installed, used and uninstalled: right")


def use(command: Path, home: Path, directory: Path) -> None:
    """Runs commands as on a fresh machine, each with the answer that it has to give."""
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "TMPDIR": str(directory), "LC_ALL": "C.UTF-8"}

    def brokerless(*arguments: str) -> str:
        began = os.times()
        at = time.monotonic()
        done = subprocess.run(
            [str(command), *arguments], env=environment, cwd=directory, capture_output=True, text=True, check=False
        )
        expect(done.returncode == 0 and not done.stderr, "a clean end of " + " ".join(arguments), done.stderr)
        ended = os.times()
        took = ended.children_user - began.children_user + ended.children_system - began.children_system
        name = " ".join(each for each in arguments if each.startswith("--") or "/" not in each)
        goal = f" (goal: {GOALS[name]} s)" if name in GOALS else ""
        print(f"  {name:44} {took:.2f} s of the processor, {time.monotonic() - at:.2f} s by the clock{goal}")
        return done.stdout

    lines = [json.loads(line) for line in brokerless("cat", "--json", str(LOG)).splitlines()]
    expect(len(lines) > 0 and len(brokerless("cat", str(LOG)).splitlines()) >= len(lines), "the same records", lines)
    expect("0 errors" in brokerless("verify", str(LOG)), "no errors", "others")
    brokerless("ls", str(LOG.parent))
    counted = brokerless("sql", "--json", "SELECT count(*) AS n FROM orders WHERE partition = 0", str(LOG.parent))
    expect(json.loads(counted) == {"n": len(lines)}, f"{len(lines)} records", counted)
    brokerless("export", str(LOG), "--to", str(directory / "exported"))
    expect(bool(list((directory / "exported").rglob("*.parquet"))), "Parquet files", "none")
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        brokerless("convert", str(LOG), "--to", str(directory / codec), "--codec", codec)
        found = brokerless("cat", "--json", str(directory / codec)).splitlines()
        expect(len(found) == len(lines), f"{len(lines)} records after conversion", len(found))
    expect("kernels-linux" in brokerless("--version", "--verbose") or sys.platform != "linux", "the library", "none")


def check_notebook(uv: str, wheel: Path, directory: Path) -> None:
    """A real kernel shows in each cell what the notebook has; neither ipywidgets nor anything else that only developers
    have is there."""
    python = directory / "venv" / "bin" / "python"
    run([uv, "venv", "--quiet", "--no-python-downloads", "--python", sys.executable, str(python.parents[1])])
    install = [uv, "pip", "install", "--quiet", "--python", str(python), *VERSIONS]
    run([*install, f"{wheel}[notebook]", "ipykernel", "nbclient"])
    expect(not list(python.parents[1].rglob("site-packages/ipywidgets")), "no ipywidgets", "them")
    shutil.copytree(ROOT / "demo" / "data", directory / "demo" / "data")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    run([str(python), "-c", KERNEL, str(NOTEBOOK), str(directory), str(directory / "run.ipynb")], environment)
    expected, shown = (shown_cells(each) for each in (NOTEBOOK, directory / "run.ipynb"))
    expect(shown == expected, f"cells {expected}", shown)
    print(f"a kernel of Jupyter runs the {len(shown)} cells of {NOTEBOOK.name}: right")


def shown_cells(notebook: Path) -> list[tuple[int | None, list[str]]]:
    """The number of each cell, and what it shows as plain text; of a frame, as HTML, for in a kernel pandas has another
    width for its text."""
    cells = json.loads(notebook.read_text())["cells"]
    return [(each.get("execution_count"), [*map(text_of, each.get("outputs", ()))]) for each in cells]


def text_of(output: dict[str, Any]) -> str:
    found = output.get("data", {"text/plain": output.get("text", "")})
    return "".join(found["text/html" if "dataframe" in str(found.get("text/html")) else "text/plain"])


def check_platforms(uv: str) -> None:
    """All that a wheel needs can be had as wheels for the other kinds of machines; Spark comes as sources for all."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [f"--extra={each}" for each in project["optional-dependencies"] if each not in ("spark", "all")]
    versions = pythons_of(project)
    for platform in PLATFORMS:
        for version in (versions[0], versions[-1]):
            only = ["--only-binary", ":all:", "--python-platform", platform, "--python-version", version]
            run([uv, "pip", "compile", "--quiet", *VERSIONS, *only, *extras, str(ROOT / "pyproject.toml")])
            print(f"  wheels of all that is needed for {platform}, Python {version}: there are", flush=True)


def check_pythons(uv: str, wheel: Path, directory: Path) -> None:
    """The wheel in each other version of Python that this machine has."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    for version in pythons_of(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]):
        found = find_python(uv, version)
        if version == own or found is None:
            print(f"  Python {version}: {'tried above' if version == own else 'is not on this machine'}")
            continue
        venv = directory / version
        python = ["--python", str(venv / "bin" / "python")]
        run([uv, "venv", "--quiet", "--no-python-downloads", "--python", found, str(venv)])
        run([uv, "pip", "install", "--quiet", *python, *VERSIONS, str(wheel)])
        run([uv, "pip", "check", "--quiet", *python])
        run([str(venv / "bin" / "brokerless"), "verify", str(LOG)])
        run([str(venv / "bin" / "brokerless"), "cat", "--json", str(LOG)])
        print(f"  Python {version}: right", flush=True)


def find_python(uv: str, version: str) -> str | None:
    """The interpreter of a version, where uv finds one, or pyenv has one that is not chosen."""
    find = [uv, "python", "find", "--no-python-downloads", version]
    found = subprocess.run(find, capture_output=True, text=True, check=False)
    root = Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser()
    others = sorted(map(str, root.glob(f"versions/{version}.*/bin/python")))
    return found.stdout.strip() if found.returncode == 0 else next(iter(others), None)


def pythons_of(project: dict[str, Any]) -> list[str]:
    return [each.rpartition(" :: ")[2] for each in project["classifiers"] if ":: Python :: 3." in each]


def files_of(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if not path.is_dir()}


def run(command: list[str], environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


def expect(holds: bool, expected: str, found: object) -> None:
    if not holds:
        sys.exit(f"expected {expected}, found {str(found)[:500]}")


if __name__ == "__main__":
    main()
