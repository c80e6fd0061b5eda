"""Holds what a broker made of each state against what our commands say of it: the assertions of ``test_parity``."""

from __future__ import annotations

import functools
import json
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.states import faces
from tests.states.bases import AGED, STATES, unpacked
from tests.states.decisions import is_decided
from tests.states.faces import ISOLATIONS, Face, Faces, Records
from tests.states.mutations import INDEXES, batches
from tests.states.outcomes import Outcome, Outcomes, load
from tests.states.states import Pack, State, all_states, make, packs, sizes

READERS = ("cat", "python", "sql", "spark", "export", "serve", "convert")
"""What gives records; each is to give what a consumer gets."""
FINDERS = ("verify", "restart", "cluster", "rebuild")
"""What has findings; audit is to have them all."""
KNOWN = Path(__file__).parent / "known.json"


@dataclass(frozen=True, order=True)
class Disagreement:
    face: str
    what: str
    state: str


@dataclass(frozen=True)
class Judged:
    """A state, and all that was found out about it. ``present``: offsets of intact records in files of any name, but
    for those that are to be deleted, before the start; ``before``: the sizes of its files;
    ``compacted``: offsets that a finished compaction has gone over."""

    state: State
    outcome: Outcome
    expected: Mapping[str, Records]
    before: Mapping[str, int]
    present: frozenset[int]
    compacted: frozenset[int]
    aborted: frozenset[int]
    said: Mapping[str, Face]
    audit_text: str

    @property
    def is_refused(self) -> bool:
        return self.outcome.text != "started"

    @property
    def is_served(self) -> bool:
        return self.outcome.end is not None

    @property
    def stops(self) -> bool:
        """Whether a consumer does not come to the end."""
        one, other = self.outcome.uncommitted, self.outcome.committed
        if one is None or other is None:
            return False
        return one.stopped is not None or bool(one.error or other.error)

    @property
    def lost(self) -> frozenset[int]:
        """Offsets whose records are there before the start, and not after it."""
        if not self.is_served or self.stops or self.outcome.start is None:
            return frozenset()
        gone = self.present - self.compacted - self.expected["read_uncommitted"].keys()
        is_moved = self.state.name.startswith("log-start") and not self.state.name.startswith("log-start-past-end")
        return frozenset(each for each in gone if not (is_moved and each < self.outcome.start))


def disagreements(version: str, names: Iterable[str], root: Path) -> Iterator[Disagreement]:
    """All of the states that are named."""
    outcomes = load(version)
    states = all_states()
    chosen = [states[name] for name in names if name in outcomes.states]
    alone = {name for name, outcome in outcomes.states.items() if outcome.alone}
    for number, pack in enumerate(packs(chosen, alone & {each.name for each in chosen})):
        scratch = root / f"{version}-{number}"
        scratch.mkdir(parents=True)
        for judged in judge(version, pack, outcomes, scratch):
            for check in CHECKS:
                for face, what in check(judged):
                    if not is_decided(face, what, f"{version} {judged.state.name}"):
                        yield Disagreement(face, what, f"{version} {judged.state.name}")
        shutil.rmtree(scratch)


def judge(version: str, pack: Pack, outcomes: Outcomes, scratch: Path) -> Iterator[Judged]:
    """Run all commands on a pack."""
    root = make(version, pack, scratch / "data", all_partitions=False)
    batches_of_base, aborted = whole(version, pack.base)
    present = {name: _present(root / name, batches_of_base) for name in pack.states}
    compacted = {name: _compacted(root / name) for name in pack.states}
    before = {name: sizes(root / name) for name in pack.states}
    with faces.without_waiting(), faces.one_audit():
        has_more = pack.is_clean and pack.base == "many"
        said = all_faces(root, list(pack.states), scratch, version, has_more=has_more)
        audit_text = faces.run("audit", root).out if pack.base == "few" else ""
    for name, state in pack.states.items():
        outcome = outcomes.states[state.name]
        both = {"read_uncommitted": outcome.uncommitted, "read_committed": outcome.committed}
        expected = {level: outcomes.records(each, pack.base) if each else {} for level, each in both.items()}
        own = {face: found.get(name, Face()) for face, found in said.items()}
        own["whole restart"] = said["restart"].get("", Face())
        yield Judged(state, outcome, expected, before[name], present[name], compacted[name], aborted, own, audit_text)


