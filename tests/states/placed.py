"""Holds what a broker made of whole log directories against what our commands say of them."""

from __future__ import annotations

import json
import re
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.states import faces
from tests.states.decisions import is_decided
from tests.states.faces import Result, Said, digest
from tests.states.parity import Disagreement
from tests.states.placements import KRAFT, PLACEMENTS, hash_of, load, make_placement

Found = Iterator[tuple[str, str]]
SPEAKERS = ("audit", "cluster", "rebuild", "restart")


def disagreements(version: str, names: Iterable[str], root: Path) -> Iterator[Disagreement]:
    """All of the placements that are named."""
    rows = load(version)
    for name in names:
        row = {**rows[name], "partitions": {**rows["nothing"]["partitions"], **rows[name]["partitions"]}}
        row["groups"] = {**rows["nothing"]["groups"], **rows[name]["groups"]}
        target = root / name
        directories = make_placement(version, PLACEMENTS[name], target)
        for face, what in check(row, directories, target, version):
            if not is_decided(face, what, f"{version} {name}"):
                yield Disagreement(face, what, f"{version} {name}")
        shutil.rmtree(target)


def check(row: Mapping[str, Any], directories: Sequence[Path], target: Path, version: str) -> Found:
    with faces.without_waiting(), faces.one_audit():
        results = {command: faces.run(command, "--json", *directories) for command in ("audit", "cluster")}
        results["restart"] = faces.run("restart", "--kafka", version, "--json", *directories)
        results["rebuild"] = faces.run("rebuild", "--json", "--to", target / "rebuilt", *directories)
        is_started = row["text"] == "started"
        is_less = is_started and _has_less(row["partitions"], load(version)["nothing"]["partitions"])
        text = faces.run("audit", *directories).out if not is_started or is_less else ""
    said = {name: list(_findings(results[name])) for name in SPEAKERS}
    yield from _refused(is_started, results["restart"])
    planned = {row["finding"] for whole in results["restart"].json for row in whole.get("effects", ())}
    yield from _kinds(said, planned, target)
    if (not is_started or is_less) and not any(each.severity in ("warning", "error") for each in said["audit"]):
        yield "audit", "finds nothing"
    for line in ("a broker starts, and cuts nothing off", "lost      nothing\n"):
        if line in text:
            yield "audit", f"says {' '.join(line.split())!r}"
    if is_started:
        yield from _records(row, directories, said["audit"])
        yield from _directories(row, results["restart"])
        yield from _groups(row, directories)


