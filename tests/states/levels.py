"""Starts brokers of all versions on metadata with each feature at each level: ``python -m tests.states.levels``.

``levels.json`` has, by version and feature, whether a broker started with a level of it. The directories are those of
``bases``; where a level cannot hold what these have (directory ids, topics without eligible leader replicas), they are
of a broker of 3.9.1 that was formatted at the level, and had no topics.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from brokerless.internals.metadata.records import encode_record
from tests.internals.written import append_values
from tests.kafka.broker import KafkaBroker
from tests.kafka.jars import check, run
from tests.states.bases import BASES, VERSIONS
from tests.states.record import Starter
from tests.states.states import Pack, make

FILE = Path(__file__).with_suffix(".json")
BASE = "4.1.2"
"""Whose directories are of the least level that all versions know, without a setting that any of them refuses."""
LEVELS = {
    "metadata.version": (6, 7, 21, 22, 25, 26, 27, 28, 29, 30, 31, 33, 34),
    "transaction.version": (1, 2, 3),
    "group.version": (1, 2),
    "eligible.leader.replicas.version": (1, 2),
    "share.version": (1, 2, 3),
    "streams.version": (1, 2),
    "any.version": (1,),
}
WITHOUT_TOPICS = {
    ("metadata.version", 6): "3.3-IV2",
    ("metadata.version", 7): "3.3-IV3",
    ("eligible.leader.replicas.version", 1): "3.9-IV0",
}
"""Levels that the bases cannot have, with that at which a directory is formatted."""
Answers = dict[str, dict[str, dict[str, bool]]]


def recorded() -> Answers:
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def record(version: str, root: Path) -> dict[str, dict[str, bool]]:
    starter = Starter(version, root)
    found: dict[str, dict[str, bool]] = {}
    try:
        for name, level in cases():
            directory = _directory(root / f"{name}-{level}", WITHOUT_TOPICS.get((name, level)))
            row = encode_record("FEATURE_LEVEL_RECORD", 0, {"name": name, "featureLevel": level})
            append_values(directory, row)
            text = starter.start([directory], 0)["outcome"]
            found.setdefault(name, {})[str(level)] = text == "started"
            print(version, name, level, text[:200], file=sys.stderr, flush=True)
    finally:
        starter.close()
    return found


def cases() -> Iterator[tuple[str, int]]:
    for name, levels in LEVELS.items():
        yield from ((name, level) for level in levels)


def _directory(target: Path, formatted_at: str | None) -> Path:
    if formatted_at is None:
        return make(BASE, Pack("few", True, {}), target / "data")
    broker = KafkaBroker(target, version=BASES[-1])
    options = ("format", "--cluster-id=AAAAAAAAAAAAAAAAAAAAAQ", "--release-version", formatted_at)
    check(run("kafka.tools.StorageTool", *options, "--config", str(broker.properties), version=broker.version))
    with broker:
        pass
    return broker.log_dir


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", choices=VERSIONS, action="append")
    for version in parser.parse_args().version or VERSIONS:
        with tempfile.TemporaryDirectory() as scratch:
            answers = {**recorded(), version: record(version, Path(scratch))}
        rows = ",\n".join(f" {json.dumps(each)}: {json.dumps(found)}" for each, found in sorted(answers.items()))
        FILE.write_text(f"{{\n{rows}\n}}\n")


if __name__ == "__main__":
    main()
