"""Finds partitions by name (``orders-0``), and refuses duplicates and partitions without a name."""

from __future__ import annotations

from collections.abc import Iterable

from brokerless.errors import UsageError
from brokerless.log import names
from brokerless.log.directory import PartitionPath


def by_name(partitions: Iterable[PartitionPath], advice: str) -> dict[str, PartitionPath]:
    """The partitions by the names of their directories, in this order. ``advice``: what to do where one comes twice.

    Raises :class:`UsageError` for a partition that comes twice, or whose path does not say which one it is.
    """
    found: dict[str, PartitionPath] = {}
    for each in partitions:
        if each.topic is None or each.partition is None:
            text = "the name does not say which partition this is; give its directory, as orders-0"
            raise UsageError(f"{each.path}: {text}")
        name = names.partition_directory(each.topic, each.partition)
        if name in found:
            raise UsageError(f"{name} is both in {found[name].path} and in {each.path}; {advice}")
        found[name] = each
    return found
