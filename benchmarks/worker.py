"""The warm process of a side in Python: ``python -m benchmarks.worker MODULE:FUNCTION ARGUMENT...``."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable

from benchmarks.measure import cpu_of_all


def main(name: str, *arguments: str) -> None:
    module, function = name.split(":")
    run: Callable[..., int | tuple[int, int]] = getattr(importlib.import_module(module), function)
    for _ in sys.stdin:
        cpu_start, start = cpu_of_all(), time.perf_counter()
        done = run(*arguments)
        seconds, cpu_seconds = time.perf_counter() - start, cpu_of_all() - cpu_start
        amount, size = done if isinstance(done, tuple) else (done, 0)
        print(amount, seconds, cpu_seconds, size, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
