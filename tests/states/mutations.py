"""What is done to a partition's directory: by name, a function of the directory, by the standard library alone."""

from __future__ import annotations

import itertools
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.states.bases import checkpoint_lines

Change = Callable[[Path], object]

SUFFIXES = ("log", "index", "timeindex", "txnindex", "snapshot")
INDEXES = SUFFIXES[1:4]
PLACES = {"first": 0, "middle": 1, "third": 2, "last": 3}
FULL_INDEX = 4092
"""The size of a time index that was never cut to its entries; an offset index then has 4088 bytes."""


def base_offsets(directory: Path) -> list[int]:
    """Of all segments that have a file, whatever it is called by now."""
    files = [path for path in directory.glob("0*") if ".snapshot" not in path.name]
    return sorted({int(path.name[:20]) for path in files})


def end_offset(directory: Path) -> int:
    """The offset after the last batch of the last segment."""
    data, at, end = file_of(directory, "last").read_bytes(), 0, base_offsets(directory)[-1]
    while at + 61 <= len(data):
        base, size = struct.unpack_from(">qi", data, at)
        (delta,) = struct.unpack_from(">i", data, at + 23)
        at, end = at + 12 + size, base + delta + 1
    return end


def file_of(directory: Path, place: str, suffix: str = "log") -> Path:
    """A segment's file. The first one has no snapshot of its beginning: taken is that of the next one."""
    bases = base_offsets(directory)
    at = PLACES[place]
    if suffix == "snapshot":
        return directory / f"{bases[min(at + 1, len(bases) - 1)]:020}.snapshot"
    return directory / f"{bases[at]:020}.{suffix}"


def batches(path: Path) -> list[tuple[int, int]]:
    """Positions and sizes of batches."""
    data, at, found = path.read_bytes(), 0, []
    while at + 12 < len(data):
        size = 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        found.append((at, size))
        at += size
    return found


