"""One group of the protocol of KIP-848: members heartbeat, and the coordinator assigns.

Each change of members or subscriptions makes a new group epoch with a target assignment, towards which each member goes
on its own: first it gives up what is not its own any more, then it gets what others have given up. A port of
``ConsumerGroup``, ``CurrentAssignmentBuilder`` and what ``GroupMetadataManager`` (4.4.0) does with them. Left out:
members of the classic protocol in such a group, racks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Literal, Protocol

from brokerless.kafka_names import TopicPartition
from brokerless.serving.groups.assignors import ASSIGNORS, Assignment
from brokerless.serving.groups.errors import GroupError
from brokerless.serving.groups.room import OF_EACH, Room, size_of
from brokerless.serving.protocol.errors import Error
from brokerless.values import Row

HEARTBEAT_MS, SESSION_MS = 5_000, 45_000
"""``group.consumer.heartbeat.interval.ms`` and ``group.consumer.session.timeout.ms``."""
MOST_MEMBERS = 10_000
LEFT, LEFT_FOR_NOW = -1, -2
MemberState = Literal["stable", "unrevoked", "unreleased"]


class KnownTopics(Protocol):
    """What is known of topics."""

    def match(self, names: Set[str], regex: str) -> Set[str]:
        """Return the IDs of the topics with one of these names, or one that matches. Raises :class:`GroupError`."""
        ...

    def counts(self) -> Mapping[str, int]:
        """Return how many partitions each topic has, by its ID."""
        ...


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A ConsumerGroupHeartbeat request."""

    member_id: str
    epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_ms: int
    """-1 where it did not change."""
    names: frozenset[str] | None
    """None where they did not change; the same holds for ``regex`` and ``owned``."""
    regex: str | None
    assignor: str | None
    owned: frozenset[TopicPartition] | None
    client_id: str
    host: str

    @property
    def size(self) -> int:
        """About how many bytes of memory its member takes, where it says everything."""
        return _size(self)

    @property
    def is_full(self) -> bool:
        has_subscription = self.names is not None or self.regex is not None
        return self.epoch == 0 or (self.rebalance_ms != -1 and has_subscription and self.owned is not None)


def _size(each: Heartbeat | ConsumerMember) -> int:
    texts = (each.member_id, each.instance_id, each.rack_id, each.regex, each.client_id)
    return OF_EACH + size_of(texts) + size_of(each.names or ())


@dataclass(slots=True)
class ConsumerMember:
    """A member of a consumer group."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    host: str = ""
    rebalance_ms: int = -1
    names: frozenset[str] = frozenset()
    regex: str = ""
    assignor: str | None = None
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = "stable"
    assigned: frozenset[TopicPartition] = frozenset()
    """The partitions that it may have."""
    revoking: frozenset[TopicPartition] = frozenset()
    """The partitions that it is to give up."""
    size: int = 0
    """The bytes that it takes of the groups' room."""
    session: asyncio.TimerHandle | None = None
    rebalance: asyncio.TimerHandle | None = None


