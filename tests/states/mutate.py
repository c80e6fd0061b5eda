"""Changes what the tables say, one row after the other, and checks that the parity test sees it.

``python -m tests.states.mutate [--only TEXT]``. A row is an entry of a module's dict, replaced by that of another key;
entries of remote segments that are written as one are one row. It is seen if a state is not as it is written down then.
So is a reason why a start removes files, which stay then. Prints each row, and ends with 1 if nothing notices one.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import sys
import tempfile
from collections.abc import Generator, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from brokerless.clusters.placement import Verdict
from brokerless.log import directory
from brokerless.log.completion import files
from brokerless.log.completion.files import RemovalReason
from brokerless.log.recovery import plan
from brokerless.log.tiered.remote_history import Standing
from tests.states import remote_cells, verdicts
from tests.states.outcomes import NEWEST
from tests.states.parity import Disagreement, disagreements

TABLES: tuple[tuple[str, str], ...] = (
    ("brokerless.clusters.placement", "KINDS"),
    ("brokerless.log.tiered.remote_history", "TABLE"),
)
"""Modules and the names of their tables."""


REMOVED: Mapping[RemovalReason, str] = {
    "cleaned": "cleaned-middle", "deleted": "deleted-first", "swap-unfinished": "swap-with-cleaned-at",
    "replaced": "swap-first-and-third", "index-orphaned": "index-orphaned",
}  # fmt: skip
"""A state in which a start removes files, by the reason."""


@contextmanager
def kept(reason: RemovalReason) -> Generator[None]:
    """What a start removes for a reason is not removed."""

    def complete(*arguments: Any) -> files.Completion:
        found = original(*arguments)
        return replace(found, remove=tuple(each for each in found.remove if each.reason != reason))

    original = files.complete
    with mock.patch.object(directory, "complete", complete), mock.patch.object(plan, "complete", complete):
        yield


@contextmanager
def changed(table: MutableMapping[Any, Any], row: Sequence[Any]) -> Generator[None]:
    """The row, which has these keys, has the content of another one that differs."""
    kept = table[row[0]]
    others: Sequence[Any] = [each for each in table.values() if each != kept]
    table.update(dict.fromkeys(row, others[0] if others else None))
    try:
        yield
    finally:
        table.update(dict.fromkeys(row, kept))


def rows(table: MutableMapping[Any, Any]) -> Iterator[list[Any]]:
    """The keys of each row."""

    def is_of(key: Any) -> tuple[Any, Any]:
        return (key[0], table[key]) if isinstance(key, tuple) else (key, table[key])

    for _, keys in itertools.groupby(table, key=is_of):
        yield list(keys)


def found(key: tuple[Standing, object] | Verdict) -> set[Disagreement]:
    """Return the states that are not as they are written down, of those that a row is about."""
    return _remote(key[0]) if isinstance(key, tuple) else _placed(key)


def _placed(verdict: Verdict) -> set[Disagreement]:
    """The verdict of placement, if it is not as it is written down."""
    _, path, kind = verdicts.EXPECTED[verdict]
    with tempfile.TemporaryDirectory() as scratch:
        kinds = {each for _, _, each in verdicts.EXPECTED.values()}
        is_said = verdicts.said(verdict, Path(scratch)) & kinds == {kind}
    return set() if is_said else {Disagreement("audit", f"does not say {kind}", path)}


def _remote(standing: Standing) -> set[Disagreement]:
    """The states of remote segments of one standing that are not as they are written down."""
    wrong: set[Disagreement] = set()
    own = [each for each in remote_cells.cells() if _STANDINGS[each.state] == standing]
    for each in own:
        with tempfile.TemporaryDirectory() as scratch:
            if remote_cells.said(each, Path(scratch)) != remote_cells.recorded()[str(each)]:
                wrong.add(Disagreement("audit", "says something else of a remote segment", str(each)))
    return wrong


_STANDINGS = {
    "R": Standing.REFERENCED,
    "N": Standing.REPLACED,
    "STARTED": Standing.STARTED,
    "DELETING": Standing.DELETING,
    "DELETED": Standing.DELETED,
    "none": Standing.UNKNOWN,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    only = parser.parse_args().only
    unseen = 0
    for module, name in TABLES:
        table = getattr(importlib.import_module(module), name)
        for row in list(rows(table)):
            label = f"{module}.{name}[{', '.join(map(str, row))}]"
            if only not in label:
                continue
            with changed(table, row):
                is_seen = found(row[0]) != set()
            unseen += not is_seen
            print(f"{'seen' if is_seen else 'NOT SEEN'}  {label}", flush=True)
    for reason, name in REMOVED.items():
        label = f"brokerless.log.completion.files: {reason}"
        if only in label:
            with kept(reason), tempfile.TemporaryDirectory() as scratch:
                is_seen = any(True for _ in disagreements(NEWEST, [f"{name}.clean"], Path(scratch)))
            unseen += not is_seen
            print(f"{'seen' if is_seen else 'NOT SEEN'}  {label}", flush=True)
    return int(unseen > 0)


if __name__ == "__main__":
    sys.exit(main())
