"""Shows what a rebuilt cluster will be, or is: as text, and as rows for JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from brokerless.internals.metadata.cluster import cluster_rows
from brokerless.internals.metadata.versions import describe_level
from brokerless.jobs.rebuild.from_bucket.stand_ins import FromBucket
from brokerless.jobs.rebuild.node_directories import held_in
from brokerless.jobs.rebuild.plan import Rebuild
from brokerless.log import names
from brokerless.text import count_of, format_bytes, show
from brokerless.values import Row
from brokerless.views.findings import finding_line, root_of
from brokerless.views.table import NOTHING, format_number, table

_MOST_FINDINGS = 20
_COUNTED = ("configs", "acls", "users", "quotas", "tokens")


def rebuild_lines(rebuild: Rebuild) -> Iterator[str]:
    """Yield what is, or will be, written."""
    quorum = "static quorum" if rebuild.voters is None else "dynamic quorum"
    yield f"cluster {show(rebuild.cluster_id)}, metadata.version {describe_level(rebuild.level)}, {quorum}"
    yield f"state: {show(rebuild.origin)}"
    rows = cluster_rows(rebuild.cluster)
    counts = [count_of(len(rows["topics"]), "topic"), count_of(len(rows["partitions"]), "partition")]
    counts += [f"{name} {len(rows[name])}" for name in _COUNTED]
    yield ", ".join(counts)
    yield ""
    yield "directories:"
    yield from (f"  {line}" for line in _directory_lines(rebuild))
    yield ""
    yield "topics:"
    yield from (f"  {line}" for line in _topic_lines(rebuild))
    if rebuild.from_bucket is not None:
        yield ""
        yield f"of {show(rebuild.from_bucket.url)}:"
        yield from (f"  {line}" for line in _bucket_lines(rebuild.from_bucket))
    if rebuild.lost:
        yield ""
        yield "lost:"
        yield from (f"  {show(each)}" for each in rebuild.lost)
    if rebuild.ended:
        yield ""
        yield "partitions that end before the end of the snapshot:"
        for each in (one.replica for one in rebuild.ended):
            name = names.partition_directory(each.topic, each.partition)
            yield f"  {show(name)}: at offset {each.end_offset}, and not at {each.end_in_log}"
    if rebuild.findings:
        yield ""
        yield "findings:"
        yield from (f"  {line}" for line in _finding_lines(rebuild))
    if rebuild.paused:
        yield ""
        yield "retention.ms is -1 for now; to set it back, kafka-configs.sh --alter --entity-type topics with:"
        yield from (f"  --entity-name {show(each.topic)} {show(each.change)}" for each in rebuild.paused)
    for node in rebuild.nodes:
        yield ""
        yield f"server.properties of node {node.node_id}:"
        yield from (f"  {name}={show(value)}" for name, value in rebuild.server_properties(node.node_id).items())
    yield ""
    yield _what_next(rebuild)


def _what_next(rebuild: Rebuild) -> str:
    if not rebuild.is_applied:
        return "nothing is written without --apply"
    if rebuild.data == "in-place":
        return "done; rebuild --undo puts back what was in place"
    return "done; start the controllers, and then the brokers"


def _finding_lines(rebuild: Rebuild) -> Iterator[str]:
    counts = Counter(each.kind for each in rebuild.findings)
    shown: Counter[str] = Counter()
    root = root_of(each.disk.path for each in rebuild.directories if each.disk is not None)
    for each in rebuild.findings:
        shown[each.kind] += 1
        if shown[each.kind] <= _MOST_FINDINGS:
            yield finding_line(each, root)
        elif shown[each.kind] == _MOST_FINDINGS + 1:
            yield f"... and {format_number(counts[each.kind] - _MOST_FINDINGS)} more of {each.kind} (--json has all)"


def _directory_lines(rebuild: Rebuild) -> Iterator[str]:
    nodes = {each.node_id: each for each in rebuild.nodes}
    cells: list[list[str]] = []
    for each in rebuild.directories:
        held = [replica.replica for replica in held_in(rebuild, each)]
        how = "new" if each.disk is None else f"{rebuild.data if each.is_new else 'in place'}"
        source = NOTHING if each.disk is None else show(each.disk.path)
        roles = ",".join(nodes[each.node_id].roles)
        size = format_bytes(sum(replica.size for replica in held))
        cells.append([show(each.path), str(each.node_id), roles, how, source, format_number(len(held)), size])
    names = ("directory", "node", "roles", "data", "of disk", "partitions", "size")
    yield from table(names, cells, ("node", "partitions", "size"), margin=2)


def _topic_lines(rebuild: Rebuild) -> Iterator[str]:
    cells: list[list[str]] = []
    for topic_id, name in sorted(rebuild.cluster.topics.items(), key=lambda each: each[1]):
        partitions = rebuild.cluster.partitions.get(topic_id, {})
        there = [held for number in partitions for held in rebuild.held.get((topic_id, number), ())]
        replicas = sum(len(row["replicas"]) for row in partitions.values())
        in_sync = sum(len(row["isr"]) for row in partitions.values())
        counts = [format_number(each) for each in (len(partitions), replicas, len(there), in_sync)]
        cells.append([show(name), show(topic_id), *counts])
    names = ("topic", "topicId", "partitions", "replicas", "on disks", "in sync")
    yield from table(names, cells, names[2:], margin=2)


def _bucket_lines(found: FromBucket) -> Iterator[str]:
    cells: list[list[str]] = []
    by_partition = {(each.partition.topic_id, each.partition.partition): each for each in found.stand_ins}
    for each in by_partition.values():
        of_bucket = each.partition
        size = format_bytes(sum(segment.size for segment in of_bucket.segments))
        offsets = f"{of_bucket.start_offset}..{of_bucket.end_offset - 1}" if of_bucket.segments else NOTHING
        counts = [format_number(len(of_bucket.segments)), size, offsets, str(each.log_start)]
        cells.append([show(of_bucket.name), *counts, format_number(len(each.transactions))])
    names = ("partition", "segments", "size", "offsets", "log start", "open transactions")
    yield from table(names, cells, ("segments", "size", "log start", "open transactions"), margin=2)


def rebuild_rows(rebuild: Rebuild) -> Iterator[Row]:
    """Yield the tables of the rebuilt cluster, which ``--from`` takes again, and what is not of the metadata."""
    for name, rows in cluster_rows(rebuild.cluster).items():
        yield from ({"table": name, **row} for row in rows)
    for node in rebuild.nodes:
        properties: Mapping[str, str] = rebuild.server_properties(node.node_id)
        yield {"table": "nodes", "nodeId": node.node_id, "was": node.was, "roles": node.roles, "properties": properties}
    for each in rebuild.directories:
        source = None if each.disk is None else each.disk.path
        yield {
            "table": "directories", "path": each.path, "nodeId": each.node_id, "directoryId": each.directory_id,
            "disk": source, "isNew": each.is_new, "partitions": sum(1 for _ in held_in(rebuild, each)),
        }  # fmt: skip
    for each in (one.replica for one in rebuild.ended):
        yield {
            "table": "endedPartitions", "topic": each.topic, "topicId": each.topic_id, "partition": each.partition,
            "endOffset": each.end_offset, "endInSnapshot": each.end_in_log,
        }  # fmt: skip
    for each in rebuild.paused:
        yield {"table": "pausedRetention", "topic": each.topic, "retentionMs": each.before}
    for each in () if rebuild.from_bucket is None else rebuild.from_bucket.stand_ins:
        of_bucket = each.partition
        yield {
            "table": "remotePartitions", "topic": of_bucket.topic, "topicId": of_bucket.topic_id,
            "partition": of_bucket.partition, "nodeId": each.node_id, "segments": len(of_bucket.segments),
            "sizeInBytes": sum(segment.size for segment in of_bucket.segments),
            "startOffset": of_bucket.start_offset, "endOffset": of_bucket.end_offset,
            "logStartOffset": each.log_start, "isLogStartKnown": each.is_log_start_known,
            "openTransactions": [
                {"producerId": one.producer_id, "firstOffset": one.first_offset} for one in each.transactions
            ],
        }  # fmt: skip
    yield from ({"table": "positions", **each.row(), "resetTo": rebuild.reset_to} for each in rebuild.positions)
    yield from ({"table": "lost", "what": each} for each in rebuild.lost)
    yield from ({"table": "findings", **each.as_dict()} for each in rebuild.findings)
