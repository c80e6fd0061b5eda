"""The classic group protocol: FindCoordinator (0 to 6), JoinGroup (0 to 9), SyncGroup (0 to 5), Heartbeat (0 to 4),
LeaveGroup (0 to 5), DescribeGroups (0 to 6), ListGroups (0 to 5).

This endpoint coordinates all groups, and is named as the coordinator of transactions too, where every request is
refused. Groups are in memory: they end with this process, what they have committed may not. Left out: coordinators of
share groups.
"""

from __future__ import annotations

from brokerless.serving.answers.metadata import DESCRIBE, NOT_REQUESTED, READ
from brokerless.serving.context import Request, Serving, unhurried
from brokerless.serving.groups.classic import ClassicGroup, Joining, Member, check_session
from brokerless.serving.groups.coordinator import check_id
from brokerless.serving.groups.errors import GroupError
from brokerless.serving.protocol.errors import Error
from brokerless.values import Row

_GROUP, _TRANSACTION = 0, 1
_SINCE_LIST, _SINCE_REQUIRED_ID, _SINCE_SKIPPED, _SINCE_NULL, _SINCE_NOT_FOUND = 4, 4, 9, 7, 6
_OPERATIONS = 1 << READ | 1 << DESCRIBE


async def answer_coordinator(serving: Serving, request: Request) -> Row:
    """Name this endpoint as the coordinator."""
    body = request.body
    is_known = body.get("keyType", _GROUP) in (_GROUP, _TRANSACTION)
    place: Row = {"nodeId": serving.node_id, "host": serving.host, "port": serving.port, "errorMessage": ""}
    if not is_known:
        text = "there is a coordinator of groups and one of transactions"
        place = {"nodeId": -1, "port": -1, "errorCode": Error.INVALID_REQUEST, "errorMessage": text}
    if request.version >= _SINCE_LIST:
        return {"coordinators": [{"key": each, **place} async for each in unhurried(body["coordinatorKeys"])]}
    return place


async def answer_join(serving: Serving, request: Request) -> Row:
    """Take a member into its group."""
    await serving.loaded()
    body, groups = request.body, serving.groups
    try:
        check_id(body["groupId"])
        check_session(body["sessionTimeoutMs"])
        group = groups.find_or_make(body["groupId"]) if not body["memberId"] else groups.find(body["groupId"])
        return await group.join(_joining(request))
    except GroupError as error:
        code = _of_member(error)
        name = None if request.version >= _SINCE_NULL else ""
        return {"errorCode": code, "protocolName": name, "memberId": error.member_id or body["memberId"]}


def _joining(request: Request) -> Joining:
    body = request.body
    rebalance_ms = body.get("rebalanceTimeoutMs", -1)
    return Joining(
        body["memberId"],
        body.get("groupInstanceId"),
        request.client_id,
        host=request.host,
        session_ms=body["sessionTimeoutMs"],
        rebalance_ms=max(0, body["sessionTimeoutMs"] if rebalance_ms == -1 else rebalance_ms),
        protocol_type=body["protocolType"],
        protocols={each["name"]: each["metadata"] for each in body["protocols"]},
        requires_member_id=request.version >= _SINCE_REQUIRED_ID,
        can_skip_assignment=request.version >= _SINCE_SKIPPED,
    )


async def answer_sync(serving: Serving, request: Request) -> Row:
    """Return a member's assignment."""
    await serving.loaded()
    body = request.body
    try:
        group, member = _member(serving, body)
        type_, name = body.get("protocolType"), body.get("protocolName")
        if (type_ is not None and type_ != group.protocol_type) or (name is not None and name != group.protocol):
            raise GroupError(Error.INCONSISTENT_GROUP_PROTOCOL)
        return await group.sync(member, body["generationId"], body["assignments"])
    except GroupError as error:
        return {"errorCode": _of_member(error)}


async def answer_heartbeat(serving: Serving, request: Request) -> Row:
    """Note that a member is there."""
    await serving.loaded()
    body = request.body
    try:
        group, member = _member(serving, body)
        return {"errorCode": group.heartbeat(member, body["generationId"])}
    except GroupError as error:
        return {"errorCode": _of_member(error)}


async def answer_leave(serving: Serving, request: Request) -> Row:
    """Take members out of their group."""
    await serving.loaded()
    body = request.body
    leaving = body["members"] if "members" in body else [{"memberId": body["memberId"]}]
    if not body["groupId"]:
        return {"errorCode": Error.INVALID_GROUP_ID}
    found = serving.groups.groups.get(body["groupId"])
    group = found if isinstance(found, ClassicGroup) else None
    rows: list[Row] = []
    async for each in unhurried(leaving):
        instance_id = each.get("groupInstanceId")
        error = Error.UNKNOWN_MEMBER_ID if group is None else group.leave(each["memberId"], instance_id)
        rows.append({"memberId": each["memberId"], "groupInstanceId": instance_id, "errorCode": error})
    return {"members": rows} if "members" in body else {"errorCode": rows[0]["errorCode"]}


async def answer_describe_groups(serving: Serving, request: Request) -> Row:
    """Describe groups with their members."""
    await serving.loaded()
    operations = _OPERATIONS if request.body.get("includeAuthorizedOperations") else NOT_REQUESTED
    rows: list[Row] = []
    async for group_id in unhurried(request.body["groups"]):
        group = serving.groups.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            rows.append(group.describe() | {"authorizedOperations": operations})
            continue
        row: Row = {"groupId": group_id, "groupState": "Dead"}
        if request.version < _SINCE_NOT_FOUND:
            row["authorizedOperations"] = operations
        else:
            row |= {"errorCode": Error.GROUP_ID_NOT_FOUND, "errorMessage": f"Group {group_id} not found."}
        rows.append(row)
    return {"groups": rows}


async def answer_list_groups(serving: Serving, request: Request) -> Row:
    """List all groups, or those in some states or of some types."""
    await serving.loaded()
    states = {each.lower() for each in request.body.get("statesFilter", ())}
    types = {each.lower() for each in request.body.get("typesFilter", ())}
    rows = [
        {
            "groupId": each.group_id,
            "protocolType": (each.protocol_type or "") if isinstance(each, ClassicGroup) else "consumer",
            "groupState": each.state,
            "groupType": "classic" if isinstance(each, ClassicGroup) else "consumer",
        }
        async for each in unhurried(list(serving.groups.groups.values()))
    ]
    return {
        "groups": [
            each
            for each in rows
            if (not states or each["groupState"].lower() in states) and (not types or each["groupType"] in types)
        ]
    }


def _member(serving: Serving, body: Row) -> tuple[ClassicGroup, Member]:
    """A group and the member that a request is of. Raises :class:`GroupError` where there is none."""
    group = serving.groups.find(body["groupId"])
    return group, group.member(body["memberId"], body.get("groupInstanceId"))


def _of_member(error: GroupError) -> Error:
    return Error.UNKNOWN_MEMBER_ID if error.error == Error.GROUP_ID_NOT_FOUND else error.error
