"""The current state of ``__consumer_offsets``: committed offsets, groups and their members.

Groups are classic ones, and those of KIP-848 (consumer), KIP-932 (share) and KIP-1071 (streams), whose state is spread
over several records. Sources: ``GroupMetadataManager`` and ``OffsetMetadataManager`` (4.1.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from brokerless.internals.entries import RawRecord
from brokerless.internals.records import InternalRecord
from brokerless.values import Row

_GROUPS = {
    "GROUP_METADATA": "classic",
    "CONSUMER_GROUP_METADATA": "consumer",
    "SHARE_GROUP_METADATA": "share",
    "STREAMS_GROUP_METADATA": "streams",
}
_MEMBERS = {f"{kind}_GROUP_MEMBER_METADATA" for kind in ("CONSUMER", "SHARE", "STREAMS")}
_ASSIGNMENTS = {f"{kind}_GROUP_CURRENT_MEMBER_ASSIGNMENT" for kind in ("CONSUMER", "SHARE", "STREAMS")}
_TARGETS = {f"{kind}_GROUP_TARGET_ASSIGNMENT_METADATA" for kind in ("CONSUMER", "SHARE", "STREAMS")}


def group_rows(records: Iterable[tuple[RawRecord, InternalRecord]]) -> dict[str, list[Row]]:
    """Return the rows of the tables ``offsets``, ``groups`` and ``members``, from the last record of each key."""
    offsets: dict[tuple[Any, ...], Row] = {}
    groups: dict[str, Row] = {}
    members: dict[tuple[str, str], Row] = {}
    targets: dict[str, int] = {}
    for entry, record in records:
        key, data, type_ = record.key_data, record.data, record.type
        if data is None or type_ is None:
            continue
        if type_ in ("OFFSET_COMMIT", "LEGACY_OFFSET_COMMIT"):
            offsets[key["group"], key["topic"], key["partition"]] = _offset(entry, key, data)
        elif type_ in _GROUPS:
            group = key["group"] if type_ == "GROUP_METADATA" else key["groupId"]
            groups[group] = _group(group, _GROUPS[type_], data)
            for each in data.get("members", ()):
                members[group, each["memberId"]] = _classic_member(group, data["generation"], each)
        elif type_ in _MEMBERS:
            _member(members, key).update(_member_metadata(data))
        elif type_ in _ASSIGNMENTS:
            assigned = data.get("assignedPartitions")  # of a streams group, tasks are assigned
            assignment = None if assigned is None else [{"topic": None, **each} for each in assigned]
            _member(members, key).update(epoch=data["memberEpoch"], assignment=assignment)
        elif type_ in _TARGETS:
            targets[key["groupId"]] = data["assignmentEpoch"]
    for group, _ in members:
        if group in groups:
            groups[group]["members"] += 1
    for group, epoch in targets.items():
        if group in groups:
            groups[group]["assignmentEpoch"] = epoch
    return {"offsets": list(offsets.values()), "groups": list(groups.values()), "members": list(members.values())}


def _offset(entry: RawRecord, key: Row, data: Row) -> Row:
    expires = data.get("expireTimestamp", -1)
    return {
        **key,
        "offset": data["offset"],
        "leaderEpoch": data.get("leaderEpoch", -1),
        "metadata": data["metadata"],
        "commitTimestamp": data["commitTimestamp"],
        "expireTimestamp": None if expires < 0 else expires,
        "topicId": data.get("topicId"),
        "recordOffset": entry.offset,
    }


def _group(group: str, type_: str, data: Row) -> Row:
    timestamp = data.get("currentStateTimestamp", -1)
    return {
        "group": group,
        "type": type_,
        "epoch": data["generation"] if type_ == "classic" else data["epoch"],
        "assignmentEpoch": None,
        "protocolType": data.get("protocolType"),
        "protocol": data.get("protocol"),
        "leader": data.get("leader"),
        "currentStateTimestamp": None if timestamp < 0 else timestamp,
        "members": 0,
    }


def _member(members: dict[tuple[str, str], Row], key: Row) -> Row:
    """The row of a member, of which its records give a part each."""
    group, member = key["groupId"], key["memberId"]
    return members.setdefault((group, member), dict.fromkeys(MEMBER) | {"group": group, "memberId": member})


def _member_metadata(data: Row) -> Row:
    return {
        "groupInstanceId": data.get("instanceId"),
        "rackId": data.get("rackId"),
        "clientId": data["clientId"],
        "clientHost": data["clientHost"],
        "subscribedTopicNames": data.get("subscribedTopicNames"),
        "subscribedTopicRegex": data.get("subscribedTopicRegex") or None,
    }


def _classic_member(group: str, generation: int, member: Row) -> Row:
    """A member of a classic group; what it subscribed to and was assigned is known if it is a consumer."""
    subscription, assignment = member["subscription"], member["assignment"]
    said: Row = subscription if isinstance(subscription, dict) else {}
    given: Row = assignment if isinstance(assignment, dict) else {}
    return {
        "group": group,
        "memberId": member["memberId"],
        "groupInstanceId": member.get("groupInstanceId"),
        "rackId": said.get("rackId"),
        "clientId": member["clientId"],
        "clientHost": member["clientHost"],
        "epoch": generation,
        "subscribedTopicNames": said.get("topics"),
        "subscribedTopicRegex": None,
        "assignment": [{"topicId": None, **each} for each in given["assignedPartitions"]] if given else None,
    }


MEMBER = (
    "group",
    "memberId",
    "groupInstanceId",
    "rackId",
    "clientId",
    "clientHost",
    "epoch",
    "subscribedTopicNames",
    "subscribedTopicRegex",
    "assignment",
)
