"""All groups of this endpoint, by their IDs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from brokerless.serving.groups.classic import ClassicGroup
from brokerless.serving.groups.consumer import ConsumerGroup, KnownTopics
from brokerless.serving.groups.errors import GroupError
from brokerless.serving.groups.offsets import CommittedOffsets
from brokerless.serving.groups.room import OF_EACH, Room, size_of
from brokerless.serving.protocol.errors import Error
from brokerless.values import Row

MOST_GROUPS = 20_000
"""Groups with members that this endpoint keeps."""


def check_id(group_id: str) -> None:
    """Raise :class:`GroupError` for an ID that no group can have."""
    if not group_id:
        raise GroupError(Error.INVALID_GROUP_ID)


@dataclass(slots=True)
class Coordinator:
    """The groups of this endpoint."""

    offsets: CommittedOffsets
    """The offsets that groups have committed, also those of the dead cluster."""
    room: Room = field(default_factory=Room)
    """The memory for groups and their members."""
    groups: dict[str, ClassicGroup | ConsumerGroup] = field(default_factory=dict[str, ClassicGroup | ConsumerGroup])

    def take(self, rows: Sequence[Row], topics: KnownTopics) -> None:
        """Take the dead cluster's groups: their members are gone."""
        for row in rows:
            group_id, epoch = row["group"], max(0, row["epoch"] or 0)
            if row["type"] == "classic":
                group = ClassicGroup(group_id, self.room, generation=epoch, protocol_type=row["protocolType"])
                self._add(group)
            elif row["type"] == "consumer":
                assigned = epoch if row["assignmentEpoch"] is None else row["assignmentEpoch"]
                self._add(ConsumerGroup(group_id, topics, epoch, assigned, room=self.room))
        for group_id in self.offsets.groups:
            self._add(ClassicGroup(group_id, self.room))

    def _add(self, group: ClassicGroup | ConsumerGroup) -> None:
        if group.group_id not in self.groups:
            self.groups[group.group_id] = group
            self.room.take(_size(group.group_id))

    def topics_changed(self) -> None:
        """Hand out new partitions; the members of classic groups see them themselves."""
        for group in self.groups.values():
            if isinstance(group, ConsumerGroup):
                group.topics_changed()

    def find(self, group_id: str) -> ClassicGroup:
        """Return a classic group. Raises :class:`GroupError` where there is none."""
        check_id(group_id)
        group = self.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            raise GroupError(Error.GROUP_ID_NOT_FOUND)
        return group

    def consumer_group(self, group_id: str, topics: KnownTopics, *, is_joining: bool) -> ConsumerGroup:
        """Return a group of KIP-848, a new one for who joins. Raises :class:`GroupError` where there is none."""
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if not is_joining or (group is not None and (group.members or group.pending)):
            raise GroupError(Error.GROUP_ID_NOT_FOUND)
        self._make_room(group_id)
        made = self.groups[group_id] = ConsumerGroup(group_id, topics, room=self.room)
        return made

    def find_or_make(self, group_id: str) -> ClassicGroup:
        """Return a classic group, a new one where there is none. Raises :class:`GroupError` for members of the other
        protocol."""
        group = self.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return group
        if group is not None and group.members:
            raise GroupError(Error.INCONSISTENT_GROUP_PROTOCOL)
        self._make_room(group_id)
        made = self.groups[group_id] = ClassicGroup(group_id, self.room)
        return made

    def _make_room(self, group_id: str) -> None:
        """Counts a new group. Raises :class:`GroupError` where another one would be too many."""
        if group_id in self.groups:
            return
        if self._is_full(group_id):
            self._forget_all_unused()
        if self._is_full(group_id):
            raise GroupError(Error.GROUP_MAX_SIZE_REACHED)
        self.room.take(_size(group_id))

    def _is_full(self, group_id: str) -> bool:
        has_too_many = len(self.groups) >= MOST_GROUPS + len(self.offsets.groups)
        return has_too_many or self.room.taken + _size(group_id) > self.room.most

    def forget_unused(self, group_id: str) -> None:
        """Forget a group without members and offsets, as if it had never been."""
        group = self.groups.get(group_id)
        is_waited_for = isinstance(group, ClassicGroup) and group.pending
        if group is not None and not group.members and not is_waited_for and group_id not in self.offsets.groups:
            del self.groups[group_id]
            self.room.take(-_size(group_id))

    def _forget_all_unused(self) -> None:
        for group_id in list(self.groups):
            self.forget_unused(group_id)

    def close(self) -> None:
        """End all that waits."""
        for group in self.groups.values():
            group.close()


def _size(group_id: str) -> int:
    return OF_EACH + size_of((group_id,))