def all_faces(root: Path, names: list[str], scratch: Path, version: str, *, has_more: bool) -> dict[str, Faces]:
    """What all say of a start of this version. Only with ``has_more`` those that read as others do, and cost most: they
    look at no checkpoint that says how a broker had ended."""
    found = {
        "ls": faces.each_alone(("ls", "--json"), names, root),
        "cat": faces.each_alone(("cat", "--json"), names, root),
        "verify": faces.each_alone(("verify", "--json"), names, root),
    }
    committed = faces.each_alone(("cat", "--json", "--isolation", "read_committed"), names, root)
    for name in names:
        found["cat"][name].records |= committed[name].records
    found["restart"] = faces.findings(("restart", "--kafka", version, "--json", root), root)[1]
    for command in ("audit", "cluster"):
        found[command] = faces.findings((command, "--json", root), root)[1]
    found["rebuild"] = faces.findings(("rebuild", root, "--to", scratch / "rebuilt", "--json"), root)[1]
    if has_more:
        found["python"] = faces.python(root)
        found["spark"] = faces.spark(root)
        found["sql"] = faces.sql(root, scratch)
        found["export"] = faces.export(root, scratch)
        found["convert"] = faces.written("convert", ("--codec", "zstd"), root, scratch)
        found["salvage"] = faces.written("salvage", (), root, scratch)
        found["serve"] = faces.serve(root, names)
    return found


@functools.cache
def whole(version: str, base: str) -> tuple[tuple[tuple[bytes, frozenset[int]], ...], frozenset[int]]:
    """The batches of the unchanged log, with offsets of their records; and the offsets of aborted records."""
    outcomes = load(version)
    offsets = outcomes.masters[base].keys()
    found: list[tuple[bytes, frozenset[int]]] = []
    for path in sorted((unpacked(version) / base / "stopped" / f"{STATES}-0").glob("*.log")):
        data = path.read_bytes()
        for at, size in batches(path):
            batch = data[at : at + size]
            first, delta = int.from_bytes(batch[:8], "big"), int.from_bytes(batch[23:27], "big")
            found.append((batch, frozenset(each for each in offsets if first <= each <= first + delta)))
    return tuple(found), outcomes.aborted[base]


def _present(directory: Path, of: Iterable[tuple[bytes, frozenset[int]]]) -> frozenset[int]:
    logs = [path for path in directory.glob("*.log*") if path.suffix != ".deleted"] if directory.is_dir() else []
    data = b"".join(path.read_bytes() for path in logs)
    return frozenset(offset for batch, offsets in of if batch in data for offset in offsets)


def _compacted(directory: Path) -> frozenset[int]:
    """Offsets between the first and the last one of a finished compaction's log, of which it left out some."""
    found: set[int] = set()
    for path in directory.glob("*.log.swap"):
        data = path.read_bytes()
        places = [at for at, size in batches(path) if at + size <= len(data)]
        firsts = [int.from_bytes(data[at : at + 8], "big") for at in places]
        ends = [
            first + int.from_bytes(data[at + 23 : at + 27], "big") + 1 for first, at in zip(firsts, places, strict=True)
        ]
        counts = [int.from_bytes(data[at + 57 : at + 61], "big") for at in places]
        if sum(counts) < sum(end - first for first, end in zip(firsts, ends, strict=True)) or firsts[1:] != ends[:-1]:
            found |= set(range(firsts[0], ends[-1]))
    return frozenset(found)


Found = Iterator[tuple[str, str]]


