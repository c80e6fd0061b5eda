"""What is done to the directory of a stopped broker before the next one starts on it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

from brokerless.cli import main
from brokerless.log import names

KRAFT = "__cluster_metadata-0"
OTHER = "other"
UNKNOWN_ID = "MAAAAAAAQkyAAAAAAAAAAQ"
Change = Callable[[Path], object]


def write(name: str, data: bytes = b"garbage\n") -> Change:
    return lambda directory: (directory / name).write_bytes(data)


def remove(name: str) -> Change:
    return lambda directory: (directory / name).unlink()


def replace(name: str, old: str, new: str) -> Change:
    def change(directory: Path) -> None:
        text = (directory / name).read_text()
        changed = re.sub(old, new, text)
        assert changed != text
        (directory / name).write_text(changed)

    return change


def make(name: str, *files: str) -> Change:
    def change(directory: Path) -> None:
        (directory / name).mkdir()
        for file in files:
            (directory / name / file).write_bytes(b"not Kafka's")

    return change


def copy(name: str, to: str) -> Change:
    return lambda directory: shutil.copytree(directory / name, directory / to)


def snapshot_of(directory: Path) -> Path:
    return max((directory / KRAFT).glob("*.checkpoint"))


def without_snapshots(directory: Path) -> None:
    for path in (directory / KRAFT).glob("*.checkpoint"):
        path.unlink()


def rewrite_kraft(*options: str) -> Change:
    """KRaft's own log as something else writes it that does not know what it is."""

    def change(directory: Path) -> None:
        without_snapshots(directory)
        source, to = directory.parent / "named" / "metadata-0", directory.parent / "to"
        shutil.copytree(directory / KRAFT, source)
        assert main(["convert", str(source), "--to", str(to), *options]) == 0
        for path in (directory / KRAFT).glob("000*"):
            path.unlink()
        for path in (to / "metadata-0").glob("000*"):
            shutil.copy(path, directory / KRAFT)

    return change


def begin_later(directory: Path) -> None:
    """KRaft's log without its first segment."""
    rewrite_kraft("--segment-bytes", "2000")(directory)
    for path in (directory / KRAFT).glob(f"{0:020}.*"):
        path.unlink()


def cut_snapshot(directory: Path) -> None:
    path = snapshot_of(directory)
    path.write_bytes(path.read_bytes()[:-80])


def second_directory(*changes: Change) -> Change:
    """Another one of the same broker, with a partition."""

    def change(directory: Path) -> None:
        other = directory.parent / "data-2"
        other.mkdir()
        shutil.copy(directory / names.META_PROPERTIES, other)
        shutil.copy(directory / names.CLEAN_SHUTDOWN, other)
        replace(names.META_PROPERTIES, "directory.id=.*", f"directory.id={UNKNOWN_ID}")(other)
        for each in changes:
            each(other)

    return change


REFUSED: dict[str, Change] = {
    "no-meta-properties": remove(names.META_PROPERTIES),
    "garbage-for-meta-properties": write(names.META_PROPERTIES),
    "meta-properties-of-another-version": replace(names.META_PROPERTIES, "version=1", "version=9"),
    "no-cluster-id": replace(names.META_PROPERTIES, "cluster.id=.*\n", ""),
    "node-id-of-another": replace(names.META_PROPERTIES, "node.id=.*", "node.id=7"),
    "directory-id-garbage": replace(names.META_PROPERTIES, "directory.id=.*", "directory.id=x"),
    "directory-id-reserved": replace(names.META_PROPERTIES, "directory.id=.*", "directory.id=" + "A" * 21 + "Q"),
    **{f"garbage-for-{name}": write(name) for name in names.OFFSET_CHECKPOINTS},
    "checkpoint-of-fewer-lines": write(names.HIGH_WATERMARK_CHECKPOINT, b"0\n5\nplain 0 3\n"),
    "garbage-for-bootstrap-checkpoint": write(names.BOOTSTRAP_CHECKPOINT, b"garbage" * 20),
    "garbage-for-leader-epochs": write("plain-0/leader-epoch-checkpoint"),
    "garbage-for-partition-metadata": write("plain-0/partition.metadata"),
    "emptied-partition-metadata": write("plain-0/partition.metadata", b""),
    "emptied-partition-metadata-in-one-of-two": lambda directory: second_directory(
        lambda other: write("plain-0/partition.metadata", b"")(Path(shutil.move(directory / "plain-0", other)).parent)
    )(directory),
    "partition-metadata-without-id": replace("plain-0/partition.metadata", "topic_id: .*", "topic_id: " + "A" * 22),
    "lost+found": make("lost+found"),
    "name-without-number": make("photos-abc"),
    "hidden-directory": make(".snap-shot"),
    "deleted-without-unique-id": copy("plain-0", "plain-0-delete"),
    "partition-twice": copy("plain-0", "plain-00"),
    "future-beside-the-replica": copy("plain-0", f"plain-0.{'a' * 32}-future"),
    "log-without-offset": write("plain-0/copy.log", b""),
    "swap-without-offset": write("plain-0/copy.swap", b""),
    "kraft-other-topic-id": replace(f"{KRAFT}/partition.metadata", "topic_id: .*", f"topic_id: {UNKNOWN_ID}"),
    "kraft-garbage-for-quorum-state": write(f"{KRAFT}/quorum-state"),
    "kraft-garbage-for-leader-epochs": write(f"{KRAFT}/leader-epoch-checkpoint"),
    "kraft-repacked": rewrite_kraft("--batch-size", "4096"),
    "kraft-of-an-old-format": rewrite_kraft("--format", "v1"),
    "kraft-without-its-beginning": begin_later,
    "kraft-snapshot-garbage": lambda directory: snapshot_of(directory).write_bytes(b"garbage" * 30),
    "two-clusters": second_directory(replace(names.META_PROPERTIES, "cluster.id=.*", f"cluster.id={UNKNOWN_ID}")),
    "two-nodes": second_directory(replace(names.META_PROPERTIES, "node.id=.*", "node.id=7")),
    "one-directory-twice": lambda directory: second_directory(
        lambda other: shutil.copy(directory / names.META_PROPERTIES, other)
    )(directory),
    "partition-in-two-directories": lambda directory: second_directory(
        lambda other: shutil.copytree(directory / "plain-0", other / "plain-0")
    )(directory),
}
HARMLESS: tuple[Change, ...] = (
    *(write(name, b"") for name in (names.HIGH_WATERMARK_CHECKPOINT, names.LOG_START_OFFSET_CHECKPOINT)),
    remove(names.CLEANER_CHECKPOINT),
    write(names.CLEAN_SHUTDOWN),
    remove("plain-0/leader-epoch-checkpoint"),
    write("plain-0/notes.txt"),
    make("plain-0/below", "copy.log"),
    replace("plain-1/partition.metadata", "version: 0", "version: 5"),
    write("notes.txt"),
    write("plain-77"),
    make("remote-log-index-cache", "any"),
    remove(f"{KRAFT}/quorum-state"),
    remove(f"{KRAFT}/partition.metadata"),
    remove(f"{KRAFT}/leader-epoch-checkpoint"),
    rewrite_kraft("--codec", "zstd"),
    write(f"{KRAFT}/{99:020}-{1:010}-123.checkpoint.part"),
    copy("plain-0", f"plain-0.{'b' * 32}-stray"),
)
"""All at once; KRaft's log is without its snapshots then, and recompressed."""


