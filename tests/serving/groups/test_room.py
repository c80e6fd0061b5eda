from __future__ import annotations

import asyncio

import pytest
from tests.serving.groups.test_classic import joining, refusal
from tests.serving.groups.test_consumer import Topics, heartbeat

from brokerless.serving.groups.coordinator import Coordinator
from brokerless.serving.groups.errors import GroupError
from brokerless.serving.groups.offsets import Committed, CommittedOffsets
from brokerless.serving.groups.room import Room, size_of
from brokerless.serving.protocol.errors import Error


def test_texts_take_what_their_letters_do() -> None:
    assert size_of(["", None]) == 0
    assert size_of(["a" * 1000]) < size_of(["é" * 1000])
    room = Room(most=10)
    room.check(10)
    room.take(8)
    room.check(-5)
    with pytest.raises(GroupError):
        room.check(3)


def test_members_of_classic_groups_take_room_and_give_it_back() -> None:
    async def play() -> None:
        coordinator = Coordinator(CommittedOffsets(print), Room(200_000))
        group = coordinator.find_or_make("any")
        before = coordinator.room.taken
        large = {"range": "x" * 60_000}
        first = await group.join(joining(protocols=large))
        other = asyncio.create_task(coordinator.find_or_make("other").join(joining(protocols=large)))
        await asyncio.sleep(0)
        assert (
            await refusal(group.join(joining(protocols=large | {"other": "x" * 60_000})))
            == Error.GROUP_MAX_SIZE_REACHED
        )
        member = group.member(first["memberId"], None)
        too_much = [{"memberId": first["memberId"], "assignment": "x" * 100_000}]
        assert await refusal(group.sync(member, 1, too_much)) == Error.UNKNOWN_SERVER_ERROR
        assert await group.sync(member, 1, [{"memberId": first["memberId"], "assignment": "x" * 50_000}])
        taken = coordinator.room.taken
        assert 170_000 < taken < 200_000
        assert group.leave(first["memberId"], None) == Error.NONE
        assert coordinator.room.taken < taken - 110_000
        second = await other
        assert coordinator.find("other").leave(second["memberId"], None) == Error.NONE
        coordinator.forget_unused("other")
        assert coordinator.room.taken == before

    asyncio.run(play())


def test_static_and_awaited_members_take_room_and_give_it_back() -> None:
    async def play() -> None:
        coordinator = Coordinator(CommittedOffsets(print))
        group = coordinator.find_or_make("any")
        before = coordinator.room.taken
        assert await refusal(group.join(joining(requires_member_id=True))) == Error.MEMBER_ID_REQUIRED
        assert coordinator.room.taken > before
        assert group.leave(next(iter(group.pending)), None) == Error.NONE
        assert coordinator.room.taken == before
        for protocols in ({"range": "a"}, {"range": "b" * 1000}, {"range": "c"}):
            row = await group.join(joining(instance_id="one", protocols=protocols))
            await group.sync(
                group.member(row["memberId"], "one"),
                row["generationId"],
                [{"memberId": row["memberId"], "assignment": "mine"}],
            )
        assert group.leave("", "one") == Error.NONE
        assert coordinator.room.taken == before
        group.close()

    asyncio.run(play())


def test_members_of_new_groups_take_room_and_give_it_back() -> None:
    async def play() -> None:
        coordinator = Coordinator(CommittedOffsets(print), Room(100_000))
        group = coordinator.consumer_group("any", Topics(), is_joining=True)
        before = coordinator.room.taken
        names = frozenset(f"{'x' * 100}{number}" for number in range(300))
        row = group.heartbeat(heartbeat("one", names=names))
        group.heartbeat(heartbeat("two"))
        with pytest.raises(GroupError, match="GROUP_MAX_SIZE_REACHED"):
            group.heartbeat(
                heartbeat("three", names=names | frozenset(f"{'y' * 100}{number}" for number in range(300)))
            )
        assert set(group.members) == {"one", "two"}
        with pytest.raises(GroupError, match="GROUP_MAX_SIZE_REACHED"):
            group.heartbeat(heartbeat("two", 2, names=frozenset({"y" * 80_000})))
        group.heartbeat(heartbeat("one", row["memberEpoch"], names=frozenset("a")))
        group.heartbeat(heartbeat("one", -1))
        group.heartbeat(heartbeat("two", -1))
        assert coordinator.room.taken == before

    asyncio.run(play())


def test_groups_that_nobody_uses_give_their_room_to_others() -> None:
    coordinator = Coordinator(CommittedOffsets(print), Room(100_000))
    for number in range(100):
        coordinator.find_or_make(f"{'x' * 30_000}{number}")
    assert len(coordinator.groups) <= 3
    with pytest.raises(GroupError, match="GROUP_MAX_SIZE_REACHED"):
        coordinator.find_or_make("x" * 100_000)


def test_text_beside_offsets_has_its_own_room() -> None:
    offsets = CommittedOffsets(print, room=Room(10_000))
    place = ("orders", 0)

    async def play() -> None:
        await offsets.commit("any", {place: Committed(1, -1, "", 7)})
        assert offsets.room.taken == size_of(["any"])
        await offsets.commit("any", {place: Committed(1, -1, "x" * 4000, 7)})
        assert not offsets.is_full("any", "x" * 4000)
        await offsets.commit("other", {place: Committed(1, -1, "x" * 4000, 7)})
        assert offsets.is_full("any", "x" * 4000)
        assert not offsets.is_full("any", "")
        await offsets.commit("any", {place: Committed(1, -1, "", 7)})
        assert not offsets.is_full("any", "x" * 4000)

    asyncio.run(play())
