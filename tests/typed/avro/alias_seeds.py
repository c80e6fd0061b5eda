"""Random schemas that evolve with aliases, night by night, into tables of Iceberg and Delta, and what Java reads.

``python -m tests.typed.avro.alias_seeds SEEDS [FIRST]`` prints the counts; the suite runs a few. Each value is written
once, so that it can be found in whatever column it is in. Of each seed:

- one run has for each field of the newest schema what Java reads (``GenericDatumReader``, the writer's schema renamed
  by ``Schema.applyAliases`` of each version after it, with the aliases that are new in that), and null, with the schema
  and the field named, where Java fails by a default;
- no value is lost, and no column has values of two fields, where Java cannot read them as well;
- after a run each night, each column holds what one column of the one run holds.
"""

from __future__ import annotations

import base64
import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from tests.jobs.tables import FORMATS, Rows, avro, exported, log_of, table
from tests.kafka.jars import QUICK, check
from tests.spark.java import class_path, java

from brokerless.findings import Finding
from brokerless.table_formats.catalog import TableFormat
from brokerless.typed.topic_type import Decoding

PROGRAM = Path(__file__).parent / "java" / "AvroReads.java"
NAMES = "abcdef"
Field = dict[str, Any]


@dataclass(slots=True)
class Seed:
    """``schemas``: of each night; ``records``: which of them wrote each value, the value, and after which night."""

    number: int
    schemas: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    records: list[tuple[int, dict[str, Any], int]] = field(default_factory=list[tuple[int, dict[str, Any], int]])

    @property
    def nights(self) -> int:
        return len(self.schemas)


def seed_of(number: int) -> Seed:
    """Schemas of two to five nights, and one to four values of each night, mostly by its schema."""
    dice, numbers = random.Random(number), count(1)
    found = Seed(number)
    top = [_new(dice, name, numbers) for name in dice.sample(NAMES, dice.randint(1, 4))]
    inner = [_new(dice, name, numbers) for name in dice.sample(NAMES, dice.randint(1, 3))]
    has_inner, dropped = dice.random() < 0.5, ({}, {})
    for night in range(dice.randint(2, 5)):
        if night:
            top = _evolved(dice, top, dropped[0], numbers)
            inner = _evolved(dice, inner, dropped[1], numbers) if dice.random() < 0.5 else inner
        fields = json.loads(json.dumps(top))
        if has_inner:
            own = {"type": "record", "name": "In", "fields": json.loads(json.dumps(inner))}
            fields.append({"name": "in", "type": own})
        found.schemas.append({"type": "record", "name": "R", "doc": str(night), "fields": fields})
        for nth in range(dice.randint(1, 4)):
            writer = night if nth == 0 or dice.random() < 0.6 else dice.randrange(night + 1)
            found.records.append((writer, _value(found.schemas[writer], numbers), night))
    return found


def _new(dice: random.Random, name: str, numbers: Iterator[int]) -> Field:
    kind = dice.choice(["long", "long", "string"])
    default: Any = -next(numbers) if kind == "long" else f"d{next(numbers)}"
    if dice.random() < 0.1:
        default = dice.choice([None, [1], "text" if kind == "long" else 5])
    return {"name": name, "type": kind, "default": default}


