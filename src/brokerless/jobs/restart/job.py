"""A dry run of a broker's next start: what it would truncate, delete, rebuild or refuse.

For a partition, the plan is ``log/recovery/plan.py``'s, with Kafka's default settings; here it is put into what people
ask: what is cut and deleted, which offsets consumers would lose by that, and which indexes are rebuilt. For a
directory: whether a broker starts on it at all, which partitions become stray, and what is begun empty. Nothing is
changed.

Sources: ``LogManager.loadLogs``, ``LogLoader``, ``KafkaMetadataLog`` (4.1.1, 4.4.0), and those in ``jobs/restarts``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from brokerless import clock
from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.internals.groups.positions import LostPosition
from brokerless.internals.remote.storage import REMOTE_STORAGE, is_enabled
from brokerless.internals.topic_settings import is_in_metadata, read_topic_setting
from brokerless.jobs.directory_state import DirectoryState, Lines, load_directory_state
from brokerless.jobs.restart import directory_files, replicas
from brokerless.jobs.restart.group_positions import positions_past_end
from brokerless.jobs.restart.metadata_log import KnownState, emptied_at, read_known_state
from brokerless.jobs.restart.partition_files import unloadable
from brokerless.jobs.restart.refused_settings import refused_settings
from brokerless.jobs.restart.remote_effects import remote_effects, stored_objects
from brokerless.jobs.restart.results import DirectoryRestart, LostRecords, Place, Restart, Truncation
from brokerless.jobs.restart.retention_forecast import RETENTION_SETTINGS, Settings, expiring
from brokerless.jobs.restart.transactions import completions
from brokerless.log import names
from brokerless.log.checkpoint.meta_properties import MetaProperties
from brokerless.log.checkpoint.offset_checkpoints import PartitionOffsets
from brokerless.log.checkpoint.topic_ids import topic_id_of
from brokerless.log.config import LogConfig
from brokerless.log.directory import LogDirectory, PartitionPath
from brokerless.log.index.readers import load_offset_index
from brokerless.log.recovery.plan import RecoveryPlan, plan_recovery
from brokerless.log.segment import Chunk, Report, check_checksums, ignore, scan
from brokerless.log.settings.definitions import find_version, versions
from brokerless.log.storage.files import File
from brokerless.log.storage.location import Location
from brokerless.log.storage.paths import is_remote
from brokerless.log.tiered.options import Remote
from brokerless.tables.partition_reader import PartitionReader


def plan_directories(
    directories: Sequence[LogDirectory],
    now_ms: int | None = None,
    max_batch_bytes: int | None = None,
    version: str | None = None,
    bucket: Remote | None = None,
) -> list[DirectoryRestart]:
    """The dry run for all log directories of one broker, as in its ``log.dirs``; partitions' directories and files
    among them, and what is not local, are passed over. ``now_ms`` (since the epoch) decides which transactions' time is
    over. ``max_batch_bytes``: what one batch of Kafka's own topics may inflate to (128 MiB). ``version``: of the Kafka
    that starts, the newest that is known by default; ``bucket``: of tiered topics, or several, whose objects are
    counted. Raises :class:`UsageError` for a version that is not known, and
    :class:`UnreadableError` for a bucket."""
    own = [each for each in directories if each.kind == "log-directory" and not is_remote(each.path)]
    now_ms = clock.now() if now_ms is None else now_ms
    kafka = versions()[-1] if version is None else find_version(version)
    properties = {each.path.rstrip("/"): directory_files.load_properties(each) for each in own}
    known = [each for each in properties.values() if each is not None]
    readable = [each for each in known if not each.findings]
    node = replicas.node_of(properties)
    partitions = [each for directory in own for each in directory.partitions if each.state == "live"]
    metadata = next((each for each in partitions if each.topic == names.CLUSTER_METADATA), None)
    known_state = _known_state(metadata, now_ms, node.node_id, version=kafka, max_batch_bytes=max_batch_bytes)
    state = known_state.state
    offline = directory_files.offline_directories(properties, metadata)
    loaded, findings = _load(own, properties, offline, max_batch_bytes)
    findings += [*directory_files.check_agreement(known), *known_state.refusals]
    online = [each for each in loaded if _parent(each.path) not in offline]
    findings += directory_files.check_repeated(
        online,
        lambda at: state is not None and replicas.is_assigned_here(at, state, node),
    )
    warnings = [*directory_files.check_cleaner_checkpoints(own), *directory_files.check_commits(own)]
    places = _Places() if state is None else _places(loaded, state, node, offline, readable=bool(readable))
    if state is not None:
        findings += [*replicas.check_owners(readable, state), *replicas.check_future(loaded, state, node)]
        warnings += replicas.check_topics_applied(places.unserved)
    if state is not None and metadata is not None:
        for each in refused_settings(state, f"{metadata.path}/", kafka):
            (findings if each.severity == "error" else warnings).append(each)
    stray = {each.path: finding for each in online if (finding := replicas.stray(each, state, node)) is not None}
    served = _by_place(each for each in partitions if each.path not in {**stray, **places.unserved})
    recovered = RecoveredLogs({each.path: load_directory_state(each) for each in own}, now_ms)
    of_nobody = _by_place(each for each in partitions if each.path in places.unserved)
    objects = stored_objects(own, bucket)
    remote = remote_effects(state, node.node_id, served, unserved=of_nobody, restart_of=recovered.of, objects=objects)
    completed = tuple(completions(map(PartitionReader, served.values()), set(served), now_ms, max_batch_bytes))
    emptied = {(each.topic, each.partition) for each in loaded if each.path in stray} | dict(places.created).keys()
    positions: tuple[LostPosition, ...] = ()
    if state is not None:
        positions = tuple(positions_past_end(state, node, served, emptied, recovered.limits, max_batch_bytes))
    return [
        DirectoryRestart(
            each.path,
            tuple(finding for finding in findings if _is_in(finding.file, path)),
            {at: finding for at, finding in stray.items() if _is_in(at, path)},
            unserved={at: finding for at, finding in places.unserved.items() if _is_in(at, path)},
            created=tuple(place for place, at in places.created if at == path),
            deleted=tuple((at.path, at.size) for at in each.others if directory_files.is_deleted(at)),
            completed=tuple(at for at in completed if any(_is_in(served[place].path, path) for place in at.partitions)),
            is_state_known=state is not None,
            promoted=tuple((at, replaced) for at, replaced in places.promoted if _is_in(at, path)),
            overwritten=tuple(at for at in places.overwritten if _is_in(at, path)),
            settings={} if state is None else state.settings,
            warnings=tuple(each for each in warnings if _is_in(each.file, path)),
            unknown=known_state.unknown if any(_is_in(at.path, path) for at in loaded) else None,
            restarts_cluster=known_state.restarts_cluster,
            remote_deletions=remote.deletions if each is own[0] else (),
            remote_log_starts=remote.log_starts if each is own[0] else (),
            version=kafka,
            offline=offline.get(path),
            lost_positions=positions if each is own[0] else (),
        )
        for each, path in zip(own, properties, strict=True)
    ]


def _load(
    directories: Sequence[LogDirectory],
    properties: Mapping[str, MetaProperties | None],
    offline: Mapping[str, Finding],
    max_batch_bytes: int | None,
) -> tuple[list[directory_files.LoadedDirectory], list[Finding]]:
    """The partitions' directories, and what keeps a broker from starting on those of ``directories`` that it loads."""
    loaded: list[directory_files.LoadedDirectory] = []
    findings: list[Finding] = []
    for each in directories:
        found, refused = directory_files.loaded_directories(each)
        loaded += found
        if _path(each) not in offline:
            findings += [*refused, *directory_files.check_node_files(each, properties[_path(each)], max_batch_bytes)]
    return loaded, findings


