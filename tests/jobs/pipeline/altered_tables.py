"""Nights of a pipeline over tables of Delta and Iceberg that others alter in between:

``python -m tests.jobs.pipeline.altered_tables DIR COUNT [SEED]`` does so many trials in each format, of four to nine
nights each, and prints what went wrong, and the counts by alteration. A night adds records of JSON whose fields evolve
by chance; before it, somebody makes one of ``tests.jobs.pipeline.alterations``. Of each night:

- all rows that the table had are there as they were, but for columns that are new and null;
- those that are new are the records that were exported, once each, with what was written, or their bytes where a field
  has another type than before;
- or the topic is refused, by the table's name and with what to do, and goes on after that.

The oracle are the formats' own libraries, before and after.
"""

from __future__ import annotations

import json
import random
import re
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.jobs.pipeline.alterations import ALTERATIONS, Alteration, ImpossibleError, Place, rows_of
from tests.jobs.pipeline.works import pipeline
from tests.jobs.tables import FORMATS, delta, iceberg, own_catalog
from tests.log.whole_batches import batch

from brokerless.jobs.pipeline.job import PipelineRun
from brokerless.table_formats.catalog import TableFormat
from brokerless.typed.topic_type import Decoding

START_MS, DAY_MS = 1_700_000_000_000, 86_400_000
NAMES = "abcd"
Types = dict[str, str]


class WrongError(AssertionError):
    """What is not as it should be."""