def _evolved(dice: random.Random, fields: list[Field], dropped: dict[str, str], numbers: Iterator[int]) -> list[Field]:
    """One or two changes: added, dropped, renamed with and without an alias, names shifted, swapped or reused, aliases
    of fields that were dropped, and aliases that are taken away. ``dropped``: types of those that were, by name."""
    found: list[Field] = json.loads(json.dumps(fields))
    for _ in range(dice.randint(1, 2)):
        free = [each for each in NAMES if each not in {own["name"] for own in found}]
        one = dice.choice(found)
        match dice.choice(["add", "drop", "rename", "rename", "reuse", "shift", "swap", "late", "forget", "plain"]):
            case "add" if free:
                found.append(_new(dice, dice.choice(free), numbers))
            case "drop" if len(found) > 1:
                found.remove(one)
                dropped[one["name"]] = one["type"]
            case "rename" if free:
                _rename(one, dice.choice(free))
            case "reuse" if free:
                old = one["name"]
                _rename(one, dice.choice(free))
                found.append(_new(dice, old, numbers))
            case "shift" if free and len(found) > 1:
                other = dice.choice([each for each in found if each is not one])
                _rename(other, (one["name"], _rename(one, dice.choice(free)))[0])
            case "swap" if len(found) > 1:
                other = dice.choice([each for each in found if each is not one])
                name = one["name"]
                _rename(one, other["name"])
                _rename(other, name)
            case "late" if of_type := [name for name, kind in dropped.items() if kind == one["type"]]:
                one["aliases"] = list(dict.fromkeys([*one.get("aliases", []), dice.choice(of_type)]))
            case "forget":
                one.pop("aliases", None)
            case "plain" if free:
                dropped[one["name"]] = one["type"]
                one["name"] = dice.choice(free)
                one.pop("aliases", None)
            case _:
                pass
    dice.shuffle(found)
    return found


def _rename(one: Field, name: str) -> None:
    aliases = [each for each in one.get("aliases", []) if each != name]
    one["aliases"] = list(dict.fromkeys([one["name"], *aliases]))
    one["name"] = name


def _value(schema: Mapping[str, Any], numbers: Iterator[int]) -> dict[str, Any]:
    def of(kind: Any) -> Any:
        if isinstance(kind, dict):
            return _value(kind, numbers)
        return next(numbers) if kind == "long" else f"s{next(numbers)}"

    return {each["name"]: of(each["type"]) for each in schema["fields"]}


def payload(seed: Seed, writer: int, value: dict[str, Any]) -> bytes:
    return avro(without(seed.schemas[writer], "default"), writer + 1, value)


def without(schema: dict[str, Any], name: str) -> dict[str, Any]:
    found = json.loads(json.dumps(schema))
    for each in _all_fields(found):
        each.pop(name, None)
    return found


def with_new_aliases(schema: dict[str, Any], schemas: Sequence[dict[str, Any]], at: int) -> dict[str, Any]:
    """A schema without the aliases that the same field had in the version before, which were applied to that."""
    if not at:
        return schema
    found = json.loads(json.dumps(schema))
    before = {each["name"]: each for each in schemas[at - 1]["fields"]}
    for fields, known in _pairs(found["fields"], before):
        for each in fields:
            earlier = known.get(each["name"], {}).get("aliases", ())
            each["aliases"] = [alias for alias in each.get("aliases", ()) if alias not in earlier]
    return found


def _pairs(fields: list[Field], before: Mapping[str, Field]) -> Iterator[tuple[list[Field], Mapping[str, Field]]]:
    """The fields of a record and those of an earlier one, and the same of the record within."""
    yield fields, before
    for each in fields:
        if isinstance(each["type"], dict):
            inner = before[each["name"]]["type"]["fields"]
            yield each["type"]["fields"], {own["name"]: own for own in inner}


def _all_fields(schema: Any) -> Iterator[Field]:
    for each in schema["fields"]:
        yield each
        if isinstance(each["type"], dict):
            yield from _all_fields(each["type"])


def wrong_defaults(schema: Any) -> list[str]:
    """The fields of a schema with a default that their type does not hold, as RECORD.FIELD."""
    own = {"long": int, "string": str}
    wrong = [
        each["name"] for each in schema["fields"]
        if "default" in each and not isinstance(each["default"], own[each["type"]])
    ]  # fmt: skip
    found = [f"{schema['name']}.{name}" for name in wrong]
    return found + [
        name for each in schema["fields"] if isinstance(each["type"], dict) for name in wrong_defaults(each["type"])
    ]