@dataclass(frozen=True, slots=True)
class _Places:
    """Which partitions a broker does not serve, begins empty, renames and empties, as in :class:`DirectoryRestart`."""

    unserved: dict[str, Finding] = field(default_factory=dict[str, Finding])
    created: tuple[tuple[Place, str], ...] = ()
    promoted: tuple[tuple[str, str | None], ...] = ()
    overwritten: tuple[str, ...] = ()


def _places(
    loaded: Sequence[directory_files.LoadedDirectory],
    state: replicas.ClusterState,
    node: replicas.BrokerNode,
    offline: Mapping[str, Finding],
    *,
    readable: bool,
) -> _Places:
    promoted = tuple(replicas.promoted(loaded, state, node))
    created = tuple(replicas.created(loaded, {at for at, _ in promoted}, state, node))
    unserved: dict[str, Finding] = {}
    for each in loaded if readable else ():
        if (reason := offline.get(_parent(each.path))) is not None:
            unserved |= {each.path: reason} if each.state == "live" else {}
        elif replicas.stray(each, state, node) is None:
            finding = replicas.unserved(each, state, node)
            unserved |= {} if finding is None else {each.path: finding}
    return _Places(unserved, created, promoted, tuple(replicas.overwritten(loaded, created)))


def _by_place(partitions: Iterable[PartitionPath]) -> dict[Place, PartitionPath]:
    return {(each.topic or "", each.partition or 0): each for each in partitions}


