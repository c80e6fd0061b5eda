"""The same random requests to a real broker and to ``serve``, on the same files: their answers are equal field by
field, without a login and as users with random ACLs.

``python -m tests.serving.differential 10000 SEED DIRECTORY`` sends any number, of a golden broker's directory. Requests
are encoded and answers decoded by Kafka's own classes. What may differ: hosts, ports and throttling, texts of errors,
the order of topics, operations that are authorized (those of who may only read), and where in a batch a response is cut
(ours end with a whole one).
"""

from __future__ import annotations

import base64
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

import brokerless
from brokerless.format.messages.layouts import ZERO_UUID, MessageField
from brokerless.internals.tables import state_rows
from brokerless.serving.answers.metadata import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from brokerless.serving.protocol.tables import apis
from tests.golden import broker_data
from tests.kafka.broker import KafkaBroker, free_ports
from tests.kafka.jars import HELPERS_OF_4, check, run

UNCHANGED = {
    "log.cleaner.enable": "false",
    "log.initial.task.delay.ms": "3600000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "3600000",
}
"""A broker that only serves: it compacts nothing, deletes nothing, and aborts nothing."""
WRITTEN = ("__consumer_offsets", "__transaction_state")
"""Topics that a broker writes to when it is asked."""
USER, PASSWORD = "reader", "old password"
LIMITED = ("first", "second", "third")
"""Users with ACLs, and the same password."""
SUPER = "super"
REVIVED = ("group-static", "group-new")
"""Groups of the golden broker whose members are still members when it starts again; here, they are gone."""
NEW_GROUPS = ("no-such-group", "another", "")
NAMES = {api.name: api for api in apis().values()}
UNKNOWN_ID = "MAAAAAAAQkyAAAAAAAAAAQ"

Row = dict[str, Any]


@dataclass(frozen=True)
class Place:
    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    epoch: int


@dataclass(frozen=True)
class Pair:
    """A broker, and ``serve`` on a copy of its directory."""

    copy: Path
    """What is served."""
    bootstraps: tuple[str, str]
    places: list[Place]
    groups: list[str]
    transactional_ids: list[str]
    broker: KafkaBroker
    logins: str
    """Where the broker takes logins."""
    has_login: bool = False
    """Then known groups commit nothing, as the broker is shared with who has not logged in."""

    @property
    def compacted(self) -> set[str]:
        """The names and IDs of compacted topics."""
        topics = [each for each in self.places if "compacted" in each.topic]
        return {name for each in topics for name in (each.topic, each.topic_id)}

    @property
    def known_groups(self) -> set[str]:
        return {*self.groups, *NEW_GROUPS}

    def exchange(self, requests: list[Row]) -> list[tuple[Any, Any]]:
        return [tuple(each) for each in exchange(self.bootstraps, requests)]  # pyright: ignore[reportReturnType]


def exchange(bootstraps: Sequence[str], requests: list[Row]) -> list[list[Any]]:
    """The answers of each endpoint to each request."""
    lines = "\n".join(json.dumps(each) for each in requests).encode()
    done = run("Exchange", *bootstraps, stdin=lines, helper=True, sources=HELPERS_OF_4)
    return [json.loads(line) for line in check(done).splitlines()]


def answers_of(bootstrap: str, requests: list[Row]) -> list[Any]:
    """The answers of one endpoint."""
    return [answer for (answer,) in exchange([bootstrap], requests)]


@contextmanager
def pair(directory: Path, data: Path, seed: int = 5) -> Iterator[Pair]:
    """Starts both on copies of a log directory; that of ``serve`` is made when the broker is ready."""
    with free_ports(1) as (port,):
        logins = f"127.0.0.1:{port}"
    broker = KafkaBroker(directory / "broker", UNCHANGED)
    listen_with_acls(broker, logins)
    shutil.copytree(data, broker.log_dir)
    with broker:
        wait_for_leaders(broker)
        add_users(broker)
        add_acls(broker, brokerless.open(data), seed)
        prepare(broker, {each.topic or "" for each in brokerless.open(data).paths})
        log = brokerless.open(copy_of(broker, directory / "copy"))
        with brokerless.serve(log.path) as server:
            places = [each for each in places_of(log, server) if each.topic not in WRITTEN]
            groups = [each for each in groups_of(log) if each not in REVIVED]
            names = [row["transactionalId"] for row in rows_of(log, "__transaction_state", "transactionalIds")]
            bootstraps = broker.bootstrap, server.bootstrap_servers
            yield Pair(Path(log.path), bootstraps, places, groups, names, broker, logins)


