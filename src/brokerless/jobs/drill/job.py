"""Rebuilds a snapshot of a backup into scratch, and tries what can be tried without a broker.

What a restore would write is verified as any log, its start is predicted as that of any broker's directories, and its
offsets and groups are compared with what the snapshot says: nothing is judged here that is not judged elsewhere.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from brokerless import clock
from brokerless.clusters.start.start import describe_harms, foresee_start, start_findings
from brokerless.errors import ClusterError, UnreadableError, UsageError
from brokerless.findings import Finding, Kind
from brokerless.internals.coordinators import NAMES as COORDINATED
from brokerless.jobs.backup.job import tool_name
from brokerless.jobs.drill.broker import Kafka, find_kafka, mapping_file, running
from brokerless.jobs.drill.offsets import compare_offsets
from brokerless.jobs.drill.positions import check_positions
from brokerless.jobs.drill.results import CheckName, DrillCheck, DrillResult
from brokerless.jobs.drill.served import compare_served
from brokerless.jobs.rebuild.from_snapshot.disks import is_snapshot
from brokerless.jobs.rebuild.job import rebuild
from brokerless.jobs.rebuild.plan import Rebuild, RebuildOptions
from brokerless.jobs.run.types import HERE, RunOptions
from brokerless.jobs.verify.job import verify
from brokerless.log import names
from brokerless.log.backups.snapshot import SnapshotPartition
from brokerless.log.directory import LogDirectory, PartitionPath, resolve
from brokerless.log.storage.guarded_files import make_directory
from brokerless.log.storage.location import Location
from brokerless.log.storage.write_errors import unwritable
from brokerless.log.tiered.detection import shown_path
from brokerless.progress import Done
from brokerless.requests.backups import DrillRequest
from brokerless.requests.recovery import RebuildRequest
from brokerless.tables.read_options import bound
from brokerless.text import count_of

_NOT_KNOWN = (Kind.PERMISSION_DENIED, Kind.REMOTE_KEY_MISSING)
"""Without a key or a right, a drill shows nothing of the backup."""
NO_BROKER = "a start of a real broker"
NOT_SERVED = "Kafka's own topics by a consumer, and groups, producers, logins and ACLs by clients"
NO_HASHES = "the hashes of the stored objects (check --read all)"
NO_METADATA_LOG = "the log of the metadata, of which its state is rebuilt, and not its records"
NO_REPLICAS = "which node gets which replica (--spread)"


@dataclass(frozen=True, slots=True)
class DrillOptions:
    """A request to try a snapshot, and the Kafka that it is tried with."""

    request: DrillRequest
    kafka: Kafka | None = None
    """The Kafka of which a broker starts on the directories; None for no start."""
    is_chosen: Callable[[str, int], bool] | None = None
    """Returns whether a partition is tried, by topic and number; None for all."""

    @classmethod
    def of(cls, request: DrillRequest, is_chosen: Callable[[str, int], bool] | None = None) -> DrillOptions:
        """Return what was requested. Raises :class:`UsageError` where no broker can be started."""
        if request.start is not None and request.spread:
            raise UsageError("--start is of one broker, which has all partitions; leave out --spread")
        return cls(request, None if request.start is None else find_kafka(request.start), is_chosen)

    @property
    def scratch(self) -> str | None:
        """The path at which the directories are, and stay; None for a temporary directory."""
        return None if self.request.scratch is None else str(self.request.scratch)


def drill(snapshot: LogDirectory, options: DrillOptions, running: RunOptions = HERE) -> DrillResult:
    """Try a snapshot, by the log directory that it is. ``done`` of ``running`` is called with the bytes that were
    written, and then read.

    Raises :class:`UsageError` for what is no snapshot, and what cannot be rebuilt as requested, UnreadableError for
    segments whose key is missing, and UnwritableError."""
    if not is_snapshot(snapshot):
        raise UsageError(f"{snapshot.path}: this is no backup; give the place that backup wrote to, or URL@SNAPSHOT")
    state = snapshot.location.file_system()[0].bucket.snapshot_state()
    vector = [each for each in state.snapshot.partitions if each.topic != names.CLUSTER_METADATA]
    options = _with_whole_coordinators(vector, options)
    tried = [each for each in vector if options.is_chosen is None or options.is_chosen(each.topic, each.partition)]
    began = clock.now()
    with _scratch(options.scratch) as path:
        checks = tuple(_checks(snapshot, path, options, tried, running=running))
    kafka = options.kafka if any(each.name == "broker" for each in checks) else None
    not_tried = (
        NO_BROKER if kafka is None else NOT_SERVED,
        NO_HASHES,
        NO_METADATA_LOG,
        *(() if options.request.spread else (NO_REPLICAS,)),
    )
    if len(tried) < len(vector):
        others = f"{len(vector) - len(tried):,} of the {count_of(len(vector), 'partition')} of the snapshot"
        not_tried = (f"{others}, and positions of groups in or of them", *not_tried)
    return DrillResult(
        shown_path(snapshot.location), state.snapshot, tool_name(), began, ended=clock.now(),
        scratch=options.scratch, checks=checks, not_tried=not_tried,
        partitions=None if options.is_chosen is None else tuple(each.name for each in tried),
        kafka=None if kafka is None else kafka.version,
    )  # fmt: skip


def _with_whole_coordinators(vector: Sequence[SnapshotPartition], options: DrillOptions) -> DrillOptions:
    """Choose all partitions of a coordinators' topic or none: their number says where a group is looked for."""
    is_chosen = options.is_chosen
    if is_chosen is None:
        return options
    whole = {each.topic for each in vector if each.topic in COORDINATED and is_chosen(each.topic, each.partition)}
    return replace(options, is_chosen=lambda topic, number: topic in whole or is_chosen(topic, number))


