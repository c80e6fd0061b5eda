"""The golden archive: files that Apache Kafka wrote, and what Kafka's own readers make of them.

``README.md`` beside this file says where it comes from; ``golden() / "README.md"`` says what each file means. Tests
that change a file copy it first.
"""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.once import unpacked_once

ARCHIVE = Path(__file__).parent / "golden.tar.zst"
CACHE = Path(__file__).parents[2] / ".cache" / "golden"


@functools.cache
def golden() -> Path:
    """The unpacked archive, shared by all test processes and runs; unpacked once for each version of the archive."""

    def remove_older(target: Path) -> None:
        for old in CACHE.iterdir():
            if old.is_dir() and old not in target.parents:
                shutil.rmtree(old)

    return unpacked_once(ARCHIVE, CACHE, clear=remove_older)


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


@dataclass(frozen=True)
class Case:
    """One line of ``index.jsonl``: a folder with raw files, ``case.json`` and what Kafka expected."""

    name: str
    """The folder below the golden directory, such as ``formats/v2-zstd-create``."""
    category: str
    outcome: str | None
    description: str

    @property
    def path(self) -> Path:
        return golden() / self.name

    @property
    def logs(self) -> list[Path]:
        """The raw files that a reader of logs is pointed at: ``.log`` files, and KRaft's ``.checkpoint`` snapshots."""
        return sorted(path for path in self.path.iterdir() if path.suffix in (".log", ".checkpoint"))

    @property
    def log(self) -> Path:
        (log,) = self.logs
        return log

    def case_json(self) -> dict[str, Any]:
        return json.loads((self.path / "case.json").read_bytes())

    def expected(self, name: str = "expected.jsonl") -> list[dict[str, Any]]:
        return json_lines(self.path / name)

    def __str__(self) -> str:
        return self.name


@functools.cache
def all_cases() -> tuple[Case, ...]:
    return tuple(
        Case(line["case"], line["category"], line.get("outcome"), line["description"])
        for line in json_lines(golden() / "index.jsonl")
    )


def cases(*categories: str) -> list[Case]:
    """The cases of some categories, for ``@pytest.mark.parametrize("case", cases("formats", "specials"), ids=str)``."""
    known = {case.category for case in all_cases()}
    if not set(categories) <= known:
        raise ValueError(f"there are no cases of {sorted(set(categories) - known)}; there are {sorted(known)}")
    return [case for case in all_cases() if case.category in categories]


def case(name: str) -> Case:
    return next(case for case in all_cases() if case.name == name)


@dataclass(frozen=True)
class Part:
    """Some of many cases, for a test that takes less time for one of them than pytest does for a test."""

    number: int
    cases: Sequence[Case]

    def __str__(self) -> str:
        return f"part-{self.number}"


def parts(cases: Sequence[Case], count: int) -> list[Part]:
    """``count`` parts, each with every ``count``-th case, so that there is something of all categories in each."""
    return [Part(number, cases[number::count]) for number in range(count)]


def of_type(lines: list[dict[str, Any]], type_: str, file: str | None = None) -> Iterator[dict[str, Any]]:
    """The ``batch``, ``record``, ``error``, ``disagreement`` or ``end`` lines of an ``expected.jsonl``."""
    return (line for line in lines if line["type"] == type_ and (file is None or line["file"] == file))


CONSUMERS_THROW = ("message-checksum-mismatch", "magic-unknown")
"""Kinds of errors at which a consumer throws, though Kafka's file reader does not
(``tests/kafka/test_consumed_cases.py``)."""


def first_at_their_offsets(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The ``record`` lines of one file without those whose offsets a record before has, of an intact batch or in the
    same one. Kafka's file reader yields these as well, but a consumer gets each offset once
    (``tests/kafka/test_consumed_cases.py``)."""
    first: dict[int, set[int]] = {}
    seen: set[int] = set()
    records = list(of_type(lines, "record"))
    for batch in of_type(lines, "batch"):
        own = {each["offset"] for each in records if each["batchPosition"] == batch["position"]}
        first[batch["position"]] = own - seen
        if batch["isValid"]:
            seen |= own
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for each in records:
        if each["offset"] in first[each["batchPosition"]]:
            found.setdefault((each["batchPosition"], each["offset"]), each)
    return list(found.values())


BROKERS = ("clean", "unclean", "old-formats")


def broker_data(broker: str) -> Path:
    """The data folder of a real broker: ``clean``, ``unclean`` or ``old-formats``."""
    return golden() / "brokers" / broker / "data"


def broker_expected(broker: str) -> Path:
    return golden() / "brokers" / broker / "expected"
