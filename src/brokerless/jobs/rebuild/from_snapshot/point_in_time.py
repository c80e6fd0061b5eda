"""The logs of a snapshot up to a point in time: each ends before its first record of that time or later.

Times are those of the records, which producers give unless a topic has its own. Kafka's own topics stay whole: they say
what was, and a group without its position would go on at an end or a start.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from brokerless.clusters.disk import DiskReplica
from brokerless.findings import Finding, Kind
from brokerless.log import names
from brokerless.log.backups.state import SnapshotState
from brokerless.log.partition import transactions_of
from brokerless.log.producer.transactions import open_transaction
from brokerless.log.ranges import Range
from brokerless.progress import ignore
from brokerless.tables.partition_tables import offset_for_time, read_records
from brokerless.tables.read_options import ReadOptions
from brokerless.text import count_of


def end_at(
    replica: DiskReplica, state: SnapshotState, until: int, max_batch_bytes: int | None = None
) -> tuple[DiskReplica, tuple[Finding, ...]]:
    """Return a replica with its end before the first record of a time (ms) or later, as of ``restore --until``; and
    what is to be known of that. Logs whose stored segments are all earlier are not read."""
    segments = state.segments.get((replica.topic_id or "", replica.partition), ())
    if names.is_internal(replica.topic) or all(each.max_timestamp < until for each in segments):
        return replica, ()
    end = offset_for_time(replica.paths, until, "read_uncommitted", max_batch_bytes)
    if end is None or end >= (replica.end_offset or 0):
        return replica, ()
    found = tuple(_findings(replica, end, until, max_batch_bytes))
    return replace(replica, end_offset=end, end_in_log=replica.end_offset), found


def _findings(replica: DiskReplica, end: int, until: int, max_batch_bytes: int | None) -> Iterator[Finding]:
    name = names.partition_directory(replica.topic, replica.partition)
    earlier = Range(end, None, None, until)
    options = ReadOptions(["timestamp"], earlier, max_batch_bytes=max_batch_bytes, on_damage=ignore)
    if late := sum(batch.num_rows for batch in read_records([replica.paths], options)):
        yield late_records(replica.path, name, late, end_offset=end)
    start = transactions_of(replica.paths).open_at(end)
    if start is not None:
        text = "it ends later than --until, so that nobody will end it, and consumers with read_committed stop there "
        text += f"until you do: kafka-transactions.sh --bootstrap-server ... abort --topic {replica.topic} "
        text += f"--partition {replica.partition} --start-offset {start}"
        yield open_transaction(replica.path, start, text, of=name)


def late_records(path: str, name: str, count: int, end_offset: int) -> Finding:
    """Return the finding about records of a partition after its end by ``--until`` that are older than that, too."""
    text = (
        f"{name}: {count_of(count, 'record')} after offset {end_offset} are older than --until, too; they came later, "
    )
    return Kind.LATE_RECORDS.at(path, f"{text}and are not restored", offset=end_offset)