@contextmanager
def _scratch(path: str | None) -> Generator[str]:
    if path is not None:
        with unwritable(path):
            make_directory(Path(path))
        yield path
        return
    with unwritable(tempfile.gettempdir()):
        scratch = tempfile.TemporaryDirectory(prefix="brokerless-drill-", ignore_cleanup_errors=True)
    with scratch as directory:
        yield directory


def _checks(
    snapshot: LogDirectory,
    scratch: str,
    options: DrillOptions,
    vector: Sequence[SnapshotPartition],
    running: RunOptions,
) -> Iterator[DrillCheck]:
    """Yield each check; none but the first where nothing can be rebuilt."""
    rebuilt, check = _rebuild(snapshot, scratch, options, running.done)
    yield check
    if rebuilt is None:
        return
    directories = [resolve(Location(each.path)) for each in rebuilt.directories]
    replicas: dict[tuple[str, int], list[PartitionPath]] = defaultdict(list)
    for each in (partition for one in directories for partition in one.partitions):
        replicas[each.place].append(each)
    limit = bound(options.request.max_batch_bytes)
    partitions = [each for own in replicas.values() for each in own]
    yield _verify(partitions, limit, running)
    yield _start(rebuilt, directories, limit)
    place = shown_path(snapshot.location)
    yield _timed("offsets", lambda: compare_offsets(vector, replicas, place, limit))
    firsts = {each: own[0] for each, own in replicas.items()}
    yield _timed("positions", lambda: check_positions(rebuilt.cluster, firsts, limit))
    if options.kafka is not None:  # at last, as it writes
        yield _serve(snapshot, rebuilt, options.kafka, vector=vector, limit=limit)


