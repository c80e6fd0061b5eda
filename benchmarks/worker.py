"""The warm process of a side in Python: ``python -m benchmarks.worker MODULE:FUNCTION ARGUMENT...``."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable


def main(name: str, *arguments: str) -> None:
    module, function = name.split(":")
    run: Callable[..., int] = getattr(importlib.import_module(module), function)
    for _ in sys.stdin:
        start, cpu_start = time.perf_counter(), time.process_time()
        amount = run(*arguments)
        print(amount, time.perf_counter() - start, time.process_time() - cpu_start, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
