"""DescribeCluster (0 to 2) and DescribeConfigs (1 to 4): the broker, and settings.

Settings are those that the cluster's metadata has: a topic's own, and those of brokers that were changed while they
ran. Those of a broker's ``server.properties``, and defaults, are not on its disks, and left out. Values of passwords
are not sent. Clusters are described to clients of brokers, not of controllers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from brokerless.log.settings.definitions import is_defined, is_password
from brokerless.serving.answers.metadata import CLUSTER_OPERATIONS, NOT_REQUESTED, is_topic_name
from brokerless.serving.context import Request, Serving
from brokerless.serving.protocol.errors import Error

TOPIC, BROKER, GROUP = 2, 4, 32
_SOURCES = {TOPIC: 1, BROKER: 2, GROUP: 8}
"""``DescribeConfigsResponse.ConfigSource``: dynamic settings of a topic, a broker, a group."""
_DEFAULT_BROKER = 3
_BROKERS = 1

Row = dict[str, Any]


async def answer_cluster(serving: Serving, request: Request) -> Row:
    """Describe the only broker."""
    body = request.body
    endpoints = body.get("endpointType", _BROKERS)
    if endpoints != _BROKERS:
        text = "the request was sent to an endpoint of type BROKER, but wants one of type CONTROLLER"
        return {"errorCode": Error.MISMATCHED_ENDPOINT_TYPE, "errorMessage": text}
    operations = CLUSTER_OPERATIONS if body["includeClusterAuthorizedOperations"] else NOT_REQUESTED
    return {
        "clusterId": serving.topics.cluster_id,
        "controllerId": serving.node_id,
        "brokers": [{"brokerId": serving.node_id, "host": serving.host, "port": serving.port, "rack": None}],
        "clusterAuthorizedOperations": operations,
    }


async def answer_configs(serving: Serving, request: Request) -> Row:
    """Return the settings that are known of each resource."""
    await serving.loaded()
    return {"results": [_resource(serving, each) for each in request.body["resources"]]}


def _resource(serving: Serving, wanted: Row) -> Row:
    type_, name = wanted["resourceType"], wanted["resourceName"]
    row = {"resourceType": type_, "resourceName": name}
    if type_ == TOPIC and name not in serving.topics.by_name:
        error = Error.UNKNOWN_TOPIC_OR_PARTITION if is_topic_name(name) else Error.INVALID_TOPIC_EXCEPTION
        return row | {"errorCode": error, "errorMessage": f"there is no topic {name!r}"}
    if type_ not in _SOURCES:
        return row | {
            "errorCode": Error.INVALID_REQUEST,
            "errorMessage": "settings of topics, brokers and groups are known",
        }
    cluster = serving.topics.cluster
    known = {} if cluster is None else cluster.configs
    settings = [(_SOURCES[type_], known.get((type_, name), {}))]
    if type_ == BROKER:
        settings = [(_DEFAULT_BROKER, known.get((BROKER, ""), {})), *(settings if name else [])]
    found = {
        setting: _setting(setting, value, source, type_)
        for source, values in settings
        for setting, value in _all(values)
    }
    keys = wanted["configurationKeys"]
    return row | {"configs": [each for setting, each in sorted(found.items()) if keys is None or setting in keys]}


def _all(values: Mapping[str, str]) -> list[tuple[str, str]]:
    return list(values.items())


def _setting(name: str, value: str, source: int, type_: int) -> Row:
    is_secret = type_ == BROKER and (is_password(name) or not is_defined("broker", name, "4.4.0"))
    return {
        "name": name,
        "value": None if is_secret else value,
        "readOnly": True,
        "configSource": source,
        "isSensitive": is_secret,
        "synonyms": [],
    }
