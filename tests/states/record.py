"""Starts real brokers on all states, and notes what each made of them: ``python -m tests.states.record``.

``--version V``: of Kafka. ``--only TEXT``: states whose name has this in it; all others stay as they are in the file.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.kafka.broker import KafkaBroker, make_archive_of_broker
from tests.kafka.jars import command, compile_helpers
from tests.states.bases import ORDERS, SETTINGS, VERSIONS
from tests.states.outcomes import Outcome, Outcomes, load, noted, save
from tests.states.states import Pack, all_states, make, packs, sizes

RECORD_SETTINGS = {
    **SETTINGS,
    "log.segment.delete.delay.ms": "500",
    "log.retention.check.interval.ms": "300",
    "log.cleaner.backoff.ms": "3600000",
    "file.delete.delay.ms": "500",
}
ENDING = re.compile(
    r"(copy-log|epochs-garbled|metadata-emptied|metadata-garbled|txnindex-unknown-version|txnindex-garbled-\w+)\..*"
    r"|(log-cut-last|log-garbled-last|swap-cut-last|swap-garbled-last|last-with-\w+|index-past-end)\.clean"
)
"""States that are known to end a broker, to save trying; others are found."""
STARTS_IN_A_JVM = 30
"""Brokers that were refused leave threads."""


class Starter:
    """A JVM in which brokers start one after the other, each of which is asked what it made of its directories."""

    def __init__(self, version: str, root: Path) -> None:
        self.version, self.root = version, root
        self.process: subprocess.Popen[str] | None = None
        self.count = 0
        self.errors = root

    def start(self, log_dirs: Sequence[Path], wait_ms: int, **settings: str) -> dict[str, Any]:
        """Start a broker, stop it, and return what ``RecordStarts`` said of it."""
        if self.process is None or self.count % STARTS_IN_A_JVM == 0:
            self.close()
            line = command("RecordStarts", version=self.version, heap="1g", classes=compile_helpers(self.version))
            self.errors = self.root / f"errors-{self.count}"
            errors = self.errors.open("w")
            self.process = subprocess.Popen(
                line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self.count += 1
        own = {"log.dirs": ",".join(map(str, log_dirs)), "record.wait.ms": str(wait_ms), **settings}
        broker = KafkaBroker(self.root / f"broker-{self.count}", {**RECORD_SETTINGS, **own}, self.version)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        complained = self.errors.stat().st_size
        self.process.stdin.write(f"{broker.properties}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            self.process = None
            return {"outcome": "ended the JVM", "files": {}}
        answer = json.loads(line)
        if answer["outcome"] != "started":
            text = self.errors.read_bytes()[complained:].decode(errors="replace")
            answer["outcome"] = why(text, log_dirs[0].parent) or answer["outcome"]
        return answer

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.process = None


def why(output: str, root: Path) -> str:
    """Return the exceptions that a broker ended with, without the paths of this machine."""
    lines = [line for line in output.splitlines() if re.match(r"(Caused by: )?[\w.]+(Exception|Error): ", line)]
    lines = [line for line in lines if "NoSuchFileException" not in line]  # of files whose deletion is tried twice
    seen = dict.fromkeys(line.removeprefix("Caused by: ").replace(f"{root}/", "") for line in lines)
    return " | ".join(seen)[:2000]


def record(version: str, only: str, root: Path) -> None:
    known = load(version)
    chosen = {name: state for name, state in all_states().items() if only in name}
    starter = Starter(version, root)
    found: dict[str, Outcome] = {}
    masters: dict[str, dict[int, str]] = {}
    aborted: dict[str, frozenset[int]] = {}
    try:
        for base in ("many", "few"):
            masters[base], aborted[base] = _master(starter, version, base, root)
        alone = {name for name, outcome in known.states.items() if outcome.alone}
        alone |= {name for name in chosen if ENDING.fullmatch(name)}
        left = list(packs(chosen.values(), alone & chosen.keys()))
        while left:
            pack = left.pop()
            for name, outcome in _recorded(starter, version, pack, masters[pack.base], root):
                if outcome is not None:
                    found[name] = outcome
                else:
                    left += packs([chosen[name]], [name])
            print(f"{len(found)} of {len(chosen)} states, {starter.count} starts", file=sys.stderr)
    finally:
        starter.close()
        kept = {name: outcome for name, outcome in known.states.items() if name in all_states()}
        save(version, Outcomes(masters, aborted, {**kept, **found}))


def _master(starter: Starter, version: str, base: str, root: Path) -> tuple[dict[int, str], frozenset[int]]:
    directory = make(version, Pack(base, True, {}), root / f"master-{base}" / "data")
    answer = starter.start([directory], 1000)
    served = answer["partitions"]["states-0"]
    all_of_them, committed = (dict(served[level]["records"]) for level in ("read_uncommitted", "read_committed"))
    return all_of_them, frozenset(all_of_them.keys() - committed.keys())


def _recorded(
    starter: Starter, version: str, pack: Pack, master: Mapping[int, str], root: Path
) -> Iterator[tuple[str, Outcome | None]]:
    """Start a broker on a pack. None: the state is to be started on alone."""
    is_alone = pack.base == "few"
    directory = make(version, pack, root / f"pack-{starter.count}" / "data")
    before = sizes(directory)
    answer = starter.start([directory], 1500 if is_alone else 3000)
    is_started = answer["outcome"] == "started"
    if not is_started and not is_alone:
        yield from _split(starter, version, pack, master, root, answer["outcome"])
        return
    after = {name.partition("/")[2]: size for name, size in answer["files"].items()}
    for name, state in pack.states.items():
        served = (answer.get("partitions") or {}).get(name)
        if not is_alone and served is None:
            yield state.name, None
        else:
            yield state.name, noted(answer["outcome"], served, name, before, after, master, is_alone)
    if is_started and is_alone and any(answer["partitions"][f"{ORDERS}-{number}"] is None for number in range(6)):
        print(f"{[each.name for each in pack.states.values()]}: others are not served either", file=sys.stderr)


def _split(
    starter: Starter, version: str, pack: Pack, master: Mapping[int, str], root: Path, text: str
) -> Iterator[tuple[str, Outcome | None]]:
    """The states that a broker named when it ended are alone; without a name, both halves are tried."""
    named = {name for name in re.findall(r"[a-z]+-\d+", text) if name in pack.states}
    print(f"refused: {text[:600]} {named}", file=sys.stderr)
    for name in named:
        yield pack.states[name].name, None
    rest = {name: state for name, state in pack.states.items() if name not in named}
    if named:
        yield from _recorded(starter, version, Pack(pack.base, pack.is_clean, rest), master, root)
        return
    if len(rest) == 1:
        yield next(iter(rest.values())).name, None
        return
    items = list(rest.items())
    for half in (items[: len(items) // 2], items[len(items) // 2 :]):
        yield from _recorded(starter, version, Pack(pack.base, pack.is_clean, dict(half)), master, root)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default=VERSIONS[0], choices=VERSIONS)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", type=Path, help="a directory in which all that brokers leave stays")
    arguments = parser.parse_args()
    make_archive_of_broker(arguments.version)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        record(arguments.version, arguments.only, arguments.keep or Path(scratch))
    print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