@contextmanager
def as_user(both: Pair, directory: Path, user: str) -> Iterator[Pair]:
    """Both with a user logged in: the broker, and ``serve`` on a copy of what it has now."""
    copy = copy_of(both.broker, directory)
    with brokerless.serve(copy, cluster_users=True, super_users=[SUPER], on_damage=lambda _: None) as server:
        bootstraps = (f"{user}:{PASSWORD}@{both.logins}", f"{user}:{PASSWORD}@{server.bootstrap_servers}")
        yield replace(both, copy=copy, bootstraps=bootstraps, has_login=True)


def listen_with_acls(broker: KafkaBroker, logins: str) -> None:
    """Who does not log in is a super user, as are the broker itself and its controller."""
    lines = broker.properties.read_text().splitlines()
    settings = dict(line.partition("=")[::2] for line in lines)
    settings["listeners"] += f",SASL://{logins}"
    settings["advertised.listeners"] += f",SASL://{logins}"
    settings["listener.security.protocol.map"] += ",SASL:SASL_PLAINTEXT"
    settings["inter.broker.listener.name"] = "PLAINTEXT"
    settings["sasl.enabled.mechanisms"] = "SCRAM-SHA-256"
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    settings["listener.name.sasl.scram-sha-256.sasl.jaas.config"] = f"{module} required;"
    settings["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    settings["super.users"] = f"User:ANONYMOUS;User:{SUPER}"
    broker.properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))


def add_users(broker: KafkaBroker) -> None:
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    users = [UserScramCredentialUpsertion(each, credential, PASSWORD.encode()) for each in (USER, SUPER, *LIMITED)]
    admin = broker.admin()  # kept alive until its futures are done
    for future in admin.alter_user_scram_credentials(users).values():
        future.result(30)


def add_acls(broker: KafkaBroker, log: brokerless.Log, seed: int) -> None:
    """Random ones of all kinds; :data:`USER` may describe all topics."""
    chosen = random.Random(seed)
    topics = sorted({each.topic or "" for each in log.paths})
    names = {
        ResourceType.TOPIC: topics,
        ResourceType.GROUP: [*groups_of(log), *filter(None, NEW_GROUPS)],
        ResourceType.TRANSACTIONAL_ID: [
            row["transactionalId"] for row in rows_of(log, "__transaction_state", "transactionalIds")
        ],
        ResourceType.BROKER: ["kafka-cluster"],
    }
    names = {type_: own or ["nothing"] for type_, own in names.items()}
    acls = {acl_of(ResourceType.TOPIC, "*", f"User:{USER}", AclOperation.DESCRIBE)}
    everything = {
        ResourceType.TOPIC: "READ READ WRITE DESCRIBE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS DELETE ALTER ALL",
        ResourceType.GROUP: "READ READ DESCRIBE DELETE ALL DESCRIBE_CONFIGS",
        ResourceType.TRANSACTIONAL_ID: "DESCRIBE WRITE ALL",
        ResourceType.BROKER: "DESCRIBE DESCRIBE_CONFIGS ALTER ALTER_CONFIGS CREATE",
    }
    for _ in range(120):
        type_ = chosen.choice([ResourceType.TOPIC] * 4 + [ResourceType.GROUP] * 3 + list(names))
        name, is_prefix = chosen.choice(names[type_]), chosen.randrange(3) == 0 and type_ != ResourceType.BROKER
        if is_prefix:
            name = name[: chosen.randint(1, len(name))]
        elif type_ != ResourceType.BROKER and chosen.randrange(25) == 0:
            name = "*"
        user = chosen.choice([*LIMITED, *LIMITED, "*", "nobody"])
        is_denied = chosen.randrange(5) == 0 and name != "*"
        operation = AclOperation[chosen.choice(everything[type_].split())]
        host = chosen.choice(["*", "*", "*", "127.0.0.1", "10.1.2.3"])
        acls.add(acl_of(type_, name, f"User:{user}", operation, host, is_prefix=is_prefix, is_denied=is_denied))
    admin = broker.admin()
    for future in admin.create_acls(list(acls)).values():
        future.result(30)