def mended(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with null as the default of fields that have a wrong one."""
    found = json.loads(json.dumps(schema))
    wrong = set(wrong_defaults(found))
    for record in (found, *(each["type"] for each in found["fields"] if isinstance(each["type"], dict))):
        for each in record["fields"]:
            if f"{record['name']}.{each['name']}" in wrong:
                each["type"], each["default"] = ["null", each["type"]], None
    return found


def by_java(seeds: Sequence[Seed]) -> Iterator[list[dict[str, Any]]]:
    """What Java reads of all values of each seed: by its schemas, and by those with the newest one mended."""
    lines: list[str] = []
    for seed in seeds:
        for writer, value, _ in seed.records:
            data = base64.b64encode(payload(seed, writer, value)[5:]).decode()
            for newest in (seed.schemas[-1], mended(seed.schemas[-1])):
                renaming = [*seed.schemas[:-1], newest]
                own = [json.dumps(with_new_aliases(each, seed.schemas, at)) for at, each in enumerate(renaming)]
                own[writer] = json.dumps(without(seed.schemas[writer], "default"))  # which count where it is read
                reader = json.dumps(without(newest, "aliases"))
                lines.append(
                    json.dumps(
                        {
                            "schemas": own,
                            "writer": writer,
                            "payload": data,
                            "reader": reader,
                            "last": json.dumps(newest),
                        }
                    )
                )
    line = [java(), *QUICK, "-cp", class_path(), str(PROGRAM)]
    done = subprocess.run(line, input="\n".join(lines).encode(), capture_output=True, timeout=600, check=False)
    answers = iter([json.loads(each) for each in check(done).splitlines()])
    for seed in seeds:
        yield [{"own": next(answers), "mended": next(answers)["chained"]} for _ in seed.records]


def flat(value: Any, path: str = "") -> dict[str, Any]:
    """The fields of a value that are no records, by their paths."""
    found: dict[str, Any] = {}
    for name, each in (value or {}).items():
        found |= flat(each, f"{path}{name}.") if isinstance(each, dict) else {f"{path}{name}": each}
    return found


def run(seed: Seed, form: TableFormat, directory: Path) -> tuple[Rows, Rows, list[Finding]]:
    """The tables of one run, and of one each night; findings are those of the one."""
    source, schemas = directory / "orders-0", directory / "schemas"
    is_one_subject = seed.number % 2 == 0
    findings: list[Finding] = []
    for night in range(seed.nights):
        own = [payload(seed, writer, value) for writer, value, own in seed.records if own == night]
        log_of(source, own, first=sum(each < night for *_, each in seed.records))
        schemas.mkdir(exist_ok=True)
        if is_one_subject:
            lines = [_registered(each, number) for number, each in enumerate(seed.schemas[: night + 1], 1)]
            (schemas / "schemas.jsonl").write_text("\n".join(lines))
        else:
            (schemas / f"{night + 1}.avsc").write_text(json.dumps(seed.schemas[night]))
        where = str(schemas / "schemas.jsonl" if is_one_subject else schemas)
        exported(source, directory / "nights", form, [], decoding=Decoding(where))
    exported(source, directory / "once", form, findings, decoding=Decoding(where))
    return table(directory / "once", "orders", form), table(directory / "nights", "orders", form), findings


def _registered(schema: dict[str, Any], number: int) -> str:
    key = {"keytype": "SCHEMA", "subject": "orders-value", "version": number, "magic": 1}
    value = {"subject": "orders-value", "version": number, "id": number, "schema": json.dumps(schema), "deleted": False}
    return json.dumps({"key": json.dumps(key), "value": json.dumps(value)})


def _is_same(own: Any, theirs: Any) -> bool:
    """Numbers are text in a column that has text as well."""
    return own == theirs or (isinstance(theirs, int) and own == str(theirs))


def _reason(error: str) -> str:
    for text, reason in (("Duplicate field", "two fields of one name"), ("expecting", "two types of one name")):
        if text in error:
            return reason
    raise WrongError(f"Java: {error}")


class WrongError(AssertionError):
    """What is not as it should be, and in which seed."""


def compare(seed: Seed, answers: Sequence[dict[str, Any]], once: Rows, nights: Rows, counts: Counter[str]) -> None:
    """Raises :class:`WrongError`."""
    newest = seed.schemas[-1]
    paths = list(flat(_value(newest, count())))
    wrong = wrong_defaults(newest)
    of_one: dict[str, set[str]] = {}
    filled: list[tuple[str, str, Any]] = []
    for offset, ((writer, value, night), java_, row, other) in enumerate(
        zip(seed.records, answers, once, nights, strict=True)
    ):
        what = f"seed {seed.number} offset {offset} writer {writer + 1}"
        found, nightly = flat(row["value"]), flat(other["value"])
        written = {str(each) for each in flat(value).values()}  # fields of one name and two types are one of text
        columns = {str(each): path for path, each in found.items() if each is not None}
        own, chained = java_["own"], java_["mended"]
        counts["values"] += 1
        for held, name in ((found, "once"), (nightly, "nights")):
            if name == "nights" and " does not fit into " in (other["valueError"] or ""):
                counts["of another type than the nights' column"] += 1
                if other["valueRaw"] != payload(seed, writer, value):
                    raise WrongError(f"{what}: the bytes of a value that does not fit are not there")
                continue
            if lost := written - {str(each) for each in held.values()}:
                raise WrongError(f"{what}: {name}: lost {lost}: {held}")
        if "error" in chained:
            counts[f"Java cannot read: {_reason(chained['error'])}"] += 1
        else:
            theirs = flat(chained["value"])
            if not all(_is_same(found.get(path), theirs[path]) for path in paths):
                raise WrongError(f"{what}: {found}, and Java has {theirs}")
            counts["as Java reads"] += 1
            counts["as Java reads by the newest alone"] += flat(own["direct"].get("value")) == theirs
            is_refused = "error" in own["chained"]
            if is_refused != (row["valueError"] is not None):
                raise WrongError(f"{what}: {row['valueError']!r}, and Java: {own['chained']}")
            if is_refused:
                counts["wrong defaults"] += 1
                if not any(f"the default of {name} in the schema" in row["valueError"] for name in wrong):
                    raise WrongError(f"{what}: {row['valueError']!r} names none of {wrong}")
        for path, each in nightly.items():
            if str(each) in written:
                of_one.setdefault(path, set()).add(columns[str(each)])
            elif each is not None and night == seed.nights - 1:
                filled += [(path, name, found) for name in found if str(found[name]) in written]
    mixed = {path: each for path, each in of_one.items() if len(each) > 1}
    if mixed:
        raise WrongError(f"seed {seed.number}: columns of nights have those of several of the one run: {mixed}")
    for path, name, found in filled:
        if of_one.get(path) == {name}:
            raise WrongError(
                f"seed {seed.number}: nights: {path} has a default, and the one run what was written: {found}"
            )
    split = Counter(path for each in of_one.values() for path in each)
    counts["columns"] += len(split)
    counts["columns that are two of the nights' table"] += sum(each > 1 for each in split.values())


def campaign(numbers: Sequence[int]) -> tuple[Counter[str], list[str]]:
    """The counts, and what was wrong."""
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    seeds = [seed_of(number) for number in numbers]
    for seed, answers in zip(seeds, by_java(seeds), strict=True):
        for form in FORMATS:
            directory = Path(tempfile.mkdtemp(prefix="aliases-"))
            try:
                once, nights, _ = run(seed, form, directory)
                compare(seed, answers, once, nights, counts)
            except AssertionError as error:
                wrong.append(f"{form}: {error}")
            finally:
                shutil.rmtree(directory)
            counts["runs"] += seed.nights + 1
    counts["seeds"] = len(seeds)
    return counts, wrong


def main() -> int:
    seeds, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    counts, wrong = campaign(range(first, first + seeds))
    print(*wrong, sep="\n")
    print(", ".join(f"{number:,} {name}" for name, number in sorted(counts.items())), f"{len(wrong)} wrong", sep="; ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
