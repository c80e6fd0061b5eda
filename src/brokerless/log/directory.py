"""Lists what a path holds: one segment file, one partition's directory, or a log directory of partitions.

A partition is listed as a broker's next start completes it (``completion/``). No data file is opened for that, unless
an interrupted compaction left some.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal

from brokerless.bounds import MAX_INT64
from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Finding, Kind
from brokerless.kafka_names import TopicPartition
from brokerless.log import names
from brokerless.log.backups.names import is_backup
from brokerless.log.checkpoint.hidden_segments import NOTHING_HIDDEN, HiddenSegments, hidden_segments
from brokerless.log.checkpoint.log_start import LogStartOffsets
from brokerless.log.checkpoint.partition_metadata import topic_id_of
from brokerless.log.completion.files import Completion, complete
from brokerless.log.completion.findings import check_removed
from brokerless.log.completion.removed import with_lost
from brokerless.log.names import INCLUDE, Include, PartitionState, SegmentFile, SegmentFileKind
from brokerless.log.storage.location import DirectoryEntry, Location
from brokerless.log.storage.paths import directory_name
from brokerless.log.storage.segment_files import settled_entries
from brokerless.log.storage.side_by_side import side_by_side
from brokerless.log.tiered import detection
from brokerless.log.tiered.lineage import read_lineage

_TRIES = 100
"""How often a log directory is listed again, each time because another commit ended meanwhile."""

DEPTH = 3
"""Levels of directories below a path in which log directories are looked for."""
_MOST_LISTED = 100
_SHOWN = 4
WHAT_TO_GIVE = (
    "give a .log file, a partition's directory (such as orders-0), or a log directory that holds such directories"
)


@dataclass(frozen=True, slots=True)
class SegmentPaths:
    """A segment's log and those companions that exist."""

    base_offset: int
    """By name; for a ``.log.swap`` file by the name that it gets, 0 for a lone file of another name."""
    log: DirectoryEntry
    offset_index: DirectoryEntry | None = None
    time_index: DirectoryEntry | None = None
    transaction_index: DirectoryEntry | None = None
    producer_snapshot: DirectoryEntry | None = None
    overlaps: bool = False
    """Whether it begins within the segment before it, as remote segments may without damage."""

    @property
    def size(self) -> int:
        """Bytes of its log."""
        return self.log.size or 0


_NEVER_TIERED = (names.CLUSTER_METADATA, names.REMOTE_LOG_METADATA)
ReadSetting = Callable[[Location, str, str], str | None]
"""Reads a topic's setting from the cluster's metadata: of a partition's directory, a topic, and a setting's name."""


