"""`python -m brokerless`, and the command `brokerless`."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def run() -> "NoReturn":
    """Runs the command line of this process, and ends it.

    What Python registers for its end is done; objects are not taken apart one by one, which takes 0.05 to 0.2 s, and in
    which a thread of Arrow's that frees memory of Python's ends the process with an abort (pyarrow 26: ``~PyBuffer``).
    They are where a thread still runs, or a profiler or a debugger waits for the end."""
    import _signal  # pyright: ignore - signal itself imports others, and may be interrupted meanwhile

    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # Ctrl-C while modules are imported is no traceback
    import atexit
    import os
    import sys
    from contextlib import suppress
    from threading import active_count

    # A thread of NumPy's OpenBLAS on each core spins for a tenth of a second, and nothing here multiplies matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from brokerless.cli import main

    exit_code = main()
    is_watched = sys.getprofile() is not None or sys.gettrace() is not None
    if is_watched or active_count() > 1:
        sys.exit(exit_code)
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage] - as Python itself does it, and what it forks
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # a closed or full one, as the command has reported
            stream.flush()
    os._exit(exit_code)


if __name__ == "__main__":
    run()