class Records:
    """The topic ``t`` of one partition. ``types``: of the fields of the next records; ``seen``: all that each had."""

    def __init__(self, directory: Path, chance: random.Random) -> None:
        self.directory, self._chance = directory, chance
        self.values: list[bytes] = []
        self.types: Types = {"a": "int", "b": "text"}
        self.seen: dict[str, set[str]] = {}
        directory.mkdir(parents=True)
        (directory / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")

    def grow(self) -> None:
        if self.values:
            self._evolve()
        for name, kind in self.types.items():
            self.seen.setdefault(name, set()).add(kind)
        with (self.directory / f"{0:020d}.log").open("ab") as file:
            for _ in range(self._chance.randint(1, 4)):
                offset, day = len(self.values), self._chance.randrange(2)
                self.values.append(json.dumps(self._value(offset)).encode())
                time = START_MS + day * DAY_MS + offset
                file.write(batch(offset, 1, time, self.values[-1], key=b"k%d" % offset).tobytes())

    def _evolve(self) -> None:
        name = self._chance.choice(NAMES)
        if name not in self.types or self._chance.random() < 0.3:
            self.types[name] = self._chance.choice(["int", "text", "float", "list", "struct"])
        elif len(self.types) > 1 and self._chance.random() < 0.5:
            del self.types[name]

    def _value(self, offset: int) -> dict[str, Any]:
        known = {
            "int": offset, "text": f"v{offset}", "float": offset + 0.5, "list": [offset, None],
            "struct": {"x": offset, f"y{offset % 3}": "y"},
        }  # fmt: skip
        return {"n": offset} | {
            name: known[kind] if self._chance.random() < 0.9 else None for name, kind in self.types.items()
        }

    def may_be_bytes(self, offset: int) -> bool:
        """Return whether a record has a field that had another type as well."""
        return any(len(self.seen.get(name, ())) > 1 for name in json.loads(self.values[offset]))


def plain(value: Any) -> Any:
    """A row without what is null or empty: columns that are new make no other row of it."""
    if isinstance(value, dict):
        found = {name: plain(each) for name, each in value.items()}
        return {name: each for name, each in sorted(found.items()) if each not in (None, {}, [])}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value


def text(row: Mapping[str, Any]) -> str:
    return json.dumps(plain(row), default=str)


class Trial:
    """Nights over one table."""

    def __init__(self, root: Path, form: TableFormat, chance: random.Random) -> None:
        self._form: TableFormat = form
        self._to, self._chance = root / "to", chance
        self.records = Records(root / "logs" / "t-0", chance)
        self._exported: dict[int, int] = {}
        self.counts = Counter[str]()

    def night(self, alteration: Alteration | None = None) -> None:
        """One alteration, and the run after it. Raises :class:`WrongError`, or :class:`ImpossibleError` where there is
        nothing to alter."""
        place = Place(self._to, self._chance, self._exported)
        if alteration is not None:
            alteration.make(place)
        begin = self._begin(alteration)
        before = self._rows()
        self.records.grow()
        done = self._run()
        if alteration is not None and alteration.refusal:
            self._check_refusal(done, alteration.refusal)
            if self._rows() != before:
                raise WrongError("a topic that is refused has other rows than before")
            assert alteration.undo is not None
            alteration.undo(place)
            before = self._rows()
            done = self._run()
        if done.refused or any(each.severity == "error" for each in done.findings):
            raise WrongError(f"refused: {done.refused}, {[each.message for each in done.findings]}")
        self._compare(before, begin)
        if self._run().is_new:
            raise WrongError("a run without new records has something new")
        self._exported[self._version()] = len(self.records.values)

    def _run(self) -> PipelineRun:
        return pipeline(self.records.directory.parent, self._to, form=self._form, decoding=Decoding())

    def _version(self) -> int:
        if self._form == "delta":
            return delta(self._to, "t").version()
        return int(iceberg(self._to, "t").current_snapshot().snapshot_id)

    def _begin(self, alteration: Alteration | None) -> int:
        """The first offset that is to be exported by the next run."""
        if alteration is None or not alteration.restores:
            return len(self.records.values)
        if self._form == "delta":
            if not (self._to / "t").exists():
                self._exported.clear()
                return 0
            restored: Any = delta(self._to, "t").history(1)[0]
            return self._exported[int(restored["operationParameters"]["version"])]
        if "t" not in self._names():
            self._exported.clear()
            return 0
        return self._exported[self._version()]

    def _names(self) -> list[str]:
        return [name for _, name in own_catalog(self._to).list_tables("kafka")]

    def _rows(self) -> Counter[str]:
        """All rows, also of tables of Iceberg that have another name now."""
        if not self._to.exists():
            return Counter()
        if self._form == "delta":
            return Counter(map(text, table_rows(self._to, "t", "delta"))) if (self._to / "t").exists() else Counter()
        return Counter(text(row) for name in self._names() for row in table_rows(self._to, name, "iceberg"))

    def _check_refusal(self, done: PipelineRun, pattern: str) -> None:
        reason = done.refused.get("t", "")
        where = "kafka.t: " if self._form == "iceberg" else f"{self._to}/t: "
        if not reason.startswith(where) or not re.search(pattern, reason):
            raise WrongError(f"refused with {done.refused} {[each.message for each in done.findings]}")
        if [each.kind for each in done.findings] != ["topic-refused"]:
            raise WrongError(f"a refusal has the findings {[each.message for each in done.findings]}")

    def _compare(self, before: Counter[str], begin: int) -> None:
        after = self._rows()
        if lost := before - after:
            raise WrongError(f"{lost.total()} rows are gone or changed: {[*lost][:3]}; new: {[*(after - before)][:3]}")
        new = [json.loads(row) for row in (after - before).elements()]
        offsets = sorted(row.get("kafka", {}).get("offset", 0) for row in new)
        if offsets != [*range(begin, len(self.records.values))]:
            raise WrongError(f"new are the offsets {offsets}, not {begin} to {len(self.records.values) - 1}")
        for row in new:
            self._check_row(row, row.get("kafka", {}).get("offset", 0))

    def _check_row(self, row: dict[str, Any], offset: int) -> None:
        written = self.records.values[offset]
        self.counts["records"] += 1
        found, value = plain(row.get("value", {})), plain(json.loads(written))
        types = self.records.seen
        if found.keys() == value.keys() and all(
            found[name] == own or (len(types.get(name, ())) > 1 and found[name] == as_text(own))
            for name, own in value.items()
        ):
            return
        if not self.records.may_be_bytes(offset) or row.get("valueRaw") != str(written) or not row.get("valueError"):
            raise WrongError(f"offset {offset}: {written.decode()} is {row}")
        self.counts["records kept as bytes"] += 1


def as_text(value: Any) -> Any:
    """A field in a column that is text, as its field had several types in one run."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def table_rows(to: Path, name: str, form: TableFormat) -> list[dict[str, Any]]:
    if form == "iceberg":
        return iceberg(to, name).scan().to_arrow().to_pylist()
    return rows_of(delta(to, name)).to_pylist()


def trial(root: Path, form: TableFormat, seed: int, counts: Counter[str], names: Sequence[str] = ()) -> Iterator[str]:
    """What is wrong; it ends with the first. ``names``: of the alterations; chance decides without them."""
    chance = random.Random(f"{form} {seed}")
    own = Trial(root, form, chance)
    made: list[str] = []
    try:
        own.night()
        for name in names or chance.choices([*ALTERATIONS[form]], k=chance.randint(3, 8)):
            try:
                made.append(name)
                own.night(ALTERATIONS[form][name])
                counts[f"{form}: {name}"] += 1
            except ImpossibleError:
                made.pop()
    except Exception as error:
        reason = str(error) if isinstance(error, WrongError) else "".join(traceback.format_exception(error))
        yield f"{form}, seed {seed}, after {', '.join(made)}: {reason}"
    counts.update(own.counts)
    counts["trials"] += 1


def campaign(root: Path, count: int, seed: int, counts: Counter[str]) -> Iterator[str]:
    """What is wrong in so many trials of each format."""
    for number in range(seed, seed + count):
        for form in FORMATS:
            yield from trial(root / f"{form}-{number}", form, number, counts)


def main() -> int:
    root, count, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1
    counts = Counter[str]()
    wrong = 0
    for line in campaign(root, count, seed, counts):
        wrong += 1
        print(line, flush=True)
    print(*(f"{number:5} {name}" for name, number in sorted(counts.items())), sep="\n")
    print(f"{wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