def _rebuild(
    snapshot: LogDirectory, scratch: str, options: DrillOptions, done: Done
) -> tuple[Rebuild | None, DrillCheck]:
    began = clock.now()
    try:
        with _scratch(None) as beside:
            request = RebuildRequest(
                snapshot.path,
                scratch,
                spread=options.request.spread,
                mapping=None if options.kafka is None else mapping_file(Path(beside)),
                quorum=None if options.kafka is None else "static",
                apply=True,
                max_batch_bytes=options.request.max_batch_bytes,
            )
            rebuilt = rebuild([snapshot], RebuildOptions.of(request, options.is_chosen), done)
    except UnreadableError as error:
        if error.kind in _NOT_KNOWN:
            raise
        counts = {"directories": 0, "partitions": 0}
        found = error.finding(shown_path(snapshot.location))
        return None, DrillCheck("rebuild", counts, (found,), is_clean=False, duration=clock.now() - began)
    # Positions are a check of their own; and what retention deletes after a start is no fault of the backup.
    found = [each for each in rebuilt.findings if each.kind != Kind.POSITION_PAST_END]
    found = [replace(each, severity="info") if each.kind == Kind.RETENTION_DELETES else each for each in found]
    past_end = {str(each) for each in rebuilt.positions}
    lost = tuple(each for each in rebuilt.lost if each not in past_end)
    if (not_known := next((each for each in found if each.kind in _NOT_KNOWN), None)) is not None:
        raise UnreadableError(not_known.file, not_known.message, Kind(not_known.kind))
    counts = {"directories": len(rebuilt.directories), "partitions": len(rebuilt.held)}
    is_clean = not lost and all(each.severity == "info" for each in found)
    check = DrillCheck("rebuild", counts, tuple(found), is_clean, duration=clock.now() - began, lost=lost)
    return rebuilt, check


def _verify(partitions: Sequence[PartitionPath], limit: int, running: RunOptions) -> DrillCheck:
    """Verify what was rebuilt, as :mod:`brokerless.jobs.verify` does; errors are what it fails for."""
    began = clock.now()
    with closing(verify(partitions, limit, running)) as results:
        found = [each.finding(each.path) if isinstance(each, UnreadableError) else each for each in results]
    counts = {"logs": len(partitions), "bytes": sum(each.size for each in partitions)}
    is_clean = not any(each.severity == "error" for each in found)
    return DrillCheck("verify", counts, tuple(found), is_clean, duration=clock.now() - began)


def _start(rebuilt: Rebuild, directories: Sequence[LogDirectory], limit: int) -> DrillCheck:
    """Predict the start of each node with its directories."""
    began = clock.now()
    found: list[Finding] = []
    harms: list[str] = []
    nodes = {each.path: each.node_id for each in rebuilt.directories}
    for node in sorted(set(nodes.values())):
        outcomes = foresee_start([each for each in directories if nodes[each.path] == node], limit)
        for path, outcome in outcomes.items():
            found += start_findings(outcome)
            text = outcome.first_refusal or describe_harms(outcome)
            harms += [f"node {node}, {Path(path).name}: {text}"] if text else []
    found = [each for each in dict.fromkeys(found) if each.kind != Kind.POSITION_PAST_END]
    counts = {"nodes": len(set(nodes.values())), "directories": len(directories)}
    is_clean = not harms and not any(each.severity == "error" for each in found)
    return DrillCheck("start", counts, tuple(found), is_clean, duration=clock.now() - began, lost=tuple(harms))


def _serve(
    snapshot: LogDirectory, rebuilt: Rebuild, kafka: Kafka, vector: Sequence[SnapshotPartition], limit: int
) -> DrillCheck:
    """Have a broker serve what was rebuilt, and compare that."""
    began = clock.now()
    counts = {"partitions": 0, "records": 0, "committed": 0}
    properties = rebuilt.server_properties(rebuilt.nodes[0].node_id)
    properties["log.dirs"] = ",".join(str(Path(each.path).absolute()) for each in rebuilt.directories)
    try:
        with _scratch(None) as beside, running(kafka, properties, Path(beside)) as broker:
            broker.wait_until_ready({(each.topic, each.partition) for each in vector})
            served = compare_served(snapshot, vector, broker.bootstrap, limit)
    except (ClusterError, UnreadableError) as error:
        return DrillCheck("broker", counts, (), is_clean=False, duration=clock.now() - began, lost=(str(error),))
    counts = {"partitions": served.partitions, "records": served.records, "committed": served.committed}
    is_clean = not served.lost and not any(each.severity == "error" for each in served.findings)
    return DrillCheck("broker", counts, served.findings, is_clean, duration=clock.now() - began, lost=served.lost)


def _timed(name: CheckName, check: Callable[[], tuple[dict[str, int], list[Finding]]]) -> DrillCheck:
    """Return a check that fails for any warning or error."""
    began = clock.now()
    counts, found = check()
    is_clean = all(each.severity == "info" for each in found)
    return DrillCheck(name, counts, tuple(found), is_clean, duration=clock.now() - began)
