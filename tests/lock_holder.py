"""Another process that holds a log directory's lock, as a running broker does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CODE = """if True:
    import sys
    from brokerless.log.storage.directory_lock import lock_directory
    with lock_directory(sys.argv[1], exclusive=True):
        print("locked", flush=True)
        sys.stdin.read()
"""


@contextmanager
def held_by_another(directory: Path) -> Iterator[None]:
    command = [sys.executable, "-c", _CODE, str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        yield
        holder.communicate()
