"""Finds files and names in a log directory that prevent a broker from starting.

Sources: ``MetaPropertiesEnsemble``, ``LogManager`` (``loadLogs``, ``loadLog``), ``LocalLog.parseTopicPartitionName``,
``CheckpointFile``, ``BootstrapDirectory`` (4.1.1). Each was tried with a broker
(``tests/kafka/test_directory_restart.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from brokerless import arrow
from brokerless.bounds import MAX_INT32
from brokerless.clusters.directory_state import no_meta_properties
from brokerless.clusters.placement import is_reserved
from brokerless.clusters.start.partition_files import check_file_names, unloadable
from brokerless.clusters.start.results import READ_IN_VAIN
from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.internals.records import decode_record
from brokerless.log import names
from brokerless.log.checkpoint.meta_properties import MetaProperties, load_meta_properties
from brokerless.log.checkpoint.offset_checkpoints import load_offset_checkpoint
from brokerless.log.checkpoint.partition_metadata import load_partition_metadata
from brokerless.log.directory import LogDirectory, PartitionPath, resolve
from brokerless.log.settings.rules import has_rule
from brokerless.log.storage.location import DirectoryEntry, Location
from brokerless.progress import ignore
from brokerless.tables.partition_tables import read_records
from brokerless.tables.read_options import ReadOptions

_REMOTE_INDEXES = "remote-log-index-cache"
"""The one directory that a broker passes over, as tiered storage keeps it."""
_MARKED = re.compile(r"\S+-\S+\.\S+-(delete|future|stray)")
_NUMBER = re.compile(r"\+?[0-9]{1,10}")
_FEATURE = "FEATURE_LEVEL_RECORD"


@dataclass(frozen=True, slots=True)
class LoadedDirectory:
    """A directory that a broker loads as a partition's, whatever is in it."""

    topic: str
    partition: int
    state: names.PartitionState
    """By the directory's name."""
    path: str
    topic_id: str | None
    """That in its ``partition.metadata``; None without one that can be read."""
    corruption: Finding | None = None
    """What is wrong with its ``partition.metadata``, if that is there and cannot be parsed: it is not loaded."""


def check_node_files(
    directory: LogDirectory,
    properties: MetaProperties | None,
    max_batch_bytes: int | None = None,
    *,
    is_offline: bool = False,
) -> Iterator[Finding]:
    """Yield the files of a log directory: its identity and its checkpoints, which end no broker where that directory
    goes offline (``is_offline``)."""
    if properties is None:
        missing = no_meta_properties(directory.path).in_scope("start")
        yield replace(missing, message=_NOT_MOUNTED) if is_bare(directory) else missing
    else:
        yield from properties.findings
        if not properties.findings:
            yield from _check_properties(properties)
    if not is_offline:
        yield from _check_checkpoints(directory)
    if names.BOOTSTRAP_CHECKPOINT in directory.files:
        yield from _check_bootstrap(directory.files[names.BOOTSTRAP_CHECKPOINT], max_batch_bytes)


_NOT_MOUNTED = (
    "there is nothing here, as of a disk that is not mounted, and a broker starts on no directories without "
    "meta.properties: mount the disk, or take it out of log.dirs"
)


def is_bare(directory: LogDirectory) -> bool:
    """Return whether there is nothing in a log directory, or no directory at all."""
    return not (directory.partitions or directory.others or directory.files or directory.foreign)


def _check_checkpoints(directory: LogDirectory) -> Iterator[Finding]:
    for name in names.OFFSET_CHECKPOINTS:
        if name in directory.files:
            yield from load_offset_checkpoint(directory.files[name].location).findings


def load_properties(directory: LogDirectory) -> MetaProperties | None:
    """Return the properties of a log directory, if it has any."""
    entry = directory.files.get(names.META_PROPERTIES)
    if entry is not None:
        return load_meta_properties(entry.location)
    other = next((each for each in directory.foreign if each.name == names.META_PROPERTIES), None)
    if other is None:
        return None
    text = "this is no file, so that it cannot be read"
    return MetaProperties(other.path, findings=(Kind.META_PROPERTIES_CORRUPT.at(other.path, text),))