class RecoveredLogs:
    """What a start of a broker makes of the logs of some directories, each planned once."""

    def __init__(self, states: Mapping[str, DirectoryState], now_ms: int | None = None) -> None:
        """``states``: of the directories, by their paths."""
        self._states = {path.rstrip("/"): each for path, each in states.items()}
        self._now_ms = now_ms
        self._known: dict[str, Restart | None] = {}
        self._refused: dict[str, Restart] = {}

    def refused(self, partition: PartitionPath) -> Restart | None:
        """Return the dry run for a partition whose log a broker refuses; None where it does not."""
        self.of(partition)
        return self._refused.get(partition.path)

    def of(self, partition: PartitionPath) -> Restart | None:
        """Return the dry run for a partition; None where that fails, or where a broker does not load it."""
        if partition.path not in self._known:
            self._known[partition.path] = self._planned(partition)
        return self._known[partition.path]

    def limits(self, partition: PartitionPath) -> tuple[int, int] | None:
        """Return the first offset of a partition after the start, and the one after its last; None as in :meth:`of`."""
        restart = self.of(partition)
        return None if restart is None else (restart.log_start_offset, restart.log_end_offset)

    def _planned(self, partition: PartitionPath) -> Restart | None:
        state = self._states.get(_parent(partition.path))
        if state is None or is_remote(partition.path):
            return None
        with suppress(UnreadableError):
            restart = plan_restart(partition, state.of(partition), self._now_ms, clean=state.was_clean)
            if not restart.refused:
                return restart
            self._refused[partition.path] = restart
        return None


def _path(directory: LogDirectory) -> str:
    return directory.path.rstrip("/")


def _known_state(
    metadata: PartitionPath | None, now_ms: int, node_id: int | None, version: str, max_batch_bytes: int | None
) -> KnownState:
    """Return the state that KRaft's own log has, up to where it ends after its recovery."""
    end_offset = None
    if metadata is not None and metadata.segments:
        restart = plan_restart(metadata, {}, now_ms, clean=False, max_batch_bytes=max_batch_bytes)
        end_offset = None if restart.refused else restart.log_end_offset
    return read_known_state(metadata, end_offset, node_id, version=version, max_batch_bytes=max_batch_bytes)


def _parent(path: str) -> str:
    return path.rstrip("/").rpartition("/")[0]


def _is_in(path: str, directory: str) -> bool:
    return path.startswith(f"{directory}/")