@dataclass(frozen=True, slots=True)
class PartitionPath:
    """The contents of one partition's directory; for a lone file, a partition of which nothing is known but one
    segment."""

    topic: str | None
    partition: int | None
    location: Location
    state: PartitionState = "live"
    segments: tuple[SegmentPaths, ...] = ()
    """Sorted by base offset."""
    snapshots: tuple[DirectoryEntry, ...] = ()
    """KRaft snapshots, which can be read as logs of their own."""
    producer_snapshots: tuple[DirectoryEntry, ...] = ()
    """Also those that belong to no segment (Kafka writes one at a clean shutdown)."""
    leader_epoch_checkpoint: DirectoryEntry | None = None
    partition_metadata: DirectoryEntry | None = None
    quorum_state: DirectoryEntry | None = None
    orphaned_files: tuple[DirectoryEntry, ...] = ()
    """Files that a start removes, and temporary ones."""
    foreign: tuple[DirectoryEntry, ...] = ()
    findings: tuple[Finding, ...] = ()
    log_start_offset: int = 0
    """As the log directory's checkpoint records it after records were deleted (KIP-107): earlier ones are not part of
    the log. 0 where there is no such line, and where deleted records are included."""
    completion: Completion = field(default=Completion(), repr=False)
    """What a start changes, if anything."""
    read_setting: ReadSetting | None = field(default=None, compare=False, repr=False)

    @property
    def path(self) -> str:
        return self.location.path

    @property
    def place(self) -> TopicPartition:
        """Its topic and number, ``("", 0)`` of a lone file."""
        return self.topic or "", self.partition or 0

    @property
    def start_offset(self) -> int | None:
        """The first offset that readers get: of the first segment, or after deleted records; None without a segment."""
        return max(self.segments[0].base_offset, self.log_start_offset) if self.segments else None

    @property
    def size(self) -> int:
        """Bytes of its segments' logs."""
        return sum(segment.size for segment in self.segments)

    @property
    def local_segments(self) -> list[SegmentPaths]:
        """Its segments but those of a bucket that a log directory is read with."""
        return [each for each in self.segments if not detection.is_tiered(each.log.location)]

    @property
    def unreadable(self) -> Finding | None:
        """Why the directory could not be listed, so that there seem to be no segments; None if it was."""
        kinds = (Kind.UNREADABLE_DIRECTORY, Kind.PERMISSION_DENIED)
        return next((each for each in self.findings if each.kind in kinds and each.file == self.path), None)

    @property
    def uncommitted(self) -> tuple[Finding, ...]:
        """What a commit that is not finished hides of it."""
        return tuple(each for each in self.findings if each.kind == Kind.UNCOMMITTED)

    @property
    def is_unfinished(self) -> bool:
        """Whether this is what a write of ours has not finished, by its name."""
        name = names.parse_partition_directory(directory_name(self.path))
        return name is not None and name.is_unfinished


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """The contents of a path."""

    location: Location
    kind: Literal["file", "partition", "log-directory"]
    partitions: tuple[PartitionPath, ...]
    """The partitions to read, by topic and partition."""
    others: tuple[PartitionPath, ...] = ()
    """Future, deleted and stray partitions that were not selected."""
    files: dict[str, DirectoryEntry] = field(default_factory=dict[str, DirectoryEntry])
    """The log directory's own files, such as its checkpoints, by name."""
    foreign: tuple[DirectoryEntry, ...] = ()

    @property
    def path(self) -> str:
        return self.location.path

    @property
    def is_local_log_directory(self) -> bool:
        """Whether it is a log directory, and on this machine, as those of a broker are."""
        return self.kind == "log-directory" and not self.location.is_remote


def order(partition: PartitionPath) -> tuple[str, int, str]:
    """Return the key that partitions are sorted by."""
    return *partition.place, partition.path


def metadata_of(partitions: Iterable[PartitionPath]) -> PartitionPath | None:
    """Return the replica of the cluster's metadata (KRaft) among partitions; None without one."""
    return next((each for each in partitions if each.topic == names.CLUSTER_METADATA), None)


def resolve(
    location: Location,
    include: Collection[Include] | Include = (),
    read_setting: ReadSetting | None = None,
    *,
    as_it_lies: bool = False,
) -> LogDirectory:
    """Return what there is to read in a path.

    ``include`` names states whose partitions are to be read as well as the live ones: ``"future"``, ``"delete"``,
    ``"stray"``. A directory in such a state that is the path itself needs no asking. ``"deleted"``: also the records
    before the log start offset, as far as segments still hold them. ``read_setting``: see :data:`ReadSetting`.
    ``as_it_lies``: partitions are not completed as the next start of a broker does it.

    Raises :class:`UnreadableError` if there is nothing at this path or nothing that is a log, and UsageError for an
    unknown state.
    """
    include = {include} if isinstance(include, str) else set(include)
    unknown = sorted(include - {"live", *INCLUDE})
    if unknown:
        there = ", ".join(map(repr, INCLUDE[:-1]))
        raise UsageError(f"include: there is no {unknown[0]!r}; there are {there} and {INCLUDE[-1]!r}")
    directory = detection.directory_at(location)
    if directory is None:
        return LogDirectory(location, "file", (_lone_file(location),))
    location = directory
    for _ in range(_TRIES):
        found = _resolve_directory(location, include, as_it_lies)
        if found is not None:
            is_local = all(each.topic in _NEVER_TIERED for each in found.partitions)
            remote = None if is_local else detection.remote_of(location)
            partitions = found.partitions if remote is None else _with_remote(found.partitions, remote)
            if remote is None and found.kind == "log-directory" and not detection.is_tiered(location):
                topics = [each.topic for each in partitions if each.topic is not None]
                unread = detection.unread_objects(location, found.foreign, topics)
                partitions = [
                    replace(each, findings=(*each.findings, unread[each.topic])) if each.topic in unread else each
                    for each in partitions
                ]
            return replace(found, partitions=tuple(replace(each, read_setting=read_setting) for each in partitions))
    raise UnreadableError(location.path, "others commit to this log directory all the time; try again")


