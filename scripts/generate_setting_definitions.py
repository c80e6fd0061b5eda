"""Writes how Kafka defines topics' and brokers' settings, as facts, into one file: types, bounds, valid words
and defaults.

    python scripts/generate_setting_definitions.py DIRECTORY [DIRECTORY ...]

Each DIRECTORY holds the jars of a Kafka broker (``libs`` of a release), whose names have the version; a JDK 17 or
newer runs ``ConfigDefinitions.java`` with them, which asks ``LogConfig`` and ``KafkaConfig``. Names without any bound
are kept, as their type is checked; so are defaults, what brokers call theirs of a topic's setting (``synonyms``), and
which settings a running broker takes (``dynamic``) or names to nobody (``internal``). Descriptions are not.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "src" / "brokerless" / "log" / "settings" / "definitions.json"
PROGRAM = Path(__file__).parent / "ConfigDefinitions.java"
Definition = Mapping[str, Any]
BOUNDS_OR = re.compile(r"\[(-?[0-9]+),\.\.\.,(-?[0-9]+)\] or (-?[0-9]+)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directories", type=Path, nargs="+", metavar="DIRECTORY")
    TARGET.write_text(as_text({version_of(each): definitions(each) for each in parser.parse_args().directories}))


def as_text(of_versions: Mapping[str, Mapping[str, Mapping[str, Definition]]]) -> str:
    """The content of the file, of definitions by version, kind and name: JSON, a setting a line, with its definition by
    the first version that has it so; null for the first version without it."""
    versions = sorted(of_versions, key=lambda text: tuple(map(int, text.split("."))))
    kinds = {kind: None for version in versions for kind in of_versions[version]}
    texts = [
        f'"{kind}":{{\n{lines([of_versions[version].get(kind, {}) for version in versions], versions)}\n}}'
        for kind in kinds
    ]
    return f'{{\n"versions":{json.dumps(versions)},\n' + ",\n".join(texts) + "\n}\n"


def version_of(directory: Path) -> str:
    found = {match[1] for each in directory.iterdir() if (match := re.fullmatch(r"kafka-clients-(.+)\.jar", each.name))}
    if len(found) != 1:
        raise SystemExit(f"{directory} has kafka-clients of versions {sorted(found)}; one version is needed")
    return found.pop()


def definitions(directory: Path) -> dict[str, dict[str, Definition]]:
    java = shutil.which("java")
    if java is None:
        raise SystemExit("there is no java in PATH")
    line = [java, "-cp", str(directory / "*"), str(PROGRAM)]
    found = json.loads(subprocess.run(line, capture_output=True, text=True, check=True).stdout)
    return {kind: {row.pop("name"): plain(row) for row in rows} for kind, rows in found.items()}


def lines(by_version: list[dict[str, Definition]], versions: list[str]) -> str:
    names = sorted({name for each in by_version for name in each})
    return ",\n".join(f'"{name}":{changes([each.get(name) for each in by_version], versions)}' for name in names)


def changes(of_versions: list[Definition | None], versions: list[str]) -> str:
    found: dict[str, Definition | None] = {}
    last = None
    for version, definition in zip(versions, of_versions, strict=True):
        if definition != last:
            found[version] = last = definition
    return json.dumps(found, separators=(",", ":"))


def plain(row: dict[str, Any]) -> Definition:
    """A row without validators that have only words for people, but for bounds."""
    validator = row.pop("validator", "")
    match = BOUNDS_OR.fullmatch(validator)
    if match:
        row |= {"least": int(match[1]), "most": int(match[2]), "or": int(match[3])}
    elif validator.startswith("[partitionId]"):
        row["entries"] = r"[0-9]+:[0-9]+|\*"
    return row


if __name__ == "__main__":
    main()
