"""Clusters of three brokers and three controllers, killed, rebuilt in many ways, started, and compared.

``python -m tests.kafka.rebuild_cases DIRECTORY [--version 3.9.1] [CASE...]`` starts one cluster with topics of every
kind, configs, ACLs, users, quotas, delegation tokens, groups and transactions, kills all its nodes, and goes through
:data:`CASES` with copies of its disks. For each it prints what differs from before. ``--shell JARS`` lists what Kafka's
metadata shell, of a directory of jars, finds in what was written.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import brokerless
from brokerless.jobs.rebuild.plan import Rebuild
from tests.kafka.broker import KafkaBroker
from tests.kafka.cluster import Cluster
from tests.kafka.described import PASSWORD, USER, Known, described
from tests.kafka.jars import NEWEST, OLD_FORMATS, check, command, jars, java
from tests.kafka.live import some_records
from tests.kafka.oracle import dump
from tests.kafka.producers import produce_confluent
from tests.kafka.rebuilt import (
    ALL,
    SCRAM,
    complaints,
    differences,
    goes_on,
    mapping,
    nodes_of,
    running,
    visible_topics,
)

METADATA = "__cluster_metadata-0"
KEY = {"delegation.token.secret.key": "a-secret-key-of-all-nodes"}
SNAPSHOTS = {"metadata.log.max.snapshot.interval.ms": "3000", "metadata.max.idle.interval.ms": "500"}
SASL = {
    **SCRAM,
    **KEY,
    **SNAPSHOTS,
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
}


@dataclass
class Source:
    """A killed cluster, what its own tools said, and where its copies go."""

    root: Path
    version: str
    known: Known
    said: dict[str, str] = field(default_factory=dict[str, str])
    shell: Path | None = None
    token_differs: list[str] = field(default_factory=list[str])
    """What kept the token from being used before: 3.9.1 itself refuses it here."""

    def copies(self, name: str, disks: Sequence[Path]) -> list[Path]:
        return [shutil.copytree(each, self.root / name / each.name) for each in disks]


def tool(main: str, *arguments: str) -> str:
    """What a tool of 3.9 or 4.3 prints; they ask brokers of all versions. Lines are sorted."""
    (old,) = jars(OLD_FORMATS).glob(f"kafka-clients-{OLD_FORMATS}.jar")
    is_old = main == "kafka.admin.ConfigCommand"
    line = command(main, *arguments, version=OLD_FORMATS) if is_old else command(main, *arguments, classes=old)
    done = subprocess.run(line, capture_output=True, timeout=120, check=False)
    return check(done).decode()


def ask_tools(broker: KafkaBroker, sasl: str, root: Path) -> dict[str, str]:
    """Quotas and delegation tokens, which librdkafka cannot ask for."""
    at = ("--bootstrap-server", broker.bootstrap, "--describe")
    quotas = tool("kafka.admin.ConfigCommand", *at, "--entity-type", "users")
    clients = tool("kafka.admin.ConfigCommand", *at, "--entity-type", "clients")
    brokers = tool("kafka.admin.ConfigCommand", *at, "--entity-type", "brokers", "--entity-default")
    login = login_file(root / "alice.properties", USER, PASSWORD)
    of_user = ("--owner-principal", f"User:{USER}")  # without it, the tool of 4.3 describes none
    tokens = tool(TOKENS, "--describe", *of_user, "--bootstrap-server", sasl, "--command-config", login)
    found = {"user quotas": quotas, "client quotas": clients, "broker settings": brokers, "tokens": tokens}
    return {name: "\n".join(sorted(text.splitlines())) for name, text in found.items()}


TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"


def login_file(file: Path, user: str, password: str, *, is_token: bool = False) -> str:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    more = ' tokenauth="true"' if is_token else ""
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        f'sasl.jaas.config={module} username="{user}" password="{password}"{more};\n'
    )
    return str(file)


def fill_more(cluster: Cluster, source: Source) -> None:
    """Topics of other kinds, quotas, a broker's setting, a token, and an idempotent producer."""
    cluster.create_topic("compacted", [[1, 3], [2, 1]], cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    cluster.create_topic("append-time", [[3, 2, 1]], message_timestamp_type="LogAppendTime")
    cluster.create_topic("small-segments", [[2, 3]], segment_ms="100", **{"max_message_bytes": "300000"})
    cluster.create_topic("empty", [[1], [2], [3]])
    for seed in range(4):
        keyed = [each for each in some_records(seed, 80, 2) if each.key is not None]
        produce_confluent(cluster.alive, "compacted", keyed, "gzip", acks=-1)
        produce_confluent(cluster.alive, "append-time", some_records(seed, 30), "snappy", enable_idempotence=True)
        produce_confluent(cluster.alive, "small-segments", some_records(seed, 60, largest=900), "lz4", acks=-1)
        time.sleep(0.3)
    at = ("--bootstrap-server", cluster.alive.bootstrap, "--alter", "--add-config")
    tool(
        "kafka.admin.ConfigCommand", *at, "producer_byte_rate=12345678", "--entity-type", "users", "--entity-name", USER
    )
    tool("kafka.admin.ConfigCommand", *at, "request_percentage=50", "--entity-type", "clients", "--entity-default")
    tool("kafka.admin.ConfigCommand", *at, "log.cleaner.threads=2", "--entity-type", "brokers", "--entity-default")
    sasl = cluster.brokers[1].sasl
    login = login_file(source.root / "alice.properties", USER, PASSWORD)
    arguments = ("--create", "--max-life-time-period", "-1", "--bootstrap-server", sasl, "--command-config", login)
    tool(TOKENS, *arguments)
    time.sleep(1)  # until brokers know the token
    source.said = ask_tools(cluster.alive, sasl, source.root)
    source.token_differs = token_differences(source, sasl)
    print("with the token, before:", source.token_differs or "logs in", flush=True)
    time.sleep(4)  # a snapshot of all that comes


def started(source: Source, name: str, rebuilt: Rebuild, **how: Any) -> list[str]:
    """Starts the nodes, and returns what differs from before."""
    if not rebuilt.is_applied:
        return ["it was not written"]
    wrong = [f"rebuild says {each}" for each in rebuilt.findings if each.severity == "error"]
    snapshots = list((Path(rebuilt.directories[0].path) / METADATA).glob("*.checkpoint"))
    if not dump(snapshots, "--cluster-metadata-decoder"):
        wrong.append("Kafka's dump tool reads nothing")
    if source.shell is not None:
        wrong += shell_differences(source, snapshots[0])
    more = {each.replace(".", "_"): value for each, value in KEY.items()}
    nodes = nodes_of(source.root / name, rebuilt, source.version, **more)
    says = how.pop("says", source.said)
    with running(nodes) as broker:
        wrong += differences(broker, source.known, **how)
        sasl = next((each.sasl for each in nodes if each.sasl), "")
        if sasl and says:
            if visible_topics(sasl) != {"orders"}:
                wrong.append(f"the user sees {visible_topics(sasl)}")
            found = ask_tools(broker, sasl, source.root)
            wrong += [f"{each}: {says[each]} before, {found[each]} now" for each in says if says[each] != found[each]]
            wrong += [each for each in token_differences(source, sasl) if not source.token_differs]
        goes_on(broker)
    return wrong + complaints(nodes)


def token_differences(source: Source, sasl: str) -> list[str]:
    """Logs in with the token of the killed cluster."""
    line = next((each for each in source.said["tokens"].splitlines() if f"User:{USER}" in each), "")
    if not line:
        return [f"there was no token: {source.said['tokens']}"]
    token, hmac, *_ = line.split()
    login = login_file(source.root / "token.properties", token, hmac, is_token=True)
    arguments = ("--list", "--bootstrap-server", sasl, "--command-config", login)
    try:
        topics = tool("org.apache.kafka.tools.TopicCommand", *arguments)
    except RuntimeError as error:
        return [f"the token does not log in: {error}"[:300]]
    return [] if topics.split() == ["orders"] else [f"with the token there are {topics.split()}"]


def shell_differences(source: Source, snapshot: Path) -> list[str]:
    """What Kafka's metadata shell finds in a snapshot, beside the topics' names and ids."""
    assert source.shell is not None
    path = f"{jars()}/*:{source.shell}/*"  # there is none of 4.4; that of 4.3 reads with the classes of 4.4
    found: list[str] = []
    for where in ("/image/topics/byName", "/image/acls/byId", "/image/scram", "/image/clientQuotas"):
        line = [java(), "-cp", path, "org.apache.kafka.shell.MetadataShell", "--snapshot", str(snapshot), "ls", where]
        done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
        print(f"  metadata shell, ls {where}: {' '.join(done.stdout.split()) or done.stderr[-300:]}")
        if where.endswith("byName") and not source.known.topic_ids.keys() <= set(done.stdout.split()):
            found.append(f"the metadata shell has other topics: {done.stdout} {done.stderr[-300:]}")
    return found


def controllers_deleted(source: Source) -> list[str]:
    """The old brokers and voters, at their old addresses, with new, empty controllers: six processes."""
    disks = source.copies("controllers-deleted", source.known.disks)
    return started(source, "controllers-deleted", brokerless.rebuild(disks, disks[0].parent / "to", apply=True))


def one_voter(source: Source) -> list[str]:
    """One voter of three is left; its brokers and it get other ports, and it is the only voter."""
    disks = source.copies("one-voter", [*source.known.disks, source.known.controllers[1]])
    nodes = mapping(source.root / "one-voter.json", (1, 2, 3), (101,))
    rebuilt = brokerless.rebuild(disks, source.root / "one-voter" / "to", mapping=nodes, quorum="dynamic", apply=True)
    return started(source, "one-voter", rebuilt)


def other_ids(source: Source) -> list[str]:
    """Brokers get other ids and addresses, with static voters that are new; disks are used in place."""
    disks = source.copies("other-ids", source.known.disks)
    ids = {1: 31, 2: 12, 3: 23}
    nodes = mapping(
        source.root / "other-ids.json", list(ids.values()), (200, 201, 202), {new: old for old, new in ids.items()}
    )
    rebuilt = brokerless.rebuild(
        disks, source.root / "other-ids" / "to", mapping=nodes, quorum="static", data="in-place", apply=True
    )
    replicas = {place: [ids[each] for each in old] for place, old in source.known.replicas.items()}
    return started(source, "other-ids", rebuilt, replicas=replicas)


def directories_alone(source: Source) -> list[str]:
    """Nothing of the metadata is left, nor meta.properties: topics, records and groups by the directories."""
    disks = source.copies("directories-alone", source.known.disks)
    for each in disks:
        shutil.rmtree(each / METADATA)
        (each / "meta.properties").unlink()
    nodes = json.loads(mapping(source.root / "alone.json", (1, 2, 3), (1,)).read_text())
    for node, disk in zip(nodes["nodes"], disks, strict=True):
        node["disks"] = [str(disk)]
    (source.root / "alone.json").write_text(json.dumps(nodes))
    rebuilt = brokerless.rebuild(
        disks, source.root / "directories-alone" / "to", mapping=source.root / "alone.json",
        cluster_id=source.known.cluster_id, apply=True,
    )  # fmt: skip
    print("  lost:", "; ".join(rebuilt.lost))
    replicas = {place: sorted(old) for place, old in source.known.replicas.items()}
    compared = [each for each in ALL if each not in ("configs", "acls", "users", "replicas")]
    wrong = started(source, "directories-alone", rebuilt, compared=compared, replicas=replicas, says={})
    return [each for each in wrong if "topic-settings-lost" not in each]  # which is to be said


def edited_tables(source: Source) -> list[str]:
    """The state is what ``internals --json`` prints of a backup, with a setting changed and an ACL added by hand."""
    disks = source.copies("edited-tables", source.known.disks)
    line = [sys.executable, "-m", "brokerless", "internals", str(disks[0] / METADATA), "--json"]
    rows = [json.loads(row) for row in subprocess.run(line, capture_output=True, check=True).stdout.splitlines()]
    for row in rows:
        if row.get("table") == "configs" and (row["resourceName"], row["name"]) == ("orders", "retention.ms"):
            row["value"] = "864000000000"
    acl = next(row for row in rows if row.get("table") == "acls")
    rows.append({**acl, "id": "A" * 21 + "g", "resourceName": "payments"})
    file = source.root / "edited.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for each in disks:
        shutil.rmtree(each / METADATA)
    nodes = mapping(source.root / "edited.json", (1, 2, 3), (1, 2, 3))
    rebuilt = brokerless.rebuild(
        disks, source.root / "edited-tables" / "to", mapping=nodes, state=file, quorum="dynamic", apply=True
    )
    configs = {**source.known.configs}
    configs["orders"] = {**configs["orders"], "retention.ms": "864000000000"}
    acls = {*source.known.acls, ("payments", f"User:{USER}")}
    return started(source, "edited-tables", rebuilt, configs=configs, acls=acls, says={})


def cut_and_corrupt(source: Source) -> list[str]:
    """On all disks, the metadata log ends within its last batch, and the newest snapshot is corrupt."""
    disks = source.copies("cut-and-corrupt", source.known.disks)
    for each in disks:
        log = max((each / METADATA).glob("*.log"))
        (partition,) = brokerless.open(log).partitions
        last = [row for batch in partition.batches(["position", "sizeInBytes"]) for row in batch.to_pylist()][-1]
        log.write_bytes(log.read_bytes()[: last["position"] + last["sizeInBytes"] // 2])
        snapshots = sorted((each / METADATA).glob("*.checkpoint"))
        data = bytearray(snapshots[-1].read_bytes())
        data[len(data) // 2] ^= 0xFF
        snapshots[-1].write_bytes(data)
    nodes = mapping(source.root / "cut.json", (1, 2, 3), (1, 2, 3))
    rebuilt = brokerless.rebuild(disks, source.root / "cut-and-corrupt" / "to", mapping=nodes, data="link", apply=True)
    kinds = sorted({each.kind for each in rebuilt.findings})
    print("  findings:", kinds)
    wrong = started(source, "cut-and-corrupt", rebuilt)
    return [each for each in wrong if not re.match("rebuild says .*(metadata)", each)]


def only_described(source: Source) -> list[str]:
    """What ``cluster`` makes of the disks is what the cluster said of itself."""
    known, disks = source.known, [*source.known.disks, *source.known.controllers]
    found = brokerless.cluster(disks)
    (row,) = found.rows["cluster"]
    partitions = {(each["topic"], each["partition"]): each for each in found.rows["partitions"]}
    configs = {
        topic: {
            each["name"]: each["value"]
            for each in found.rows["configs"]
            if (each["resourceType"], each["resourceName"]) == ("topic", topic)
        }
        for topic in known.topic_ids
    }
    pairs = {
        "cluster id": (found.cluster_id, known.cluster_id),
        "voters": (sorted(row["voters"]), [100, 101, 102]),
        "topics": ({each["topic"]: each["topicId"] for each in found.rows["topics"]}, known.topic_ids),
        "replicas": ({at: each["replicas"] for at, each in partitions.items()}, known.replicas),
        "ends": ({at: each["endOffset"] for at, each in partitions.items()}, known.end_offsets),
        "configs": (configs, known.configs),
        "users": ([each["name"] for each in found.rows["users"]], [USER]),
        "disks": ([each["disks"] for each in found.rows["nodes"]], [[str(each)] for each in disks]),
    }
    print(f"  kraft.version {row['kraftVersion']}, metadata.version {row['metadataVersion']}")
    wrong = [f"{name}: {ours}, and not {theirs}" for name, (ours, theirs) in pairs.items() if ours != theirs]
    return wrong + list(map(str, found.findings))


CASES: dict[str, Callable[[Source], list[str]]] = {
    "only-described": only_described,
    "controllers-deleted": controllers_deleted,
    "one-voter": one_voter,
    "other-ids": other_ids,
    "directories-alone": directories_alone,
    "edited-tables": edited_tables,
    "cut-and-corrupt": cut_and_corrupt,
}


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--version", default=NEWEST)
    parser.add_argument("--shell", type=Path, help="a directory with the jars of kafka-shell")
    parser.add_argument("--static", action="store_true", help="voters in each node's settings")
    given = parser.parse_args()
    given.directory.mkdir(parents=True, exist_ok=True)
    source = Source(given.directory, given.version, Known(), shell=given.shell)
    source.known = described(
        given.directory, is_dynamic=not given.static, version=given.version, settings=SASL,
        more=lambda cluster: fill_more(cluster, source),
    )  # fmt: skip
    for name in given.cases or CASES:
        print(f"{name}:", flush=True)
        try:
            wrong = CASES[name](source)
        except Exception as error:  # the other cases are to be tried, too
            wrong = [f"{type(error).__name__}: {error}"[:3000]]
        print("\n".join(f"  {each}" for each in wrong) or "  no difference", flush=True)


if __name__ == "__main__":
    main()
