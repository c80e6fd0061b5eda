"""One group of the classic protocol: its members join, the leader assigns partitions, all heartbeat.

A port of ``ClassicGroup`` and of what ``GroupMetadataManager`` (4.4.0) does with it, static members (KIP-345, KIP-814)
and required member IDs (KIP-394) included. The first rebalance of an empty group does not wait for more members
(``group.initial.rebalance.delay.ms`` is 0). All runs in one event loop; timers are its own.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from brokerless.serving.groups.errors import GroupError
from brokerless.serving.groups.room import OF_EACH, Room, size_of
from brokerless.serving.protocol.errors import Error
from brokerless.values import Row

GroupState = Literal["Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"]
LEAST_SESSION_MS, MOST_SESSION_MS = 6_000, 1_800_000
"""``group.min.session.timeout.ms`` and ``group.max.session.timeout.ms``."""
NEW_MEMBER_MS = 300_000
"""How long a member that joins waits for others before it is taken for gone."""
MOST_MEMBERS = 10_000
"""Members of a group: a broker has no limit, this endpoint's memory has."""


def check_session(session_ms: int) -> None:
    """Raise :class:`GroupError` for a session timeout (ms) that no member may have."""
    if not LEAST_SESSION_MS <= session_ms <= MOST_SESSION_MS:
        raise GroupError(Error.INVALID_SESSION_TIMEOUT)


@dataclass(frozen=True, slots=True)
class Joining:
    """A JoinGroup request's facts about its member."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    session_ms: int
    rebalance_ms: int
    protocol_type: str
    protocols: Mapping[str, str]
    """Each protocol's metadata by its name, the preferred first."""
    requires_member_id: bool
    can_skip_assignment: bool

    @property
    def size(self) -> int:
        """About how many bytes of memory its member takes."""
        texts = (self.member_id, self.instance_id, self.client_id, self.protocol_type)
        return OF_EACH + size_of(texts) + size_of(self.protocols) + size_of(self.protocols.values())


@dataclass(slots=True)
class Member:
    """A member of a classic group."""

    member_id: str
    joining: Joining
    assignment: str = ""
    is_new: bool = True
    joined: asyncio.Future[Row] | None = None
    """Its JoinGroup that waits."""
    synced: asyncio.Future[Row] | None = None
    """Its SyncGroup that waits."""
    timer: asyncio.TimerHandle | None = None

    @property
    def instance_id(self) -> str | None:
        return self.joining.instance_id

    @property
    def size(self) -> int:
        """About how many bytes of memory it takes."""
        return self.joining.size + size_of((self.member_id, self.assignment))


def _fail(waiting: asyncio.Future[Row] | None, error: Error) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_exception(GroupError(error))


