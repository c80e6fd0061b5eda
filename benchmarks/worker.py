"""The warm process of a side in Python: ``python -m benchmarks.worker MODULE:FUNCTION ARGUMENT...``."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable


def main(name: str, *arguments: str) -> None:
    module, function = name.split(":")
    run: Callable[..., int | tuple[int, int]] = getattr(importlib.import_module(module), function)
    for _ in sys.stdin:
        start, cpu_start = time.perf_counter(), time.process_time()
        done = run(*arguments)
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
        amount, size = done if isinstance(done, tuple) else (done, 0)
        print(amount, seconds, cpu_seconds, size, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
