"""What is done to whole log directories: where replicas lie, what a broker's own files say, and Kafka's own topics.

Each state is a change of the stopped base ``few``; a second directory of the same broker, ``data-2``, lies beside the
first where a change makes one. ``python -m tests.states.placements [--version V] [--only TEXT]`` records what brokers
make of them, in ``placements-V.jsonl``: a line for each, with what differs from the unchanged directory.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.states.bases import VERSIONS, make_startable
from tests.states.states import Pack, make_as_it_was, sizes

Change = Callable[[Path], object]
HERE = Path(__file__).parent
UNIQUE = "a" * 32
OTHER_ID = "MAAAAAAAQkyAAAAAAAAAAQ"
KRAFT = "__cluster_metadata-0"
CHECKPOINTS = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "cleaner-offset-checkpoint")


def named(name: str, state: str) -> str:
    return f"{name}.{UNIQUE}-{state}"


def second(directory: Path) -> Path:
    """Another directory of the same broker."""
    other = directory.parent / "data-2"
    if not other.exists():
        other.mkdir()
        for name in ("meta.properties", ".kafka_cleanshutdown"):
            if (directory / name).exists():
                shutil.copy(directory / name, other)
        replace("meta.properties", "directory.id=.*", f"directory.id={OTHER_ID}")(other)
    return other


def replace(name: str, old: str, new: str) -> Change:
    def change(directory: Path) -> None:
        text = (directory / name).read_text()
        changed = re.sub(old, new, text)
        assert changed != text, name
        (directory / name).write_text(changed)

    return change


def rename(name: str, to: str) -> Change:
    return lambda directory: (directory / name).rename(directory / to)


def copy(name: str, to: str) -> Change:
    return lambda directory: shutil.copytree(directory / name, directory / to)


def copy_to_second(name: str, to: str) -> Change:
    return lambda directory: shutil.copytree(directory / name, second(directory) / to)


def move_to_second(name: str, to: str) -> Change:
    return lambda directory: shutil.move(directory / name, second(directory) / to)


def remove(name: str) -> Change:
    def change(directory: Path) -> None:
        path = directory / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    return change


def write(name: str, data: bytes) -> Change:
    return lambda directory: (directory / name).write_bytes(data)


def empty_log(name: str) -> Change:
    return lambda directory: [path.write_bytes(b"") for path in (directory / name).glob("*.log")]


def all_of(*changes: Change) -> Change:
    def change(directory: Path) -> None:
        for each in changes:
            each(directory)

    return change


def without_snapshots(directory: Path) -> None:
    for path in (directory / KRAFT).glob("*.checkpoint"):
        path.unlink()


def older_metadata(batches: int) -> Change:
    """The metadata without its last batches, and without snapshots."""

    def change(directory: Path) -> None:
        without_snapshots(directory)
        path = max((directory / KRAFT).glob("*.log"))
        data, at, found = path.read_bytes(), 0, []
        while at + 12 < len(data):
            found.append(at)
            at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        path.write_bytes(data[: found[-batches]])

    return change


PLACEMENTS: dict[str, Change] = {
    "nothing": lambda _: None,
    "second-directory": second,
    "future-assigned-here": rename("orders-1", named("orders-1", "future")),
    "future-beside-live": copy("orders-1", named("orders-1", "future")),
    "future-moving": copy_to_second("orders-1", named("orders-1", "future")),
    "future-moving-shorter": all_of(
        copy_to_second("orders-1", named("orders-1", "future")),
        lambda directory: empty_log(named("orders-1", "future"))(directory.parent / "data-2"),
    ),
    "future-here-live-in-second": all_of(
        copy("orders-1", named("orders-1", "future")), move_to_second("orders-1", "orders-1")
    ),
    "future-in-second-source-gone": move_to_second("orders-1", named("orders-1", "future")),
    "future-of-unknown-topic": all_of(
        copy("orders-1", named("gone-0", "future")),
        replace(f"{named('gone-0', 'future')}/partition.metadata", "topic_id: .*", f"topic_id: {OTHER_ID}"),
    ),
    "copied-to-unknown-number": copy("orders-1", "orders-9"),
    "copied-to-second": copy_to_second("orders-1", "orders-1"),
    "moved-to-second": move_to_second("orders-1", "orders-1"),
    "unknown-topic-id": replace("orders-1/partition.metadata", "topic_id: .*", f"topic_id: {OTHER_ID}"),
    "other-topic-id-same-number": lambda directory: shutil.copy(
        directory / "keyed-0/partition.metadata", directory / "orders-0"
    ),
    "other-topic-id": lambda directory: shutil.copy(directory / "keyed-0/partition.metadata", directory / "orders-1"),
    "unknown-topic": rename("orders-1", "gone-0"),
    "stray": rename("orders-1", named("orders-1", "stray")),
    "stray-beside": copy("orders-1", named("orders-1", "stray")),
    "delete": rename("orders-1", named("orders-1", "delete")),
    "delete-beside": copy("orders-1", named("orders-1", "delete")),
    "partition-missing": remove("orders-1"),
    "partition-emptied": lambda directory: [path.unlink() for path in (directory / "orders-1").iterdir()],
    "meta-properties-missing": remove("meta.properties"),
    "meta-properties-garbage": write("meta.properties", b"garbage\n"),
    "meta-properties-other-node": replace("meta.properties", "node.id=.*", "node.id=7"),
    "meta-properties-other-cluster": replace("meta.properties", "cluster.id=.*", f"cluster.id={OTHER_ID}"),
    "directory-id-other": replace("meta.properties", "directory.id=.*", f"directory.id={OTHER_ID}"),
    "directory-id-missing": replace("meta.properties", "directory.id=.*\n", ""),
    **{f"{name}-missing": remove(name) for name in CHECKPOINTS},
    **{f"{name}-garbage": write(name, b"garbage\n") for name in CHECKPOINTS},
    **{f"{name}-empty": write(name, b"") for name in CHECKPOINTS},
    "clean-shutdown-missing": remove(".kafka_cleanshutdown"),
    "clean-shutdown-empty": write(".kafka_cleanshutdown", b""),
    "clean-shutdown-garbage": write(".kafka_cleanshutdown", b"garbage\n"),
    "clean-shutdown-other-version": write(".kafka_cleanshutdown", b'{"version":9,"brokerEpoch":1}'),
    "metadata-missing": remove(KRAFT),
    "metadata-without-snapshots": without_snapshots,
    "metadata-older-by-2": older_metadata(2),
    "metadata-older-by-half": older_metadata(40),
    "quorum-state-missing": remove(f"{KRAFT}/quorum-state"),
    "quorum-state-garbage": write(f"{KRAFT}/quorum-state", b"garbage\n"),
    "foreign-directory": lambda directory: (directory / "lost+found").mkdir(),
    "number-with-zero": copy("orders-1", "orders-01"),
    "offsets-without-raised": all_of(remove("__consumer_offsets-3"), remove("__consumer_offsets-4")),
    "offsets-first-missing": remove("__consumer_offsets-0"),
    "offsets-second-missing": remove("__consumer_offsets-1"),
    "transaction-state-missing": remove("__transaction_state-0"),
    "in-two-cleaner-checkpoints": lambda directory: (second(directory) / "cleaner-offset-checkpoint").write_bytes(
        (directory / "cleaner-offset-checkpoint").read_bytes()
    ),
}
"""Of one directory, or two, by name."""


def make_placement(version: str, change: Change, target: Path) -> list[Path]:
    """Make the directories of a state, which are those that a broker gets."""
    directory = make_as_it_was(version, Pack("few", True, {}), target / "data")
    change(directory)
    make_startable(version, directory)
    return [path for path in (directory, target / "data-2") if path.exists()]


def path_of(version: str) -> Path:
    return HERE / f"placements-{version}.jsonl"


def load(version: str) -> dict[str, dict[str, Any]]:
    rows = [json.loads(line) for line in path_of(version).read_text().splitlines()] if path_of(version).exists() else []
    return {row.pop("state"): row for row in rows}


def chosen(version: str) -> list[str]:
    """Return the states to be tried: all of the newest broker, and of another one those of which it makes something
    else."""
    own, newest = load(version), load(VERSIONS[0])

    def facts(row: Mapping[str, Any]) -> object:
        return row["text"] == "started", [
            row.get(key) for key in ("partitions", "groups", "removed", "added", "shorter")
        ]

    return [
        name for name in own if version == VERSIONS[0] or name == "nothing" or facts(own[name]) != facts(newest[name])
    ]


def summary(answer: Mapping[str, Any], before: Mapping[str, int]) -> dict[str, Any]:
    """What became of a state: by partition start, end, and count and hash of the records in both isolation levels."""
    partitions: dict[str, Any] = {}
    for name, served in (answer.get("partitions") or {}).items():
        if served is None:
            partitions[name] = None
            continue
        levels = [served.get(level) for level in ("read_uncommitted", "read_committed")]
        own = [[len(each["records"]), hash_of(each["records"])] for each in levels if each is not None]
        partitions[name] = [served["start"], served["end"], *own]
    after = {name: size for name, size in answer["files"].items() if isinstance(size, int)}
    return {
        "text": re.sub(r"/\S*/(data|server)", r"\1", answer["outcome"])[:400],
        "partitions": partitions,
        "groups": answer.get("groups") or {},
        "removed": sorted(_directories_and_logs(before) - after.keys()),
        "added": sorted(_directories_and_logs(after) - before.keys()),
        "shorter": {
            name: [before[name], after[name]]
            for name in sorted(_directories_and_logs(before) & after.keys())
            if after[name] < before[name]
        },
    }


def hash_of(records: list[list[Any]]) -> str:
    return hashlib.sha256(json.dumps(records).encode()).hexdigest()[:12]


def _directories_and_logs(files: Mapping[str, int]) -> set[str]:
    return {
        re.sub(r"\.(?!a{32})[0-9a-f]{32}-", ".*-", name)
        for name, size in files.items()
        if (size < 0 or name.endswith(".log")) and KRAFT not in name
    }


def differing(row: Mapping[str, Any], unchanged: Mapping[str, Any]) -> dict[str, Any]:
    """A row without what is as in the unchanged directory."""
    found: dict[str, Any] = {"text": row["text"]}
    for key in ("partitions", "groups"):
        others = {
            each: content for each, content in row[key].items() if unchanged[key].get(each, "none") != content
        } | {each: "not listed" for each in unchanged[key].keys() - row[key].keys() if row["text"] == "started"}
        found[key] = dict(sorted(others.items()))
    return found | {key: row[key] for key in ("removed", "added", "shorter") if row[key]}


def main() -> None:
    from tests.states.record import Starter

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default=VERSIONS[0], choices=VERSIONS)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    version = arguments.version
    rows = load(version)
    with tempfile.TemporaryDirectory() as scratch:
        starter = Starter(version, Path(scratch))
        try:
            for name, change in PLACEMENTS.items():
                if arguments.only in name or name == "nothing":
                    directories = make_placement(version, change, Path(scratch) / name)
                    before = {f"{each.name}/{path}": size for each in directories for path, size in sizes(each).items()}
                    row = summary(starter.start(directories, 1500), before)
                    rows[name] = row if name == "nothing" else differing(row, rows["nothing"])
                    print(name, row["text"][:150], flush=True)
        finally:
            starter.close()
    kept = [{"state": name, **rows[name]} for name in PLACEMENTS if name in rows]
    path_of(version).write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in kept))


if __name__ == "__main__":
    main()