def offline_directories(
    directories: Iterable[LogDirectory],
    properties: Mapping[str, MetaProperties | None],
    holder: str,
    max_batch_bytes: int | None = None,
) -> dict[str, Finding]:
    """Return the directories, by path, without which a broker starts: those of which a file cannot be read, if another
    one, at ``holder``, has the cluster's metadata. That is the ``meta.properties`` (``MetaPropertiesEnsemble``), a
    checkpoint or a partition's file (``LogDirFailureChannel``); one that cannot be read at ``holder`` ends it (3.9.1,
    4.4.0)."""
    if (own := properties.get(holder)) is None or own.findings:
        return {}
    found: dict[str, Finding] = {}
    for directory in directories:
        path = directory.path.rstrip("/")
        each = properties[path]
        cause = None if each is None or path == holder else next(_unreadable(directory, each, max_batch_bytes), None)
        if cause is not None:
            text = f"the log directory is offline, and a broker starts without it: {cause.message}"
            found[path] = replace(cause, message=text).in_scope("start")
    return found


def _unreadable(directory: LogDirectory, properties: MetaProperties, max_batch_bytes: int | None) -> Iterator[Finding]:
    yield from properties.findings
    yield from _check_checkpoints(directory)
    for partition in (*directory.partitions, *directory.others):
        if partition.state in ("live", "future") and partition.unreadable is None:
            yield from (each for each in unloadable(partition, max_batch_bytes) if each.kind in READ_IN_VAIN)


def _check_properties(properties: MetaProperties) -> Iterator[Finding]:
    if properties.node_id is None or properties.cluster_id is None:
        text = "a broker ends without a node ID and a cluster ID here"
        expected = "cluster.id, and node.id, which is broker.id in version 0"
        yield Kind.META_PROPERTIES_INCOMPLETE.at(properties.file, text, severity="error", expected=expected)
    if properties.directory_id is not None and is_reserved(properties.directory_id):
        text = "the directory.id is one that Kafka reserves"
        yield Kind.DIRECTORY_ID_RESERVED.at(
            properties.file, text, expected="a random ID", found=properties.directory_id
        )


def _check_bootstrap(entry: DirectoryEntry, max_batch_bytes: int | None) -> Iterator[Finding]:
    """The records of a new cluster; a broker reads them at each start."""
    with suppress(UnreadableError):
        (snapshot,) = resolve(entry.location).partitions
        options = ReadOptions(["value"], max_batch_bytes=max_batch_bytes, on_damage=ignore)
        for batch in read_records([snapshot], options):
            for value in arrow.values(batch.column("value")):
                record = decode_record(names.CLUSTER_METADATA, None, value)
                if record.type == _FEATURE and record.data is not None and record.data["name"] == "metadata.version":
                    return
    text = "no record in it says which metadata.version the cluster began with"
    yield Kind.BOOTSTRAP_CHECKPOINT.at(entry.path, text)


def check_agreement(properties: Sequence[MetaProperties]) -> Iterator[Finding]:
    """Yield the log directories of one broker against each other."""
    usable = [each for each in properties if not each.findings]
    for each in usable[1:]:
        first = usable[0]
        for name, one, other in (
            ("cluster.id", first.cluster_id, each.cluster_id),
            ("node.id", first.node_id, each.node_id),
        ):
            if one != other:
                text = f"the {name} is not that of {first.file}: no broker starts on both directories"
                yield Kind.META_PROPERTIES_DIFFER.at(each.file, text, expected=str(one), found=str(other))
    yield from check_directory_ids(usable, "too: no broker starts on both")


def check_directory_ids(properties: Iterable[MetaProperties], consequence: str) -> Iterator[Finding]:
    """Log directories with the ``directory.id`` of another one; ``consequence`` ends the message."""
    seen: dict[str, str] = {}
    for each in properties:
        if each.directory_id is not None and seen.setdefault(each.directory_id, each.file) != each.file:
            text = f"the directory.id is that of {seen[each.directory_id]}, {consequence}"
            yield Kind.DIRECTORY_ID_REPEATED.at(each.file, text, found=each.directory_id)


