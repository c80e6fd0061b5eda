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
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "src" / "brokerless" / "log" / "settings" / "definitions.json"
PROGRAM = Path(__file__).parent / "ConfigDefinitions.java"
BOUNDS_OR = re.compile(r"\[(-?[0-9]+),\.\.\.,(-?[0-9]+)\] or (-?[0-9]+)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directories", type=Path, nargs="+", metavar="DIRECTORY")
    TARGET.write_text(generate(parser.parse_args().directories))


def generate(directories: list[Path]) -> str:
    """The content of the file: JSON, a setting of a version a line."""
    versions = {version_of(each): definitions(each) for each in directories}
    kinds = {
        version: ",\n".join(f'"{kind}":{{\n{lines(rows)}\n}}' for kind, rows in of_version.items())
        for version, of_version in sorted(versions.items())
    }
    return "{\n" + ",\n".join(f'"{version}":{{\n{text}\n}}' for version, text in kinds.items()) + "\n}\n"


def version_of(directory: Path) -> str:
    found = {match[1] for each in directory.iterdir() if (match := re.fullmatch(r"kafka-clients-(.+)\.jar", each.name))}
    if len(found) != 1:
        raise SystemExit(f"{directory} has kafka-clients of versions {sorted(found)}; one version is needed")
    return found.pop()


def definitions(directory: Path) -> dict[str, list[dict[str, Any]]]:
    java = shutil.which("java")
    if java is None:
        raise SystemExit("there is no java in PATH")
    line = [java, "-cp", str(directory / "*"), str(PROGRAM)]
    return json.loads(subprocess.run(line, capture_output=True, text=True, check=True).stdout)


def lines(rows: list[dict[str, Any]]) -> str:
    return ",\n".join(f'"{each.pop("name")}":{json.dumps(plain(each), separators=(",", ":"))}' for each in rows)


def plain(row: dict[str, Any]) -> dict[str, Any]:
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
