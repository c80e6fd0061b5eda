"""Runs each writer as root on directories of another user, with a usual umask and with 077: afterwards that user opens
and writes all that is there. Then as a third user, who may write there but not for the owner: that is refused before
anything is written. A program, for root: ``python -m tests.another_user [WRITER...]`` prints counts, and what is wrong.

A real broker that runs as the owner is in ``tests/kafka/test_owner.py``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.failed_writes import DEMO, IN_OUT, IN_PLACE, RECORDS
from tests.failed_writes import WRITERS as ALL

OWNER, THIRD = 54321, 54322
WRITERS: Mapping[str, Sequence[str]] = {
    **ALL,
    "rebuild in place": ("rebuild", "OUT", "--to", "NEW", "--data", "in-place", "--apply"),
    "load beside": ("load", "RECORDS", "--to", "OUT", "-t", "fresh"),
    "carve": ("carve", str(DEMO / "orders-0" / "00000000000000000425.log"), "--to", "OUT"),
}
IN_LOGS = (*IN_PLACE, "rebuild in place", "load beside")
"""Writers that change a log directory, which is there."""
_OPENS = """
import os, sys
os.setgid(int(sys.argv[1])), os.setuid(int(sys.argv[1]))
for root, directories, files in os.walk(sys.argv[2], onerror=lambda error: print(error.filename, error.strerror)):
    if not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        print(root, "cannot be written")
    for name in files:
        try:
            os.close(os.open(os.path.join(root, name), os.O_RDWR))
        except OSError as error:
            print(error.filename, error.strerror)
print("opened")
"""


@dataclass(frozen=True)
class Outcome:
    """What a writer left. ``entries``: files and directories that the owner tried; ``wrong``: what it could not open,
    or what was not as it should be."""

    writer: str
    how: str
    entries: int
    wrong: tuple[str, ...]


def run_as_root(scratch: Path, writer: str, umask: int) -> Outcome:
    """Lets root write in the owner's directories."""
    out = _begin(scratch, writer)
    done = _run(scratch, writer, umask=umask)
    opened = subprocess.run(
        [sys.executable, "-I", "-c", _OPENS, str(OWNER), str(out)], capture_output=True, text=True, check=False
    )
    wrong = [line for line in (opened.stdout + opened.stderr).splitlines() if line != "opened"]
    if "opened" not in opened.stdout or done.returncode not in (0, 1):
        wrong.append(f"exit code {done.returncode}: {done.stderr[-500:]}")
    return Outcome(writer, f"root, umask {umask:03o}", sum(1 for _ in out.rglob("*")), tuple(wrong))


def run_as_third(scratch: Path, writer: str) -> Outcome:
    """Lets a user write who may create files in the owner's directories, but cannot give them to it."""
    out = _begin(scratch, writer)
    for each in (scratch, out, *out.rglob("*")):
        each.chmod(0o777 if each.is_dir() else 0o666)
    before = _state(out)
    done = _run(scratch, writer, user=THIRD)
    wrong: list[str] = []
    if done.returncode != 2 or "Traceback" in done.stderr:
        wrong.append(f"exit code {done.returncode}: {done.stderr[-500:]}")
    if f"user ID {OWNER}" not in done.stderr:
        wrong.append(f"the owner is not named: {done.stderr[-500:]}")
    wrong += [f"changed: {name}" for name, _ in sorted(set(_state(out).items()) ^ set(before.items()))]
    return Outcome(writer, "third user", len(before), tuple(wrong))


def _state(directory: Path) -> dict[str, tuple[int, int]]:
    found = {each: each.stat() for each in directory.rglob("*")}
    return {
        str(each.relative_to(directory)): (0 if each.is_dir() else status.st_size, status.st_uid)
        for each, status in found.items()
    }


def _begin(scratch: Path, writer: str) -> Path:
    for each in (*scratch.glob("*/"), *scratch.glob("new*")):
        shutil.rmtree(each, ignore_errors=True)
    out = scratch / "out"
    (scratch / "records").write_text(RECORDS)
    if writer in IN_LOGS:
        shutil.copytree(DEMO, out)
    if writer in IN_OUT:
        out.mkdir()
    for each in (scratch, scratch / "records", *([out, *out.rglob("*")] if out.exists() else [])):
        each.chmod(0o755 if each.is_dir() else 0o644)
        os.chown(each, OWNER, OWNER)
    return out


def _run(scratch: Path, writer: str, umask: int = 0o022, user: int = 0) -> subprocess.CompletedProcess[str]:
    places = {"DEMO": str(DEMO), "RECORDS": str(scratch / "records"), "NEW": str(scratch / "new")}
    words = [places.get(word, word.replace("OUT", str(scratch / "out"))) for word in WRITERS[writer]]
    become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
    return subprocess.run(
        [*become, sys.executable, "-m", "brokerless", *words],
        umask=umask,
        env={**os.environ, "HOME": str(scratch)},
        capture_output=True,
        text=True,
        check=False,
    )


def main() -> None:
    """Tries all writers, or those that are named."""
    wrong = tried = entries = 0
    for writer in sys.argv[1:] or WRITERS:
        with tempfile.TemporaryDirectory() as name:
            scratch = Path(name)
            outcomes = [run_as_root(scratch, writer, umask) for umask in (0o022, 0o077)]
            outcomes += [run_as_third(scratch, writer)] if writer in IN_LOGS else []
        for each in outcomes:
            tried, entries, wrong = tried + 1, entries + each.entries, wrong + len(each.wrong)
            print(f"{each.writer}, {each.how}: {each.entries} entries, {len(each.wrong)} wrong", flush=True)
            for line in each.wrong[:5]:
                print(f"  {line}", flush=True)
    print(f"{tried} runs, {entries} entries, {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
