"""Makes rows of the page that are in no figure: topics with their settings, and findings that say the same as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from brokerless.internals.topic_settings import read_topic_settings
from brokerless.log.directory import PartitionPath
from brokerless.log.settings.topic import CLEANUP_POLICY, TopicSettings, cleanup_policies
from brokerless.text import format_bytes
from brokerless.values import Row

MOST_PLACES = 200
"""Places of one finding that the page has."""
_UNKNOWN = "unknown"
_DAY_MS = 86_400_000
_UNITS = ((_DAY_MS, "day"), (3_600_000, "hour"), (60_000, "minute"), (1000, "second"))


def read_settings(partitions: Sequence[PartitionPath]) -> dict[str, TopicSettings]:
    """Return the settings of each topic that the metadata in the same log directory has."""
    locations = {each.topic: each.location for each in partitions if each.topic is not None}
    found = {topic: read_topic_settings(location, topic) for topic, location in locations.items()}
    return {topic: settings for topic, settings in found.items() if settings is not None}


def policy_text(settings: TopicSettings | None) -> str:
    """Return the cleanup policy for people; Kafka's default where only a ``server.properties`` could say it. None: the
    topic is not known."""
    if settings is None:
        return _UNKNOWN
    policy = settings.get(CLEANUP_POLICY)
    return "delete (default)" if policy is None else policy or "none"


def retention_text(settings: TopicSettings | None) -> str:
    """Return how long, and how much, is retained, for people. None: the topic is not known."""
    if settings is None:
        return _UNKNOWN
    policies = cleanup_policies(settings.get(CLEANUP_POLICY))
    if "delete" not in policies:
        return "all keys" if policies else "all records"
    time = _duration(settings["retention.ms"]) if "retention.ms" in settings else "7 days (default)"
    size = settings.get("retention.bytes", "-1")
    return time if size == "-1" else f"{time}, {_size(size)}"


def topic_rows(
    partitions: Sequence[Row], lag: Sequence[Row], settings: Mapping[str, TopicSettings] | None = None
) -> list[Row]:
    """Return a row for each topic, the largest first: the sums of its partitions, its policy and retention (None
    without ``settings``), and the lag of the group that is farthest behind in it."""
    found: dict[str | None, Row] = {}
    for each in partitions:
        names = ("segments", "batches", "records", "sizeInBytes")
        start = {"topic": each["topic"], "partitions": 0, **dict.fromkeys(names, 0), "lag": None}
        start |= {"policy": None, "retention": None}
        if settings is not None:
            own = settings.get(each["topic"] or "")
            start |= {"policy": policy_text(own), "retention": retention_text(own)}
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
