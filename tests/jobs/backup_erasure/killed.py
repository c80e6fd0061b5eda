"""Erasures in a backup that are killed before each of their changes to the disk, or before one in EVERY:
``python -m tests.jobs.backup_erasure.killed DIRECTORY [EVERY]``.

After each kill all snapshots read either as before or without the erased records, and the same command completes it.
Prints what went wrong, a line for each, and at last how many were killed. It is a process of its own because it forks.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tests.jobs.backup import disks
from tests.log.killed_commit import was_killed

import brokerless

KEYS = ["u-0048", "o-101230"]


def erase(place: Path, manifest: Path, kill_at: int | None) -> bool:
    """Whether an erasure was killed, and not over before that."""
    return was_killed(kill_at, lambda: brokerless.Backup(place).erase(keys=KEYS, manifest=manifest, apply=True))


def wrong_after(place: Path, known: list[disks.Rows]) -> str | None:
    """What readers get that they should not; None where all is well."""
    checked = brokerless.Backup(place).check(read="all")
    if checked.findings:
        return str(checked.findings[0])
    # Of a file system of its own, as another process has.
    rows = disks.rows_of(brokerless.open(f"{place}@latest"))
    return None if rows in known else "the snapshot reads otherwise"


def main(root: Path, every: int = 1) -> None:
    original = root / "original"
    brokerless.backup(disks.DEMO, original)
    before = disks.rows_of(disks.DEMO)
    erased = {each.encode() for each in KEYS}
    after = {
        place: own if place[0].startswith("__") else [each for each in own if each["key"] not in erased]
        for place, own in before.items()
    }
    kills = 0
    for at in range(0, 10_000, every):
        place, manifest = root / f"backup-{at}", root / f"erased-{at}.json"
        shutil.copytree(original, place)
        if not erase(place, manifest, at):
            break
        kills += 1
        if (text := wrong_after(place, [before, after])) is not None:
            print(f"killed before change {at}: {text}")
        erase(place, manifest, None)
        if (text := wrong_after(place, [after])) is not None:
            print(f"after the run that followed a kill before change {at}: {text}")
        brokerless.Backup(place).prune(grace=0, apply=True)
        if not (proof := brokerless.prove(manifest, keys=KEYS)).holds:
            print(f"killed before change {at}: {next(each for each in proof.findings if each.severity == 'error')}")
        shutil.rmtree(place)
    print(f"{kills} killed")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