def _resolve_directory(location: Location, include: Collection[str], as_it_lies: bool) -> LogDirectory | None:
    """Return what is in a directory; None if a commit ended meanwhile, so that only half of it may have been seen."""
    entries = location.entries()
    if is_backup(entries) and not detection.is_tiered(location):
        return _resolve_directory(detection.snapshot_directory(location), include, as_it_lies)
    subdirectories = [entry for entry in entries if entry.is_directory and names.parse_partition_directory(entry.name)]
    files = {
        entry.name: entry for entry in entries if not entry.is_directory and names.is_log_directory_file(entry.name)
    }
    if not files:
        own = _with_remote_segments(_completed(location, entries, as_it_lies))
        if own.segments or own.snapshots or own.orphaned_files:
            above = location.parent
            hidden = None if above is None else hidden_segments(above, is_listed=False)
            log_starts = LogStartOffsets("deleted" in include, {})
            return LogDirectory(
                location, "partition", (_from_log_start(_hide(own, hidden or NOTHING_HIDDEN), log_starts),)
            )
    found = side_by_side(lambda each: _subdirectory(each, as_it_lies), subdirectories, location.is_remote)
    kafka = {one.name: each for one, each in zip(subdirectories, found, strict=True) if not _is_foreign(each)}
    if files or kafka:  # a partition whose disk is not there, say
        kafka |= {each.name: _subdirectory(each, as_it_lies) for each in entries if _is_dangling_partition(each)}
    if not files and not kafka:
        has_objects = detection.has_objects(location, entries)
        below = "" if has_objects else _name_below(location)
        is_bucket = not below and not detection.is_tiered(location)
        if is_bucket and (has_objects or detection.has_objects_below(entries)):
            return _resolve_directory(detection.as_log_directory(location), include, as_it_lies)
        raise UnreadableError(location.path, f"{_nothing(entries)}; {below or WHAT_TO_GIVE}")
    is_listed = any(entry.name == names.COMMIT_JOURNAL for entry in entries)
    hidden = hidden_segments(location, is_listed=is_listed)
    if hidden is None:
        return None
    log_starts = LogStartOffsets("deleted" in include, files)
    partitions = sorted((_from_log_start(_hide(each, hidden), log_starts) for each in kafka.values()), key=order)
    read_states = {"live", *include}
    new = {name for name, base_offset in hidden.segments.items() if base_offset < 0}
    to_read: list[PartitionPath] = []
    others: list[PartitionPath] = []
    for each in partitions:
        is_read = each.state in read_states and not each.is_unfinished and directory_name(each.path) not in new
        (to_read if is_read else others).append(each)
    return LogDirectory(
        location,
        "log-directory",
        partitions=tuple(to_read),
        others=tuple(others),
        files=files,
        foreign=tuple(entry for entry in entries if entry.name not in files and entry.name not in kafka),
    )


