"""What brokers made of directories at their start, recorded for each version: no broker starts where nothing is new.

A start is known by all that the broker is given: names and bytes of its log directories, and its settings. Where any of
it is other than what was recorded, a broker is asked; with ``BROKERLESS_ASK_KAFKA=1`` (``make recorded``, nightly)
always, and of directories that a broker writes then. ``python -m tests.kafka.recorded_starts`` records all anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zstandard

from tests.kafka.broker import KafkaBroker, make_archive_of_broker
from tests.kafka.jars import check, run
from tests.once import unpacked_once

HERE = Path(__file__).parent / "starts"
CACHE = HERE.parents[2] / ".cache" / "starts"
OF_THIS_RUN = ("listeners=", "advertised.listeners=", "controller.quorum.voters=", "log.dirs=")
"""Settings that have ports and paths."""
SPARSE = 1 << 22
"""Files of this size have nothing but zeros after their first part."""

ASK_ALWAYS = os.environ.get("BROKERLESS_ASK_KAFKA") == "1"


@dataclass(frozen=True)
class Start:
    """A broker that is to be started, and its log directories: those that there are."""

    broker: KafkaBroker
    log_dirs: tuple[Path, ...]

    def digest(self) -> str:
        lines = self.broker.properties.read_text().splitlines()
        settings = "\n".join(line for line in lines if not line.startswith(OF_THIS_RUN))
        return digest(self.broker.version, settings, self.log_dirs)


@dataclass(frozen=True)
class Word:
    """What ``StartBrokers`` answered of a start, and the names that are in its directories afterwards."""

    answer: str
    after: frozenset[str]


def digest(version: str, settings: str, log_dirs: Sequence[Path]) -> str:
    """By what a start is known."""
    found = hashlib.sha256(version.encode())
    found.update(settings.encode())
    for directory in log_dirs:
        paths = sorted(directory.rglob("*"))
        found.update(b"" if paths else f"\0{directory.name}\0empty\0".encode())
        for path in paths:
            found.update(f"\0{directory.name}/{path.relative_to(directory)}\0{path.is_dir()}\0".encode())
            if path.is_file():
                found.update(f"{path.stat().st_size}\0".encode())
                with path.open("rb") as file:
                    found.update(file.read(SPARSE))
    return found.hexdigest()[:32]


def base(name: str, make: Callable[[Path], object], directory: Path) -> Path:
    """A directory with the log directories from which those of the starts are made: the recorded one, not to be written
    to, or ``directory``, which ``make`` fills."""
    if ASK_ALWAYS:
        make(directory)
        return directory
    return unpacked(name)


def words(name: str, starts: Mapping[str, Start]) -> dict[str, Word]:
    """What brokers said of each start, or say now; all are of one version."""
    digests = {each: start.digest() for each, start in starts.items()}
    known = lines(name)
    left = {each: start for each, start in starts.items() if digests[each] not in known}
    warn(left)
    asked = _ask(left)
    return {each: asked.get(each) or _word(known[digests[each]]) for each in starts}


def lines(name: str) -> dict[str, dict[str, Any]]:
    """What was recorded, by the digests of starts; nothing where brokers are asked always."""
    found = [] if ASK_ALWAYS else map(json.loads, _lines(name).read_text().splitlines())
    return {line["digest"]: line for line in found}


def write_lines(name: str, found: Iterable[Mapping[str, Any]]) -> None:
    """Records a line for each start, with its ``digest``."""
    HERE.mkdir(exist_ok=True)
    _lines(name).write_text("".join(f"{json.dumps(line)}\n" for line in found))


def warn(left: Iterable[str]) -> None:
    """Warn of starts by name that are real ones because they are other ones than were recorded."""
    if (names := sorted(left)) and not ASK_ALWAYS:
        warnings.warn(f"brokers start as not recorded: {names}; python -m tests.kafka.recorded_starts", stacklevel=3)


def record(name: str, make: Callable[[Path], object], prepare: Callable[[Path, Path], Mapping[str, Start]]) -> None:
    """Asks brokers anew. ``make``: see :func:`base`; ``prepare``: makes the starts of a base in a directory."""
    with tempfile.TemporaryDirectory() as directory:
        made, root = Path(directory) / "base", Path(directory) / "starts"
        make(made)
        starts = prepare(made, root)
        digests = {each: start.digest() for each, start in starts.items()}
        asked = _ask(starts)
        write_lines(
            name,
            (
                {"name": each, "digest": digests[each], "answer": word.answer, "after": sorted(word.after)}
                for each, word in asked.items()
            ),
        )
        write_archive(name, made)


def record_base(name: str, make: Callable[[Path], object]) -> None:
    """Records what :func:`base` returns."""
    with tempfile.TemporaryDirectory() as directory:
        made = Path(directory) / "base"
        make(made)
        write_archive(name, made)


def unpacked(name: str) -> Path:
    """The directory of :func:`write_archive`, not to be written to."""
    return unpacked_once(_archive(name), CACHE, f"{name}-")


def write_archive(name: str, directory: Path) -> None:
    """Records all files of a directory."""
    with (
        _archive(name).open("wb") as file,
        zstandard.ZstdCompressor(19).stream_writer(file) as stream,
        tarfile.open(fileobj=stream, mode="w|") as tar,
    ):
        for path in sorted(directory.iterdir()):
            tar.add(path, path.name)


def _ask(starts: Mapping[str, Start]) -> dict[str, Word]:
    """One after the other in one JVM."""
    if not starts:
        return {}
    (version,) = {each.broker.version for each in starts.values()}
    make_archive_of_broker(version)
    files = [str(each.broker.properties) for each in starts.values()]
    answers = check(run("StartBrokers", *files, version=version, helper=True, alone=True)).decode().splitlines()
    return {
        name: Word(
            answer.replace(f"{each.broker.directory}/", ""),
            frozenset(entry.name for path in each.log_dirs for entry in path.iterdir()),
        )
        for (name, each), answer in zip(starts.items(), answers, strict=True)
    }


def _word(line: Mapping[str, Any]) -> Word:
    return Word(line["answer"], frozenset(line["after"]))


def _lines(name: str) -> Path:
    return HERE / f"{name}.jsonl"


def _archive(name: str) -> Path:
    return HERE / f"{name}.tar.zst"


def main() -> None:
    from tests.internals import test_live
    from tests.kafka import (
        damaged_starts,
        test_consumed_cases,
        test_coordinators,
        test_directory_restart,
        test_gone_markers,
        test_leader_epochs,
        test_metadata_start,
        test_versions,
    )

    for module in (
        *(damaged_starts, test_consumed_cases, test_coordinators, test_directory_restart, test_gone_markers),
        *(test_leader_epochs, test_live, test_metadata_start, test_versions),
    ):
        module.record_starts()


if __name__ == "__main__":
    main()