def check_readers(judged: Judged) -> Found:
    """(i): what a consumer gets is given, or what is left out is named; what is given beyond is named, by audit at
    least: readers do not read the cluster's metadata, by which a start serves a directory or not."""
    if not judged.is_served:
        return
    start = judged.outcome.start or 0
    for name in READERS:
        face = judged.said.get(name)
        if face is None:
            continue
        for isolation in ISOLATIONS:
            given, expected = face.records.get(isolation, {}), judged.expected[isolation]
            lacks = expected.keys() - given.keys()
            if isolation == "read_committed":  # by the log, not by indexes (decision 13)
                lacks -= judged.aborted
                is_open = any(each.kind == "transaction-open" for each in judged.said["audit"].said)
                if is_open and min(lacks, default=0) > max(given, default=0):
                    lacks = frozenset[int]()  # the marker that ends a transaction is gone
            more = given.keys() - expected.keys()
            if judged.state.topic == AGED:  # what retention deletes afterwards is forecast, not applied
                more = {each for each in more if each >= start}
            is_named = bool(face.said)
            is_audited = any(each.severity != "info" for each in judged.said["audit"].said)
            if lacks and (not is_named or face.exit_code == 0):
                yield name, f"{isolation} lacks records and does not say so"
            elif lacks and name not in ("convert", "serve"):  # which end at damage, with an error
                yield name, f"{isolation} leaves records out that a consumer gets"
            if more and not (is_named or is_audited):
                yield name, f"{isolation} has more records and does not say so"
            if any(given[each] != expected[each] for each in given.keys() & expected.keys()):
                yield name, f"{isolation} has other records"


def check_list(judged: Judged) -> Found:
    """``ls`` counts what ``cat`` prints, and they end alike, but for what is wrong within batches: ``ls`` reads their
    headers alone."""
    ls, cat = judged.said["ls"], judged.said["cat"]
    is_within = any(each.kind == "checksum-mismatch" for each in judged.said["verify"].said)
    counted, given = ls.row["records"] if ls.row else 0, len(cat.records["read_uncommitted"])
    if ls.row and (counted < given if is_within else counted != given):
        yield "ls", "counts other records than cat prints"
    if ls.exit_code != cat.exit_code and not is_within:
        yield "ls", "ends with another exit code than cat"


def check_salvage(judged: Judged) -> Found:
    face = judged.said.get("salvage")
    if face is not None:
        lacks = judged.present - face.records.get("read_uncommitted", {}).keys()
        if judged.state.name.startswith("log-start") and judged.outcome.start is not None:
            lacks = {each for each in lacks if each >= judged.outcome.start}
        if lacks and not face.said:
            yield "salvage", "lacks intact records and does not say so"


def check_verify(judged: Judged) -> Found:
    worst = {each.severity for each in judged.said["verify"].said}
    if judged.stops and "error" not in worst:
        yield "verify", "has no error where a consumer stops"


def check_restart(judged: Judged) -> Found:
    """(iii): what the start did to files is what was said."""
    row, whole_row = judged.said["restart"].row, judged.said["whole restart"].row
    says_refused = bool(row.get("refused") or whole_row.get("refused") or whole_row.get("offline"))
    if judged.is_refused:
        if not says_refused:
            yield "restart", "does not say that the broker ends"
        return
    if says_refused:
        yield "restart", "says that the broker ends"
        return
    if not row:
        yield "restart", "has no row"
        return
    is_left = not judged.is_served or bool(judged.outcome.renamed)
    if is_left != bool(row["stray"] or row["unserved"]):
        yield "restart", f"{'does not say' if is_left else 'says'} that it is not served"
    if not is_left:
        yield from _offsets(judged, row)
        yield from _files(judged, row)


def _offsets(judged: Judged, row: Mapping[str, Any]) -> Found:
    start = (row["retention"] or row)["logStartOffset"]
    if start != judged.outcome.start:
        yield "restart", "has another log start"
    if row["logEndOffset"] != judged.outcome.end:
        yield "restart", "has another log end"
    if judged.state.topic != AGED and not judged.stops and bool(judged.lost) != bool(row["lostRecords"]):
        yield "restart", "counts lost records that are served" if row["lostRecords"] else "does not count lost records"