@dataclass(slots=True)
class ClassicGroup:
    """A group of the classic protocol."""

    group_id: str
    room: Room = field(default_factory=Room)
    """The memory that members of all groups may take."""
    state: GroupState = "Empty"
    generation: int = 0
    protocol_type: str | None = None
    """None before any member joined."""
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict[str, Member])
    instances: dict[str, str] = field(default_factory=dict[str, str])
    pending: dict[str, asyncio.TimerHandle] = field(default_factory=dict[str, asyncio.TimerHandle])
    unsynced: set[str] = field(default_factory=set[str])
    timer: asyncio.TimerHandle | None = None

    # JoinGroup

    async def join(self, joining: Joining) -> Row:
        """Take a member in, and wait until the group has rebalanced."""
        self._check_protocols(joining)
        if len(self.members) >= MOST_MEMBERS and joining.member_id not in self.members:
            raise GroupError(Error.GROUP_MAX_SIZE_REACHED)
        known = self.members.get(joining.member_id)
        self.room.check(joining.size - (0 if known is None else known.joining.size))
        if not joining.member_id:
            return await (self._join_new(joining) if joining.instance_id is None else self._join_static(joining))
        if joining.member_id in self.pending:
            self._forget_pending(joining.member_id)
            return await self._add(joining.member_id, joining)
        member = self._member(joining.member_id, joining.instance_id)
        if self.state == "PreparingRebalance":
            return await self._rejoin(member, joining)
        is_same = dict(member.joining.protocols) == dict(joining.protocols)
        if self.state == "CompletingRebalance" and is_same:
            return self._joined(member)
        if self.state == "Stable" and is_same and member.member_id != self.leader:
            return self._joined(member)
        return await self._rejoin(member, joining)

    def _check_protocols(self, joining: Joining) -> None:
        if not joining.protocols or not joining.protocol_type:
            raise GroupError(Error.INCONSISTENT_GROUP_PROTOCOL)
        if self.members:
            shared = self._shared_protocols(without=joining.member_id)
            is_shared = shared is None or bool(shared & set(joining.protocols))
            if joining.protocol_type != self.protocol_type or not is_shared:
                raise GroupError(Error.INCONSISTENT_GROUP_PROTOCOL)

    def _shared_protocols(self, without: str = "") -> set[str] | None:
        """The names of protocols that all members know; None without a member."""
        known = [set(each.joining.protocols) for each in self.members.values() if each.member_id != without]
        return set.intersection(*known) if known else None

    async def _join_new(self, joining: Joining) -> Row:
        member_id = f"{joining.client_id}-{uuid.uuid4()}"
        if not joining.requires_member_id:
            return await self._add(member_id, joining)
        if len(self.pending) >= MOST_MEMBERS:
            raise GroupError(Error.GROUP_MAX_SIZE_REACHED)
        loop = asyncio.get_running_loop()
        self.pending[member_id] = loop.call_later(joining.session_ms / 1000, self._expire_pending, member_id)
        self.room.take(OF_EACH + size_of((member_id,)))
        raise GroupError(Error.MEMBER_ID_REQUIRED, member_id)

    def _expire_pending(self, member_id: str) -> None:
        self._forget_pending(member_id)
        self._maybe_complete()

    def _forget_pending(self, member_id: str) -> None:
        self.pending.pop(member_id).cancel()
        self.room.take(-OF_EACH - size_of((member_id,)))

    async def _join_static(self, joining: Joining) -> Row:
        assert joining.instance_id is not None
        member_id = f"{joining.instance_id}-{uuid.uuid4()}"
        old_id = self.instances.get(joining.instance_id)
        if old_id is None:
            return await self._add(member_id, joining)
        old = self.members.pop(old_id)
        _fail(old.joined, Error.FENCED_INSTANCE_ID)
        _fail(old.synced, Error.FENCED_INSTANCE_ID)
        if old.timer is not None:
            old.timer.cancel()
        member = Member(member_id, joining, old.assignment, is_new=False)
        self.members[member_id] = member
        self.room.take(member.size - old.size)
        self.instances[joining.instance_id] = member_id
        if self.leader == old_id:
            self.leader = member_id
        if old_id in self.unsynced:
            self.unsynced.remove(old_id)
        self._expect_heartbeat(member)
        if self.state == "Stable" and dict(old.joining.protocols) == dict(joining.protocols):
            row = self._joined(member)
            if self.leader != member_id or joining.can_skip_assignment:
                return row | {"skipAssignment": self.leader == member_id}
            return row | {"leader": old_id, "members": []}  # the leader of before stays, so that nobody assigns again
        return await self._rejoin(member, joining)

    async def _add(self, member_id: str, joining: Joining) -> Row:
        member = Member(member_id, joining)
        if not self.members:
            self.protocol_type = joining.protocol_type
        self.members[member_id] = member
        self.room.take(member.size)
        if joining.instance_id is not None:
            self.instances[joining.instance_id] = member_id
        if self.leader is None:
            self.leader = member_id
        return await self._rejoin(member, joining)

    async def _rejoin(self, member: Member, joining: Joining) -> Row:
        self.room.take(joining.size - member.joining.size)
        member.joining = joining
        _fail(member.joined, Error.UNKNOWN_MEMBER_ID)
        waiting: asyncio.Future[Row] = asyncio.get_running_loop().create_future()
        member.joined = waiting
        self._expect_heartbeat(member)
        self._prepare()
        self._maybe_complete()
        return await waiting

    def _prepare(self) -> None:
        if self.state == "PreparingRebalance":
            return
        if self.state == "CompletingRebalance":
            for member in self.members.values():
                self._assign(member, "")
                _fail(member.synced, Error.REBALANCE_IN_PROGRESS)
                member.synced = None
        self.unsynced.clear()
        self.state = "PreparingRebalance"
        longest = max(each.joining.rebalance_ms for each in self.members.values())
        self._start_timer(longest, self._complete)

    def _start_timer(self, after_ms: int, work: Any) -> None:
        self._stop_timer()
        self.timer = asyncio.get_running_loop().call_later(after_ms / 1000, work)

    def _stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _maybe_complete(self) -> None:
        has_all = not self.pending and all(each.joined is not None for each in self.members.values())
        if self.state == "PreparingRebalance" and has_all:
            self._complete()

    def _complete(self) -> None:
        """Ends the joining: who has not joined is gone, but for static members."""
        self._stop_timer()
        for member in [each for each in self.members.values() if each.joined is None and each.instance_id is None]:
            self._forget(member)
        joined = [each for each in self.members.values() if each.joined is not None]
        if not self.members:
            self._become_empty()
            return
        if not joined:  # static members that are away: they are waited for
            self._start_timer(max(each.joining.rebalance_ms for each in self.members.values()), self._complete)
            return
        self.generation += 1
        if self.leader not in {each.member_id for each in joined}:
            self.leader = joined[0].member_id
        self.protocol = self._select_protocol()
        self.state = "CompletingRebalance"
        self.unsynced = set(self.members)
        for member in joined:
            waiting, member.joined, member.is_new = member.joined, None, False
            self._expect_heartbeat(member)
            if waiting is not None and not waiting.done():
                waiting.set_result(self._joined(member))
        self._start_timer(max(each.joining.rebalance_ms for each in self.members.values()), self._expire_unsynced)

    def _select_protocol(self) -> str:
        shared = self._shared_protocols() or set()
        votes: dict[str, int] = {}
        for member in self.members.values():
            vote = next(each for each in member.joining.protocols if each in shared)
            votes[vote] = votes.get(vote, 0) + 1
        return max(votes, key=lambda each: votes[each])

    def _become_empty(self) -> None:
        self._stop_timer()
        self.generation += 1
        self.state, self.protocol, self.leader = "Empty", None, None

    def _joined(self, member: Member) -> Row:
        is_leader = member.member_id == self.leader
        return {
            "generationId": self.generation,
            "protocolType": self.protocol_type,
            "protocolName": self.protocol,
            "leader": self.leader or "",
            "memberId": member.member_id,
            "members": [
                {
                    "memberId": each.member_id,
                    "groupInstanceId": each.instance_id,
                    "metadata": each.joining.protocols[self.protocol or ""],
                }
                for each in (self.members.values() if is_leader else ())
            ],
        }

    # SyncGroup, Heartbeat, LeaveGroup

    async def sync(self, member: Member, generation: int, assignments: Sequence[Row]) -> Row:
        """Return a member's assignment when the leader has made it."""
        if generation != self.generation:
            raise GroupError(Error.ILLEGAL_GENERATION)
        if self.state == "PreparingRebalance":
            raise GroupError(Error.REBALANCE_IN_PROGRESS)
        if self.state == "Stable":
            self._expect_heartbeat(member)
            return self._synced(member)
        if self.state != "CompletingRebalance":
            raise GroupError(Error.UNKNOWN_MEMBER_ID)
        given = {each["memberId"]: each["assignment"] for each in assignments if each["memberId"] in self.members}
        if member.member_id == self.leader:
            more = size_of(given.values()) - size_of(each.assignment for each in self.members.values())
            self.room.check(more, Error.UNKNOWN_SERVER_ERROR)  # as a broker says where its record is too large
        _fail(member.synced, Error.UNKNOWN_MEMBER_ID)
        waiting: asyncio.Future[Row] = asyncio.get_running_loop().create_future()
        member.synced = waiting
        self.unsynced.discard(member.member_id)
        if member.member_id == self.leader:
            self.state = "Stable"
            for each in self.members.values():
                self._assign(each, given.get(each.member_id, ""))
                done, each.synced = each.synced, None
                self._expect_heartbeat(each)
                if done is not None and not done.done():
                    done.set_result(self._synced(each))
        if not self.unsynced:
            self._stop_timer()
        return await waiting

    def _assign(self, member: Member, assignment: str) -> None:
        self.room.take(size_of((assignment,)) - size_of((member.assignment,)))
        member.assignment = assignment

    def _synced(self, member: Member) -> Row:
        self.unsynced.discard(member.member_id)
        if not self.unsynced and self.state == "Stable":
            self._stop_timer()
        return {"protocolType": self.protocol_type, "protocolName": self.protocol, "assignment": member.assignment}

    def _expire_unsynced(self) -> None:
        """Removes members that have not synced within their rebalance timeout."""
        self.timer = None
        gone = [self.members[each] for each in self.unsynced if each in self.members]
        for member in gone:
            self._forget(member)
        if gone:
            self._after_loss()

    def heartbeat(self, member: Member, generation: int) -> Error:
        """Note that a member is there; return whether it is to join again."""
        if generation != self.generation:
            raise GroupError(Error.ILLEGAL_GENERATION)
        if self.state == "Empty":
            raise GroupError(Error.UNKNOWN_MEMBER_ID)
        self._expect_heartbeat(member)
        return Error.REBALANCE_IN_PROGRESS if self.state == "PreparingRebalance" else Error.NONE

    def leave(self, member_id: str, instance_id: str | None) -> Error:
        """Take a member out; a static one by its instance alone."""
        if member_id in self.pending and instance_id is None:
            self._forget_pending(member_id)
            self._maybe_complete()
            return Error.NONE
        if instance_id is not None and not member_id:
            member_id = self.instances.get(instance_id, "")
        try:
            member = self._member(member_id, instance_id)
        except GroupError as error:
            return error.error
        self._forget(member)
        self._after_loss()
        return Error.NONE

    def member(self, member_id: str, instance_id: str | None) -> Member:
        """Return a member. Raises :class:`GroupError` for one that is not in the group, or replaced."""
        member = self._member(member_id, instance_id)
        return member

    def _member(self, member_id: str, instance_id: str | None) -> Member:
        if instance_id is not None:
            known = self.instances.get(instance_id)
            if known is None:
                raise GroupError(Error.UNKNOWN_MEMBER_ID)
            if known != member_id:
                raise GroupError(Error.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise GroupError(Error.UNKNOWN_MEMBER_ID)
        return member

    def _expect_heartbeat(self, member: Member) -> None:
        if member.timer is not None:
            member.timer.cancel()
        timeout_ms = NEW_MEMBER_MS if member.is_new else member.joining.session_ms
        member.timer = asyncio.get_running_loop().call_later(timeout_ms / 1000, self._expire, member)

    def _expire(self, member: Member) -> None:
        if self.members.get(member.member_id) is not member:
            return
        is_waiting = member.joined is not None or member.synced is not None
        if is_waiting and not member.is_new:
            self._expect_heartbeat(member)  # it waits for us
            return
        self._forget(member)
        self._after_loss()

    def _forget(self, member: Member) -> None:
        if member.timer is not None:
            member.timer.cancel()
        _fail(member.joined, Error.UNKNOWN_MEMBER_ID)
        _fail(member.synced, Error.UNKNOWN_MEMBER_ID)
        if self.members.pop(member.member_id, None) is not None:
            self.room.take(-member.size)
        self.unsynced.discard(member.member_id)
        if member.instance_id is not None and self.instances.get(member.instance_id) == member.member_id:
            del self.instances[member.instance_id]
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    def _after_loss(self) -> None:
        if not self.members:
            if self.state != "Empty":
                self._become_empty()
        elif self.state in ("Stable", "CompletingRebalance"):
            self._prepare()
        self._maybe_complete()

    def describe(self) -> Row:
        """Return its row of DescribeGroups."""
        is_stable = self.state == "Stable"
        return {
            "groupId": self.group_id,
            "groupState": self.state,
            "protocolType": self.protocol_type or "",
            "protocolData": (self.protocol or "") if is_stable else "",
            "members": [
                {
                    "memberId": each.member_id,
                    "groupInstanceId": each.instance_id,
                    "clientId": each.joining.client_id,
                    "clientHost": each.joining.host,
                    "memberMetadata": each.joining.protocols.get(self.protocol or "", "") if is_stable else "",
                    "memberAssignment": each.assignment,
                }
                for each in self.members.values()
            ],
        }

    def close(self) -> None:
        """End all that waits."""
        self._stop_timer()
        for handle in self.pending.values():
            handle.cancel()
        for member in list(self.members.values()):
            self._forget(member)
