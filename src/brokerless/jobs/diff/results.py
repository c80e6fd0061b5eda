"""The result of a comparison: partitions, groups, and what else differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from brokerless.jobs.diff.partition_diff import Difference, PartitionDiff
from brokerless.text import short_html, short_repr

if TYPE_CHECKING:
    import pyarrow as pa

    from brokerless.jobs.diff.beside.cluster_state import StateDifference
    from brokerless.jobs.diff.beside.groups import GroupDiff


@dataclass(frozen=True)
class Diff:
    """What :func:`brokerless.diff` returns."""

    partitions: Sequence[PartitionDiff]
    """The compared partitions, by topic and number."""
    groups: Sequence[GroupDiff] = ()
    """The compared groups with their positions, by name."""
    state: Sequence[StateDifference] = ()
    """The differences in settings, topics, ACLs, users and quotas."""

    __repr__ = short_repr
    _repr_html_ = short_html

    @property
    def is_same(self) -> bool:
        """Whether both logs are the same, apart from the allowed causes."""
        return all(each.is_same for each in (*self.partitions, *self.groups)) and not self.state

    def differences(self) -> pa.Table:
        """Return the differences that are listed, as an Arrow table: a row for adjacent records that differ in one way.

        Returns
        -------
        pyarrow.Table
            ``topic``, ``partition``, ``what``, ``cause``, ``firstOffset``, ``lastOffset`` and ``records``. Of the first
            record, it has ``leftTimestamp`` and ``rightTimestamp``, and, with ``show_keys``, the ``key``.
        """
        import pyarrow as pa

        from brokerless.schemas import DIFFERENCES

        rows = [_row(partition, each) for partition in self.partitions for each in partition.differences]
        columns = [pa.array([row[name] for row in rows], DIFFERENCES.field(name).type) for name in DIFFERENCES.names]
        return pa.Table.from_arrays(columns, schema=DIFFERENCES)

    def lines(self) -> Iterator[str]:
        """Yield what differs, as ``brokerless diff`` prints it.

        Yields
        ------
        str
            A line for each difference that is listed, and for each range that could not be compared.
        """
        for each in self.partitions:
            yield from each.lines()
        for group in self.groups:
            if not group.is_same:
                yield str(group)
        yield from map(str, self.state)


def _row(partition: PartitionDiff, each: Difference) -> dict[str, Any]:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "what": each.what,
        "cause": each.cause,
        "firstOffset": each.first_offset,
        "lastOffset": each.last_offset,
        "records": each.records,
        "leftTimestamp": None if each.left is None else each.left.timestamp,
        "rightTimestamp": None if each.right is None else each.right.timestamp,
        "key": each.key,
    }
