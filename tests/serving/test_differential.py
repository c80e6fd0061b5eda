from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

import brokerless
from tests.kafka.broker import KafkaBroker, free_ports
from tests.require import require_ipv6
from tests.serving.differential import (
    LIMITED,
    NAMES,
    PASSWORD,
    SUPER,
    USER,
    Pair,
    Requests,
    acl_of,
    add_users,
    answers_of,
    as_user,
    differences,
    listen_with_acls,
    request,
)

pytestmark = pytest.mark.xdist_group("serving")


def test_answers_are_those_of_a_broker(both: Pair) -> None:
    assert list(differences(both, 600, 1)) == []


@pytest.mark.parametrize("user", [*LIMITED, SUPER])
def test_users_may_do_what_acls_allow(both: Pair, tmp_path: Path, user: str) -> None:
    with as_user(both, tmp_path / "copy", user) as pair:
        assert list(differences(pair, 400, LIMITED.index(user) if user in LIMITED else 9)) == []


def test_hosts_of_ipv6_in_acls_are_those_that_java_writes(kafka_jars: Path, tmp_path: Path) -> None:
    require_ipv6()
    with free_ports(1) as (port,):
        logins = f"[::1]:{port}"
    broker = KafkaBroker(tmp_path / "broker")
    listen_with_acls(broker, logins)
    user, topic, describe = f"User:{USER}", ResourceType.TOPIC, AclOperation.DESCRIBE
    acls = [acl_of(topic, each, user, describe) for each in ("denied", "denied-short")]
    for name, host in (("denied", "0:0:0:0:0:0:0:1"), ("denied-short", "::1")):
        acls.append(acl_of(topic, name, user, describe, host, is_denied=True))
    for name, host in (("allowed", "0:0:0:0:0:0:0:1"), ("allowed-short", "::1")):
        acls.append(acl_of(topic, name, user, describe, host))
    names = ["denied", "denied-short", "allowed", "allowed-short"]
    asked = request("Metadata", 4, {"topics": [{"name": each} for each in names]})
    with broker:
        add_users(broker)
        for each in names:
            broker.create_topic(each)
        admin = broker.admin()
        for future in admin.create_acls(acls).values():
            future.result(30)
        theirs = answers_of(f"{USER}:{PASSWORD}@{logins}", [asked])
    with brokerless.serve(broker.log_dir, listen="[::1]:0", cluster_users=True) as server:
        ours = answers_of(f"{USER}:{PASSWORD}@{server.bootstrap_servers}", [asked])
    found = [{row["name"]: row["errorCode"] for row in answer["topics"]} for answer in (*theirs, *ours)]
    assert found == [{"denied": 29, "denied-short": 0, "allowed": 0, "allowed-short": 29}] * 2


def test_the_requests_have_answers_with_records(both: Pair) -> None:
    requests = Requests(1, both)
    asked = [requests.next() for _ in range(600)]
    names = {api.key: name for name, api in NAMES.items()}
    assert len(Counter(names[each["key"]] for each in asked)) == 28
    fetched = [answer for one, (_, answer) in zip(asked, both.exchange(asked), strict=True) if one["key"] == 1]
    assert sum(bool(any(each["records"])) for each in fetched) > 50


def test_what_is_advertised_is_what_a_broker_answers(both: Pair) -> None:
    asked = request("ApiVersions", 4, {"clientSoftwareName": "any", "clientSoftwareVersion": "1"})
    ((theirs, ours),) = both.exchange([asked])
    known = {each["apiKey"]: each for each in theirs["apiKeys"]}
    assert all(known[each["apiKey"]] == each for each in ours["apiKeys"])
    assert {each["apiKey"] for each in ours["apiKeys"]} >= {
        0,
        1,
        2,
        3,
        8,
        9,
        10,
        11,
        12,
        13,
        14,
        15,
        16,
        18,
        23,
        32,
        60,
        75,
    }
    assert not {71, 72} & {each["apiKey"] for each in ours["apiKeys"]}


def test_requests_to_write_are_refused(both: Pair) -> None:
    topic = both.places[0]
    asked = [
        request("CreateTopics", 7, {"topics": [{"name": "new", "numPartitions": 1, "replicationFactor": 1}]}),
        request("DeleteTopics", 6, {"topics": [{"name": topic.topic}]}),
        request("InitProducerId", 5, {"transactionalId": "any", "transactionTimeoutMs": 1000}),
        request("DeleteGroups", 2, {"groupsNames": ["group-admin"]}),
        request("AddOffsetsToTxn", 3, {"transactionalId": "any", "groupId": "group-admin"}),
        request("CreatePartitions", 3, {"topics": [{"name": topic.topic, "count": 9, "assignments": None}]}),
        request("DeleteRecords", 2, {"topics": [{"name": topic.topic, "partitions": [{"partitionIndex": 0}]}]}),
    ]
    codes: list[int] = []
    for one in asked:
        ((answer,),) = replace(both, bootstraps=both.bootstraps[1:]).exchange([one])
        rows = next((each for each in answer.values() if isinstance(each, list)), [answer])
        codes.append(rows[0]["partitions"][0]["errorCode"] if "partitions" in rows[0] else rows[0]["errorCode"])
    assert codes == [44, 44, 31, 30, 31, 44, 29]
