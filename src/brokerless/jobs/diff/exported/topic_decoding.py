"""Finds how the topics of a comparison are decoded of which one side is a decoded table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from brokerless.errors import UsageError
from brokerless.jobs.diff.copied_partition import CopiedPartition
from brokerless.jobs.diff.exported.decoding import DecodedColumns, TableDecoding, resolve_decoding
from brokerless.jobs.diff.exported.listing import TablePartition
from brokerless.log.directory import PartitionPath
from brokerless.typed.schema_source import load_registry
from brokerless.typed.topic_type import Decoding

BothSides = tuple[PartitionPath | None, PartitionPath | None]


def topic_decodings(pairs: Iterable[BothSides], asked: Decoding) -> Mapping[str, TableDecoding]:
    """Return how the records of a log are decoded, by the topic of the table that it is compared with: the records of
    such a topic are read once to find it. ``pairs``: the partitions of both sides. ``asked``: where schemas are, and
    the formats that a table does not say.

    Raises :class:`UsageError` where it cannot be known, or what is compared has no bytes of its own on a disk."""
    tables = dict[str, DecodedColumns]()
    logs: dict[str, dict[str, PartitionPath]] = defaultdict(dict)
    for pair in pairs:
        own = [each.decoded if isinstance(each, TablePartition) else None for each in pair]
        for (one, other), columns in zip((pair, pair[::-1]), own, strict=True):
            if columns is None or one is None or other is None or None not in own:
                continue
            topic = one.topic or ""
            if isinstance(other, CopiedPartition):
                text = f"the table of {topic} has decoded keys and values, which are compared with a log on disks, in a"
                raise UsageError(f"{text} bucket or a backup, or with another decoded table; give one of these")
            tables[topic] = columns
            logs[topic][other.path] = other
    found = dict[str, TableDecoding]()
    for topic, columns in tables.items():
        own = list(logs[topic].values())
        found[topic] = resolve_decoding(topic, columns, own, asked, registry=load_registry(asked.schemas, own))
    return found
