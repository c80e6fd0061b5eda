"""What a broker's cleaner and its retention do to a partition's files, in the order in which Kafka does it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from tests.log.whole_batches import batch

SEGMENTS, SIZE = 5, 10
"""A log of segments with as many batches each, of one record; the last segment is the active one."""
EVERY = range(SEGMENTS * SIZE)


def write_log(directory: Path) -> Path:
    directory.mkdir(parents=True)
    for base in range(0, SEGMENTS * SIZE, SIZE):
        write_segment(directory, base, range(base, base + SIZE))
    return directory


def write_segment(directory: Path, base: int, offsets: Iterable[int], suffix: str = "") -> None:
    """Batches of different sizes, so that their positions tell files apart."""
    path = directory / f"{base:020}.log{suffix}"
    path.write_bytes(b"".join(batch(each, value=b"v" * (each % 7 * 9)).tobytes() for each in offsets))
    for index in ("index", "timeindex"):
        (directory / f"{base:020}.{index}{suffix}").write_bytes(b"")


def offsets_in(directory: Path, base: int) -> list[int]:
    content, found = (directory / f"{base:020}.log").read_bytes(), list[int]()
    while content:
        found.append(int.from_bytes(content[:8], "big"))
        content = content[12 + int.from_bytes(content[8:12], "big") :]
    return found


def is_kept(offset: int) -> bool:
    """Most of some segments goes, and little of others, so that files get shorter and longer."""
    return offset % 3 == 0 or 12 <= offset < 30


def clean(directory: Path, bases: list[int], keep: Callable[[int], bool] = is_kept, is_forgotten: bool = True) -> None:
    """Puts what is kept of segments into one (``LocalLog.replaceSegments``). ``is_forgotten``: the minute is over after
    which the old files go."""
    kept = [each for base in bases for each in offsets_in(directory, base) if keep(each)]
    write_segment(directory, bases[0], kept, ".cleaned")
    for path in directory.glob("*.cleaned"):
        path.rename(path.with_suffix(".swap"))
    delete(directory, bases, is_forgotten)
    for path in directory.glob("*.swap"):
        path.rename(path.with_suffix(""))


def delete(directory: Path, bases: list[int], is_forgotten: bool = True) -> None:
    """As retention does."""
    for base in bases:
        for path in directory.glob(f"{base:020}.*"):
            if path.suffix not in (".swap", ".deleted"):
                path.rename(f"{path}.deleted")
    if is_forgotten:
        for path in directory.glob("*.deleted"):
            path.unlink()


def left(directory: Path) -> list[int]:
    """What a consumer still gets."""
    return [each for path in sorted(directory.glob("*.log")) for each in offsets_in(directory, int(path.stem))]
