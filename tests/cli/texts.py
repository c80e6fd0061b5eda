"""Help and tables as a terminal of 60, 80 and 200 columns shows them, kept beside this module.

``python -m tests.cli.texts`` writes those that differ, and prints their names. Read them before they are committed.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

from brokerless import clock
from brokerless.cli import HELP, main
from brokerless.cli.commands import COMMANDS
from brokerless.cli.help_pages import wrap
from brokerless.cli.parser import Parser, load_command
from brokerless.views.screen import Screen

TEXTS = Path(__file__).parent / "texts"
WIDTHS = (60, 80, 200)
DEMO = Path(__file__).parents[2] / "demo"
NOW_MS = 1_795_766_400_000
"""2026-11-27T08:00:00Z, some days after the last record."""
TABLES = {
    "ls": "ls kafka",
    "ls-segments": "ls kafka --segments -t users -t payments",
    "ls-topics": "ls kafka --topics",
    "audit": "audit kafka",
    "audit-damaged": "audit damaged",
    "verify-damaged": "verify damaged",
    "restart": "restart kafka",
    "restart-damaged": "restart damaged",
    "size": "size kafka -t users --codec zstd --codec lz4 --format v2 --level 3",
    "batches": "batches kafka -t payments",
    "trim": "trim kafka --free 100KB",
    "salvage-damaged": "salvage damaged --to saved --dry-run",
    "merge": "merge replicas/broker-2 replicas/broker-3 --to merged --dry-run",
    "diff": "diff replicas/broker-2 replicas/broker-3",
    "diff-damaged": "diff kafka damaged",
    "compact": "compact kafka --dry-run --now 2026-11-20 --top 3",
    "erase": "erase kafka --key u-0048 --key o-101230 --to erased --dry-run",
    "internals": "internals kafka",
    "internals-open": "internals damaged --table openTransactions",
    "cluster": "cluster kafka",
    "explain-finding": "help segment-overlap",
}
"""Command lines, in a directory with ``kafka`` (the demo), ``damaged`` (a part of it) and ``replicas``."""


def text_of_help(name: str, width: int) -> str:
    """The help of a command; of the empty name, that of all."""
    with mock.patch.dict(os.environ, COLUMNS=str(width)):  # for argparse
        if not name:
            return wrap(HELP, width)
        parser = Parser(prog=f"brokerless {name}")
        parser.add_command(load_command(name))
        return wrap(parser.format_help(), width)


@contextmanager
def logs() -> Generator[None]:
    """Is in a directory with the logs, and at the same time on each day."""
    before = Path.cwd()
    with TemporaryDirectory() as directory, mock.patch.object(clock, "now", return_value=NOW_MS):
        os.chdir(directory)
        try:
            shutil.copytree(DEMO / "data", "kafka")
            shutil.copytree(DEMO / "replicas", "replicas")
            shutil.copytree(DEMO / "data", "damaged")
            _damage(Path("damaged"))
            yield
        finally:
            os.chdir(before)


def _damage(path: Path) -> None:
    """A wrong byte in each segment of a partition, a segment and its indexes that are cut off, a transaction without
    its marker, and a directory that is no partition's."""
    for log in sorted((path / "orders-0").glob("*.log")):
        data = bytearray(log.read_bytes())
        data[len(data) // 2] ^= 0xFF
        log.write_bytes(data)
    last = sorted((path / "orders-1").glob("*.log"))[-1]
    os.truncate(last, last.stat().st_size - 100)
    for index in (path / "orders-1").glob("*.timeindex"):
        index.write_bytes(bytes(13))
    (payments,) = (path / "payments-0").glob("*.log")
    os.truncate(payments, 53_117)
    (path / "lost+found").mkdir()


def text_of_table(name: str, width: int | None) -> str:
    """What a command line of :data:`TABLES` (or any other one) prints, and its exit code; within :func:`logs`."""
    line = TABLES.get(name, name)
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    shown = mock.patch("brokerless.cli.screen", lambda *, is_wide: Screen(None if is_wide else width))
    with shown, redirect_stdout(out), redirect_stderr(err):
        code = main(line.split())
        out.flush()
    text = out.buffer.getvalue().decode()  # type: ignore[attr-defined]
    return f"$ brokerless {line}\n{text}" + f"[stderr]\n{err.getvalue()}" * bool(err.getvalue()) + f"[{code}]\n"


def texts() -> Iterator[tuple[str, str]]:
    """All names, and what is to be in their files."""
    for width in WIDTHS:
        for name in ("", *COMMANDS):
            yield f"{width}/help{f'-{name}' * bool(name)}", text_of_help(name, width)
    with logs():
        for width in WIDTHS:
            for name in TABLES:
                yield f"{width}/{name}", text_of_table(name, width)


if __name__ == "__main__":
    known: set[Path] = set()
    for each, text in texts():
        path = TEXTS / f"{each}.txt"
        known.add(path)
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            sys.stdout.write(f"{each}\n")
    for path in {*TEXTS.rglob("*.txt")} - known:
        path.unlink()
        sys.stdout.write(f"{path.relative_to(TEXTS)} is gone\n")