def prepare(broker: KafkaBroker, topics: set[str]) -> None:
    """Changes settings, of topics as far as they are there. The topics of groups and transactions are created when
    somebody looks for their coordinators, and groups of KIP-848 are a feature."""
    changed = {
        (4, ""): {"log.retention.ms": "9999999999999", "log.cleaner.threads": "2"},
        (4, "1"): {"log.cleaner.threads": "3", "log.roll.ms": "604800001"},
        (2, "codec-gzip"): {"retention.ms": "-1", "cleanup.policy": "compact, delete"},
        (2, "txn"): {"min.cleanable.dirty.ratio": "5e-1", "preallocate": "FALSE"},
        (32, "another"): {"consumer.session.timeout.ms": "50000"},
    }
    resources = [
        {
            "resourceType": type_,
            "resourceName": name,
            "configs": [{"name": each, "configOperation": 0, "value": value} for each, value in settings.items()],
        }
        for (type_, name), settings in changed.items()
        if type_ != 2 or name in topics
    ]
    asked = [
        request("UpdateFeatures", 2, {"featureUpdates": [{"feature": "group.version", "maxVersionLevel": 1}]}),
        request("IncrementalAlterConfigs", 1, {"resources": resources}),
        *(request("FindCoordinator", 4, {"coordinatorKeys": ["any"], "keyType": each}) for each in (0, 1)),
    ]
    lines, give_up = "\n".join(map(json.dumps, asked)).encode(), time.monotonic() + 60
    while time.monotonic() < give_up:
        done = run("Exchange", broker.bootstrap, stdin=lines, helper=True, sources=HELPERS_OF_4)
        (_,), (settings,), *found = map(json.loads, check(done).splitlines())
        assert [each["errorCode"] for each in settings["responses"]] == [0] * len(resources), settings
        if all(each["coordinators"][0]["errorCode"] == 0 for (each,) in found):
            return
        time.sleep(0.5)
    raise RuntimeError(broker.tail())


def acl_of(
    type_: ResourceType, name: str, user: str, operation: AclOperation, host: str = "*", *,
    is_prefix: bool = False, is_denied: bool = False,
) -> AclBinding:  # fmt: skip
    pattern = ResourcePatternType.PREFIXED if is_prefix else ResourcePatternType.LITERAL
    permission = AclPermissionType.DENY if is_denied else AclPermissionType.ALLOW
    return AclBinding(type_, name, pattern, user, host, operation, permission)


def wait_for_leaders(broker: KafkaBroker) -> None:
    """Until it leads all partitions, and has written their leader epochs."""
    admin, give_up = broker.admin(), time.monotonic() + 60
    while time.monotonic() < give_up:
        topics = admin.list_topics(timeout=10).topics.values()
        if all(partition.leader >= 0 for topic in topics for partition in topic.partitions.values()):
            time.sleep(1)
            return
        time.sleep(0.2)
    raise RuntimeError(broker.tail())


def copy_of(broker: KafkaBroker, target: Path) -> Path:
    """A copy of its directory; made again where a file went meanwhile."""
    for _ in range(20):
        try:
            return broker.copy_log_dir(target)
        except shutil.Error:
            shutil.rmtree(target)
            time.sleep(0.5)
    raise RuntimeError(broker.tail())


def places_of(log: brokerless.Log, server: Any) -> Iterator[Place]:
    asked = {"topics": None, "allowAutoTopicCreation": False, "includeTopicAuthorizedOperations": False}
    lines = json.dumps(request("Metadata", 13, asked)).encode()
    done = run("Exchange", server.bootstrap_servers, stdin=lines, helper=True, sources=HELPERS_OF_4)
    (answer,) = json.loads(check(done))
    for topic in answer["topics"]:
        for each in topic["partitions"]:
            partition = log.partition(topic["name"], each["partitionIndex"])
            yield Place(
                topic["name"], topic["topicId"], each["partitionIndex"], partition.start_offset or 0,
                partition.end_offset or 0, each["leaderEpoch"],
            )  # fmt: skip


def groups_of(log: brokerless.Log) -> list[str]:
    return sorted({row["group"] for row in rows_of(log, "__consumer_offsets", "offsets")})


def rows_of(log: brokerless.Log, topic: str, table: str) -> list[Row]:
    own = log.topic(topic).paths
    return state_rows(own, [table], lambda _: None)[table]


def request(name: str, version: int, body: Row) -> Row:
    api = NAMES[name]
    return {"key": api.key, "version": version, "body": filled(api.request.fields, version, body)}


def filled(fields: tuple[MessageField, ...], version: int, values: Row) -> Row:
    """All fields of a version, with defaults for those that are not given."""
    found: Row = {}
    for each in fields:
        if version not in each.versions:
            continue
        value = values.get(each.name, each.default)
        if each.type == "[]struct" and value is not None:
            value = [filled(each.fields, version, one) for one in value]
        elif each.type == "struct" and value is not None:
            value = filled(each.fields, version, value)
        if version not in each.tagged or value != each.default:
            found[each.name] = value
    return found


