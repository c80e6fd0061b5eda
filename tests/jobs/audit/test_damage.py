"""Two hundred ways to damage a broker's directory: no crash, nothing changed, and no change of a log without a word."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest
from tests.described import undescribed
from tests.examples import some_quick
from tests.jobs.audit.test_job import NOW, audit, copy_of
from tests.random_damage import damage_at_random

from brokerless.clusters.directory_state import load_directory_state
from brokerless.clusters.start.job import StartAt, plan_restart
from brokerless.errors import UnreadableError
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location

NAMES = (
    "segments-0", "txn-0", "compacted-none-0", "prealloc-0", "codec-lz4-1", "retention-0", "epochs-0", "head-deleted-0",
    "edges-0", "codec-gzip-0",
)  # fmt: skip


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.mark.parametrize("name", some_quick(NAMES, 3))
def test_whatever_is_done_to_a_partition(name: str, tmp_path: Path) -> None:
    for seed in range(20):
        root = tmp_path / str(seed)
        root.mkdir()
        copy = copy_of(name, root)
        whole = contents(copy.directory)
        damage_at_random(copy.directory, random.Random(f"{name} {seed}"))
        damaged = contents(copy.directory)
        _, findings = audit(root)
        assert undescribed(findings) == []
        assert all(each.file.startswith(str(root)) for each in findings)
        logs = {file for file in whole if file.endswith(".log")}
        if any(whole[file] != damaged.get(file) for file in logs):
            assert [each for each in findings if each.severity != "info"], (seed, findings)
        directory = resolve(Location(str(root)))
        for clean in (True, False):
            with contextlib.suppress(UnreadableError):
                (partition,) = directory.partitions
                restart = plan_restart(
                    partition, load_directory_state(directory).of(partition), StartAt(now_ms=NOW), clean=clean
                )
                assert restart.refused or restart.log_start_offset <= restart.log_end_offset
                assert all(each.kept < each.size == len(damaged[Path(each.file).name]) for each in restart.cut)
        assert contents(copy.directory) == damaged
