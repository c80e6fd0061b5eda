from __future__ import annotations

import asyncio
from typing import Any

import pytest

from brokerless.serving.groups import classic
from brokerless.serving.groups.classic import ClassicGroup, Joining, check_session
from brokerless.serving.groups.errors import GroupError
from brokerless.serving.protocol.errors import Error


def joining(member_id: str = "", **others: Any) -> Joining:
    values: dict[str, Any] = {
        "instance_id": None,
        "client_id": "client",
        "host": "/127.0.0.1",
        "session_ms": 10_000,
        "rebalance_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": {"range": "cmFuZ2U="},
        "requires_member_id": False,
        "can_skip_assignment": True,
        **others,
    }
    return Joining(member_id, **values)


async def synced(group: ClassicGroup, *rows: dict[str, Any]) -> list[str]:
    """All members ask for their assignment, which the leader makes."""
    assignments = [{"memberId": each["memberId"], "assignment": f"of {each['memberId']}"} for each in rows]
    waiting = [
        group.sync(
            group.member(each["memberId"], None), each["generationId"],
            assignments if each["leader"] == each["memberId"] else [],
        )
        for each in rows
    ]  # fmt: skip
    return [each["assignment"] for each in await asyncio.gather(*waiting)]


async def refusal(waiting: Any) -> Error:
    with pytest.raises(GroupError) as caught:
        await waiting
    return caught.value.error


def test_members_join_and_get_what_the_leader_assigns() -> None:
    async def play() -> None:
        group = ClassicGroup("any")
        first = await group.join(joining())
        assert (first["generationId"], first["leader"], len(first["members"])) == (1, first["memberId"], 1)
        assert await synced(group, first) == [f"of {first['memberId']}"]
        assert group.state == "Stable"
        second = asyncio.create_task(group.join(joining()))
        await asyncio.sleep(0)
        member = group.member(first["memberId"], None)
        assert group.heartbeat(member, 1) == Error.REBALANCE_IN_PROGRESS
        again = await group.join(joining(first["memberId"]))
        other = await second
        assert again["generationId"] == other["generationId"] == 2
        assert (len(again["members"]), len(other["members"])) == (2, 0)
        assert await synced(group, again, other) == [f"of {again['memberId']}", f"of {other['memberId']}"]
        assert group.heartbeat(group.member(other["memberId"], None), 2) == Error.NONE
        assert group.leave(other["memberId"], None) == Error.NONE
        assert group.state == "PreparingRebalance"
        third = await group.join(joining(first["memberId"]))
        assert third["generationId"] == 3
        assert group.leave(first["memberId"], None) == Error.NONE
        assert (group.state, group.members, group.generation) == ("Empty", {}, 4)
        group.close()

    asyncio.run(play())


def test_a_member_gets_its_id_first() -> None:
    async def play() -> None:
        group = ClassicGroup("any")
        with pytest.raises(GroupError) as caught:
            await group.join(joining(requires_member_id=True))
        assert caught.value.error == Error.MEMBER_ID_REQUIRED
        assert caught.value.member_id in group.pending
        row = await group.join(joining(caught.value.member_id or "", requires_member_id=True))
        assert row["memberId"] == caught.value.member_id
        assert not group.pending
        group.close()

    asyncio.run(play())


def test_a_static_member_that_comes_again_keeps_its_assignment() -> None:
    async def play() -> None:
        group = ClassicGroup("any")
        first = await group.join(joining(instance_id="one"))
        await synced(group, first)
        again = await group.join(joining(instance_id="one"))
        assert again["generationId"] == 1
        assert again["memberId"] != first["memberId"]
        assert again["skipAssignment"]
        member = group.member(again["memberId"], "one")
        assert (await group.sync(member, 1, []))["assignment"] == f"of {first['memberId']}"
        with pytest.raises(GroupError) as caught:
            group.member(first["memberId"], "one")
        assert caught.value.error == Error.FENCED_INSTANCE_ID
        assert group.leave("", "one") == Error.NONE
        assert not group.members
        group.close()

    asyncio.run(play())


def test_what_does_not_fit_is_refused() -> None:
    async def play() -> None:
        group = ClassicGroup("any")
        assert await refusal(group.join(joining(protocols={}))) == Error.INCONSISTENT_GROUP_PROTOCOL
        assert await refusal(group.join(joining("nobody"))) == Error.UNKNOWN_MEMBER_ID
        row = await group.join(joining())
        member = group.member(row["memberId"], None)
        assert await refusal(group.join(joining(protocols={"other": ""}))) == Error.INCONSISTENT_GROUP_PROTOCOL
        assert await refusal(group.join(joining(protocol_type="connect"))) == Error.INCONSISTENT_GROUP_PROTOCOL
        assert await refusal(group.sync(member, 5, [])) == Error.ILLEGAL_GENERATION
        assert group.leave("nobody", None) == Error.UNKNOWN_MEMBER_ID
        group.close()

    asyncio.run(play())
    with pytest.raises(GroupError):
        check_session(1)


def test_members_that_are_not_heard_of_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        group = ClassicGroup("any")
        first = await group.join(joining(session_ms=50))
        await synced(group, first)
        await asyncio.sleep(0.2)
        assert (group.state, group.members) == ("Empty", {})
        again = await group.join(joining(rebalance_ms=50))
        await asyncio.sleep(0.2)  # and does not ask for its assignment
        assert again["generationId"] == 3
        assert (group.state, group.members) == ("Empty", {})
        group.close()

    monkeypatch.setattr(classic, "NEW_MEMBER_MS", 1000)
    asyncio.run(play())


def test_who_joins_waits_no_longer_than_others_may_take() -> None:
    async def play() -> None:
        group = ClassicGroup("any")
        slow = await group.join(joining(rebalance_ms=100))
        await synced(group, slow)
        row = await asyncio.wait_for(group.join(joining(rebalance_ms=100)), 5)
        assert row["leader"] == row["memberId"]
        assert list(group.members) == [row["memberId"]]
        assert group.describe()["groupState"] == "CompletingRebalance"
        group.close()

    asyncio.run(play())