class Requests:
    """Random requests about what is there, what is near it, and what is not there."""

    def __init__(self, seed: int, pair: Pair) -> None:
        self.random, self.pair = random.Random(seed), pair

    def next(self) -> Row:
        name, make = self.random.choice(
            [
                *[("Fetch", self.fetch)] * 6,
                *[("ListOffsets", self.list_offsets)] * 4,
                *[("OffsetForLeaderEpoch", self.leader_epochs)] * 2,
                *[("Metadata", self.metadata)] * 2,
                ("DescribeTopicPartitions", self.topic_partitions),
                ("DescribeCluster", self.cluster),
                *[("DescribeConfigs", self.configs)] * 2,
                ("FindCoordinator", self.coordinator),
                ("OffsetFetch", self.offset_fetch),
                ("OffsetCommit", self.offset_commit),
                ("DescribeGroups", self.describe_groups),
                ("ListGroups", self.list_groups),
                ("Heartbeat", self.member),
                ("SyncGroup", self.member),
                ("LeaveGroup", self.leave),
                ("ConsumerGroupHeartbeat", self.consumer_heartbeat),
                ("ConsumerGroupDescribe", self.describe_consumer_groups),
                ("DescribeLogDirs", self.log_dirs),
                ("DescribeProducers", self.producers),
                ("ListTransactions", self.list_transactions),
                ("DescribeTransactions", self.describe_transactions),
                ("DescribeUserScramCredentials", self.users),
                ("DescribeClientQuotas", self.quotas),
                ("DescribeAcls", self.acls),
                ("DescribeQuorum", self.quorum),
                ("ListPartitionReassignments", lambda _: {"timeoutMs": 1000}),
                ("ListConfigResources", self.config_resources),
                ("JoinGroup", self.join),
            ]
        )
        versions = NAMES[name].versions
        version = self.random.choice(versions)
        return request(name, version, make(version))

    def place(self) -> Place:
        found = self.random.choice(self.pair.places)
        match self.random.randrange(20):
            case 0:
                return Place("no-such-topic", UNKNOWN_ID, found.partition, 0, 100, 0)
            case 1:
                return Place(found.topic, found.topic_id, 99, 0, 100, 0)
            case 2:
                return Place("not a name", "NAAAAAAAQkyAAAAAAAAAAQ", 0, 0, 0, 0)
            case _:
                return found

    def offset(self, place: Place) -> int:
        inside = self.random.randint(place.start, max(place.start, place.end))
        return self.random.choice(
            [inside] * 8 + [place.start, place.end, place.start - 1, place.end + 1, 0, 1 << 40, -1]
        )

    def epoch(self, place: Place) -> int:
        return self.random.choice([-1] * 5 + [place.epoch] * 4 + [place.epoch - 1, place.epoch + 1])

    def grouped(self, key: str, count: int, make: Callable[[Place], Row]) -> list[Row]:
        """Partitions by topic; each partition once."""
        topics: dict[tuple[str, str], dict[int, Row]] = {}
        for _ in range(self.random.choice([1, 1, 1, 2, 5, count])):
            place = self.place()
            topics.setdefault((place.topic, place.topic_id), {})[place.partition] = make(place)
        return [
            {key: name, "topicId": topic_id, "partitions": list(each.values())}
            for (name, topic_id), each in topics.items()
        ]

    def fetch(self, version: int) -> Row:
        most = self.random.choice([0, 1, 100, 1000, 5000, 1 << 20, (1 << 31) - 1])

        def one(place: Place) -> Row:
            fetched = self.random.choice([-1] * 20 + [0, place.epoch, place.epoch + 1])
            return {
                "partition": place.partition,
                "fetchOffset": self.offset(place),
                "partitionMaxBytes": self.random.choice([0, 1, 500, 3000, 1 << 20]),
                "currentLeaderEpoch": self.epoch(place),
                "lastFetchedEpoch": fetched,
            }

        return {
            "maxWaitMs": self.random.choice([0] * 20 + [20]),
            "minBytes": self.random.choice([0, 1, 1, 1000]),
            "maxBytes": most,
            "isolationLevel": self.random.randrange(2),
            "sessionEpoch": -1,
            "topics": self.grouped("topic", 20, one),
        }

    def list_offsets(self, version: int) -> Row:
        def one(place: Place) -> Row:
            times = [
                1_600_000_000_000 + self.random.randrange(1_100_000),
                1_650_000_000_000 + self.random.randrange(10**9),
            ]
            special = [*range(-8, 0), 0, 1, (1 << 63) - 1]
            timestamp = self.random.choice([*times * 3, *special, 1_795_230_000_000 + self.random.randrange(10**7)])
            return {
                "partitionIndex": place.partition,
                "timestamp": timestamp,
                "currentLeaderEpoch": self.epoch(place),
            }

        topics = self.grouped("name", 20, one)
        if self.random.randrange(20) == 0:
            topics[0]["partitions"] *= 2
        return {"isolationLevel": self.random.randrange(2), "topics": topics, "replicaId": -1, "timeoutMs": 1000}

    def leader_epochs(self, version: int) -> Row:
        def one(place: Place) -> Row:
            return {
                "partition": place.partition,
                "currentLeaderEpoch": self.epoch(place),
                "leaderEpoch": self.random.choice([-1, 0, 1, 2, 3, place.epoch, place.epoch + 1]),
            }

        return {"replicaId": -1, "topics": self.grouped("topic", 10, one)}

    def names(self) -> list[str]:
        return list(dict.fromkeys(self.place().topic for _ in range(self.random.randrange(5))))

    def metadata(self, version: int) -> Row:
        topics: list[Row] | None = [{"name": each} for each in self.names()]
        if version >= 12 and self.random.randrange(3) == 0:
            ids = {self.place().topic_id for _ in range(3)} - {ZERO_UUID}
            topics = [{"name": None, "topicId": each} for each in sorted(ids)]
        if version >= 1 and self.random.randrange(5) == 0:
            topics = None
        flags = ("allowAutoTopicCreation", "includeTopicAuthorizedOperations", "includeClusterAuthorizedOperations")
        return {"topics": topics, **{each: bool(self.random.randrange(2)) for each in flags}}

    def topic_partitions(self, version: int) -> Row:
        names, cursor = self.names(), None
        if self.random.randrange(3) == 0:
            cursor = {"topicName": self.place().topic, "partitionIndex": self.random.randrange(4)}
        limit = self.random.choice([0, 1, 2, 5, 2000, 1 << 30])
        return {"topics": [{"name": each} for each in names], "responsePartitionLimit": limit, "cursor": cursor}

    def cluster(self, version: int) -> Row:
        return {
            "includeClusterAuthorizedOperations": bool(self.random.randrange(2)),
            "endpointType": self.random.choice([1, 1, 2]),
            "includeFencedBrokers": bool(self.random.randrange(2)),
        }

    def configs(self, version: int) -> Row:
        """Of loggers, and of subscriptions of metrics, nothing is on disks."""

        def one() -> Row:
            names = {
                2: self.place().topic,
                4: self.random.choice(["1", "1", "", "5", "all"]),
                32: self.group(),
                16: "",
            }
            type_ = self.random.choice([2, 2, 2, 4, 4, 32, 16])
            keys = ["retention.ms", "log.retention.ms", "cleanup.policy", "consumer.session.timeout.ms", "none"]
            wanted = self.random.choice([None, None, [], self.random.sample(keys, 3)])
            return {"resourceType": type_, "resourceName": names[type_], "configurationKeys": wanted}

        resources = {(each["resourceType"], each["resourceName"]): each for each in (one() for _ in range(4))}
        return {"resources": list(resources.values()), "includeSynonyms": bool(self.random.randrange(2))}

    def group(self) -> str:
        return self.random.choice([*self.pair.groups, *NEW_GROUPS])

    def coordinator(self, version: int) -> Row:
        groups = [self.group() or "any" for _ in range(self.random.randrange(1, 4))]
        keys = {"key": groups[0], "coordinatorKeys": sorted(set(groups))}
        return {**keys, "keyType": self.random.choice([0, 0, 1])}

    def offset_fetch(self, version: int) -> Row:
        def topics() -> list[Row] | None:
            if version >= 2 and self.random.randrange(3) == 0:
                return None
            found = self.grouped("name", 5, lambda place: {"partitionIndex": place.partition})
            return [
                {"name": each["name"], "topicId": each["topicId"],
                 "partitionIndexes": [one["partitionIndex"] for one in each["partitions"]]}
                for each in found
            ]  # fmt: skip

        groups = [{"groupId": self.group(), "topics": topics()} for _ in range(self.random.randrange(1, 3))]
        return {**groups[0], "groups": groups, "requireStable": bool(self.random.randrange(2))}

    def offset_commit(self, version: int) -> Row:
        def one(place: Place) -> Row:
            return {
                "partitionIndex": place.partition,
                "committedOffset": self.random.randrange(100),
                "committedLeaderEpoch": self.random.choice([-1, 0, 3]),
                "committedMetadata": self.random.choice([None, "", "text", *largest]),
            }

        group = self.random.choice(NEW_GROUPS) if self.pair.has_login else self.group()
        largest = ["x" * 5000] * (group in self.pair.groups)
        is_member = self.random.randrange(3) == 0
        return {
            "groupId": group,
            "generationIdOrMemberEpoch": self.random.choice([0, 5]) if is_member else -1,
            "memberId": "somebody" if is_member else "",
            "topics": self.grouped("name", 3, one),
        }

    def describe_groups(self, version: int) -> Row:
        groups = sorted({self.group() for _ in range(self.random.randrange(4))})
        return {"groups": groups, "includeAuthorizedOperations": bool(self.random.randrange(2))}

    def list_groups(self, version: int) -> Row:
        states = self.random.choice([[], ["Empty"], ["stable"], ["Dead", "EMPTY"], ["nonsense"]])
        return {"statesFilter": states, "typesFilter": self.random.choice([[], ["classic"], ["consumer"]])}

    def member(self, version: int) -> Row:
        instance = self.random.choice([None, "instance"])
        return {"groupId": self.group(), "generationId": self.random.choice([-1, 0, 1]), "memberId": "somebody",
                "groupInstanceId": instance, "protocolType": "consumer", "protocolName": "range"}  # fmt: skip

    def leave(self, version: int) -> Row:
        members = [{"memberId": each} for each in self.random.choice([["a"], ["a", "b"], []])]
        return {"groupId": self.group(), "memberId": "somebody", "members": members}

    def consumer_heartbeat(self, version: int) -> Row:
        """Only what is refused, as that of :meth:`join`."""
        epoch = self.random.choice([-3, -2, -1, 0, 1, 5])
        return {
            "groupId": self.group(),
            "memberId": self.random.choice(["somebody"] if version == 0 or epoch else ["", "somebody"]),
            "memberEpoch": epoch,
            "instanceId": self.random.choice([None, None, "", "instance"]),
            "rebalanceTimeoutMs": -1 if epoch == 0 else self.random.choice([-1, 1000]),
            "subscribedTopicNames": self.random.choice([None, ["txn"]]),
            "serverAssignor": self.random.choice([None, None, "uniform", "range", "none"]),
            "topicPartitions": self.random.choice([None, []]),
        }

    def describe_consumer_groups(self, version: int) -> Row:
        groups = sorted({self.group() for _ in range(self.random.randrange(4))})
        return {"groupIds": groups, "includeAuthorizedOperations": bool(self.random.randrange(2))}

    def log_dirs(self, version: int) -> Row:
        found = self.grouped("topic", 5, lambda place: {"partition": place.partition})
        topics = [
            {"topic": each["topic"], "partitions": [one["partition"] for one in each["partitions"]]} for each in found
        ]
        return {"topics": topics}

    def producers(self, version: int) -> Row:
        found = self.grouped("name", 5, lambda place: {"partition": place.partition})
        topics = [
            {"name": each["name"], "partitionIndexes": [one["partition"] for one in each["partitions"]]}
            for each in found
        ]
        return {"topics": topics}

    def list_transactions(self, version: int) -> Row:
        return {
            "stateFilters": self.random.choice([[], [], ["Ongoing"], ["CompleteCommit", "CompleteAbort"], ["none"]]),
            "producerIdFilters": self.random.choice([[], [], [1006, 25]]),
            "durationFilter": self.random.choice([-1, -1, 0, 1000]),
            "transactionalIdPattern": self.random.choice([None, None, ".*-1", "t.*", "("]),
        }

    def describe_transactions(self, version: int) -> Row:
        return {"transactionalIds": self.random.sample([*self.pair.transactional_ids, "none", "another", ""], 3)}

    def users(self, version: int) -> Row:
        users = self.random.choice([None, [], [{"name": "nobody"}, {"name": USER}], [{"name": USER}, {"name": USER}]])
        return {"users": users}

    def quotas(self, version: int) -> Row:
        component = {"entityType": "user", "matchType": self.random.randrange(3), "match": None}
        component["match"] = "anybody" if component["matchType"] == 0 else None
        return {"components": self.random.choice([[], [component]]), "strict": bool(self.random.randrange(2))}

    def acls(self, version: int) -> Row:
        name = self.random.choice([None, None, self.place().topic, self.group() or "any", "*", "kafka-cluster"])
        return {
            "resourceTypeFilter": self.random.choice([1, 1, 2, 3, 4, 5]),
            "patternTypeFilter": self.random.choice([1, 2, 3, 4] if version else [3]),
            "operation": self.random.choice([1, 1, 3, 8]),
            "permissionType": self.random.choice([1, 1, 2, 3]),
            "resourceNameFilter": name,
            "principalFilter": self.random.choice([None, None, f"User:{LIMITED[0]}", "User:*"]),
            "hostFilter": self.random.choice([None, None, "*", "10.1.2.3"]),
        }

    def quorum(self, version: int) -> Row:
        topic, number = self.random.choice([("__cluster_metadata", 0)] * 3 + [("__cluster_metadata", 1), ("txn", 0)])
        return {"topics": [{"topicName": topic, "partitions": [{"partitionIndex": number}]}]}

    def config_resources(self, version: int) -> Row:
        return {"resourceTypes": self.random.choice([[], [2], [4, 8], [16, 32], [64]])}

    def join(self, version: int) -> Row:
        """Only what is refused: who is taken in gets a random name. A broker lists a new group later."""
        group, kind = self.group(), self.random.randrange(3)
        kind = kind if group in self.pair.groups else max(1, kind)
        protocols = [{"name": "range", "metadata": ""}] if kind else []
        return {
            "groupId": group,
            "sessionTimeoutMs": 1 if kind == 1 else 10_000,
            "rebalanceTimeoutMs": 1000,
            "memberId": "somebody" if kind == 2 else "",
            "protocolType": "consumer",
            "protocols": protocols,
        }


