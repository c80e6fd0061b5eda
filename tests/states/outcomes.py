"""What brokers made of states, as it is kept: ``outcomes-VERSION.jsonl``, a line for each state.

Of a version that starts on the directories of another one, there are only those of which it made something else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.states.bases import base_of

HERE = Path(__file__).parent
NEWEST = "4.4.0"
Span = tuple[int, int]


@dataclass(frozen=True)
class Consumed:
    """``spans``: first and last offsets of runs of records that are those of the unchanged log; ``others``: hashes by
    offset of all else. ``stopped``: where the consumer stayed, before the end."""

    spans: list[Span]
    others: dict[str, str] = field(default_factory=dict)
    error: str | None = None
    stopped: int | None = None


@dataclass(frozen=True)
class Outcome:
    """``text``: "started", or why not. ``start`` and ``end`` are None where nobody serves the partition. Files by their
    names in the partition's directory: ``removed`` ones, and sizes of those that were ``changed`` or ``added``.
    ``renamed``: endings of directories into which this one was renamed, such as "stray"."""

    text: str
    start: int | None
    end: int | None
    uncommitted: Consumed | None
    committed: Consumed | None
    removed: list[str]
    changed: dict[str, list[int]]
    added: dict[str, int]
    renamed: list[str]
    alone: bool


@dataclass(frozen=True)
class Outcomes:
    """``masters``: by base, the hash of each record of the unchanged log. ``aborted``: by base, its aborted records."""

    masters: dict[str, dict[int, str]]
    aborted: dict[str, frozenset[int]]
    states: dict[str, Outcome]

    def records(self, consumed: Consumed, base: str) -> dict[int, str]:
        """Hashes by offset."""
        own = {
            offset: digest
            for offset, digest in self.masters[base].items()
            if any(first <= offset <= last for first, last in consumed.spans)
        }
        return {**own, **{int(offset): digest for offset, digest in consumed.others.items()}}


def noted(
    text: str,
    served: Mapping[str, Any] | None,
    name: str,
    before: Mapping[str, int],
    after: Mapping[str, int],
    master: Mapping[int, str],
    alone: bool,
) -> Outcome:
    """What became of one partition's directory."""
    was = _within(before, name)
    now = _within(after, name)
    is_there = name in after
    return Outcome(
        text[:400],
        served["start"] if served else None,
        served["end"] if served else None,
        _consumed(served["read_uncommitted"], master) if served else None,
        _consumed(served["read_committed"], master) if served else None,
        sorted(was.keys() - now.keys()) if is_there else ["."],
        {each: [was[each], now[each]] for each in sorted(was.keys() & now.keys()) if was[each] != now[each]},
        {each: now[each] for each in sorted(now.keys() - was.keys())},
        [path.rpartition("-")[2] for path in after if path.startswith(f"{name}.") and "/" not in path],
        alone,
    )


def _within(files: Mapping[str, int], name: str) -> dict[str, int]:
    return {path[len(name) + 1 :]: size for path, size in files.items() if path.startswith(f"{name}/")}


def _consumed(given: Mapping[str, Any], master: Mapping[int, str]) -> Consumed:
    records: dict[int, str] = {}
    others: dict[str, str] = {}
    for offset, digest in given["records"]:
        if offset in records or master.get(offset) != digest:
            others[str(offset)] = digest if offset not in records else f"again {digest}"
        records[offset] = digest
    return Consumed(spans(records.keys(), master), others, _shortened(given.get("error")), given.get("stopped"))


def spans(offsets: Iterable[int], of: Iterable[int]) -> list[Span]:
    """Runs of offsets that follow each other in ``of``."""
    chosen = set(offsets)
    found: list[Span] = []
    open_: list[int] = []
    for each in sorted(of):
        if each in chosen:
            open_.append(each)
        elif open_:
            found.append((open_[0], open_[-1]))
            open_ = []
    return [*found, (open_[0], open_[-1])] if open_ else found


def _shortened(error: str | None) -> str | None:
    return None if error is None else error[:300]


def path_of(version: str) -> Path:
    return HERE / f"outcomes-{version}.jsonl"


def load(version: str) -> Outcomes:
    if base_of(version) != version:
        others = load(base_of(version))
        return Outcomes(others.masters, others.aborted, {**others.states, **_read(version).states})
    return _read(version)


def _read(version: str) -> Outcomes:
    if not path_of(version).exists():
        return Outcomes({}, {}, {})
    masters: dict[str, dict[int, str]] = {}
    aborted: dict[str, frozenset[int]] = {}
    states: dict[str, Outcome] = {}
    for line in map(json.loads, path_of(version).read_text().splitlines()):
        if "recorded" in line:
            continue
        if "master" in line:
            masters[line["master"]] = {int(offset): digest for offset, digest in line["records"].items()}
            aborted[line["master"]] = frozenset(line.get("aborted", ()))
            continue
        name = line.pop("state")
        text = line.pop("text", "started")
        uncommitted = _parsed(line.pop("uncommitted", None))
        committed = uncommitted if line.pop("same", False) else _parsed(line.pop("committed", None))
        rest = {**_DEFAULTS, **line}
        states[name] = Outcome(text=text, uncommitted=uncommitted, committed=committed, **rest)
    return Outcomes(masters, aborted, states)


def _parsed(row: dict[str, Any] | None) -> Consumed | None:
    return None if row is None else Consumed(**{**row, "spans": [tuple(each) for each in row["spans"]]})


_DEFAULTS: dict[str, Any] = {
    "start": None,
    "end": None,
    "removed": [],
    "changed": {},
    "added": {},
    "renamed": [],
    "alone": False,
}


def save(version: str, outcomes: Outcomes) -> None:
    lines: list[dict[str, Any]] = [
        {"master": base, "aborted": sorted(outcomes.aborted[base]), "records": records}
        for base, records in sorted(outcomes.masters.items())
    ]
    states = outcomes.states
    if base_of(version) != version:
        of_base = load(base_of(version)).states
        lines = [{"recorded": len(states), "as": base_of(version)}]
        states = {name: each for name, each in states.items() if _facts(each) != _facts(of_base[name])}
    for name, outcome in sorted(states.items()):
        row = {"state": name, **_without_defaults(asdict(outcome))}
        for each in ("uncommitted", "committed"):
            if row.get(each):
                row[each] = _without_defaults(row[each]) | {"spans": row[each]["spans"]}
        if row.get("text") == "started":
            del row["text"]
        if row.get("committed") is not None and row["committed"] == row.get("uncommitted"):
            del row["committed"]
            row["same"] = True
        lines.append(row)
    path_of(version).write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


def _without_defaults(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if value not in (None, [], {}) and value is not False}


def judged_otherwise(version: str) -> set[str]:
    """Return the states of which this broker makes something else than the newest one does."""
    newest, own = load(NEWEST), load(version)
    return {
        name
        for name, outcome in own.states.items()
        if name not in newest.states or _facts(outcome) != _facts(newest.states[name])
    }


def count_of_recorded(version: str) -> int:
    """Return how many states a broker was started on."""
    first = json.loads(path_of(version).read_text().partition("\n")[0])
    return first["recorded"] if "recorded" in first else len(load(version).states)


def _facts(outcome: Outcome) -> tuple[object, ...]:
    removed = [name for name in outcome.removed if ".log" in name]
    both = [each and (each.spans, each.stopped, bool(each.error)) for each in (outcome.uncommitted, outcome.committed)]
    return outcome.text == "started", outcome.start, outcome.end, both, removed, outcome.renamed