def plan_restart(
    partition: PartitionPath,
    lines: Lines,
    now_ms: int | None = None,
    *,
    clean: bool,
    directory: DirectoryRestart | None = None,
    settings: Settings | None = None,
    max_batch_bytes: int | None = None,
) -> Restart:
    """The dry run for one partition of a local directory. ``lines`` are its own in its log directory's checkpoints, and
    ``clean`` whether that has the mark of a clean stop. ``directory``: of its log directory, if that is known.
    ``settings``: the topic's, as far as they are known (:func:`known_settings`), for what retention deletes.
    ``max_batch_bytes``: what one batch of KRaft's own log may inflate to (128 MiB).

    Raises :class:`UnreadableError` for a directory or file that cannot be opened.
    """
    if partition.unreadable is not None:
        raise UnreadableError("", str(partition.unreadable))
    if not Path(partition.path).is_dir():
        raise UnreadableError(partition.path, "what a restart does is known of a partition's local directory only")
    place = partition.topic, partition.partition, partition.path
    if partition.state == "delete":
        logs = [segment.log for segment in partition.segments]
        lost = _lost([(log.path, 0) for log in logs], 0)
        return Restart(*place, deleted=tuple((log.path, log.size or 0) for log in logs), lost=lost)
    damage = next(unloadable(partition, max_batch_bytes), None)
    if damage is not None:
        return Restart(*place, refused=str(damage), refused_by=damage.kind)
    checkpoints = PartitionOffsets(
        _offset(lines, names.RECOVERY_POINT_CHECKPOINT), _offset(lines, names.LOG_START_OFFSET_CHECKPOINT)
    )
    if partition.topic == names.CLUSTER_METADATA:  # KRaft takes its own log for not flushed, whatever is recorded
        checkpoints, clean = PartitionOffsets(), False
    now_ms = clock.now() if now_ms is None else now_ms
    try:
        plan = plan_recovery(partition.path, LogConfig(), checkpoints, now_ms, clean=clean, trusting=True)
    except UnreadableError as error:
        if "Kafka refuses to load" not in str(error):
            raise
        return Restart(*place, refused=str(error), refused_by=Kind.LOG_REFUSED)
    files = _PlannedFiles(plan)
    if (emptied := emptied_at(partition, plan)) is not None:
        return _emptied(place, plan, files, emptied)
    end, unclosed, trusted = plan.log_end_offset, list[Finding](), list[tuple[str, int]]()
    last_recovered = max((each.last_base_offset for each in plan.recovered), default=-1)
    if clean and plan.segments and plan.segments[-1] > last_recovered:
        broken: list[Finding] = []
        end = files.trusted_end(broken.append, unclosed.append)
        unclosed = broken + unclosed
        if any(finding.severity == "error" and finding.kind != Kind.NO_BATCHES for finding in broken):
            text = f"{broken[0]}; Kafka throws CorruptRecordException as it looks for the end"
            return Restart(*place, refused=text, refused_by=Kind.LOG_END_DAMAGED)
        if end == plan.segments[-1]:
            trusted = [(files.log(end), 0)]  # what is in it, if anything, is not seen any more
    cut = tuple(files.cut())
    deleted = tuple((path, Path(path).stat().st_size) for path in map(files.log, plan.deleted))
    return Restart(
        *place,
        split=tuple((files.log(each.base_offset), each.result.parts) for each in plan.recovered if each.result.parts),
        recovered=tuple((each.base_offset, each.reason) for each in plan.recovered),
        cut=cut,
        deleted=deleted,
        rebuilt=tuple(files.rebuilt()),
        emptied=tuple(files.emptied()),
        removed=plan.orphaned_files.remove,
        renamed=plan.orphaned_files.rename,
        log_start_offset=plan.log_start_offset,
        log_end_offset=end,
        unclosed=tuple(map(str, unclosed)),
        lost=_lost([*((each.file, each.kept) for each in cut), *((path, 0) for path, _ in deleted), *trusted], end),
        stray=_without_id(partition) if directory is None else directory.stray.get(partition.path),
        unserved=None if directory is None else directory.unserved.get(partition.path),
        markers=0 if directory is None else _markers(directory, partition),
        epochs=plan.epochs,
        retention=expiring(plan, partition.topic, settings, now_ms),
    )