def difference(pair: Pair, asked: Row, theirs: Any, ours: Any) -> str | None:
    """What is not equal, as text; None if all is."""
    api = apis()[asked["key"]]
    if theirs is None and asked["body"].get("users", ()) is None:
        return None  # a broker ends the connection where all users are asked of by who may not know them
    if theirs is None or ours is None:
        return None if theirs is ours else f"{api.name}: {theirs} and {ours}"
    if api.name == "DescribeQuorum":
        theirs, ours = without_progress(theirs), without_progress(ours)
    if api.name == "DescribeConfigs":
        leave_out_properties(theirs, ours)
    if api.name == "Fetch":
        compare_records(theirs, ours, pair.compacted)
    one, other = (comparable(each, pair.known_groups) for each in (theirs, ours))
    if one == other:
        return None
    return "\n".join([f"{api.name} {asked['version']} {asked['body']}", *differing(one, other, "")])


def differing(one: Any, other: Any, place: str) -> Iterator[str]:
    """The places at which two answers differ."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        if any(not isinstance(one[key], dict | list) and one[key] != other[key] for key in one):
            yield f"  {place} = {shown({key: one[key] for key in one if key != 'records'})}"
        for key in one:
            yield from differing(one[key], other[key], f"{place}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (each, its) in enumerate(zip(one, other, strict=True)):
            yield from differing(each, its, f"{place}[{number}]")
    elif one != other:
        yield f"  {place}: {shown(one)} and {shown(other)}"


def shown(value: Any) -> str:
    text = str(value)
    return text if len(text) < 200 else f"{text[:200]}... ({len(text)} characters)"


def comparable(answer: Row, groups: set[str]) -> Row:
    plain = without(
        answer, {"throttleTimeMs", "host", "port", "errorMessage", "sessionId", "logDir", "totalBytes", "usableBytes"}
    )
    for row in rows_in(plain):
        for key, mine in (
            ("topicAuthorizedOperations", TOPIC_OPERATIONS),
            ("clusterAuthorizedOperations", CLUSTER_OPERATIONS),
            ("authorizedOperations", 1 << 3 | 1 << 8),
        ):
            if row.get(key, -1) > 0:
                row[key] &= mine
        if isinstance(row.get("groups"), list):
            row["groups"] = [each for each in row["groups"] if each["groupId"] in groups]
        for key in ("topics", "groups", "partitions", "responses", "transactionStates", "configResources", "results",
                    "resources", "acls", "coordinators"):  # fmt: skip
            if isinstance(row.get(key), list):
                row[key].sort(key=order)
    return plain


def leave_out_properties(theirs: Row, ours: Row) -> None:
    """Of what the ``server.properties`` of the broker says, ``serve`` knows nothing."""
    for one, other in zip(*(sorted(each["results"], key=order) for each in (theirs, ours)), strict=True):
        static = {each["name"] for each in one["configs"] if each["configSource"] == 4}
        for row in (one, other):
            row["configs"] = sorted((each for each in row["configs"] if each["name"] not in static), key=order)
        for each in one["configs"]:
            each["synonyms"] = [synonym for synonym in each["synonyms"] if synonym["source"] != 4]


def without_progress(answer: Row) -> Row:
    """A running quorum goes on writing, and knows who has fetched, and controllers' listeners."""
    return without(
        answer,
        {"highWatermark", "logEndOffset", "lastFetchTimestamp", "lastCaughtUpTimestamp", "nodes", "replicaDirectoryId"},
    )


