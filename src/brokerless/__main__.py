"""`python -m brokerless`, and the command `brokerless`."""

from __future__ import annotations

import os
import sys
from threading import active_count
from typing import NoReturn

from brokerless.cli import main


def run() -> NoReturn:
    """Runs the command line of this process, and ends it. After a query, objects are not taken apart one by one: those
    of Numba and DuckDB take a tenth of the time of a short query. They are where a profiler or a debugger waits for the
    end."""
    # A thread of NumPy's OpenBLAS on each core spins for a tenth of a second, and nothing here multiplies matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    exit_code = main()
    is_watched = sys.getprofile() is not None or sys.gettrace() is not None
    if sys.argv[1:2] == ["sql"] and not is_watched and active_count() == 1:
        sys.stderr.flush()
        os._exit(exit_code)
    sys.exit(exit_code)


if __name__ == "__main__":
    run()
