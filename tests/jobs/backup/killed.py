"""Backups that are killed before each of their changes to the disk, or before one in EVERY:
``python -m tests.jobs.backup.killed DIRECTORY [EVERY]``.

After each kill the snapshots that are there are whole, the earlier one reads as before, and the next run stores all
that is new. Prints what went wrong, a line for each, and at last how many were killed. It is a process of its own
because it forks.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tests.jobs.backup import disks
from tests.log.killed_commit import was_killed

import brokerless


def wrong_after(place: Path, first: disks.Rows, second: disks.Rows) -> str | None:
    """What readers get that they should not; None where all is well."""
    backup = brokerless.Backup(place)
    named = [each.name for each in backup.snapshots()]
    if named not in (["first"], ["first", "second"]):
        return f"snapshots {named}"
    checked = backup.check(read="all")
    if checked.findings:
        return str(checked.findings[0])
    if disks.rows_of(f"{place}@first") != first:
        return "the first snapshot reads otherwise"
    if named[1:] and disks.rows_of(f"{place}@second") != second:
        return "the second snapshot reads otherwise"
    return None


def main(root: Path, every: int = 1) -> None:
    disk, place = disks.earlier(root / "earlier", 3), root / "backup"
    first, second = disks.rows_of(disk), disks.rows_of(disks.DEMO)
    kills, seen = 0, 0
    for at in range(0, 10_000, every):
        shutil.rmtree(place, ignore_errors=True)
        brokerless.backup(disk, place, name="first", segment_size=100_000)
        is_killed = was_killed(at, lambda: brokerless.backup(disks.DEMO, place, name="second", segment_size=100_000))
        kills += is_killed
        seen += len(brokerless.Backup(place).snapshots()) == 2
        if (wrong := wrong_after(place, first, second)) is not None:
            print(f"kill {at}: {wrong}")
        if not is_killed:
            break
        brokerless.backup(disks.DEMO, place, name="second", segment_size=100_000)
        if disks.rows_of(f"{place}@latest") != second or brokerless.Backup(place).check(read="all").findings:
            print(f"kill {at}: the next run did not store all")
    print(kills, seen)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