_NAMES = ("name", "topic", "topicId", "groupId", "partition", "partitionIndex", "transactionalId",
          "resourceType", "resourceName", "user", "patternType",
          "principal", "host", "operation", "permissionType", "key")  # fmt: skip


def order(row: Any) -> list[str]:
    return [str(row.get(name)) for name in _NAMES] if isinstance(row, dict) else [f"{row:09}"]


def without(value: Any, names: set[str]) -> Any:
    if isinstance(value, dict):
        return {key: without(each, names) for key, each in value.items() if key not in names}
    return [without(each, names) for each in value] if isinstance(value, list) else value


def rows_in(value: Any) -> Iterator[Row]:
    if isinstance(value, dict):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from rows_in(each)


def compare_records(theirs: Row, ours: Row, compacted: set[str]) -> None:
    """Of their records, only whole batches count, and of aborted transactions those with batches among them."""
    for answer in (theirs, ours):
        for topic in answer["responses"]:
            name = {key: topic[key] for key in topic if key != "partitions"}
            topic["partitions"] = [{**name, **each} for each in topic["partitions"]]
        partitions = [each for topic in answer["responses"] for each in topic["partitions"]]
        answer["partitions"] = partitions
        del answer["responses"]
        for each, records in zip(partitions, answer.pop("records"), strict=True):
            whole, producers = whole_batches(records)
            each["records"] = (whole if answer is theirs else base64.b64decode(records)).hex()
            aborted = each["abortedTransactions"] or ()
            found = [one for one in aborted if one["firstOffset"] <= producers.get(one["producerId"], -1)]
            # Of a compacted transaction, a broker's index has more than is left of its records.
            if each.get("topic", each.get("topicId")) in compacted:
                found = []
            each["abortedTransactions"] = sorted(found, key=lambda one: (one["firstOffset"], one["producerId"]))


