"""Takes the moment at which the logs of running brokers are copied: where each ends, within seconds.

The logs of groups come first, so that no position is past the end of what it is a position in; that of transactions
comes last, as an older one would give out epochs of producers again. Logs that are compacted are opened, as the cleaner
leaves out what later records made void; of others the end is enough, as nothing before it changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from brokerless import clock
from brokerless.clusters.directory_state import DirectoryState, running_broker
from brokerless.clusters.disk import Disk, load_disk
from brokerless.clusters.metadata_replicas import MetadataReplica, best_of
from brokerless.errors import UnreadableError
from brokerless.findings import Finding
from brokerless.internals.metadata.cluster import Cluster
from brokerless.internals.records import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from brokerless.jobs.recovered.intact_batches import INTACT_BATCH, find_intact_batches
from brokerless.jobs.recovered.open_files import PinnedFiles
from brokerless.log import names
from brokerless.log.checkpoint.leader_epochs import Epochs, load_epochs
from brokerless.log.directory import LogDirectory, PartitionPath, SegmentPaths, resolve
from brokerless.log.live_segments import is_gone, list_again, open_listed, with_current_listing
from brokerless.log.settings.topic import CLEANUP_POLICY, cleanup_policies
from brokerless.log.storage.files import File
from brokerless.log.storage.location import Location
from brokerless.log.tail import look_into
from brokerless.progress import ignore

_LOOKS = 5
"""How often all is listed where a partition is not in the directories that should have it: it is being moved."""
_GROUPS = (CONSUMER_OFFSETS, SHARE_GROUP_STATE)


@dataclass(slots=True)
class BackupCut:
    """The disks of running brokers at a moment."""

    pinned: PinnedFiles
    """The files of logs that are open."""
    began: int
    """When the cut began (ms)."""
    ended: int = 0
    """When the cut ended (ms)."""
    directories: tuple[LogDirectory, ...] = ()
    disks: tuple[Disk, ...] = ()
    metadata: MetadataReplica | None = None
    cluster: Cluster | None = None
    ends: dict[str, int] = field(default_factory=dict[str, int])
    """Where logs ended, by the paths of their directories."""
    epochs: dict[str, Epochs] = field(default_factory=dict[str, Epochs])
    """The leader epochs of logs at their ends, by the paths of their directories."""
    earlier: dict[str, int] = field(default_factory=dict[str, int])
    """Where the logs of transactions ended, before the end of any other log was read; by the paths of their
    directories."""


def is_running(directory: LogDirectory) -> bool:
    """Return whether a broker, or another process that writes, has a log directory."""
    return running_broker(DirectoryState(directory.files)) is not None


def is_compacted(topic: str, cluster: Cluster | None) -> bool:
    """Return whether a topic is compacted by its settings."""
    settings = {} if cluster is None else cluster.settings_on(None, topic)
    return topic in names.COMPACTED_BY_KAFKA or "compact" in cleanup_policies(settings.get(CLEANUP_POLICY))


def take_cut(directories: Sequence[LogDirectory], max_batch_bytes: int) -> BackupCut:
    """Lists log directories again, and return what they have. Raises :class:`UnreadableError` where one is gone, and
    OutOfFilesError where there are more files of compacted logs than this process may open."""
    began, pinned = clock.now(), PinnedFiles()
    try:
        known = [each for directory in directories for each in directory.partitions]
        earlier = {each.path: end for each in _of(known, (TRANSACTION_STATE,)) if (end := end_of(each)) is not None}
        cut = BackupCut(pinned, began, earlier=earlier)
        groups = {(each.topic, each.partition): [] for each in _of(known, _GROUPS)}
        for each in _of(known, _GROUPS):
            groups[each.topic, each.partition] += [] if (listed := pin(cut, each)) is None else [listed]
        for _ in range(_LOOKS):
            _list(cut, directories, max_batch_bytes)
            _take(cut, {place: own for place, own in groups.items() if own})
            if not _is_anything_missing(cut):
                break
        cut.disks = tuple(map(partial(_without_moved, cut), cut.disks, cut.directories))
        cut.ended = max(began, clock.now())
        return cut
    except BaseException:
        pinned.close()
        raise


def _take(cut: BackupCut, groups: Mapping[tuple[str | None, int | None], Sequence[PartitionPath]]) -> None:
    """Find where the logs end that are in the directories, and pin those that are compacted. ``groups``: logs of
    groups, as they were pinned before, wherever they are now."""
    replicas = [(each.paths, disk) for disk in cut.disks for each in disk.replicas if each.state == "live"]
    # Where another look is needed, the ends of the one before are older than what is copied by this one.
    of_groups = {each.path for own in groups.values() for each in own}
    for path in cut.ends.keys() - of_groups:
        del cut.ends[path]
    paths: dict[str, PartitionPath] = {}
    last: list[PartitionPath] = []
    for each, disk in replicas:
        own = groups.get((each.topic, each.partition))
        if own is not None:
            paths[each.path] = next((one for one in own if one.path == each.path), own[0])
        elif each.topic == TRANSACTION_STATE:
            last.append(each)
        elif _is_cleaned(each, disk, cut.cluster):
            paths[each.path] = pin(cut, each) or each
    for each, _ in replicas:
        if each.path not in paths and each not in last and (found := end_and_epochs(each)) is not None:
            cut.ends[each.path], cut.epochs[each.path] = found
    paths |= {each.path: pin(cut, each) or each for each in last}
    cut.disks = with_paths(cut.disks, paths)
    cut.directories = tuple(
        replace(directory, partitions=tuple(paths.get(each.path, each) for each in directory.partitions))
        for directory in cut.directories
    )


def _is_anything_missing(cut: BackupCut) -> bool:
    """Return whether a partition is not in the directories that should have it, or went before its end was known: it
    got another name or place meanwhile."""
    replicas = [each for disk in cut.disks for each in disk.replicas if each.state == "live"]
    there = {(each.topic, each.partition) for each in replicas if each.path in cut.ends}
    nodes = {each.node_id for each in cut.disks}
    cluster = cut.cluster or Cluster()
    return any(
        (topic, number) not in there and nodes.intersection(row["replicas"])
        for topic_id, topic in cluster.topics.items()
        for number, row in cluster.partitions.get(topic_id, {}).items()
    )


def pin(cut: BackupCut, partition: PartitionPath) -> PartitionPath | None:
    """Opens the logs of a partition as they are now, and notes where it ends; None where it is gone."""
    before = load_epochs(partition.leader_epoch_checkpoint)
    listed = cut.pinned.pin(partition)
    if listed is not None and listed.segments:
        epochs = before or load_epochs(listed.leader_epoch_checkpoint)
        cut.ends[listed.path], cut.epochs[listed.path] = pinned_end(cut, listed), epochs
    return listed


def where_now(cut: BackupCut, replicas: Sequence[PartitionPath]) -> list[PartitionPath]:
    """List the replicas of a partition again, where they are now."""
    found = [list_again(each, ignore) for each in replicas]
    if None in found:
        paths = [each.path for each in found if each is not None]
        others = (directory.location / replicas[0].location.name for directory in cut.directories)
        found += [one for each in others if each.path not in paths for one in _listed(each)]
    return [each for each in found if each is not None]


def _listed(location: Location) -> list[PartitionPath]:
    try:
        return [each for each in resolve(location).partitions if each.segments]
    except UnreadableError:
        return []


def pinned_end(cut: BackupCut, partition: PartitionPath) -> int:
    """Return where a log that is pinned ends now, as far as it is in the files that are pinned."""
    active = partition.segments[-1]
    file = cut.pinned.find(active.log)
    if file is None:
        return active.base_offset
    with file:
        return _end_in(file, active)


def with_paths(disks: Iterable[Disk], paths: Mapping[str, PartitionPath]) -> tuple[Disk, ...]:
    """Return disks with other listings of some of their partitions, by their paths."""
    return tuple(
        replace(disk, replicas=tuple(replace(each, paths=paths.get(each.path, each.paths)) for each in disk.replicas))
        for disk in disks
    )


def end_of(partition: PartitionPath) -> int | None:
    """Return where a log ends, after its last intact batch; None where it is gone, or cannot be read."""
    found = end_and_epochs(partition)
    return None if found is None else found[0]


def end_and_epochs(partition: PartitionPath) -> tuple[int, Epochs] | None:
    """Return the end of a log with its leader epochs. These are read first: of an epoch that began meanwhile, nothing
    is taken for known."""

    def look(paths: PartitionPath) -> tuple[int, Epochs] | None:
        if not paths.segments:
            return None
        epochs, active = load_epochs(paths.leader_epoch_checkpoint), paths.segments[-1]
        with open_listed(active, True) as file:
            return _end_in(file, active), epochs

    try:
        return with_current_listing(partition, look)
    except UnreadableError:
        return None


def _end_in(file: File, active: SegmentPaths) -> int:
    """Return where a log ends in its last file. What follows the batches one after the other is half a batch that is
    being written, zeros, or damage, after which it goes on."""
    last = look_into(file, active)
    position, end = last.position, last.end_offset
    for found in find_intact_batches(file, start=position) if position < file.size else ():
        if getattr(found, "dtype", None) == INTACT_BATCH:
            end = max(end, int(found["last"].max()) + 1)  # type: ignore[index]
    return end


def _of(partitions: Iterable[PartitionPath], topics: Collection[str]) -> Iterator[PartitionPath]:
    return (each for each in partitions if each.topic in topics and each.state == "live")


def _is_cleaned(partition: PartitionPath, disk: Disk, cluster: Cluster | None) -> bool:
    """Return whether a log is compacted by the metadata, or has been by the cleaner's checkpoint."""
    was_cleaned = names.CLEANER_CHECKPOINT in disk.checkpoints.of(partition)
    return was_cleaned or is_compacted(partition.topic or "", cluster)