def _files(judged: Judged, row: Mapping[str, Any]) -> Found:
    """Snapshots of producers are left out: brokers write and remove them as they go on."""
    removed = {name for name in judged.outcome.removed if ".snapshot" not in name}
    renamed = {name for name in removed if name.endswith(".swap") and not _is_dropped(judged, name)}
    removed |= {name.removesuffix(".swap") for name in renamed} & judged.before.keys()
    retained = row["retention"]["segments"] if row["retention"] else ()
    gone = [Path(each["file"]) for each in (*row["deleted"], *retained)]
    said = {Path(each).name for each in row["removed"]} | {Path(old).name for old, _ in row["renamed"]}
    said |= {each.name for each in gone}
    said |= {each.with_suffix(f".{kind}").name for each in gone for kind in INDEXES} & judged.before.keys()
    said = {name for name in said if ".snapshot" not in name}
    again = {Path(each).name.removesuffix(".swap") for each in (*row["rebuilt"], *row["emptied"])}
    for label, is_of in (("logs", _is_log), ("indexes", lambda name: not _is_log(name))):
        if {each for each in removed - said - again if is_of(each)}:
            yield "restart", f"does not say which {label} are removed"
        if {each for each in said - removed - again if is_of(each)}:
            yield "restart", f"says that {label} are removed that stay"
    cut = {Path(each["file"]).name for each in row["truncated"]} - {each.name for each in gone}
    if set(_cut(judged)) != cut:
        yield "restart", "has other logs cut"


def _is_dropped(judged: Judged, swap: str) -> bool:
    """Whether a start deleted a ``.swap`` file, as one does beside a ``.cleaned`` file: the log that it was for is as
    it was."""
    log = f"{swap.partition('.')[0]}.log"
    is_same = log in judged.before and log not in judged.outcome.changed
    return is_same and any(name.endswith(".log.cleaned") for name in judged.before)


def _cut(judged: Judged) -> Iterator[str]:
    """Logs that are shorter than they were, by the names that they had."""
    sizes = {**judged.outcome.added, **{name: new for name, (_, new) in judged.outcome.changed.items()}}
    for name, size in sizes.items():
        before = f"{name}.swap" if f"{name}.swap" in judged.outcome.removed else name
        if _is_log(name) and size < judged.before.get(before, 0):
            yield before


def _is_log(name: str) -> bool:
    return ".log" in name


def check_audit(judged: Judged) -> Found:
    """Audit is the union, and not silent where something is lost."""
    face = judged.said["audit"]
    worst = {each.severity for each in face.said}
    is_bad = judged.is_refused or not judged.is_served or judged.lost or judged.stops
    if is_bad and not worst & {"warning", "error"}:
        yield "audit", "finds nothing"
    if is_bad:
        lines = ("a broker starts, and cuts nothing off", "lost      nothing\n", "ok\n")
        for line in lines:
            if line in judged.audit_text:
                yield "audit", f"says {' '.join(line.split())!r}"
    own = {(each.kind, Path(each.path).name) for each in face.said}
    for name in FINDERS:
        for each in judged.said[name].said:
            if each.severity != "info" and each.kind and (each.kind, Path(each.path).name) not in own:
                yield "audit", f"lacks {each.kind} of {name}"


def check_kinds(judged: Judged) -> Found:
    """(ii): one fact, one finding: a kind has one severity for each scope."""
    found: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name, face in judged.said.items():
        for each in face.said:
            if each.kind and each.severity:
                found[each.kind, Path(each.path).name][SCOPES.get(name, "log")].add(each.severity)
    for (kind, _), by_scope in found.items():
        for scope, severities in by_scope.items():
            if len(severities) > 1:
                yield scope, f"{kind} is {' and '.join(sorted(severities))}"


SCOPES = {"restart": "start", "cluster": "cluster", "rebuild": "cluster", "audit": "audit"}
CHECKS: tuple[Callable[[Judged], Found], ...] = (
    check_readers, check_list, check_salvage, check_verify, check_restart, check_audit, check_kinds,
)  # fmt: skip


def known() -> set[Disagreement]:
    rows = json.loads(KNOWN.read_text()) if KNOWN.exists() else {}
    return {
        Disagreement(*key.split(": ", 1), f"{version} {state}")
        for version, of_version in rows.items()
        for key, states in of_version.items()
        for state in states
    }


def write_known(all_of_them: Iterable[Disagreement]) -> None:
    rows: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for each in sorted(set(all_of_them)):
        version, _, state = each.state.partition(" ")
        rows[version][f"{each.face}: {each.what}"].append(state)
    lines = []
    for version, of_version in sorted(rows.items()):
        entries = ",\n".join(f"  {json.dumps(key)}: {json.dumps(states)}" for key, states in of_version.items())
        lines.append(f" {json.dumps(version)}: {{\n{entries}\n }}")
    KNOWN.write_text("{\n" + ",\n".join(lines) + "\n}\n")