def _emptied(place: tuple[str | None, int | None, str], plan: RecoveryPlan, files: _PlannedFiles, at: int) -> Restart:
    """The dry run of KRaft's own log where its newest snapshot is after its end: all segments go."""
    logs = [files.log(each) for each in sorted({*plan.segments, *plan.deleted})]
    return Restart(
        *place,
        deleted=tuple((log, Path(log).stat().st_size) for log in logs if Path(log).stat().st_size),
        removed=plan.orphaned_files.remove,
        renamed=plan.orphaned_files.rename,
        log_start_offset=at,
        log_end_offset=at,
        lost=_lost([(log, 0) for log in logs], at),
    )


def plan_partition(
    partition: PartitionPath,
    state: DirectoryState,
    directory: DirectoryRestart | None,
    max_batch_bytes: int | None = None,
) -> Restart:
    """Plan the dry run for one partition by the state of the log directory that it is in, and by what its topic sets.
    Others, and what is raised, as in :func:`plan_restart`."""
    restart = plan_restart(
        partition,
        state.of(partition),
        clean=state.was_clean,
        directory=directory,
        settings=known_settings(directory, partition),
        max_batch_bytes=max_batch_bytes,
    )
    start = None if restart.refused else _tiered_start(partition, directory)
    return restart if start is None else replace(restart, log_start_offset=min(start, restart.log_start_offset))


def _tiered_start(partition: PartitionPath, directory: DirectoryRestart | None) -> int | None:
    """Return where a tiered log begins after a start, in remote storage; None where it begins on the disk."""
    place = partition.topic or "", partition.partition or 0
    setting = read_topic_setting(partition.location, place[0], REMOTE_STORAGE)
    deletions = () if directory is None else directory.remote_deletions
    if not is_enabled(setting) or any((each.topic, each.partition) == place for each in deletions):
        return None
    moved = () if directory is None else directory.remote_log_starts
    after = (each.after for each in moved if (each.topic, each.partition) == place)
    return next(after, partition.log_start_offset)


def known_settings(directory: DirectoryRestart | None, partition: PartitionPath) -> Settings | None:
    """The settings of a partition's topic for retention. ``directory``: of its log directory; where only the partition
    was opened, they are read from the metadata beside it. None where these do not know the topic."""
    topic = partition.topic or ""
    if directory is not None:
        return directory.settings.get(topic)
    if not is_in_metadata(partition.location, topic):
        return None
    found = {name: read_topic_setting(partition.location, topic, name) for name in RETENTION_SETTINGS}
    return {name: value for name, value in found.items() if value is not None}


def _without_id(partition: PartitionPath) -> Finding | None:
    """Return why a partition is stray, whatever the cluster's metadata says."""
    if partition.topic in (None, names.CLUSTER_METADATA):
        return None
    place = partition.topic or "", partition.partition or 0, partition.state, partition.path
    topic_id = topic_id_of(partition.partition_metadata)
    return replicas.stray(directory_files.LoadedDirectory(*place, topic_id), None, replicas.BrokerNode())


def _markers(directory: DirectoryRestart, partition: PartitionPath) -> int:
    place = partition.topic or "", partition.partition or 0
    return sum(each.partitions.count(place) for each in directory.completed)


