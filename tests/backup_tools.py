"""Tools that copy the directories of brokers as other files, and ``brokerless backup``: how each is called."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

Command = list[str]


@dataclass(frozen=True)
class Tool:
    """``place`` is a directory of the tool's own: ``place/stored`` has what it stores, ``place/state`` its cache.
    Copies into one place have numbers, from 0 on."""

    name: str
    prepare: Callable[[Path], Command] | None
    """Makes an empty place ready."""
    copy: Callable[[Sequence[str], Path, int], Command]
    """Stores directories, which are absolute paths."""
    restore: Callable[[Path, int], list[Command]] | None
    """Run in an empty directory, these write there what a copy has, below the whole paths of the directories. None: the
    tool restores otherwise."""


def stored(place: Path) -> Path:
    return place / "stored"


OURS = Tool(
    "brokerless",
    None,
    lambda sources, place, number: [
        *(sys.executable, "-m", "brokerless", "backup", *sources, "--to", str(stored(place)), "--name", f"run-{number}")
    ],
    None,
)
RESTIC = Tool(
    "restic",
    lambda place: ["restic", "-r", str(stored(place)), "init"],
    lambda sources, place, number: [
        *("restic", "-r", str(stored(place)), "backup", "--tag", f"run-{number}", *sources)
    ],
    lambda place, number: [
        ["restic", "-r", str(stored(place)), "restore", "latest", "--tag", f"run-{number}", "--target", "."]
    ],
)
BORG = Tool(
    "borg",
    lambda place: ["borg", "init", "--encryption", "none", str(stored(place))],
    lambda sources, place, number: ["borg", "create", f"{stored(place)}::run-{number}", *sources],
    lambda place, number: [["borg", "extract", f"{stored(place)}::run-{number}"]],
)
TAR = Tool(
    "tar",
    None,
    lambda sources, place, number: [
        *("tar", "--zstd", f"--listed-incremental={stored(place)}/list"),
        *("-cf", f"{stored(place)}/run-{number}.tar.zst", *sources),
    ],
    lambda place, number: [
        ["tar", "--zstd", "--listed-incremental=/dev/null", "-xf", f"{stored(place)}/run-{each}.tar.zst"]
        for each in range(number + 1)
    ],
)
RSYNC = Tool(
    "rsync",
    None,
    lambda sources, place, number: [
        *("rsync", "-aR", *([f"--link-dest={stored(place)}/run-{number - 1}"] if number else [])),
        *(*sources, f"{stored(place)}/run-{number}/"),
    ],
    lambda place, number: [["rsync", "-a", f"{stored(place)}/run-{number}/", "."]],
)
OTHERS = (RESTIC, BORG, TAR, RSYNC)


def missing(tool: Tool) -> str:
    """Return which programs of a tool are not installed, or an empty string."""
    programs = ("tar", "zstd") if tool is TAR else (tool.name,)
    return ", ".join(each for each in programs if shutil.which(each) is None)


@cache
def version(tool: Tool) -> str:
    """The tool's name and version, as ``rsync 3.2.7``."""
    line = ("restic", "version") if tool is RESTIC else (tool.name, "--version")
    words = subprocess.run(line, capture_output=True, text=True, check=True).stdout.split()
    return f"{tool.name} {next(each for each in words if each[0].isdigit())}"


def environment(place: Path) -> Mapping[str, str]:
    """The environment in which commands about a place are run: nothing of it is in the user's home."""
    return {
        **os.environ,
        "RESTIC_PASSWORD": "of a test",
        "RESTIC_CACHE_DIR": str(place / "state"),
        "BORG_BASE_DIR": str(place / "state"),
        "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
    }


def make_place(tool: Tool, place: Path) -> None:
    """Makes an empty place, in which the tool finds nothing of earlier ones."""
    shutil.rmtree(place, ignore_errors=True)
    (place / "state").mkdir(parents=True)
    if tool.prepare is None:
        stored(place).mkdir()
    else:
        subprocess.run(tool.prepare(place), env=environment(place), check=True, capture_output=True)


def size_of(directory: Path) -> int:
    """Bytes of all files; one that has several names counts once."""
    states = (path.lstat() for path in directory.rglob("*") if path.is_file())
    return sum({state.st_ino: state.st_size for state in states}.values())
