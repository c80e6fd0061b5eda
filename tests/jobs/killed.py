"""A job that is killed when it is to change something on the disk for the first time, ..., for the last time.

Run in a process of its own, as its attempts are forks of it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

REAL: dict[str, Callable[..., Any]] = {name: getattr(os, name) for name in ("fsync", "replace", "rename", "unlink")}
"""What changes the disk, or waits for it."""


def kill_at_changes(job: Callable[[str], object], out: str, kills: int) -> None:
    """Prints how many changes ``job`` makes, which writes ``out/whole`` then; ``out/N`` are what is left of runs that
    were killed at the change N, for so many N between the first and the last."""
    Path(out).mkdir(parents=True, exist_ok=True)  # else the first attempt makes it, which is a change more
    with tempfile.TemporaryDirectory() as directory:
        job(f"{directory}/loaded")  # so that no fork has to load the kernels
    changes = _child(job, f"{out}/whole", -1)
    print(changes)
    for number in range(kills):
        at = 1 + number * (changes - 1) // (kills - 1)
        assert _child(job, f"{out}/{at}", at) == 255, at


def _child(job: Callable[[str], object], to: str, at: int) -> int:
    pid = os.fork()
    if not pid:
        os._exit(_attempt(job, to, at))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _attempt(job: Callable[[str], object], to: str, at: int) -> int:
    count = 0

    def dying(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count == at:
                os._exit(255)
            return REAL[name](*arguments, **options)

        return call

    for name in REAL:
        setattr(os, name, dying(name))
    job(to)
    return min(count, 254)
