"""What machine this is, as far as speed depends on it: its processor, that one's caches, and how fast memory is."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

_COPIED = 1 << 30
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def describe_machine() -> str:
    """Return one line: the processor, its caches, the rate of a copy of 1 GiB, and how busy it is."""
    load = os.getloadavg()[0]
    caches = ", ".join(find_caches()) or "caches unknown"
    return f"{find_processor()}; {caches}; a copy of 1 GiB: {copy_rate():.1f} GB/s; load {load:.1f}"


def find_processor() -> str:
    """The processor's name, with family and model, as virtual machines hide which one it is."""
    fields = dict[str, str]()
    path = Path("/proc/cpuinfo")
    for line in path.read_text().splitlines() if path.exists() else ():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    if "model name" not in fields:
        return platform.processor() or platform.machine()
    return f"{fields['model name']} (family {fields.get('cpu family', '?')}, model {fields.get('model', '?')})"


def find_caches(directory: Path = _CACHES) -> Iterator[str]:
    """The size of each cache of a core that has data, as ``L2 2048K``."""
    for each in sorted(directory.glob("index*")):
        level, kind, size = ((each / name).read_text().strip() for name in ("level", "type", "size"))
        if kind != "Instruction":
            yield f"L{level} {size}"


def copy_rate(runs: int = 5) -> float:
    """GB/s of a copy of 1 GiB in memory, the fastest of some runs."""
    source, target = np.ones(_COPIED, np.uint8), np.ones(_COPIED, np.uint8)
    seconds = list[float]()
    for _ in range(runs):
        start = time.perf_counter()
        np.copyto(target, source)
        seconds.append(time.perf_counter() - start)
    return _COPIED / min(seconds) / 1e9
