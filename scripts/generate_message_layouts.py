"""Writes what Kafka's message definitions say of the records in its own topics, as facts, into one file.

    python scripts/generate_message_layouts.py DIRECTORY

DIRECTORY holds the jars of a Kafka broker (``libs`` of a release): they carry the definitions, and the version in their
names. Field names, types, versions, tags and defaults are kept; descriptions are not. Kafka's definitions only grow, so
those of the newest version hold for all before it.
"""

from __future__ import annotations

import argparse
import json
import re
import zipfile
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "src" / "brokerless" / "internals" / "messages.json"

TOPICS = {
    "kafka-group-coordinator": "__consumer_offsets",
    "kafka-transaction-coordinator": "__transaction_state",
    "kafka-metadata": "__cluster_metadata",
    "kafka-share-coordinator": "__share_group_state",
    "kafka-storage": "__remote_log_metadata",
    "kafka-clients": None,
}
"""The topic whose records a jar defines."""

EMBEDDED = ("ConsumerProtocolAssignment", "ConsumerProtocolSubscription")
"""What clients put into a record of ``__consumer_offsets``."""

TYPES = {"coordinator-key": "key", "coordinator-value": "value", "metadata": "value", "data": "data"}
KEPT = ("versions", "nullableVersions", "taggedVersions", "tag", "default")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    TARGET.write_text(generate(parser.parse_args().directory))


def generate(directory: Path) -> str:
    """The content of the file: JSON, a message a line."""
    versions: set[str] = set()
    messages: list[dict[str, Any]] = []
    for jar in sorted(directory.glob("kafka-*.jar")):
        match = re.fullmatch(r"(kafka-[a-z-]+)-(\d+\.\d+\.\d+)\.jar", jar.name)
        if match and match[1] in TOPICS:
            versions.add(match[2])
            messages += jar_messages(jar, TOPICS[match[1]])
    if len(versions) != 1:
        raise SystemExit(f"{directory} has jars of Kafka {sorted(versions) or 'of no version'}; one version is needed")
    messages.sort(key=lambda each: (each["topic"] or "", each["kind"], each["apiKey"] or 0, each["name"]))
    lines = ",\n".join(json.dumps(each, separators=(",", ":")) for each in messages)
    return f'{{"kafka":"{versions.pop()}","messages":[\n{lines}\n]}}\n'


def jar_messages(jar: Path, topic: str | None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    with zipfile.ZipFile(jar) as archive:
        for name in sorted(archive.namelist()):
            if not re.fullmatch(r"(common/)?(message|metadata)/\w+\.json", name):
                continue
            definition = json.loads(re.sub(r"^\s*//.*$", "", archive.read(name).decode(), flags=re.MULTILINE))
            is_record = topic is not None and definition["type"] != "data"
            if is_record or definition["name"] in EMBEDDED:
                found.append(message(definition, topic))
    return found


def message(definition: dict[str, Any], topic: str | None) -> dict[str, Any]:
    structs = {each["name"]: each["fields"] for each in definition.get("commonStructs", ())}
    return {
        "topic": topic,
        "kind": TYPES[definition["type"]],
        "apiKey": definition.get("apiKey"),
        "name": definition["name"],
        "validVersions": definition["validVersions"],
        "flexibleVersions": definition["flexibleVersions"],
        "fields": [field(each, structs) for each in definition["fields"]],
    }


def field(definition: dict[str, Any], structs: dict[str, Any]) -> dict[str, Any]:
    """A field under the name that Kafka gives it in JSON; a structure that is used in several places is in each."""
    name, type_ = definition["name"], definition["type"]
    facts: dict[str, Any] = {"name": name[0].lower() + name[1:], "type": type_}
    facts |= {key: definition[key] for key in KEPT if definition.get(key) is not None}
    facts.setdefault("versions", facts.get("taggedVersions"))
    fields = definition.get("fields") or structs.get(type_.removeprefix("[]"))
    if fields is not None:
        facts["type"] = "[]struct" if type_.startswith("[]") else "struct"
        facts["fields"] = [field(each, structs) for each in fields]
    if "default" in facts:
        facts["default"] = default(facts["default"], facts["type"])
    return facts


def default(value: Any, type_: str) -> Any:
    """Definitions write one as they like: ``-1``, ``"-1"``, ``"0x7f"``, ``"null"``, ``"false"``; ``null`` is none."""
    if value == "null":
        return None
    if type_ == "bool":
        return value in (True, "true")
    if type_ == "string":
        return value
    return float(value) if type_ == "float64" else int(str(value), 0)


if __name__ == "__main__":
    main()
