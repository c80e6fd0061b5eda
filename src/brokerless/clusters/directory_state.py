"""Checks a log directory: its checkpoints against its partitions, and the other files in it.

Sources: ``LogManager`` (``loadLogs``, ``loadLog``), ``LogCleanerManager``, ``ReplicaManager`` (4.1.1); KIP-858.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from brokerless.clusters.missing_partitions import partition_missing
from brokerless.clusters.placement import state_finding
from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind, Severity
from brokerless.kafka_names import TopicPartition
from brokerless.log import names
from brokerless.log.checkpoint.meta_properties import load_meta_properties
from brokerless.log.checkpoint.offset_checkpoints import load_offset_checkpoint
from brokerless.log.completion.findings import foreign_file
from brokerless.log.directory import LogDirectory, PartitionPath
from brokerless.log.storage.directory_lock import is_locked
from brokerless.log.storage.location import DirectoryEntry
from brokerless.log.storage.paths import is_remote, local

Lines = Mapping[str, tuple[str, int]]
"""One partition's lines in its log directory's checkpoints, by the file's name: its path, and the offset."""


@dataclass(frozen=True, slots=True)
class DirectoryState:
    """A log directory's checkpoints."""

    files: Mapping[str, DirectoryEntry] = field(default_factory=dict[str, DirectoryEntry])
    offsets: Mapping[str, Mapping[TopicPartition, int]] = field(default_factory=dict[str, Mapping[TopicPartition, int]])
    """The offsets by topic and partition of each checkpoint file that is there, by its name."""
    findings: tuple[Finding, ...] = ()
    """The checkpoint files that Kafka could not read."""

    @property
    def was_clean(self) -> bool:
        return names.CLEAN_SHUTDOWN in self.files

    def of(self, partition: PartitionPath) -> Lines:
        """Return one partition's lines; they are not of what is deleted or stray."""
        place = partition.topic or "", -1 if partition.partition is None else partition.partition
        live = self.offsets.items() if partition.state in ("live", "future") else ()
        return {name: (self.files[name].path, offsets[place]) for name, offsets in live if place in offsets}


def running_broker(state: DirectoryState) -> Path | None:
    """Return the log directory, if a broker or another process that writes holds its lock."""
    lock = state.files.get(names.LOCK)
    if lock is None or is_remote(lock.path):
        return None
    directory = Path(local(lock.path)).parent
    return directory if is_locked(directory) else None


def load_directory_state(directory: LogDirectory) -> DirectoryState:
    """Return the metadata files of a log directory; for a partition's directory, of the local one that it is in. None
    of it raises."""
    files = directory.files
    if directory.kind == "partition" and "://" not in directory.path:
        with suppress(UnreadableError):
            entries = directory.location.at(str(Path(directory.path).absolute().parent)).entries()
            files = {entry.name: entry for entry in entries if names.is_log_directory_file(entry.name)}
    offsets: dict[str, Mapping[TopicPartition, int]] = {}
    findings: list[Finding] = []
    for name in names.OFFSET_CHECKPOINTS:
        if name in files:
            loaded = load_offset_checkpoint(files[name].location)
            offsets[name] = loaded.offsets
            findings += loaded.findings
    return DirectoryState(files, offsets, tuple(findings))


def check_lines(lines: Lines, start_offset: int, end_offset: int) -> Iterator[Finding]:
    """Yield one partition's lines against its log, which has ``start_offset <= offset < end_offset``."""
    for name, kind, severity, text in _BEYOND_END:
        path, offset = lines.get(name, ("", 0))
        if offset > end_offset:
            expected, found = f"at most {end_offset}, where the log ends", f"offset {offset}"
            yield kind.at(path, text, severity=severity, offset=offset, expected=expected, found=found)
    for name, kind, text in _BEFORE_START:
        path, offset = lines.get(name, ("", start_offset))
        if offset < start_offset:
            expected, found = f"{start_offset} or more, where the log begins", f"offset {offset}"
            yield kind.at(path, text, severity="info", offset=offset, expected=expected, found=found)


_BEYOND_END: tuple[tuple[str, Kind, Severity, str], ...] = (
    (
        names.RECOVERY_POINT_CHECKPOINT,
        Kind.RECOVERY_POINT_BEYOND_END,
        "error",
        "the log ends before its recovery point: what had been flushed to disk is not there",
    ),
    (
        names.HIGH_WATERMARK_CHECKPOINT,
        Kind.HIGH_WATERMARK_BEYOND_END,
        "error",
        "the log ends before its high watermark: what was committed is not there",
    ),
    (
        names.CLEANER_CHECKPOINT,
        Kind.CLEANER_CHECKPOINT_BEYOND_END,
        "warning",
        "the log ends before the offset up to which it was compacted",
    ),
)
_BEFORE_START = (
    (
        names.LOG_START_OFFSET_CHECKPOINT,
        Kind.LOG_START_BEFORE_SEGMENTS,
        "the first segment begins after the log start offset: a segment is missing, or the checkpoint is old",
    ),
    (
        names.HIGH_WATERMARK_CHECKPOINT,
        Kind.HIGH_WATERMARK_BEFORE_START,
        "the first segment begins after the high watermark: the checkpoint is old",
    ),
)


