"""Runs one command again and again, each time with one more file that may be opened: ``python -m
tests.cli.out_of_files COMMAND...``.

It runs once as it would, so that everything is imported. Then it prints a line of JSON for each run: how many
descriptors are left, the exit code, what was written to stderr, and whether stdout is that of the first run. ``RUN`` in
an argument is the number of the run.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import sys

from brokerless.cli import main

MOST = 16


def run(arguments: list[str], number: int) -> tuple[int, str, bytes]:
    arguments = [each.replace("RUN", str(number)) for each in arguments]
    errors = io.StringIO()
    data = io.BytesIO()
    output = io.TextIOWrapper(data)
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(output):
        code = main(arguments)
    output.flush()
    return code, errors.getvalue(), data.getvalue()


def play(arguments: list[str]) -> None:
    _, _, first = run(arguments, 0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    held: list[int] = []
    with contextlib.suppress(OSError):
        while True:
            held.append(os.open(os.devnull, os.O_RDONLY))
    for left in range(MOST):
        code, errors, output = run(arguments, left + 1)
        print(json.dumps({"left": left, "code": code, "errors": errors, "isSame": output == first}), flush=True)
        os.close(held.pop())


if __name__ == "__main__":
    play(sys.argv[1:])
