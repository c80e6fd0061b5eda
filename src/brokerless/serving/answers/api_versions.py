"""ApiVersions (0 to 5): which requests are answered, in which versions.

What is not answered is not listed. Produce is, from version 0 on, although every request to write is refused:
librdkafka takes its message format from that (KAFKA-18659). A request of an unknown version is answered in version 0,
with the versions that are known (KIP-511). Left out: features, and the telemetry of clients.
"""

from __future__ import annotations

from collections.abc import Iterable

from brokerless.serving.context import Request, Serving
from brokerless.serving.protocol.errors import Error
from brokerless.serving.protocol.tables import Api
from brokerless.values import Row

PRODUCE, HANDSHAKE, API_VERSIONS = 0, 17, 18
_FIRST = {PRODUCE: 0, HANDSHAKE: 1}
"""The first version that is listed, where it is not the first that is known."""
_SINCE_CLUSTER_ID = 5


def versions_of(answered: Iterable[Api]) -> list[Row]:
    """Return the row of each kind of request."""
    return [
        {
            "apiKey": each.key,
            "minVersion": _FIRST.get(each.key, each.versions[0]),
            "maxVersion": each.versions[-1],
        }
        for each in sorted(answered, key=lambda each: each.key)
    ]


def unknown_version(answered: Iterable[Api]) -> Row:
    """Return the answer, of version 0, to a request of an unknown version."""
    rows = [each for each in versions_of(answered) if each["apiKey"] == API_VERSIONS]
    return {"errorCode": Error.UNSUPPORTED_VERSION, "apiKeys": rows}


def answer_api_versions(serving: Serving, request: Request, answered: Iterable[Api]) -> Row:
    """List all that is answered."""
    body = request.body
    if request.version >= 3 and not (_is_name(body["clientSoftwareName"]) and _is_name(body["clientSoftwareVersion"])):
        return {"errorCode": Error.INVALID_REQUEST}
    if request.version >= _SINCE_CLUSTER_ID:
        cluster_id, node_id = body.get("clusterId"), body.get("nodeId", -1)
        is_other_cluster = cluster_id is not None and cluster_id != serving.topics.cluster_id
        if is_other_cluster or node_id not in (-1, serving.node_id):
            return {"errorCode": Error.REBOOTSTRAP_REQUIRED}
    return {"apiKeys": versions_of(answered)}


def _is_name(text: str) -> bool:
    """``ApiVersionsRequest.SOFTWARE_NAME_VERSION_PATTERN`` (4.4.0)."""
    inner = text.replace("-", "").replace(".", "")
    return bool(text) and inner.isascii() and inner.isalnum() and text[0] not in "-." and text[-1] not in "-."
