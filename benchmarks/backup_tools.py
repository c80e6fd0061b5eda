"""`brokerless backup` beside restic, borg, tar with zstd and rsync, as whole processes, on the log directories of three
replicas: the first time, and again with 1 % more."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from tests import backup_tools
from tests.backup_tools import OTHERS, OURS, RESTIC, Tool
from tests.jobs.backup.rsa_keys import key_files
from tests.once import made_once

from benchmarks import data
from benchmarks.measure import ROOT, BenchmarkError, Pass, Workload

SEGMENT_SIZES = {1: 16 << 20, 2: 20 << 20, 3: 13 << 20}
"""Bytes at which the segments of each node's replica end, at different batches, as those of replicas do."""
MORE = 100
"""One of so many batches comes after the first copy."""
TAIL = "more.log"

MEASURED = """
import json, os, resource, sys, time
start = time.perf_counter()
pid = os.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
status = os.waitpid(pid, 0)[1]
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(file=sys.stderr)
print(json.dumps([os.waitstatus_to_exitcode(status), time.perf_counter() - start, used.ru_utime + used.ru_stime,
                  used.ru_maxrss]), file=sys.stderr)
"""
"""What a small process runs, as a new one counts the memory of that which starts it as its own."""


def workloads(records: int) -> Iterator[Workload]:
    for tool in OTHERS:
        missing = backup_tools.missing(tool)
        for suffix, is_again in (("", False), ("-again", True)):
            side = functools.partial(copying, records=records, is_again=is_again, is_encrypted=tool is RESTIC)
            yield Workload(
                f"backup-beside-{tool.name}{suffix}",
                "s",
                ours=functools.partial(side, OURS),
                anchor=tool.name if missing else backup_tools.version(tool),
                theirs=functools.partial(side, tool),
                runs=3,
                seconds=0,
                warm_up=0,
                asked=True,
                missing=missing,
            )


def replicas(records: int) -> Path:
    """Log directories of three nodes with a replica each, and next to each what is appended later; made once."""
    source = data.segment("lz4", records)

    def write(target: Path) -> None:
        import brokerless

        log = brokerless.open(str(source.parent))
        batches = [(each["position"].to_numpy(), each["baseOffset"].to_numpy()) for each in log.batches()]
        positions, offsets = (np.concatenate(each) for each in zip(*batches, strict=True))
        content, last = source.read_bytes(), int(positions[-(len(positions) // MORE + 1)])
        for node, size in SEGMENT_SIZES.items():
            partition = target / f"node-{node}" / source.parent.name
            partition.mkdir(parents=True)
            at = np.flatnonzero(np.diff(positions // size, prepend=-1) & (positions < last))
            ends = [*positions[at[1:]].tolist(), last]
            for first, end in zip(at.tolist(), ends, strict=True):
                (partition / f"{offsets[first]:020}.log").write_bytes(content[positions[first] : end])
            (partition / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
            properties = f"version=1\ncluster.id=AAAAAAAAQACAAAAAAAAAAA\nnode.id={node}\n"
            (partition.parent / "meta.properties").write_text(properties)
        (target / TAIL).write_bytes(content[last:])

    return made_once(data.CACHE / f"replicas-of-{source.parent.parent.name}-{source.parent.name}", write)


@contextlib.contextmanager
def copying(tool: Tool, records: int, is_again: bool, is_encrypted: bool) -> Iterator[Callable[[], Pass]]:
    """Copies into an empty place; or again into one with a copy, after each replica has got longer."""
    with tempfile.TemporaryDirectory(dir=data.CACHE) as scratch:
        place, before, root = Path(scratch) / "place", Path(scratch) / "before", Path(scratch) / "disks"
        shutil.copytree(replicas(records), root)
        disks = [str(root / f"node-{node}") for node in SEGMENT_SIZES]
        more = list[str]()
        if is_encrypted and tool is OURS:
            public = key_files(Path(scratch), "safe")[1]["safe"]
            more = ["--public-key", f"safe={public}", "--one-key"]
        ends = {path: path.stat().st_size for path in map(find_active, disks)}

        def first() -> Pass:
            backup_tools.make_place(tool, place)
            os.sync()
            return measured(tool, [*tool.copy(disks, place, 0), *more], place)

        def again() -> Pass:
            if before.exists():
                shutil.rmtree(place)
            else:
                first()
                place.rename(before)
            shutil.copytree(before, place)
            for path, end in ends.items():
                os.truncate(path, end)
                with path.open("ab") as file:
                    file.write((root / TAIL).read_bytes())
            os.sync()
            return measured(tool, [*tool.copy(disks, place, 1), *more], place)

        yield again if is_again else first


def find_active(disk: str) -> Path:
    return max(Path(disk).rglob("*.log"))


def measured(tool: Tool, command: Sequence[str], place: Path) -> Pass:
    """One process from its start to its end: the bytes that it added, and the most memory that it or one of those that
    it started had."""
    had = backup_tools.size_of(backup_tools.stored(place))
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", MEASURED, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True, cwd=ROOT, env=backup_tools.environment(place), check=False,
    )  # fmt: skip
    code, seconds, cpu, peak = json.loads(done.stderr.splitlines()[-1])
    if code != 0:
        raise BenchmarkError(f"{tool.name} exited with {code}: {done.stderr[-2000:]}")
    added = backup_tools.size_of(backup_tools.stored(place)) - had
    return Pass(1, seconds, cpu, added, {"peakInMiB": peak / 1024})
