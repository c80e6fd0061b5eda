"""The build backend of ``pip install .``: hatchling's wheel with compiled kernels, so that it needs no Numba.

Where there is no linker, the wheel is hatchling's own, and Numba compiles the kernels when they are first used. The
metadata of both differ, so that there is no hook that tells it before the wheel is built. An editable installation is
for developers, and has Numba.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
Settings = dict[str, Any] | None


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """What kernels are compiled with is what the package needs from a clone."""
    return _dependencies() if can_link() else []


def build_wheel(directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """Writes the wheel into a directory; returns its name."""
    from hatchling import build

    if not can_link() or find_spec("numba") is None:
        print("no linker, or no Numba to build with: Numba compiles kernels when they are first used", file=sys.stderr)
        return build.build_wheel(directory, config_settings, metadata_directory)
    with tempfile.TemporaryDirectory() as scratch:
        pure = Path(scratch) / build.build_wheel(scratch, config_settings, metadata_directory)
        kernels = Path(scratch) / "kernels"
        _run("build_kernels.py", kernels)
        _run("make_wheel.py", pure, kernels, directory)
    (made,) = Path(directory).glob(f"{'-'.join(pure.name.split('-')[:2])}-*.whl")
    return made.name


def can_link() -> bool:
    """Return whether this machine makes libraries of object files."""
    return shutil.which("cc" if sys.platform == "darwin" else "ld") is not None


def get_requires_for_build_sdist(config_settings: Settings = None) -> list[str]:
    return []


def build_sdist(directory: str, config_settings: Settings = None) -> str:
    from hatchling import build

    return build.build_sdist(directory, config_settings)


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    from hatchling import build

    return build.get_requires_for_build_editable(config_settings)


def build_editable(directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    from hatchling import build

    return build.build_editable(directory, config_settings, metadata_directory)


def _dependencies() -> list[str]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]


def _run(script: str, *arguments: Path | str) -> None:
    command = [sys.executable, str(ROOT / "scripts" / script), *map(str, arguments)]
    # What is built with is where pip says in this variable.
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    subprocess.run(command, env=environment, check=True, stdout=sys.stderr)
