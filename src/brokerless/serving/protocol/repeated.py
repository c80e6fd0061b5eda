"""Drops repeated elements of a request but the last, so that it costs no more than its different ones.

Two elements are equal where they name the same partition (then the last one counts, in the place of the first, as in
the map that a broker makes of a Fetch request), or have the same fields. A broker does so in Fetch, Metadata,
DescribeTopicPartitions and DescribeLogDirs (4.4.0), and repeats its answers in others, which clients keep by names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from brokerless.format.messages.layouts import MessageField
from brokerless.serving.protocol.tables import Api
from brokerless.values import Row

AS_THEY_ARE = frozenset(
    {
        "ListOffsets",
        "DescribeUserScramCredentials",
        "DescribeClientQuotas",
        "DescribeQuorum",
        "LeaveGroup",
        "CreateAcls",
        "DeleteAcls",
    }
)
"""Requests in which a repeated element is an error that the answer says, or whose answers are known by their places."""
_PARTITION = frozenset({"partition", "partitionIndex", "index"})
"""Fields that are the number of a partition."""

Key = tuple[Any, ...]


def without_repeated(api: Api, body: Row) -> Row:
    """Return the fields of a request without its repeated elements."""
    return body if api.name in AS_THEY_ARE else _SeenElements().row(api.request.fields, body, ())


@dataclass(slots=True)
class _SeenElements:
    """The elements of a request so far, by where they are and what they are."""

    elements: dict[Key, Row | None] = field(default_factory=dict[Key, Row | None])

    def row(self, fields: tuple[MessageField, ...], row: Row, path: Key) -> Row:
        changed = dict(row)
        for each in fields:
            values = row.get(each.name)
            if values and each.type.startswith("[]"):
                changed[each.name] = self._array(each, values, (*path, each.name))
        return changed

    def _array(self, of: MessageField, values: list[Any], path: Key) -> list[Any]:
        if of.type != "[]struct":
            return [each for each in values if self._is_new((*path, each))]
        number = next((each.name for each in of.fields if each.name in _PARTITION), None)
        rows = (
            self._other(of, each, path) if number is None else self._partition((*path, each[number]), each)
            for each in values
        )
        return [each for each in rows if each is not None]

    def _partition(self, key: Key, row: Row) -> Row | None:
        before = self.elements.get(key)
        if before is not None:
            before.update(row)
            return None
        self.elements[key] = changed = dict(row)
        return changed

    def _other(self, of: MessageField, row: Row, path: Key) -> Row | None:
        """An element without a number; those that differ in their partitions alone are one, which has them all."""
        if not self._is_new((*path, _frozen(row))):
            return None
        arrays = [each for each in of.fields if each.name in row and each.type.startswith("[]")]
        if not any(_has_partitions(each) for each in arrays):
            return row
        names = {each.name for each in arrays}
        own = _frozen({name: value for name, value in row.items() if name not in names})
        changed = self.row(of.fields, row, (*path, own))
        return None if any(row[each] and not changed[each] for each in names) else changed

    def _is_new(self, key: Key) -> bool:
        if key in self.elements:
            return False
        self.elements[key] = None
        return True


def _has_partitions(of: MessageField) -> bool:
    return of.name.startswith("partition") or any(
        each.name in _PARTITION or _has_partitions(each) for each in of.fields
    )


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_frozen, cast("list[Any]", value)))
    if isinstance(value, dict):
        return tuple((name, _frozen(each)) for name, each in cast(Row, value).items())
    return value