def no_meta_properties(path: str) -> Finding:
    """Return the finding of a log directory without ``meta.properties``."""
    text = "there is none: a broker starts on no directories without one, and whose this was is not known"
    return Kind.META_PROPERTIES_MISSING.at(f"{path.rstrip('/')}/{names.META_PROPERTIES}", text)


def no_metadata(path: str) -> Finding:
    """Return the finding of log directories, of which one is at ``path``, without a replica of the cluster's
    metadata."""
    text = "there is no __cluster_metadata here: topics are known by their directories alone, and if no other "
    text += "controller has it, all partitions become stray at a start"
    return Kind.METADATA_MISSING.at(path, text)


def moment_of_a_broker(path: str) -> Finding:
    """Return the finding of a log directory on which a broker is running."""
    text = "a broker is running on this directory: what is said here is of a moment of its work"
    return Kind.BROKER_RUNNING.at(path, text, severity="info")


def _is_new(directory: LogDirectory) -> bool:
    """Return whether a log directory was formatted, and no broker has started on it."""
    kafka = {names.LOCK, *names.OFFSET_CHECKPOINTS}
    partitions = (*directory.partitions, *directory.others)
    return not kafka & directory.files.keys() and not any(each.segments for each in partitions)


def check_directory(
    directory: LogDirectory, state: DirectoryState, is_running: bool, elsewhere: Collection[tuple[str, int]] = ()
) -> Iterator[Finding]:
    """Yield what is to say of a log directory as a whole; nothing of another path. ``elsewhere``: partitions that other
    log directories of its broker have."""
    if directory.kind != "log-directory":
        return
    yield from state.findings
    if names.META_PROPERTIES in state.files:
        yield from load_meta_properties(state.files[names.META_PROPERTIES].location).findings
    elif state.files:
        yield no_meta_properties(directory.path)
    if is_running:
        yield moment_of_a_broker(directory.path)
    elif state.files and not state.was_clean and not _is_new(directory):
        text = "there is no clean-shutdown file: a broker was killed here, or this is a copy of a running one's"
        yield Kind.UNCLEAN_STOP.at(directory.path, text)
    for partition in directory.others:
        if partition.state == "live":
            yield from partition.findings
            continue
        yield from check_state(partition)
        yield from (each for each in partition.findings if each.kind == Kind.TOPIC_NAME_CUT)
    for entry in directory.foreign:
        text = "not Kafka's: neither a partition's directory nor one of a log directory's files"
        yield foreign_file(entry, text)
    there = {(each.topic, each.partition) for each in (*directory.partitions, *directory.others)}
    for place, offset in state.offsets.get(names.RECOVERY_POINT_CHECKPOINT, {}).items():
        if place not in there and place not in elsewhere:
            path = state.files[names.RECOVERY_POINT_CHECKPOINT].path
            found = f"flushed up to offset {offset}"
            yield partition_missing(
                path, f"{place[0]}-{place[1]}", "checkpoint", offset=offset, expected="a directory", found=found
            )


def check_state(partition: PartitionPath) -> Iterator[Finding]:
    """Yield what the name of a partition's directory says of its state, if it is not a live one."""
    if partition.is_unfinished and partition.uncommitted:
        yield from partition.uncommitted
    elif partition.is_unfinished:
        text = "what brokerless was writing here is not finished: a job is going on, or was killed"
        yield Kind.UNFINISHED_DIRECTORY.at(partition.path, text, severity="info")
    elif (finding := state_finding(partition.state, partition.path)) is not None:
        yield finding


def compare_topic_ids(topic_ids: Iterable[tuple[str, str, str]]) -> Iterator[Finding]:
    """Yield findings about partitions of one topic with another topic ID: (topic, ID, path of partition.metadata)."""
    first: dict[str, str] = {}
    for topic, topic_id, path in topic_ids:
        if first.setdefault(topic, topic_id) != topic_id:
            text = f"the topic ID is another one than that of {topic}'s other partitions: they are of two topics"
            yield other_topic_id(path, text, first[topic], topic_id)


def other_topic_id(path: str, text: str, expected: str, found: str | None) -> Finding:
    """Return the finding about a ``partition.metadata`` with another topic's ID."""
    return Kind.TOPIC_ID_MISMATCH.at(path, text, expected=expected, found=found)