@dataclass(slots=True)
class ConsumerGroup:
    """A group of the consumer protocol."""

    group_id: str
    topics: KnownTopics
    epoch: int = 0
    target_epoch: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict[str, ConsumerMember])
    instances: dict[str, str] = field(default_factory=dict[str, str])
    target: Assignment = field(default_factory=dict[str, set[TopicPartition]])
    """The partitions that members are to have in the epoch ``target_epoch``."""
    room: Room = field(default_factory=Room)
    """The memory that members of all groups may take."""

    @property
    def state(self) -> str:
        """The name of its state in lists of groups."""
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        is_done = all(each.state == "stable" and each.epoch == self.target_epoch for each in self.members.values())
        return "Stable" if is_done else "Reconciling"

    @property
    def assignor(self) -> str:
        """The name of the assignor that most members prefer."""
        votes = [each.assignor for each in self.members.values() if each.assignor is not None]
        return max(ASSIGNORS, key=votes.count) if votes else next(iter(ASSIGNORS))

    def heartbeat(self, request: Heartbeat) -> Row:
        """Take a member in, hear that it is there, or let it go; return what it is to do."""
        if request.epoch in (LEFT, LEFT_FOR_NOW):
            return self._leave(request)
        known = self.members.get(request.member_id)
        self.room.check(request.size - (0 if known is None else known.size))
        member = self._join(request) if request.epoch == 0 else self._known(request)
        if request.epoch:
            self._check_epoch(member, request)
        before = member.assigned
        is_changed = self._update(member, request)
        self._count(member)
        if is_changed or member.member_id not in self.target:
            self._assign()
        self._reconcile(member, request.owned)
        self._expect(member)
        row: Row = {
            "memberId": member.member_id,
            "memberEpoch": member.epoch,
            "heartbeatIntervalMs": HEARTBEAT_MS,
        }
        if request.is_full or member.assigned != before:
            row["assignment"] = {"topicPartitions": by_topic(member.assigned)}
        return row

    def topics_changed(self) -> None:
        """Assign partitions that were made since, to who subscribes to their topics."""
        if self.members:
            self.epoch += 1
            self._assign()

    def member(self, member_id: str, epoch: int) -> ConsumerMember:
        """Return a member for its commits. Raises :class:`GroupError` for one that is not there, or of another
        epoch."""
        member = self.members.get(member_id)
        if member is None:
            raise GroupError(Error.UNKNOWN_MEMBER_ID)
        if epoch != member.epoch:
            raise GroupError(Error.STALE_MEMBER_EPOCH)
        return member

    def _join(self, request: Heartbeat) -> ConsumerMember:
        known = self.members.get(request.member_id)
        if request.instance_id is not None:
            other_id = self.instances.get(request.instance_id)
            if other_id is not None and other_id != request.member_id:
                other = self.members[other_id]
                if other.epoch != LEFT_FOR_NOW:
                    raise GroupError(Error.UNRELEASED_INSTANCE_ID)
                return self._replace(other, request.member_id)
        if known is not None:
            return known
        if len(self.members) >= MOST_MEMBERS:
            raise GroupError(Error.GROUP_MAX_SIZE_REACHED)
        member = self.members[request.member_id] = ConsumerMember(request.member_id, request.instance_id)
        if request.instance_id is not None:
            self.instances[request.instance_id] = request.member_id
        self.epoch += 1
        return member

    def _replace(self, other: ConsumerMember, member_id: str) -> ConsumerMember:
        """A static member comes again under another ID, and takes what it had."""
        self._stop_timers(other)
        del self.members[other.member_id]
        self.target[member_id] = self.target.pop(other.member_id, set())
        other.member_id, other.epoch = member_id, 0
        self.members[member_id] = other
        assert other.instance_id is not None
        self.instances[other.instance_id] = member_id
        return other

    def _known(self, request: Heartbeat) -> ConsumerMember:
        if request.instance_id is not None:
            known = self.instances.get(request.instance_id)
            if known is None:
                raise GroupError(Error.UNKNOWN_MEMBER_ID)
            if known != request.member_id:
                raise GroupError(Error.FENCED_INSTANCE_ID)
        member = self.members.get(request.member_id)
        if member is None:
            raise GroupError(Error.UNKNOWN_MEMBER_ID)
        return member

    def _check_epoch(self, member: ConsumerMember, request: Heartbeat) -> None:
        if request.epoch > member.epoch:
            raise GroupError(Error.FENCED_MEMBER_EPOCH)
        if request.epoch < member.epoch:  # the response with the new one may have been lost
            is_subset = request.owned is not None and request.owned <= member.assigned
            if request.epoch != member.previous_epoch or not is_subset:
                raise GroupError(Error.FENCED_MEMBER_EPOCH)

    def _update(self, member: ConsumerMember, request: Heartbeat) -> bool:
        """Takes what a member says of itself; returns whether the group is to be assigned again."""
        member.client_id, member.host = request.client_id, request.host
        if request.rack_id is not None:
            member.rack_id = request.rack_id
        if request.rebalance_ms != -1:
            member.rebalance_ms = request.rebalance_ms
        if request.assignor is not None:
            member.assignor = request.assignor
        before = member.names, member.regex
        if request.regex is not None:
            self.topics.match(frozenset(), request.regex)
            member.regex = request.regex
        if request.names is not None:
            member.names = request.names
        if (member.names, member.regex) != before and member.epoch:
            self.epoch += 1
        return self.epoch > self.target_epoch

    def _count(self, member: ConsumerMember) -> None:
        size = _size(member)
        self.room.take(size - member.size)
        member.size = size

    def _assign(self) -> None:
        subscriptions = {each.member_id: self.topics.match(each.names, each.regex) for each in self.members.values()}
        current = {each.member_id: each.assigned for each in self.members.values()}
        self.target = ASSIGNORS[self.assignor](subscriptions, self.topics.counts(), current)
        self.target_epoch = self.epoch

    def _reconcile(self, member: ConsumerMember, owned: frozenset[TopicPartition] | None) -> None:
        """One step of a member towards its target (``CurrentAssignmentBuilder``)."""
        if member.state == "stable" and member.epoch == self.target_epoch:
            return
        if member.state == "unrevoked":
            if owned is None or owned & member.revoking:
                return
            self._stop_rebalance(member)
            member.revoking = frozenset()
        target = frozenset(self.target.get(member.member_id, ()))
        kept, given_up = member.assigned & target, member.assigned - target
        missing = target - member.assigned
        free = frozenset(each for each in missing if not self._is_owned(each, member))
        if given_up:
            member.assigned, member.revoking, member.state = kept, given_up, "unrevoked"
            self._start_rebalance(member)
            return
        member.assigned = kept | free
        member.state = "stable" if free == missing else "unreleased"
        if member.epoch != self.target_epoch:
            member.previous_epoch, member.epoch = member.epoch, self.target_epoch

    def _is_owned(self, place: TopicPartition, by_others_than: ConsumerMember) -> bool:
        others = (each for each in self.members.values() if each is not by_others_than)
        return any(place in each.assigned or place in each.revoking for each in others)

    def _leave(self, request: Heartbeat) -> Row:
        member = self._known(request)
        if request.epoch == LEFT_FOR_NOW and member.instance_id is not None:
            member.epoch = LEFT_FOR_NOW
            self._expect(member)
        else:
            self._forget(member)
        return {"memberId": member.member_id, "memberEpoch": request.epoch}

    def _forget(self, member: ConsumerMember) -> None:
        self._stop_timers(member)
        if self.members.pop(member.member_id, None) is not None:
            self.room.take(-member.size)
        self.target.pop(member.member_id, None)
        if member.instance_id is not None and self.instances.get(member.instance_id) == member.member_id:
            del self.instances[member.instance_id]
        self.epoch += 1

    def _expect(self, member: ConsumerMember) -> None:
        if member.session is not None:
            member.session.cancel()
        member.session = _later(SESSION_MS, self._expire, member)

    def _start_rebalance(self, member: ConsumerMember) -> None:
        self._stop_rebalance(member)
        if member.rebalance_ms >= 0:
            member.rebalance = _later(member.rebalance_ms, self._expire, member)

    def _expire(self, member: ConsumerMember) -> None:
        if self.members.get(member.member_id) is member:
            self._forget(member)

    def _stop_rebalance(self, member: ConsumerMember) -> None:
        if member.rebalance is not None:
            member.rebalance.cancel()
            member.rebalance = None

    def _stop_timers(self, member: ConsumerMember) -> None:
        self._stop_rebalance(member)
        if member.session is not None:
            member.session.cancel()

    def close(self) -> None:
        """End its timers."""
        for member in self.members.values():
            self._stop_timers(member)


def by_topic(places: Set[TopicPartition]) -> list[Row]:
    """Return partitions as a response has them."""
    found: dict[str, list[int]] = {}
    for topic_id, number in sorted(places):
        found.setdefault(topic_id, []).append(number)
    return [{"topicId": topic_id, "partitions": numbers} for topic_id, numbers in found.items()]


def _later(after_ms: int, work: Callable[[ConsumerMember], None], member: ConsumerMember) -> asyncio.TimerHandle:
    return asyncio.get_running_loop().call_later(after_ms / 1000, work, member)