def _with_remote(partitions: Sequence[PartitionPath], remote: Location) -> list[PartitionPath]:
    """Partitions with their remote segments before and after local ones. ``remote``: the log directory of these."""
    # These import NumPy, and nothing else here does.
    from brokerless.log.tiered.segments import LocalSegment, findings_beside

    file_system, _ = remote.file_system()
    there = {each.name for each in remote.entries()}

    def joined(local: PartitionPath) -> PartitionPath:
        name = names.partition_directory(*local.place)
        if local.topic is None or local.state != "live" or name not in there:
            return local
        lineage = () if local.leader_epoch_checkpoint is None else read_lineage(local.leader_epoch_checkpoint.location)
        own = [LocalSegment(each.base_offset, each.log, each.offset_index) for each in local.segments]
        beside = file_system.segments_beside(name, topic_id_of(local.partition_metadata), own, lineage=lineage)
        listed = describe_partition(remote / name, (remote / name).entries())
        paths = {False: local.segments, True: listed.segments}
        known = {(is_remote, each.base_offset): each for is_remote, those in paths.items() for each in those}
        segments = [replace(known[each.is_remote, each.start_offset], overlaps=each.overlaps) for each in beside.parts]
        findings = findings_beside(beside, own, local.log_start_offset)
        is_newer = beside.has_epochs and (lineage or local.leader_epoch_checkpoint is None)
        return replace(
            local,
            segments=tuple(segments),
            leader_epoch_checkpoint=(listed if is_newer else local).leader_epoch_checkpoint,
            findings=(*local.findings, *findings),
        )

    return list(side_by_side(joined, partitions, remote.is_remote))


def log_directories_below(location: Location, depth: int = DEPTH, most: int | None = None) -> list[Location]:
    """Return the log directories in a directory, at most so many levels below it, sorted; a log directory is itself
    one, and nothing is looked for in it. ``most``: how many are listed at most. What cannot be listed has none."""
    found: list[Location] = []
    level, listed = [location], 0
    for _ in range(depth + 1):
        following: list[Location] = []
        for each in level:
            listed += 1
            if most is not None and listed > most:
                return sorted(found, key=str)
            with suppress(UnreadableError):
                entries = each.entries()
                if _is_log_directory(entries):
                    found.append(each)
                else:
                    following += (entry.location for entry in entries if entry.is_directory)
        level = following
    return sorted(found, key=str)


def _is_log_directory(entries: Sequence[DirectoryEntry]) -> bool:
    if any(not each.is_directory and names.is_log_directory_file(each.name) for each in entries):
        return True
    named = (each for each in entries if each.is_directory and names.parse_partition_directory(each.name))
    return any(not _is_foreign(_subdirectory(each, as_it_lies=True)) for each in named)


def _name_below(location: Location) -> str:
    """Names the log directories below a directory that is none."""
    below = log_directories_below(location, most=_MOST_LISTED)
    shown = ", ".join(each.path for each in below[:_SHOWN]) + (", ..." if len(below) > _SHOWN else "")
    return f"log directories below it are {shown}: give one of them, or --all-below for all" if below else ""


