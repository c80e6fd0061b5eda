"""Verifies as many bytes as a run's budget allows: what was verified longest ago, so that runs take turns."""

from __future__ import annotations

from collections.abc import Sequence

from brokerless.jobs.ledger import path_of, version_of
from brokerless.jobs.turns import Item, Turn, open_ledger
from brokerless.log.directory import PartitionPath


def begin_turn(partitions: Sequence[PartitionPath], budget: int | None, path: str | None) -> Turn | None:
    """Choose which segments a run verifies, at most ``budget`` bytes of them, as :meth:`Turn.begin`; None without a
    budget. The last segment of a partition changes all the time.

    Raises as :func:`brokerless.jobs.turns.open_ledger`.
    """
    ledger = open_ledger(partitions, budget, path)
    if ledger is None or budget is None:
        return None
    items = {
        path_of(each.log.path): Item(version_of(each), each.size, is_growing=each is partition.segments[-1])
        for partition in partitions
        for each in partition.segments
    }
    return Turn.begin(ledger, "segment", items, budget=budget, roots=[each.path for each in partitions])
