"""Ten wrong things in one log directory: each has one kind and one path, and a severity by scope, whoever says it."""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import brokerless
from tests.states import faces
from tests.states.outcomes import NEWEST
from tests.states.placements import OTHER_ID, copy, replace
from tests.states.states import Pack, all_states, make

pytestmark = pytest.mark.xdist_group("ten things")  # they share what all commands said
PLANTED = {
    "states-1": "swap-first-and-third", "states-2": "swap-with-cleaned-at", "states-3": "log-garbled-middle",
    "states-4": "txnindex-deleted-middle", "states-5": "log-deleted-middle", "states-6": "epochs-garbled",
    "states-7": "log-start-past-end", "states-8": "index-past-end", "aged-1": "time-index-full-size-first.aged",
}  # fmt: skip
"""States of partitions' directories (:mod:`tests.states.mutations`); two of directories are added to them."""
KINDS = {
    "states-1/00000000000000000058.log": "segment-replaced",
    "states-2/00000000000000000058.log.swap": "segment-replaced",
    "states-3/00000000000000000058.log": "checksum-mismatch",
    "states-4/00000000000000000058.txnindex": "transaction-index-mismatch",
    "states-5/00000000000000000058.log": "missing-log",
    "states-6/leader-epoch-checkpoint": "checkpoint-corrupt",
    "states-7/00000000000000000164.log": "log-start-beyond-end",
    "states-8/00000000000000000164.index": "offset-index-mismatch",
    "aged-1/00000000000000000000.timeindex": "retention-misread",
    "states-10/partition.metadata": "topic-unknown",
    "states-999/partition.metadata": "partition-unknown",
}
"""What is said of each, by its path."""
SCOPES = {
    "ls": "log", "cat": "log", "verify": "log", "python": "log", "serve": "log", "salvage": "log",
    "restart": "start", "cluster": "cluster", "rebuild": "cluster",
}  # fmt: skip
SPEAKERS = {
    "segment-replaced": {"ls", "cat", "verify", "python", "serve", "restart", "rebuild"},
    "checksum-mismatch": {"cat", "verify", "python"},
    "transaction-index-mismatch": {"verify", "restart"},
    "missing-log": {"ls", "cat", "verify", "python", "serve"},
    "checkpoint-corrupt": {"verify", "restart"},
    "log-start-beyond-end": {"ls", "cat", "verify", "python", "restart"},
    "offset-index-mismatch": {"verify", "restart"},
    "retention-misread": {"restart"},
    "topic-unknown": {"restart", "cluster", "rebuild", "serve"},
    "partition-unknown": {"restart", "cluster", "rebuild"},
}
"""Who has to say it, besides audit, which says all."""
ORDER = ["error", "warning", "info"]
Said = dict[str, dict[str, list[Mapping[str, Any]]]]
"""Findings by the path that they are about, below the log directory, and by who says them."""


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as scratch:
        states = all_states()
        pack = Pack("many", True, {name: states[f"{state}.clean"] for name, state in PLANTED.items()})
        directory = make(NEWEST, pack, Path(scratch) / "data", all_partitions=False)
        shutil.copytree(directory / "states-0", directory / "states-10", dirs_exist_ok=True)
        replace("states-10/partition.metadata", "topic_id: .*", f"topic_id: {OTHER_ID}")(directory)
        copy("states-0", "states-999")(directory)
        yield directory


@pytest.fixture(scope="module")
def said(root: Path) -> Said:
    found: Said = defaultdict(lambda: defaultdict(list))

    def note(face: str, row: Mapping[str, Any]) -> None:
        if str(row.get("file") or "").startswith(f"{root}/"):
            found[row["file"][len(str(root)) + 1 :]][face].append(row)

    to = root.parent
    with faces.without_waiting():
        for command in ("verify", "audit", "restart", "cluster", "rebuild", "salvage"):
            target = ("--to", to / command) if command in ("rebuild", "salvage") else ()
            result = faces.run(command, "--json", *target, root)
            assert result.exit_code == 1, command
            for row in result.json:
                for each in row.get("effects", ()) if command == "restart" else [row]:
                    if each.get("severity") is not None:
                        note(command, each | {"kind": each.get("finding", each["kind"])})
        for command in ("ls", "cat"):
            result = faces.run(command, root)
            assert result.exit_code == 1, command
            for line in result.err.splitlines():
                path = line.split(":")[0].split(",")[0]
                note(command, {"file": path, "text": line})
    damage: list[brokerless.Finding] = []
    for partition in brokerless.open(root).partitions:
        for _ in partition.records(["offset"], on_damage=damage.append):
            pass
    for each in damage:
        note("python", each.as_dict())
    for each in served(root):
        note("serve", {"file": each.path, "kind": each.kind, "severity": each.severity})
    return found


def served(root: Path) -> list[faces.Said]:
    """What the server reports to who runs it: of two topics of one name, it serves the one that the cluster has."""
    return [each for face in faces.serve(root, list(PLANTED)).values() for each in face.said]


@pytest.mark.parametrize("path", KINDS)
def test_all_say_one_kind_of_one_path(said: Said, path: str) -> None:
    by_face = said[path]
    assert SPEAKERS[KINDS[path]] | {"audit"} <= by_face.keys()
    kinds = {row["kind"] for rows in by_face.values() for row in rows if row.get("severity") in ("warning", "error")}
    assert KINDS[path] in kinds
    assert kinds - {KINDS[path]} <= {"offset-gap", "index-not-trimmed"}  # of the same bytes, another fact
    first = next(row["message"] for row in by_face["audit"] if row["kind"] == KINDS[path])
    for command in by_face.keys() & {"ls", "cat"}:
        assert any(first.split(":")[0].split(",")[0] in row["text"] for row in by_face[command]), command


@pytest.mark.parametrize("path", KINDS)
def test_each_has_the_severity_of_its_scope(said: Said, path: str) -> None:
    by_face = said[path]
    audited, *others = (row for row in by_face["audit"] if row["kind"] == KINDS[path])
    assert all(row["severities"] == audited["severities"] for row in others)
    assert audited["severity"] == min(audited["severities"].values(), key=ORDER.index)
    for face, scope in SCOPES.items():
        for row in by_face.get(face, ()):
            if row.get("kind") == KINDS[path]:
                expected = audited["severities"][scope]
                if scope == "cluster":  # other replicas may have it, and rebuild writes it again
                    assert ORDER.index(row["severity"]) >= ORDER.index(expected), face
                else:
                    assert row["severity"] == expected, face


def test_no_other_path_has_one_of_these_kinds(said: Said) -> None:
    kinds = {
        (path, row["kind"])
        for path, by_face in said.items()
        for rows in by_face.values()
        for row in rows
        if row.get("severity") in ("warning", "error") and row.get("kind") in KINDS.values()
    }
    assert {path for path, _ in kinds} == KINDS.keys()
