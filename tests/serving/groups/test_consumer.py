from __future__ import annotations

import asyncio
from collections.abc import Mapping, Set
from typing import Any

import pytest

from brokerless.serving.groups import consumer
from brokerless.serving.groups.consumer import LEFT, LEFT_FOR_NOW, ConsumerGroup, Heartbeat, by_topic
from brokerless.serving.groups.errors import GroupError
from brokerless.serving.protocol.errors import Error


class Topics:
    def match(self, names: Set[str], regex: str) -> Set[str]:
        return names | ({"b"} if regex == "b.*" else set())

    def counts(self) -> Mapping[str, int]:
        return {"a": 4, "b": 2}


def heartbeat(member_id: str, epoch: int = 0, **others: Any) -> Heartbeat:
    joining = {"rebalance_ms": 1000, "names": frozenset("a"), "owned": frozenset()} if epoch == 0 else {}
    values: dict[str, Any] = {
        "instance_id": None, "rack_id": None, "rebalance_ms": -1, "names": None, "regex": None, "assignor": None,
        "owned": None, "client_id": "client", "host": "/127.0.0.1", **joining, **others,
    }  # fmt: skip
    return Heartbeat(member_id, epoch, **values)


def places(row: dict[str, Any]) -> set[tuple[str, int]]:
    return {(each["topicId"], number) for each in row["assignment"]["topicPartitions"] for number in each["partitions"]}


def error_of(group: ConsumerGroup, request: Heartbeat) -> Error:
    with pytest.raises(GroupError) as caught:
        group.heartbeat(request)
    return caught.value.error


def playing(play: Any) -> None:
    async def run() -> None:
        group = ConsumerGroup("any", Topics())
        await play(group)
        group.close()

    asyncio.run(run())


def test_partitions_go_over_when_they_are_given_up() -> None:
    async def play(group: ConsumerGroup) -> None:
        everything = {("a", number) for number in range(4)}
        first = group.heartbeat(heartbeat("one"))
        assert (places(first), first["memberEpoch"], group.state) == (everything, 1, "Stable")
        second = group.heartbeat(heartbeat("two"))
        assert (places(second), second["memberEpoch"], group.state) == (set(), 2, "Reconciling")
        told = group.heartbeat(heartbeat("one", 1, owned=frozenset(everything)))
        kept = places(told)
        assert (len(kept), told["memberEpoch"]) == (2, 1)
        assert "assignment" not in group.heartbeat(heartbeat("two", 2))
        assert "assignment" not in group.heartbeat(heartbeat("one", 1))
        done = group.heartbeat(heartbeat("one", 1, owned=frozenset(kept)))
        assert done["memberEpoch"] == 2
        given = group.heartbeat(heartbeat("two", 2))
        assert places(given) == everything - kept
        assert group.state == "Stable"
        assert group.heartbeat(heartbeat("two", LEFT))["memberEpoch"] == LEFT
        assert places(group.heartbeat(heartbeat("one", 2, owned=frozenset(kept)))) == everything
        assert group.heartbeat(heartbeat("one", LEFT))["memberEpoch"] == LEFT
        assert group.state == "Empty"

    playing(play)


def test_epochs_are_checked() -> None:
    async def play(group: ConsumerGroup) -> None:
        group.heartbeat(heartbeat("one"))
        assert error_of(group, heartbeat("one", 2)) == Error.FENCED_MEMBER_EPOCH
        assert error_of(group, heartbeat("two", 1)) == Error.UNKNOWN_MEMBER_ID
        assert group.heartbeat(heartbeat("one", names=frozenset("ab")))["memberEpoch"] == 2
        assert error_of(group, heartbeat("one", 1)) == Error.FENCED_MEMBER_EPOCH
        again = group.heartbeat(heartbeat("one", 1, owned=frozenset({("a", 0)})))
        assert again["memberEpoch"] == 2
        assert group.member("one", 2).member_id == "one"
        with pytest.raises(GroupError):
            group.member("one", 1)

    playing(play)


def test_static_members_come_again() -> None:
    async def play(group: ConsumerGroup) -> None:
        first = group.heartbeat(heartbeat("one", instance_id="x"))
        assert error_of(group, heartbeat("two", instance_id="x")) == Error.UNRELEASED_INSTANCE_ID
        assert group.heartbeat(heartbeat("one", LEFT_FOR_NOW, instance_id="x"))["memberEpoch"] == LEFT_FOR_NOW
        assert places(group.heartbeat(heartbeat("two", instance_id="x"))) == places(first)
        assert error_of(group, heartbeat("one", 1, instance_id="x")) == Error.FENCED_INSTANCE_ID
        assert error_of(group, heartbeat("one", 1, instance_id="y")) == Error.UNKNOWN_MEMBER_ID

    playing(play)


def test_subscriptions_by_pattern() -> None:
    async def play(group: ConsumerGroup) -> None:
        row = group.heartbeat(heartbeat("one", names=None, regex="b.*"))
        assert places(row) == {("b", 0), ("b", 1)}
        assert by_topic({("b", 1), ("b", 0)}) == row["assignment"]["topicPartitions"]

    playing(play)


def test_members_that_are_not_heard_of_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(group: ConsumerGroup) -> None:
        group.heartbeat(heartbeat("one", rebalance_ms=50))
        monkeypatch.setattr(consumer, "SESSION_MS", 100_000)
        group.heartbeat(heartbeat("two"))
        group.heartbeat(heartbeat("one", 1, owned=frozenset({("a", 0)})))  # and does not give up what it is to
        await asyncio.sleep(0.2)
        assert set(group.members) == {"two"}
        monkeypatch.setattr(consumer, "SESSION_MS", 50)
        assert len(places(group.heartbeat(heartbeat("two", 2)))) == 4
        await asyncio.sleep(0.2)
        assert group.state == "Empty"

    playing(play)


def test_a_group_whose_members_left_has_the_epoch_of_its_last_assignment() -> None:
    async def play(group: ConsumerGroup) -> None:
        group.heartbeat(heartbeat("a"))
        assigned = group.target_epoch
        group.heartbeat(heartbeat("a", LEFT))
        assert (group.state, group.epoch, group.target_epoch) == ("Empty", assigned + 1, assigned)
        assert group.heartbeat(heartbeat("a"))["memberEpoch"] == group.target_epoch == group.epoch

    playing(play)
