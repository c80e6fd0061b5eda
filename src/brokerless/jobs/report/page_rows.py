"""Makes rows of the page that are in no figure: topics with their settings, and findings that say the same as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from brokerless.internals.topic_settings import is_in_metadata, read_topic_setting
from brokerless.log.directory import PartitionPath
from brokerless.text import format_bytes
from brokerless.values import Row

MOST_PLACES = 200
"""Places of one finding that the page has."""
_UNKNOWN = "unknown"
_DAY_MS = 86_400_000
_UNITS = ((_DAY_MS, "day"), (3_600_000, "hour"), (60_000, "minute"), (1000, "second"))


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """A topic's settings by the cluster's metadata; None where it says nothing."""

    is_known: bool
    """Whether the metadata has the topic at all."""
    policy: str | None = None
    retention_ms: str | None = None
    retention_bytes: str | None = None

    def policy_text(self) -> str:
        """Return the cleanup policy for people; Kafka's default where only a ``server.properties`` could say it."""
        if not self.is_known:
            return _UNKNOWN
        return "delete (default)" if self.policy is None else self.policy or "none"

    def retention_text(self) -> str:
        """Return how long, and how much, is retained, for people."""
        if not self.is_known:
            return _UNKNOWN
        if self.policy is not None and not self.policy.strip():
            return "all records"
        if self.policy is not None and "delete" not in self.policy.split(","):
            return "all keys"
        time = "7 days (default)" if self.retention_ms is None else _duration(self.retention_ms)
        return time if self.retention_bytes in (None, "-1") else f"{time}, {_size(self.retention_bytes or '')}"


def read_settings(partitions: Sequence[PartitionPath]) -> dict[str, TopicSettings]:
    """Return the settings of each topic, as far as the metadata in the same log directory has them."""
    found: dict[str, TopicSettings] = {}
    for each in partitions:
        if each.topic is None or each.topic in found:
            continue
        if not is_in_metadata(each.location, each.topic):
            found[each.topic] = TopicSettings(is_known=False)
            continue
        names = ("cleanup.policy", "retention.ms", "retention.bytes")
        found[each.topic] = TopicSettings(
            True, *(read_topic_setting(each.location, each.topic, name) for name in names)
        )
    return found


def topic_rows(
    partitions: Sequence[Row], lag: Sequence[Row], settings: Mapping[str, TopicSettings] | None = None
) -> list[Row]:
    """Return a row for each topic, the largest first: the sums of its partitions, its policy and retention (None
    without ``settings``), and the lag of the group that is farthest behind in it."""
    found: dict[str | None, Row] = {}
    for each in partitions:
        names = ("segments", "batches", "records", "sizeInBytes")
        start = {"topic": each["topic"], "partitions": 0, **dict.fromkeys(names, 0), "lag": None}
        own = None if settings is None else settings.get(each["topic"] or "", TopicSettings(is_known=False))
        start |= {"policy": own and own.policy_text(), "retention": own and own.retention_text()}
        row = found.setdefault(each["topic"], start | {"minTimestamp": None, "maxTimestamp": None})
        row["partitions"] += 1
        for name in names:
            row[name] += each[name]
        for name, choose in (("minTimestamp", min), ("maxTimestamp", max)):
            known = [time for time in (row[name], each[name]) if time is not None]
            row[name] = choose(known) if known else None
    behind: Counter[tuple[str, str]] = Counter()
    for each in lag:
        behind[each["group"], each["topic"]] += each["lag"] or 0
    for (_, topic), count in behind.items():
        if topic in found:
            found[topic]["lag"] = max(count, found[topic]["lag"] or 0)
    return sorted(found.values(), key=lambda row: (-row["sizeInBytes"], row["topic"] or ""))


def finding_rows(findings: Sequence[Row]) -> list[Row]:
    """Return a row for each finding and for those of other places that say the same, with ``count`` and ``places``, in
    the order of the first of each."""
    found: dict[tuple[object, ...], Row] = {}
    for each in findings:
        says = ("severity", "kind", "message", "advice")
        row = found.setdefault(tuple(each[name] for name in says), {**each, "count": 0, "places": []})
        row["count"] += 1
        if len(row["places"]) < MOST_PLACES:
            row["places"].append(_place(each))
        for name in ("expected", "found"):
            row[name] = row[name] if row[name] == each[name] else None
    for row in found.values():
        more = row["count"] - len(row["places"])
        if more:
            row["places"].append(f"and {more:,} more: brokerless audit --all has them")
    return list(found.values())


def _place(row: Row) -> str:
    file = "/".join(row["file"].split("/")[-2:])  # the name of the partition's directory is enough
    place = file if row["position"] is None else f"{file}, position {row['position']}"
    return place if row["offset"] is None else f"{place}, offset {row['offset']}"


def _duration(text: str) -> str:
    try:
        ms = int(text)
    except ValueError:
        return text
    if ms < 0:
        return "unlimited"
    for unit, name in _UNITS:
        if ms >= unit and ms % unit == 0:
            return f"{ms // unit:,} {name}{'s' * (ms != unit)}"
    return f"{ms:,} ms"


def _size(text: str) -> str:
    return format_bytes(int(text)) if text.isdecimal() else text
