"""Formats the description of a cluster as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from brokerless.clusters.description import ClusterDescription
from brokerless.clusters.metadata_replicas import describe_end
from brokerless.internals.metadata.versions import describe_level
from brokerless.text import count_of, format_bytes, show
from brokerless.values import Row
from brokerless.views.findings import finding_line, root_of
from brokerless.views.internals.state import state_lines
from brokerless.views.table import NOTHING, format_number, table
from brokerless.views.text import format_times


def cluster_lines(description: ClusterDescription) -> Iterator[str]:
    """Yield all that people see of a description: sections, and then the findings."""
    (cluster,) = description.rows["cluster"]
    level = cluster["metadataVersion"]
    version = NOTHING if level is None else describe_level(level)
    yield f"cluster {_text(cluster['clusterId'])}, metadata.version {version}"
    if cluster["metadataReplica"] is None:
        yield "metadata: none"
    else:
        when = format_times([cluster["lastTimestamp"]])[0]
        end = describe_end(cluster["endOffset"], cluster["leaderEpoch"])
        voters = ", ".join(map(str, cluster["voters"])) or NOTHING
        yield f"metadata: {show(cluster['metadataReplica'])}, {end}, {when}; voters {voters}"
    yield from _section("disks", _disk_lines(description.rows["disks"]))
    yield from _section("nodes", _node_lines(description.rows["nodes"]))
    yield from _section("topics", _topic_lines(description.rows["topics"]))
    for name in ("configs", "acls", "users", "quotas", "features"):
        if description.rows[name]:
            yield from _section(name, state_lines(name, description.rows[name]))
    yield from _section("groups", _group_lines(description))
    root = root_of(each.path for each in description.disks)
    yield from _section("findings", [finding_line(each, root) for each in description.findings])


def _section(name: str, lines: Iterator[str] | Sequence[str]) -> Iterator[str]:
    found = list(lines)
    if found:
        yield ""
        yield f"{name}:"
        yield from (f"  {line}" for line in found)


def _disk_lines(rows: Sequence[Row]) -> Iterator[str]:
    names = ("disk", "node", "directory", "stopped", "partitions", "size", "metadata up to")
    cells = [
        [
            show(row["path"]), _text(row["nodeId"]), _text(row["directoryId"]),
            "cleanly" if row["wasClean"] else "uncleanly", format_number(row["partitions"]),
            format_bytes(row["sizeInBytes"]), _metadata_end(row),
        ]
        for row in rows
    ]  # fmt: skip
    return table(names, cells, ("node", "partitions", "size"), margin=2)


def _metadata_end(row: Row) -> str:
    if row["metadataEndOffset"] is None:
        return NOTHING
    damaged = "" if row["isMetadataIntact"] else ", damaged"
    end = row["metadataEndOffset"]
    return f"{end - 1:,} in epoch {row['metadataEpoch']}{damaged}" if end else f"log empty{damaged}"


def _node_lines(rows: Sequence[Row]) -> Iterator[str]:
    cells = [
        [
            _text(row["nodeId"]), ",".join(row["roles"]) or NOTHING, "yes" if row["isVoter"] else "no",
            _text(row["rack"]), " ".join(map(show, row["endPoints"])) or NOTHING, _given(row),
        ]
        for row in rows
    ]  # fmt: skip
    return table(("node", "roles", "voter", "rack", "listeners", "disks given"), cells, ("node",), margin=2)


def _given(row: Row) -> str:
    directories = len(row["directories"])
    return f"{len(row['disks'])} of {directories}" if directories else str(len(row["disks"]))


def _topic_lines(rows: Sequence[Row]) -> Iterator[str]:
    is_known = any(row["isInMetadata"] for row in rows)
    cells = [
        [
            show(row["topic"]), _text(row["topicId"]), format_number(row["partitions"]),
            _replicas(row),
            format_bytes(row["sizeInBytes"]), "" if row["isInMetadata"] or not is_known else "not in the metadata",
        ]
        for row in rows
    ]  # fmt: skip
    names = ("topic", "topicId", "partitions", "replicas here", "size", "")
    return table(names, cells, ("partitions", "size"), margin=2)


def _group_lines(description: ClusterDescription) -> Iterator[str]:
    topics: dict[str, set[str]] = {each["group"]: set() for each in description.rows["groups"]}
    counts: dict[str, int] = {}
    for each in description.rows["offsets"]:
        topics.setdefault(each["group"], set()).add(each["topic"])
        counts[each["group"]] = counts.get(each["group"], 0) + 1
    for name in sorted(topics):
        of_topics = ", ".join(map(show, sorted(topics[name])))
        offsets = count_of(counts.get(name, 0), "committed offset")
        yield f"{show(name)}: {offsets}{f' of {of_topics}' if of_topics else ''}"


def _text(value: object) -> str:
    return NOTHING if value is None else show(str(value))


def _replicas(row: Row) -> str:
    of_all = f" of {row['replicas']}" if row["replicas"] else ""
    return f"{row['replicasOnDisks']}{of_all}"