def whole_batches(text: str) -> tuple[bytes, dict[int, int]]:
    """The whole batches, and of each producer with transactional records the last of their base offsets."""
    data, at, producers = base64.b64decode(text), 0, dict[int, int]()
    while at + 17 <= len(data):
        size = 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        if at + size > len(data):
            break
        if data[at + 16] == 2 and data[at + 22] & 0x30 == 0x10:
            producers[int.from_bytes(data[at + 43 : at + 51], "big")] = int.from_bytes(data[at : at + 8], "big")
        at += size
    return data[:at], producers


def differences(pair: Pair, count: int, seed: int) -> Iterator[str]:
    requests = Requests(seed, pair)
    while count > 0:
        asked = [requests.next() for _ in range(min(count, 2000))]
        for one, (theirs, ours) in zip(asked, pair.exchange(asked), strict=True):
            text = difference(pair, one, theirs, ours)
            if text is not None:
                yield text
        count -= len(asked)


def main(count: int, seed: int, name: str = "clean") -> None:
    """As nobody, then as each of the users with ACLs."""
    with (
        tempfile.TemporaryDirectory() as directory,
        pair(Path(directory), data_of(name, Path(directory)), seed) as both,
    ):
        print_differences(f"{name}, without a login", both, count, seed)
        for user in (*LIMITED, SUPER):
            with as_user(both, Path(directory) / user, user) as own:
                print_differences(f"{name}, as {user}", own, count, seed)


def data_of(name: str, directory: Path) -> Path:
    """A golden broker's directory, with metadata of Kafka 4.4 where it is of times before KRaft."""
    data = broker_data(name)
    if not (data / "__cluster_metadata-0").exists():
        brokerless.rebuild(data, directory / "rebuilt", apply=True)
        (data,) = (directory / "rebuilt").iterdir()
    return data


def print_differences(who: str, both: Pair, count: int, seed: int) -> None:
    kinds = Counter[str]()
    for text in differences(both, count, seed):
        kinds[text.partition(" ")[0]] += 1
        if kinds[text.partition(" ")[0]] <= 5:
            print(text, flush=True)
    print(f"{who}: {count} requests, different: {dict(kinds) or 'none'}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 30), *sys.argv[3:4])