def rename(name: str, to: str) -> Change:
    return lambda directory: (directory / name).rename(directory / to)


def empty(name: str) -> Change:
    return lambda directory: [path.unlink() for path in (directory / name).iterdir()]


STRAY: dict[str, Change] = {
    "plain-0": remove("plain-0/partition.metadata"),
    "plain-1": replace("plain-1/partition.metadata", "topic_id: .*", f"topic_id: {UNKNOWN_ID}"),
    "plain-2": lambda directory: shutil.copy(directory / f"{OTHER}-0/partition.metadata", directory / "plain-2"),
    "plain-9": copy("plain-3", "plain-9"),
    "plain-4": empty("plain-4"),
    "photos-2024": make("photos-2024", "beach.jpg"),
    "my photos-3": make("my photos-3"),
    "plain--1": make("plain--1"),
}
"""By the directory that is taken for stray."""
ALONG: tuple[Change, ...] = (
    rename("plain-5", "renamed-5"),
    lambda directory: shutil.rmtree(directory / "plain-6"),
    rename("plain-7", f"plain-7.{'a' * 32}-future"),
    rename("plain-8", f"plain-8.{'a' * 32}-delete"),
)
"""Of the same start: a partition under another name, one that is lost, one that was being moved here, one deleted."""
FUTURE = f"plain-7.{'a' * 32}-future"
CLEANED = b"0\n1\nplain 3 2\n"


def flip_metadata(directory: Path) -> None:
    """A bit of the checksum of the batch in which half of the topics are created, and no snapshot has them."""
    without_snapshots(directory)
    log = directory / KRAFT / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    topics = {path.name.rpartition("-")[0] for path in directory.iterdir() if path.is_dir()} - {KRAFT[:-2]}
    created = sorted(at for topic in topics if (at := data.find(topic.encode())) > 0)
    at = end = 0
    while end <= created[len(created) // 2]:
        at, end = end, end + 12 + int.from_bytes(data[end + 8 : end + 12], "big")
    data[at + 20] ^= 1  # of the checksum, which does not cover what is before it
    log.write_bytes(data)


def copy_to_second(name: str, to: str) -> Change:
    return second_directory(lambda other: shutil.copytree(other.parent / "data" / name, other / to))


Places = tuple[tuple[str, int], ...]
CHANGED: dict[str, tuple[tuple[Change, ...], Places]] = {
    "directory-id-of-another": (
        (replace(names.META_PROPERTIES, "directory.id=.*", f"directory.id={UNKNOWN_ID}"),), (("plain", 0), (OTHER, 0))
    ),
    "no-directory-id": ((replace(names.META_PROPERTIES, "directory.id=.*\n", ""),), (("plain", 0), (OTHER, 0))),
    "topic-id-of-another": (
        (lambda directory: shutil.copy(directory / f"{OTHER}-0/partition.metadata", directory / "plain-0"),),
        (("plain", 0), ("plain", 1)),
    ),
    "metadata-flipped": ((flip_metadata,), ()),
    "snapshot-cut": ((cut_snapshot,), ()),
    "moved-over-the-other": ((copy_to_second("plain-7", "plain-7"), rename("plain-7", FUTURE)), ()),
    "moved-from-what-is-gone": (
        (copy_to_second("plain-7", FUTURE), lambda directory: shutil.rmtree(directory / "plain-7")), (("plain", 7),)
    ),
    "in-two-cleaner-checkpoints": (
        (second_directory(write(names.CLEANER_CHECKPOINT, CLEANED)), write(names.CLEANER_CHECKPOINT, CLEANED)),
        (("plain", 3),),
    ),
}  # fmt: skip
"""What is done to a directory before a broker starts, and of which partitions it is asked then where they end."""
