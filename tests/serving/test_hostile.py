"""A part of what ``python -m tests.serving.hostile MINUTES`` sends, which also measures what an honest client waits.

The bounds are on bytes and memory: how much time there is, is a matter of the machine.
"""

from __future__ import annotations

import socket
from base64 import b64encode

import pytest

from brokerless.format.messages.reader import decode
from brokerless.serving.answers.dispatch import answered
from brokerless.serving.protocol.errors import Error
from brokerless.serving.protocol.repeated import AS_THEY_ARE
from tests.serving.differential import NAMES
from tests.serving.hostile import CONNECTIONS, WAITING, Attack, attacks, crowds, ratios, read_answer, send, served
from tests.serving.test_connection import METADATA, answer, framed

ELEMENTS = 5000
MOST_MEMORY = 256 << 20
MOST_OF_ONE = 4096
"""Bytes that an answer about one element may have, but for settings, which are many."""
WAITS = {*WAITING, "Fetch"}
MOST_TIMES = 10
"""How many times longer who behaves may read: about three times on two cores that do nothing else. It was 13 to 47
when each step of the event loop waited for Python's threads."""


def some_attacks() -> list[Attack]:
    return [each for each in attacks(ELEMENTS) if each.api.name not in WAITS]


def test_all_kinds_are_sent() -> None:
    assert {each.name for each in answered()} == {each.api.name for each in attacks(2)}


@pytest.mark.slow
def test_no_request_costs_more_than_it_is_worth() -> None:
    with served() as server:
        for attack in some_attacks():
            cost = send(server, attack, CONNECTIONS // 2)
            assert not cost.failures, cost.line()
            assert cost.asked > 0
            if attack.variant == "repeated" and attack.api.name not in {"DescribeConfigs", *AS_THEY_ARE}:
                assert (cost.bytes_out or 0) <= max(MOST_OF_ONE, 2 * cost.bytes_in), cost.line()
            if attack.variant == "different":
                assert (cost.bytes_out or 0) <= 100 * cost.bytes_in, cost.line()
            assert cost.grown <= MOST_MEMORY, cost.line()


@pytest.mark.slow
def test_crowds_keep_nobody_out() -> None:
    with served() as server:
        for cost in crowds(server, 600, 200):
            assert not cost.failures, cost.line()
            assert cost.grown <= MOST_MEMORY, cost.line()


@pytest.mark.slow
def test_who_behaves_reads_beside_hostile_programs() -> None:
    kinds = ("Fetch", "Metadata", "OffsetCommit", "Heartbeat")
    chosen = [each for each in attacks(20_000) if each.api.name in kinds and each.variant in ("different", "long")]
    assert len(chosen) == len(kinds)
    with served() as server:
        found = dict(ratios(server, chosen, 300))
    assert max(found.values()) <= MOST_TIMES, found


@pytest.mark.slow
def test_members_of_groups_take_bounded_memory() -> None:
    """Many groups with a member each that says a megabyte of itself."""
    with served() as server, server.measured("members") as cost, socket.create_connection(server.address, 60) as client:
        client.sendall(METADATA)
        read_answer(client)
        codes = set[int]()
        for number in range(150):
            client.sendall(joining(f"group-{number}", "x" * (1 << 20)))
            codes.add(decode(NAMES["JoinGroup"].response, 2, answer(client), 4)[0]["errorCode"])
    assert codes == {Error.NONE, Error.GROUP_MAX_SIZE_REACHED}
    assert cost.grown <= MOST_MEMORY, cost.line()


def joining(group: str, metadata: str) -> bytes:
    body = {
        "groupId": group, "sessionTimeoutMs": 30_000, "rebalanceTimeoutMs": 30_000, "memberId": "",
        "protocolType": "consumer", "protocols": [{"name": "range", "metadata": b64encode(metadata.encode()).decode()}],
    }  # fmt: skip
    return framed("JoinGroup", 2, body)