def describe_partition(
    location: Location, entries: Sequence[DirectoryEntry], *, as_it_lies: bool = False
) -> PartitionPath:
    """Sorts what is in a partition's directory; topic and partition are by its name, null if that is foreign.
    ``as_it_lies``: by names alone."""
    try:
        completion, findings = with_lost(complete(entries)), ()
    except UnreadableError as error:
        completion = complete([each for each in entries if not each.name.endswith(".swap")])
        findings = (error.finding(error.path),)
    parsed = [(entry, None if entry.is_directory else names.parse_segment_file(entry.name)) for entry in entries]
    live: dict[SegmentFileKind, dict[int, DirectoryEntry]] = {}
    lying = {entry.name: entry for entry, file in parsed if file and file.epoch is None and file.state == "live"}
    files = lying if as_it_lies else completion.live
    for file, entry in ((names.parse_segment_file(name), entry) for name, entry in files.items()):
        if file is not None:
            live.setdefault(file.kind, {})[file.offset] = entry
    snapshots: list[tuple[SegmentFile, DirectoryEntry]] = []
    own: dict[str, DirectoryEntry] = {}
    orphaned_files: list[DirectoryEntry] = []
    foreign: list[DirectoryEntry] = []
    taken = {entry.name for entry in files.values()}
    for entry, file in parsed:
        if file is not None and file.kind == "kraft-snapshot" and file.state == "live":
            snapshots.append((file, entry))
        elif file is not None and entry.name not in taken:
            orphaned_files.append(entry)
        elif file is None and not entry.is_directory and names.is_partition_file(entry.name):
            own[entry.name] = entry
        elif file is None:
            foreign.append(entry)
    logs, producer_snapshots = live.pop("log", {}), live.pop("producer-snapshot", {})
    orphaned_files += (entry for of_kind in live.values() for offset, entry in of_kind.items() if offset not in logs)
    orphaned_files += (entry for name, entry in own.items() if name not in names.PARTITION_FILES)
    segments = tuple(
        SegmentPaths(
            offset,
            logs[offset],
            live.get("offset-index", {}).get(offset),
            time_index=live.get("time-index", {}).get(offset),
            transaction_index=live.get("transaction-index", {}).get(offset),
            producer_snapshot=producer_snapshots.get(offset),
        )
        for offset in sorted(logs)
    )
    named = names.parse_partition_directory(location.name)
    return PartitionPath(
        topic=None if named is None else named.topic,
        partition=None if named is None else named.partition,
        location=location,
        state="live" if named is None else named.state,
        segments=segments,
        snapshots=tuple(entry for _, entry in sorted(snapshots, key=lambda each: (each[0].offset, each[0].epoch))),
        producer_snapshots=tuple(producer_snapshots[offset] for offset in sorted(producer_snapshots)),
        leader_epoch_checkpoint=own.get(names.LEADER_EPOCH_CHECKPOINT),
        partition_metadata=own.get(names.PARTITION_METADATA),
        quorum_state=own.get(names.QUORUM_STATE),
        orphaned_files=tuple(sorted(orphaned_files, key=lambda entry: entry.name)),
        foreign=tuple(foreign),
        findings=findings if as_it_lies else (*findings, *check_removed(completion)),
        completion=replace(completion if completion.is_needed else Completion(), as_it_lies=as_it_lies),
    )


def deleted_segments(partition: PartitionPath) -> PartitionPath:
    """Return the segments of a partition that wait for their deletion (``.log.deleted``), as a partition of its own."""
    found = (each for each in partition.completion.removed("deleted") if each.file.kind == "log")
    segments = sorted((SegmentPaths(each.file.offset, each.entry) for each in found), key=lambda each: each.base_offset)
    return PartitionPath(partition.topic, partition.partition, partition.location, segments=tuple(segments))


def _lone_file(location: Location) -> PartitionPath:
    name, file = location.name, names.parse_segment_file(location.name)
    if file is not None and file.kind not in ("log", "kraft-snapshot"):
        log, article = names.segment_file(file.offset, "log"), "an" if file.kind == "offset-index" else "a"
        what = f"{article} {file.kind.replace('-', ' ')}"
        raise UnreadableError(location.path, f"this is {what}, not a log; its log would be {log}")
    if names.is_partition_file(name) or (names.is_log_directory_file(name) and name != names.BOOTSTRAP_CHECKPOINT):
        raise UnreadableError(location.path, f"this is one of Kafka's metadata files, not a log; {WHAT_TO_GIVE}")
    if not location.exists():
        is_pattern = any(each in location.path for each in "*?[")
        hint = "; a pattern is for the shell, which expands it where it is not quoted" if is_pattern else ""
        raise UnreadableError(location.path, f"there is no such file or directory{hint or location.nearest}")
    with location.open() as opened:
        size = opened.size
    base_offset = file.offset if file is not None and file.kind == "log" else 0
    entry = DirectoryEntry(name, location, False, size)
    return PartitionPath(None, None, location, segments=(SegmentPaths(base_offset, entry),))