def _has_less(served: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Whether clients get less of a partition than of the unchanged directory."""
    counts, earlier = ({name: _count(of) for name, of in each.items()} for each in (served, before))
    return any(counts.get(name, 0) < count for name, count in earlier.items())


def _count(served: Any) -> int:
    """Records of a partition that clients get."""
    return served[2][0] if isinstance(served, list) and len(served) > 2 else 0


def _findings(result: Result) -> Iterator[Said]:
    for each in result.json:
        if "kind" in each and "severity" in each and each.get("file"):
            yield Said(each["file"], each["message"], each["kind"], each["severity"])


def _refused(is_started: bool, result: Result) -> Found:
    says = result.exit_code == 2 or any(each.get("refused") or each.get("offline") for each in result.json)
    if says == is_started:
        yield "restart", "says that the broker ends" if is_started else "does not say that the broker ends"


def _kinds(said: Mapping[str, Sequence[Said]], planned: set[str | None], target: Path) -> Found:
    """(ii): a fact has one kind, whoever says it; audit says all. ``planned``: kinds of restart's effects."""
    by_path: dict[str, dict[str, set[str]]] = defaultdict(dict)
    for name, findings in said.items():
        for each in findings:
            if each.severity != "info" and each.kind and each.path.startswith(str(target)):
                by_path[each.path[len(str(target)) :]].setdefault(name, set()).add(each.kind)
    for by_command in by_path.values():
        own = by_command.get("audit", set())
        for name, kinds in by_command.items():
            for kind in sorted(kinds - own) if name != "audit" else ():
                yield "audit", f"lacks {kind} of {name}"
        others = planned.union(*(kinds for name, kinds in by_command.items() if name != "audit"))
        for kind in sorted(own - others):
            if len(by_command) > 1:
                yield "audit", f"has {kind} where others have another kind"


def _records(row: Mapping[str, Any], directories: Sequence[Path], audited: Sequence[Said]) -> Found:
    """Readers do not read the cluster's metadata, by which a start serves a directory or not: what they give beyond
    what is served is named by audit at least."""
    is_audited = any(each.severity != "info" for each in audited)
    for at, isolation in enumerate(faces.ISOLATIONS):
        result = faces.run("cat", "--json", "--exclude-internal", "--isolation", isolation, *directories)
        given: dict[str, list[list[Any]]] = defaultdict(list)
        for record in result.json:
            headers = [(name, None if text is None else text.encode()) for name, text in record["headers"]]
            texts = [None if record[each] is None else record[each].encode() for each in ("key", "value")]
            name = f"{record['topic']}-{record['partition']}"
            given[name].append([record["offset"], digest(record["timestamp"], *texts, headers)])
        for name, served in row["partitions"].items():
            if name.startswith("__"):
                continue
            count, expected = served[2 + at] if isinstance(served, list) else (0, hash_of([]))
            own = given.pop(name, [])
            if hash_of(own) != expected:
                is_more = len(own) >= count
                how = "has more records" if is_more else "lacks records"
                is_named = f"/{name}" in result.err or (is_more and is_audited)
                if is_more and is_named:
                    continue
                yield "cat", f"{isolation} {how}" + (" and does not say so" if not is_named else "")
        if given and not is_audited:
            yield "cat", f"{isolation} has partitions that are not served"


def _directories(row: Mapping[str, Any], result: Result) -> Found:
    """(iii): what the start did to directories."""
    wholes = [each for each in result.json if each.get("topic") is None]
    removed = {name.partition("/")[2] for name in row.get("removed", ()) if name.count("/") == 1}
    strays = {
        name.partition("/")[2].removesuffix(".*-stray") for name in row.get("added", ()) if name.endswith(".*-stray")
    }
    strays = {name for name in strays if "/" not in name}
    said_stray = {Path(each["path"]).name for whole in wholes for each in whole["stray"]}
    if strays != {re.sub(r"\.[0-9a-f]{32}-future$", "", name) for name in said_stray}:  # whose strays have no such end
        yield "restart", "names other strays"
    said, said_moving = set(said_stray), set[str]()  # a move goes on after the start, or does not get so far
    for whole in wholes:
        for each in (*whole["deleted"], *whole["promoted"]):
            said |= {Path(path).name for path in _paths(each)}
        futures = [each for each in whole["effects"] if each["kind"] in ("moving", "emptied")]
        said_moving |= {Path(each["path"]).name for each in futures}
        said_moving |= {"-".join(map(str, each["place"])) for each in futures if each["kind"] == "moving"}
    if removed - said - said_moving:
        yield "restart", "does not say which directories are removed"
    if said - removed - strays - {"orders-1"}:
        yield "restart", "says that directories are removed that stay"


def _paths(entry: Any) -> Iterator[str]:
    """All paths in an entry of a list of directories."""
    if isinstance(entry, str):
        if entry.startswith("/"):
            yield entry
    elif isinstance(entry, dict | list):
        for each in entry.values() if isinstance(entry, dict) else entry:
            yield from _paths(each)


def _groups(row: Mapping[str, Any], directories: Sequence[Path]) -> Found:
    result = faces.run("internals", "--json", "--table", "offsets", *directories)
    given: dict[str, dict[str, int]] = defaultdict(dict)
    for each in result.json:
        if each.get("isCurrent", True) is not False and each.get("offset") is not None:
            given[each["group"]][f"{each['topic']}-{each['partition']}"] = each["offset"]
    expected = {group: offsets for group, offsets in row["groups"].items() if isinstance(offsets, dict) and offsets}
    if expected != given:
        lacks = any(given.get(group, {}).get(at) is None for group, of in expected.items() for at in of)
        yield "internals", "lacks offsets that are current" if lacks else "has offsets that are not current"
    assert KRAFT not in json.dumps(sorted(given))