def _list(cut: BackupCut, directories: Sequence[LogDirectory], max_batch_bytes: int) -> None:
    cut.directories = tuple(_without_gone(resolve(each.location)) for each in directories)
    cut.disks = tuple(_load(each, max_batch_bytes) for each in cut.directories)
    cut.metadata = best_of(each.metadata for each in cut.disks if each.metadata is not None)
    if cut.metadata is not None:
        cut.cluster = cut.metadata.load_cluster(max_batch_bytes)


def _load(directory: LogDirectory, max_batch_bytes: int) -> Disk:
    disk = load_disk(directory, max_batch_bytes)
    return replace(disk, findings=without_gone(disk.findings, (*directory.partitions, *directory.others)))


def _without_moved(cut: BackupCut, disk: Disk, directory: LogDirectory) -> Disk:
    """A disk without findings about directories that could not be read just then, of partitions that were."""
    replicas = (each for one in cut.disks for each in one.replicas if each.path in cut.ends)
    there = {(each.topic, each.partition) for each in replicas}
    moved = {each.path for each in directory.partitions if (each.topic, each.partition) in there}
    return replace(disk, findings=tuple(each for each in disk.findings if each.file not in moved))


def without_gone(findings: Iterable[Finding], partitions: Iterable[PartitionPath]) -> tuple[Finding, ...]:
    """Return findings without those about partitions whose directories went: they were deleted, or moved elsewhere."""
    found = tuple(findings)
    gone = [each.path for each in partitions if any(one.file.startswith(each.path) for one in found) and is_gone(each)]
    return tuple(one for one in found if not any(one.file == each or one.file.startswith(f"{each}/") for each in gone))


def _without_gone(directory: LogDirectory) -> LogDirectory:
    """A log directory without partitions that went while it was listed."""
    partitions = tuple(each for each in directory.partitions if each.unreadable is None or not is_gone(each))
    return replace(directory, partitions=partitions)