def patch(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def cut(path: Path) -> None:
    """In the middle of a batch, or of an entry."""
    data = path.read_bytes()
    if path.name[20:].startswith(".log"):
        position, size = batches(path)[len(batches(path)) // 2]
        path.write_bytes(data[: position + size // 2])
    else:
        path.write_bytes(data[: len(data) // 2 + 1])


def garble(path: Path) -> None:
    """One bit of a batch's records; all of a smaller file, in its size."""
    if path.name[20:].startswith(".log"):
        position, size = batches(path)[len(batches(path)) // 2]
        at = position + size - 3
        patch(path, at, bytes([path.read_bytes()[at] ^ 4]))
    else:
        path.write_bytes(bytes(range(7, 7 + len(path.read_bytes()) % 200)) or b"garbage!" * 3)


def remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def empty(path: Path) -> None:
    path.write_bytes(b"")


FILE_CHANGES: dict[str, Change] = {"deleted": remove, "cut": cut, "garbled": garble, "emptied": empty}


def at_file(change: Change, place: str, suffix: str) -> Change:
    return lambda directory: change(file_of(directory, place, suffix))


def with_suffix(place: str, suffix: str, kinds: tuple[str, ...] = ("log", *INDEXES)) -> Change:
    """Rename a segment's files, as the cleaner or a deletion does."""

    def change(directory: Path) -> None:
        paths = [file_of(directory, place, kind) for kind in kinds]
        for path in paths:
            if path.exists():
                path.rename(f"{path}.{suffix}")

    return change


def beside(place: str, suffix: str, kinds: tuple[str, ...] = ("log", *INDEXES)) -> Change:
    """Copy a segment's files under such names."""

    def change(directory: Path) -> None:
        for path in [file_of(directory, place, kind) for kind in kinds]:
            if path.exists():
                shutil.copy(path, f"{path}.{suffix}")

    return change


def fewer(place: str, suffix: str) -> Change:
    """A compacted segment beside its original: markers and each second of other batches, without indexes' entries."""

    def change(directory: Path) -> None:
        path = file_of(directory, place)
        data = path.read_bytes()
        markers = [at for at, _ in batches(path) if data[at + 22] & 0x20]
        others = [at for at, _ in batches(path) if at not in markers][::2]
        kept = b"".join(data[at : at + size] for at, size in batches(path) if at in (*markers, *others))
        Path(f"{path}.{suffix}").write_bytes(kept)
        for kind in INDEXES[:2]:
            Path(f"{path.with_suffix(f'.{kind}')}.{suffix}").write_bytes(b"")

    return change


def merged(*places: str) -> Change:
    """Several segments as one that waits to take their place, beside them."""

    def change(directory: Path) -> None:
        first = file_of(directory, places[0])
        data = b"".join(file_of(directory, place).read_bytes() for place in places)
        Path(f"{first}.swap").write_bytes(data)
        for kind in INDEXES[:2]:
            Path(f"{first.with_suffix(f'.{kind}')}.swap").write_bytes(b"")

    return change


def all_of(*changes: Change) -> Change:
    def change(directory: Path) -> None:
        for each in changes:
            each(directory)

    return change


def of_swap(change: Change, place: str) -> Change:
    """Change the log of a segment, then rename the segment's files to ``.swap``."""
    return all_of(at_file(change, place, "log"), with_suffix(place, "swap"))


def beside_damaged(change: Change, place: str) -> Change:
    """A swap file with this damage beside its whole original."""

    def both(directory: Path) -> None:
        beside(place, "swap")(directory)
        change(Path(f"{file_of(directory, place)}.swap"))

    return both


def swap_all_but(place: str) -> Change:
    def change(directory: Path) -> None:
        named = [with_suffix(other, "swap") for other in reversed(PLACES) if other != place]
        for each in named:  # from the last one on, as places are counted by .log files
            each(directory)

    return change


def two_swaps(first: str, second: str) -> Change:
    return all_of(with_suffix(second, "swap"), with_suffix(first, "swap"))


def full_size(place: str, suffix: str = "timeindex") -> Change:
    def change(directory: Path) -> None:
        path = file_of(directory, place, suffix)
        size = FULL_INDEX if suffix == "timeindex" else 4088
        path.write_bytes(path.read_bytes().ljust(size, b"\0"))

    return change


def point_index(place: str, position: int) -> Change:
    """Let the last entry of an offset index point to a position."""

    def change(directory: Path) -> None:
        path = file_of(directory, place, "index")
        data = path.read_bytes().rstrip(b"\0") or bytes(8)
        whole = path.read_bytes()[: (len(data) + 7) // 8 * 8]
        path.write_bytes(whole[:-8] + struct.pack(">ii", 1_000_000, position))

    return change


def earlier_abort(directory: Path) -> None:
    """An aborted transaction in the last transaction index that ended before the segment."""
    file_of(directory, "last", "txnindex").write_bytes(struct.pack(">hqqqq", 0, 1, 0, 1, 0))


def unknown_abort(directory: Path) -> None:
    path = file_of(directory, "last", "txnindex")
    data = path.read_bytes() if path.exists() else b""
    path.write_bytes(struct.pack(">h", 9) + (data[2:] or bytes(32)))


def planned_index(suffix: str, *places: str) -> Change:
    """Put an index that no Kafka has yet next to segments, of each or at some places (KIP-1277)."""

    def change(directory: Path) -> None:
        for place in places or PLACES:
            file_of(directory, place, f"deliverafterindex{suffix}").write_bytes(bytes(24))

    return change


def without_segment(place: str) -> Change:
    def change(directory: Path) -> None:
        for path in [file_of(directory, place, kind) for kind in ("log", *INDEXES)]:
            remove(path)

    return change


def write(name: str, data: bytes) -> Change:
    return lambda directory: (directory / name).write_bytes(data)


def line(checkpoint: str, offset: Callable[[Path], int | None]) -> Change:
    """The line of the partition in a checkpoint of the log directory."""

    def change(directory: Path) -> None:
        topic, _, number = directory.name.rpartition("-")
        checkpoint_lines(directory.parent / checkpoint, {(topic, int(number)): offset(directory)})

    return change


def append(place: str, data: bytes) -> Change:
    return lambda directory: file_of(directory, place).open("ab").write(data)


LOG_START, RECOVERY, HIGH_WATERMARK = (
    "log-start-offset-checkpoint", "recovery-point-offset-checkpoint", "replication-offset-checkpoint",
)  # fmt: skip


def _singles() -> Iterator[tuple[str, Change]]:
    places = ("first", "middle", "last")
    yield "nothing", lambda _: None
    for suffix, how, place in itertools.product(SUFFIXES, FILE_CHANGES, places):
        yield f"{suffix}-{how}-{place}", at_file(FILE_CHANGES[how], place, suffix)
    for place in PLACES:
        yield f"swap-{place}", with_suffix(place, "swap")
        yield f"swap-cut-{place}", of_swap(cut, place)
        yield f"swap-garbled-{place}", of_swap(garble, place)
        yield f"swap-beside-{place}", fewer(place, "swap")
        yield f"cleaned-{place}", with_suffix(place, "cleaned")
        yield f"deleted-{place}", with_suffix(place, "deleted")
    for place in ("first", "middle"):
        yield f"swap-log-only-{place}", with_suffix(place, "swap", ("log",))
        yield f"swap-indexes-only-{place}", with_suffix(place, "swap", INDEXES)
        yield f"swap-cut-beside-{place}", beside_damaged(cut, place)
        yield f"swap-garbled-beside-{place}", beside_damaged(garble, place)
        yield f"swap-emptied-{place}", of_swap(empty, place)
        yield f"cleaned-beside-{place}", fewer(place, "cleaned")
        yield f"deleted-beside-{place}", beside(place, "deleted")
        yield f"indexes-deleted-{place}", all_of(*(at_file(remove, place, kind) for kind in INDEXES))
        yield f"time-index-full-size-{place}", full_size(place)
        yield f"index-full-size-{place}", full_size(place, "index")
        yield f"segment-deleted-{place}", without_segment(place)
    yield "swap-first-and-third", two_swaps("first", "third")
    yield "swap-middle-and-last", two_swaps("middle", "last")
    yield "swap-middle-and-third", two_swaps("middle", "third")
    yield "swap-all-but-last", swap_all_but("last")
    yield "swap-of-two", merged("first", "middle")
    yield "swap-of-all", merged(*PLACES)
    yield "swap-with-cleaned-before", all_of(with_suffix("third", "swap"), with_suffix("first", "cleaned"))
    yield "swap-with-cleaned-at", all_of(beside("middle", "cleaned"), with_suffix("middle", "swap"))
    yield "swap-with-cleaned-behind", all_of(with_suffix("third", "cleaned"), with_suffix("first", "swap"))
    yield "swap-beside-with-cleaned-before", all_of(fewer("middle", "swap"), fewer("first", "cleaned"))
    yield "swap-with-deleted", all_of(with_suffix("third", "deleted"), with_suffix("first", "swap"))
    yield "indexes-deleted-last", all_of(*(at_file(remove, "last", kind) for kind in INDEXES))
    yield "index-past-end", point_index("last", 1_000_000)
    yield "index-past-end-middle", point_index("middle", 1_000_000)
    yield "txnindex-of-before", earlier_abort
    yield "txnindex-unknown-version", unknown_abort
    yield "index-orphaned", write(f"{999:020}.index", bytes(8))
    yield "time-index-orphaned", write(f"{999:020}.timeindex", bytes(12))
    yield "last-with-zeros", append("last", bytes(300))
    yield "last-with-garbage", append("last", bytes(8) + bytes([0, 0, 9, 9]) + bytes(99))
    yield "last-with-text", append("last", b"no batch begins so\n" * 9)
    yield "all-deleted", lambda directory: [path.unlink() for path in directory.glob("000*")]
    yield "snapshots-deleted", lambda directory: [path.unlink() for path in directory.glob("*.snapshot")]
    yield "copy-log", write("copy.log", b"")
    yield "planned-index", planned_index("")
    yield "planned-index-orphaned", write(f"{999:020}.deliverafterindex", bytes(24))
    for state in ("cleaned", "swap", "deleted"):
        yield f"planned-index-{state}", planned_index(f".{state}")
    yield "planned-index-cleaned-before-swap", all_of(with_suffix("middle", "swap"), planned_index(".cleaned", "first"))
    yield "planned-index-cleaned-after-swap", all_of(with_suffix("middle", "swap"), planned_index(".cleaned", "third"))
    yield "epochs-deleted", lambda directory: remove(directory / "leader-epoch-checkpoint")
    yield "epochs-emptied", write("leader-epoch-checkpoint", b"")
    yield "epochs-garbled", write("leader-epoch-checkpoint", b"garbage\n")
    yield "epochs-later", write("leader-epoch-checkpoint", b"0\n1\n7 60\n")
    yield "metadata-deleted", lambda directory: remove(directory / "partition.metadata")
    yield "metadata-emptied", write("partition.metadata", b"")
    yield "metadata-garbled", write("partition.metadata", b"garbage\n")
    yield "log-start-inside", line(LOG_START, lambda directory: base_offsets(directory)[1] + 5)
    yield "log-start-at-segment", line(LOG_START, lambda directory: base_offsets(directory)[2])
    yield "log-start-at-end", line(LOG_START, end_offset)
    yield "log-start-past-end", line(LOG_START, lambda directory: end_offset(directory) + 100)
    yield (
        "log-start-before-first",
        all_of(without_segment("first"), line(LOG_START, lambda _: 0)),
    )
    yield "recovery-point-past-end", line(RECOVERY, lambda directory: end_offset(directory) + 100)
    yield "high-watermark-deleted", line(HIGH_WATERMARK, lambda _: None)
    yield "high-watermark-inside", line(HIGH_WATERMARK, lambda directory: base_offsets(directory)[1] + 5)
    yield "high-watermark-past-end", line(HIGH_WATERMARK, lambda directory: end_offset(directory) + 100)


SINGLES: dict[str, Change] = dict(_singles())
AGED_TOO = (
    "nothing",
    *(f"time-index-full-size-{place}" for place in ("first", "middle")),
    *(f"timeindex-{how}-{place}" for how in ("deleted", "emptied", "garbled") for place in ("first", "last")),
)
"""What is done to a partition with a retention as well."""