def _hide(partition: PartitionPath, hidden: HiddenSegments) -> PartitionPath:
    name = directory_name(partition.path)
    end = MAX_INT64 + 1 if name in hidden.complete else hidden.segments.get(name)
    if end is None:
        return partition
    kept = tuple(segment for segment in partition.segments if segment.base_offset < end)
    return replace(partition, segments=kept, findings=(*partition.findings, hidden.finding(partition.path, name)))


def _from_log_start(partition: PartitionPath, log_starts: LogStartOffsets) -> PartitionPath:
    """The partition with its log start offset. Lone files, deleted and stray partitions have none recorded."""
    if partition.topic is None or partition.state not in ("live", "future"):
        return partition
    offset, findings = log_starts.find(partition.location, partition.topic, partition.partition or 0)
    return replace(partition, log_start_offset=offset, findings=(*partition.findings, *findings))


def _subdirectory(entry: DirectoryEntry, as_it_lies: bool) -> PartitionPath:
    try:
        return _with_remote_segments(_completed(entry.location, entry.location.entries(), as_it_lies))
    except UnreadableError as error:
        named = names.parse_partition_directory(entry.name)
        assert named is not None
        kind = error.kind if error.kind == Kind.PERMISSION_DENIED else Kind.UNREADABLE_DIRECTORY
        finding = kind.at(entry.path, error.reason_for(entry.path))
        return PartitionPath(named.topic, named.partition, entry.location, named.state, findings=(finding,))


def _completed(location: Location, entries: list[DirectoryEntry], as_it_lies: bool) -> PartitionPath:
    """Return what is in a partition's directory, which is listed again while files go that a compaction left."""
    for _ in range(_TRIES):
        entries = settled_entries(location, entries)
        partition = describe_partition(location, entries, as_it_lies=as_it_lies)
        again = location.entries() if partition.findings else entries
        if [each.name for each in again] == [each.name for each in entries]:
            return partition
        entries = again
    raise UnreadableError(location.path, "its files change all the time; try again")


def _with_remote_segments(partition: PartitionPath) -> PartitionPath:
    """A partition with what is known of its remote segments, if its directory is made of these."""
    if not detection.is_tiered(partition.location):
        return partition
    file_system, path = partition.location.file_system()
    if not path:
        return partition
    overlapping: frozenset[int] = file_system.overlapping(path)
    segments = tuple(
        replace(each, overlaps=True) if each.base_offset in overlapping else each for each in partition.segments
    )
    return replace(partition, segments=segments, findings=(*partition.findings, *file_system.findings(path)))


def _is_foreign(partition: PartitionPath) -> bool:
    """Return whether a directory that is named as a partition's holds only what is not Kafka's: ``photos-2024``."""
    own = (partition.leader_epoch_checkpoint, partition.partition_metadata, partition.quorum_state)
    kafka = partition.segments or partition.snapshots or partition.producer_snapshots or partition.orphaned_files
    return bool(partition.foreign) and not kafka and own == (None, None, None)


def _is_dangling_partition(entry: DirectoryEntry) -> bool:
    """Return whether this is a link that leads nowhere, with a partition's name."""
    is_dangling = not entry.is_directory and entry.size is None and not entry.location.is_remote
    return is_dangling and names.parse_partition_directory(entry.name) is not None


def _nothing(entries: Sequence[DirectoryEntry]) -> str:
    if not entries:
        return "the directory is empty"
    lone = next((entry for entry in entries if not entry.is_directory and entry.name.endswith(".log")), None)
    if lone is not None:
        return f"no file in it is named as a segment (20 digits and .log), but {lone.path} can be given by itself"
    return "the directory holds no Kafka log"
