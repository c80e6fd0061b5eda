"""Loads a partition's log for writing as a broker does at its start: recovers it, and restores its producer state.

Sources: ``LogManager.loadLog``, ``LogLoader.load``, ``UnifiedLog`` (4.1.1).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from brokerless import clock
from brokerless.log import names
from brokerless.log.checkpoint.offset_checkpoints import PartitionOffsets, read_checkpoints, write_checkpoints
from brokerless.log.config import LogConfig
from brokerless.log.producer.loading import load_producers, no_producers
from brokerless.log.producer.state import snapshots_out_of_range, stray_snapshots
from brokerless.log.recovery.plan import RecoveryPlan, apply_recovery, plan_recovery
from brokerless.log.storage.atomic import write_file
from brokerless.log.storage.directory_lock import only_writer
from brokerless.log.storage.guarded_files import refuse_links
from brokerless.log.storage.segment_files import list_files
from brokerless.log.write.log_writer import LogContents, LogWriter
from brokerless.log.write.new_partition import checked_name


def load_log(log_directory: Path, topic: str, partition: int, config: LogConfig, *, was_clean: bool) -> LogWriter:
    """Loads a log of a log directory that the caller has locked and that has no unfinished commit.

    ``was_clean``: it needs no recovery. Raises :class:`UsageError` for an impossible name or a log that is open,
    UnreadableError for what Kafka would refuse to load, UnwritableError and OSError.
    """
    path = log_directory / checked_name(topic, partition)
    with ExitStack() as stack:
        stack.enter_context(only_writer(path))
        contents = recover_contents(log_directory, topic, partition, config=config, at_ms=None, was_clean=was_clean)
        closing = stack.pop_all()
        return new_writer(log_directory, (topic, partition), config, contents=contents, close=lambda _: closing.close())


def new_writer(
    log_directory: Path, place: tuple[str, int], config: LogConfig, contents: LogContents, close: Callable[[bool], None]
) -> LogWriter:
    """Return a writer of a log that was loaded, which records its offsets in the checkpoints of the log directory."""

    def record(checkpoints: PartitionOffsets) -> None:
        write_checkpoints(log_directory, {place: checkpoints})

    return LogWriter(
        log_directory / names.partition_directory(*place), config, contents, write_checkpoints=record, release=close
    )


def recover_contents(
    log_directory: Path, topic: str, partition: int, config: LogConfig, at_ms: int | None, was_clean: bool
) -> LogContents:
    """Recovers a partition that is there; what is in it then. Raises as :func:`load_log`."""
    checkpoints = read_checkpoints(log_directory, topic, partition)
    at_ms = clock.now() if at_ms is None else at_ms
    path = log_directory / names.partition_directory(topic, partition)
    refuse_links(path)
    plan = plan_recovery(path, config, checkpoints, at_ms, clean=was_clean)
    apply_recovery(plan)
    return _load(plan, at_ms, clean=was_clean)


def _load(plan: RecoveryPlan, at_ms: int, *, clean: bool) -> LogContents:
    """Return what is in a partition's directory after recovery. Snapshots are written and dropped as when Kafka loads
    it."""
    directory, segments = plan.directory, list(plan.segments)
    offsets = list_files(directory).offsets("producer-snapshot")
    stray = stray_snapshots(offsets, segments)
    limits = plan.log_start_offset, plan.log_end_offset
    _drop(directory, {*stray, *snapshots_out_of_range(offsets, *limits)})
    # A log from before KIP-98 has no snapshot; Kafka looks for no producers in it (UnifiedLog.rebuildProducerState).
    if clean and not {*offsets} - {*stray}:
        producers = no_producers(segments, plan.log_end_offset)
    else:
        producers = load_producers(list_files(directory), segments, *limits, at_ms)
    _drop(directory, {*producers.corrupt})
    for offset, snapshot in producers.write.items():
        write_file(directory / names.segment_file(offset, "producer-snapshot"), snapshot)
    producers.write.clear()
    return LogContents(
        segments,
        plan.active,
        plan.log_start_offset,
        recovery_point=plan.recovery_point,
        log_end_offset=plan.log_end_offset,
        epochs=plan.epochs,
        producers=producers,
    )


def _drop(directory: Path, snapshots: set[int]) -> None:
    for offset in snapshots:
        (directory / names.segment_file(offset, "producer-snapshot")).unlink(missing_ok=True)
