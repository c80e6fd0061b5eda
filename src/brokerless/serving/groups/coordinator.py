"""All groups of this endpoint, by their IDs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from brokerless.serving.groups.classic import ClassicGroup
from brokerless.serving.groups.errors import GroupError
from brokerless.serving.groups.offsets import CommittedOffsets
from brokerless.serving.protocol.errors import Error

MOST_GROUPS = 20_000
"""Groups with members that this endpoint keeps."""

Row = dict[str, Any]


def check_id(group_id: str) -> None:
    """Raise :class:`GroupError` for an ID that no group can have."""
    if not group_id:
        raise GroupError(Error.INVALID_GROUP_ID)


@dataclass(slots=True)
class Coordinator:
    """``offsets``: what groups have committed, those of the dead cluster as well."""

    offsets: CommittedOffsets
    groups: dict[str, ClassicGroup] = field(default_factory=dict[str, ClassicGroup])

    def take(self, rows: Sequence[Row]) -> None:
        """Take the dead cluster's groups: their members are gone."""
        for row in rows:
            if row["type"] in ("classic", "consumer"):
                group = ClassicGroup(row["group"], generation=max(0, row["epoch"] or 0))
                group.protocol_type = row["protocolType"] or ("consumer" if row["type"] == "consumer" else None)
                self.groups.setdefault(row["group"], group)
        for group_id in self.offsets.groups:
            self.groups.setdefault(group_id, ClassicGroup(group_id))

    def find(self, group_id: str) -> ClassicGroup:
        """Return a group. Raises :class:`GroupError` where there is none."""
        check_id(group_id)
        group = self.groups.get(group_id)
        if group is None:
            raise GroupError(Error.GROUP_ID_NOT_FOUND)
        return group

    def find_or_make(self, group_id: str) -> ClassicGroup:
        """Return a group, a new one where there is none."""
        group = self.groups.get(group_id)
        if group is None:
            if len(self.groups) >= MOST_GROUPS + len(self.offsets.groups):
                self._forget_all_unused()
            if len(self.groups) >= MOST_GROUPS + len(self.offsets.groups):
                raise GroupError(Error.GROUP_MAX_SIZE_REACHED)
            group = self.groups[group_id] = ClassicGroup(group_id)
        return group

    def forget_unused(self, group_id: str) -> None:
        """Forget a group without members and offsets, as if it had never been."""
        group = self.groups.get(group_id)
        if group is not None and not group.members and not group.pending and group_id not in self.offsets.groups:
            del self.groups[group_id]

    def _forget_all_unused(self) -> None:
        for group_id in list(self.groups):
            self.forget_unused(group_id)

    def close(self) -> None:
        """End all that waits."""
        for group in self.groups.values():
            group.close()