class _PlannedFiles:
    """What the files of a plan's segments are called before anything is done."""

    def __init__(self, plan: RecoveryPlan) -> None:
        self._plan = plan

    def log(self, base_offset: int) -> str:
        return self._path(base_offset, "log")

    def cut(self) -> Iterator[Truncation]:
        for each in self._plan.recovered:
            result = each.result
            if result.is_cut and each.base_offset not in self._plan.deleted:
                reason = "" if result.stop is None else result.stop.message
                yield Truncation(self.log(each.base_offset), result.size, result.state.size, reason)

    def rebuilt(self) -> Iterator[str]:
        """The indexes that are rebuilt, whether they exist or not."""
        for each in self._plan.recovered:
            if each.base_offset not in self._plan.deleted:
                yield self._path(each.base_offset, "offset-index")
                yield self._path(each.base_offset, "time-index")
                path = self._path(each.base_offset, "transaction-index")
                if each.result.transaction_index or Path(path).exists():
                    yield path

    def emptied(self) -> Iterator[str]:
        """The indexes that a segment does not have and that begin empty, as the log is not recovered."""
        recovered = {each.base_offset for each in self._plan.recovered}
        for base_offset in self._plan.segments:
            for kind in ("offset-index", "time-index"):
                if base_offset not in recovered and not self._plan.files.has(base_offset, kind):
                    yield str(self._plan.directory / names.segment_file(base_offset, kind))

    def trusted_end(self, report: Report, report_index: Report) -> int:
        """Return where the log ends by its last segment and the last entry of its index, which nobody checks after a
        clean stop (``LogSegment.readNextOffset``)."""
        base_offset = self._plan.segments[-1]
        end, last, position, is_found = base_offset, base_offset, 0, True
        if self._plan.files.has(base_offset, "offset-index"):
            index = load_offset_index(Location(self._path(base_offset, "offset-index")), base_offset)
            for finding in index.findings:
                report_index(finding)
            if len(index.offsets):
                last, position, is_found = int(index.offsets[-1]), int(index.positions[-1]), False
        with Location(self.log(base_offset)).open() as file:
            for chunk in scan(file, report, min(max(position, 0), file.size), chain_only=True):
                is_found = is_found or bool((chunk.batches.last_offset >= last).any())
                end = int(chunk.batches.last_offset[-1]) + 1
        if not is_found:
            text = (
                "the last entry points after the end of the log: a broker takes the segment for empty; delete its "
                ".index and .timeindex files before the start, and it reads the segment and rebuilds both"
            )
            report_index(
                Finding(
                    "error",
                    Kind.OFFSET_INDEX_MISMATCH,
                    self._path(base_offset, "offset-index"),
                    offset=last,
                    message=text,
                )
            )
        return end if is_found else base_offset

    def _path(self, base_offset: int, kind: names.SegmentFileKind) -> str:
        return str(self._plan.files.path(base_offset, kind))


def _offset(lines: Lines, name: str) -> int | None:
    return lines[name][1] if name in lines else None


def _lost(lost_from: list[tuple[str, int]], end_offset: int) -> LostRecords:
    """Return what is intact in files from some position on, and not before ``end_offset``."""
    batches = records = 0
    first: int | None = None
    last: int | None = None
    for path, start in lost_from:
        with Location(path).open() as file:
            for chunk in _intact(file, start):
                found = chunk.batches.take(chunk.batches.last_offset >= end_offset)
                if not len(found):
                    continue
                batches += len(found)
                # Messages v0 and v1 count as one each; what is in wrappers is not looked into.
                records += int(np.where(found.is_legacy, 1, np.maximum(found.count, 0)).sum(dtype=np.int64))
                lowest, highest = int(found.entry_offset.min()), int(found.last_offset.max())
                first = lowest if first is None else min(first, lowest)
                last = highest if last is None else max(last, highest)
    return LostRecords(batches, records, first, last)


def _intact(file: File, start: int) -> Iterator[Chunk]:
    """The batches whose checksums are right, also those after a place where a broker's reader ends."""
    for chunk in scan(file, ignore, start):
        yield chunk.take(check_checksums(chunk, file.path, ignore))