def check_cleaner_checkpoints(directories: Sequence[LogDirectory], version: str) -> Iterator[Finding]:
    """Partitions with a line in the cleaner's checkpoints of several directories of one broker, at which a version's
    cleaner ends at once."""
    if not has_rule(version, "repeated-cleaner-checkpoint"):
        return
    seen: dict[tuple[str, int], str] = {}
    for each in directories:
        if names.CLEANER_CHECKPOINT not in each.files:
            continue
        path = f"{each.path.rstrip('/')}/{names.CLEANER_CHECKPOINT}"
        for topic, partition in load_offset_checkpoint(Location(path)).offsets:
            if (first := seen.setdefault((topic, partition), path)) != path:
                text = f"{topic}-{partition} has a line in {first}, too: the cleaner ends at once, and no topic "
                text += "is compacted until one of both lines is removed"
                yield Kind.CLEANER_CHECKPOINT_REPEATED.at(path, text)


def check_commits(directories: Sequence[LogDirectory]) -> Iterator[Finding]:
    """Yield what a broker deletes, and what it serves, though a commit was cut short, as it does not know of
    commits."""
    for partition in (each for directory in directories for each in (*directory.partitions, *directory.others)):
        for finding in partition.uncommitted:
            if partition.is_unfinished:
                yield finding
            elif finding.offset is not None:
                name = PurePath(partition.path).name
                text = f"a commit was cut short: the broker serves what {name} has from offset {finding.offset} on, "
                text += "perhaps half of it, and then nobody can undo it"
                yield replace(finding, message=text, severity="warning")


def is_deleted(partition: PartitionPath) -> bool:
    """Return whether a broker removes a directory when it starts that is more than what a killed run has left: one that
    waits for its deletion, or a partition of which a commit was cut short before it had its name."""
    return partition.state == "delete" and (bool(partition.uncommitted) or not partition.is_unfinished)


def loaded_directories(directory: LogDirectory) -> tuple[list[LoadedDirectory], list[Finding]]:
    """Return the directories that a broker loads as partitions (KRaft's own log is loaded apart), and those whose names
    end its start."""
    known = [(PurePath(each.path).name, each.path) for each in (*directory.partitions, *directory.others)]
    unknown = [(each.name, each.path) for each in directory.foreign if each.is_directory]
    found: list[LoadedDirectory] = []
    findings: list[Finding] = []
    for (name, path), is_known in [*((each, True) for each in known), *((each, False) for each in unknown)]:
        parsed = _parse(name)
        if parsed is None and name not in (_REMOTE_INDEXES, names.META_PROPERTIES):
            text = "a broker takes every directory for a partition's, and ends at such a name; move it away"
            findings.append(
                Kind.DIRECTORY_NAME.at(path, text, severity="error", expected="such as orders-0", found=name)
            )
        elif parsed is not None and parsed[0] != names.CLUSTER_METADATA:
            found.append(loaded_replica(*parsed, path))
            corruption = found[-1].corruption
            findings += () if corruption is None else _ending(corruption)
            if not is_known:
                with suppress(UnreadableError):
                    findings += check_file_names(tuple(Location(path).entries()))
    return found, findings


def loaded_replica(topic: str, partition: int, state: names.PartitionState, path: str) -> LoadedDirectory:
    """Return a partition's directory with what its ``partition.metadata`` says."""
    metadata = load_partition_metadata(Location(f"{path.rstrip('/')}/{names.PARTITION_METADATA}"))
    corruption = next((each for each in metadata.findings if each.kind == Kind.PARTITION_METADATA_CORRUPT), None)
    return LoadedDirectory(topic, partition, state, path, topic_id=metadata.topic_id, corruption=corruption)


def _ending(corruption: Finding) -> Iterator[Finding]:
    """Yield why a broker ends at an emptied ``partition.metadata``, also one with other directories: at what else it
    cannot parse, it takes the directory offline."""
    if not Path(corruption.file).stat().st_size:
        text = "it is empty, and a broker ends at it as it loads its logs (NullPointerException)"
        yield replace(corruption, message=text, expected=None, found=None).in_scope("start")


def _parse(name: str) -> tuple[str, int, names.PartitionState] | None:
    """Parse a directory's name as ``LocalLog.parseTopicPartitionName`` does, which takes more names than Kafka makes;
    None where that throws."""
    state: names.PartitionState = "live"
    for suffix in ("delete", "future", "stray"):
        if name.endswith(f"-{suffix}"):
            if _MARKED.fullmatch(name) is None:
                return None
            state, name = suffix, name[: name.rindex(".")]
            break
    topic, dash, number = name.rpartition("-")
    if not dash or not topic or _NUMBER.fullmatch(number) is None or int(number) > MAX_INT32:
        return None
    return topic, int(number), state
