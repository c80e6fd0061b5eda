"""Writes what Kafka's message definitions say, as facts: of the records in its own topics, of control records, and of
the requests that ``serve`` answers, with their responses, each into a file.

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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[1] / "src" / "brokerless"
TARGET = PACKAGE / "internals" / "messages.json"
CONTROL_TARGET = PACKAGE / "format" / "messages" / "control.json"
REQUESTS_TARGET = PACKAGE / "serving" / "protocol" / "requests.json"

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

CONTROL = ("LeaderChangeMessage", "SnapshotHeaderRecord", "SnapshotFooterRecord", "KRaftVersionRecord", "VotersRecord")
"""Values of KRaft's control records."""

REQUESTS = (
    "Produce",
    "Fetch",
    "ListOffsets",
    "Metadata",
    "OffsetCommit",
    "OffsetFetch",
    "FindCoordinator",
    "JoinGroup",
    "Heartbeat",
    "LeaveGroup",
    "SyncGroup",
    "DescribeGroups",
    "ListGroups",
    "SaslHandshake",
    "ApiVersions",
    "CreateTopics",
    "DeleteTopics",
    "DeleteRecords",
    "InitProducerId",
    "OffsetForLeaderEpoch",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "EndTxn",
    "TxnOffsetCommit",
    "DescribeAcls",
    "CreateAcls",
    "DeleteAcls",
    "DescribeConfigs",
    "AlterConfigs",
    "AlterReplicaLogDirs",
    "DescribeLogDirs",
    "SaslAuthenticate",
    "CreatePartitions",
    "DeleteGroups",
    "ElectLeaders",
    "IncrementalAlterConfigs",
    "AlterPartitionReassignments",
    "ListPartitionReassignments",
    "OffsetDelete",
    "DescribeClientQuotas",
    "AlterClientQuotas",
    "DescribeUserScramCredentials",
    "AlterUserScramCredentials",
    "DescribeQuorum",
    "UpdateFeatures",
    "DescribeCluster",
    "DescribeProducers",
    "DescribeTransactions",
    "ListTransactions",
    "ConsumerGroupHeartbeat",
    "ConsumerGroupDescribe",
    "ListConfigResources",
    "DescribeTopicPartitions",
)
"""Requests that a client of a broker sends; those between brokers, of telemetry and of share and streams groups are not
answered."""

TYPES = {
    "coordinator-key": "key",
    "coordinator-value": "value",
    "metadata": "value",
    "data": "data",
    "request": "request",
    "response": "response",
}
KEPT = ("versions", "nullableVersions", "taggedVersions", "tag", "default")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    directory = parser.parse_args().directory
    TARGET.write_text(generate(directory))
    CONTROL_TARGET.write_text(generate_control(directory))
    REQUESTS_TARGET.write_text(generate_requests(directory))


def generate_control(directory: Path) -> str:
    """The content of the file of control records' values: JSON, a message a line."""
    (jar,) = directory.glob("kafka-clients-*.jar")
    found = {each["name"]: message(each, None) for each in definitions(jar) if each["name"] in CONTROL}
    return as_text(jar.stem.removeprefix("kafka-clients-"), [found[name] for name in CONTROL])


def generate_requests(directory: Path) -> str:
    """The content of the file of requests: JSON, a message a line; without versions that no broker advertises yet."""
    (jar,) = directory.glob("kafka-clients-*.jar")
    found: dict[tuple[int, str], dict[str, Any]] = {}
    for definition in definitions(jar):
        if definition["name"] in {f"{name}{kind}" for name in REQUESTS for kind in ("Request", "Response")}:
            kind = definition["type"]
            found[definition["apiKey"], kind] = message(definition, None) | {"kind": kind, "topic": None}
            if definition.get("latestVersionUnstable"):
                found[definition["apiKey"], kind]["isLatestUnstable"] = True
    for (key, _), each in found.items():
        first, _, last = each["validVersions"].partition("-")
        if found[key, "request"].get("isLatestUnstable"):
            each["validVersions"] = f"{first}-{int(last) - 1}"
    for each in found.values():
        each.pop("isLatestUnstable", None)
    return as_text(jar.stem.removeprefix("kafka-clients-"), [found[each] for each in sorted(found)])


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
    return as_text(versions.pop(), messages)


def as_text(version: str, messages: list[dict[str, Any]]) -> str:
    lines = ",\n".join(json.dumps(each, separators=(",", ":")) for each in messages)
    return f'{{"kafka":"{version}","messages":[\n{lines}\n]}}\n'


def jar_messages(jar: Path, topic: str | None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for definition in definitions(jar):
        is_record = topic is not None and definition["type"] != "data"
        if is_record or definition["name"] in EMBEDDED:
            found.append(message(definition, topic))
    return found


def definitions(jar: Path) -> Iterator[dict[str, Any]]:
    """The message definitions in a jar, by their names."""
    with zipfile.ZipFile(jar) as archive:
        for name in sorted(archive.namelist()):
            if re.fullmatch(r"(common/)?(message|metadata)/\w+\.json", name):
                yield json.loads(re.sub(r"^\s*//.*$", "", archive.read(name).decode(), flags=re.MULTILINE))


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
