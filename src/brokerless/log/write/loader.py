"""Opening a partition's log to write to it: taking its log directory, and loading what is there as a broker does.

Sources: ``LogManager.loadLog``, ``LogLoader.load``, ``UnifiedLog`` (4.1.1).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from brokerless import clock
from brokerless.errors import UsageError
from brokerless.log import names
from brokerless.log.checkpoint.offset_checkpoints import Checkpoints, read_checkpoints, write_checkpoints
from brokerless.log.checkpoint.writers import partition_metadata, random_id
from brokerless.log.config import LogConfig
from brokerless.log.index.writers import SegmentState
from brokerless.log.producer.loading import Producers, load_producers, no_producers
from brokerless.log.producer.state import ProducerState, snapshots_out_of_range, stray_snapshots
from brokerless.log.recovery.plan import RecoveryPlan, apply_recovery, plan_recovery
from brokerless.log.storage.atomic import sync_directory, write_file
from brokerless.log.storage.directory_lock import Held, lock_directory, only_writer, spoil
from brokerless.log.storage.own_files import refuse_links
from brokerless.log.write.log_writer import Contents, LogWriter, unwritable
from brokerless.log.write.segment_files import list_files

DEFAULTS = LogConfig()


def open_log(
    directory: str | Path,
    topic: str,
    partition: int,
    config: LogConfig = DEFAULTS,
    *,
    start_offset: int = 0,
    topic_id: str | None = None,
    at_ms: int | None = None,
) -> LogWriter:
    """Opens a partition of a log directory for writing; after anything but a clean stop, it is recovered first.

    If there is no such partition, it is made, and begins at ``start_offset``; ``topic_id`` (as ``partition.metadata``
    has it) is random by default. The log directory is locked, as by a running broker, until the log is closed. As when
    a broker starts, producers are forgotten that were idle for a day ``at_ms`` (since the epoch; now by default).

    Raises :class:`UsageError` if a broker runs there, or for an impossible name; UnreadableError for what Kafka would
    refuse to load; UnwritableError where the disk fails, and for a partition or a file in it that is a symbolic link.
    """
    log_directory = Path(directory)
    path = log_directory / checked_name(topic, partition)
    with ExitStack() as stack, unwritable(log_directory):
        held = stack.enter_context(lock_directory(log_directory, exclusive=True))
        if (log_directory / names.COMMIT_JOURNAL).exists():
            from brokerless.log.commit.commit import settle

            settle(log_directory)
        stack.enter_context(only_writer(path))
        if path.is_dir():
            contents = _recover(log_directory, topic, partition, config, at_ms, held.was_clean)
        else:
            contents = begin(path, start_offset, topic_id)
            sync_directory(log_directory)
        closing = stack.pop_all()
        return _writer(
            log_directory, (topic, partition), config, contents, lambda is_sound: _release(closing, held, is_sound)
        )


def reopen_log(log_directory: Path, topic: str, partition: int, config: LogConfig, *, was_clean: bool) -> LogWriter:
    """The same for a partition that is there, for who holds the log directory in a way of their own.

    ``was_clean``: it needs no recovery. Raises OSError as well.
    """
    path = log_directory / checked_name(topic, partition)
    with ExitStack() as stack:
        stack.enter_context(only_writer(path))
        contents = _recover(log_directory, topic, partition, config, None, was_clean)
        closing = stack.pop_all()
        return _writer(log_directory, (topic, partition), config, contents, lambda _: closing.close())


def _writer(
    log_directory: Path, place: tuple[str, int], config: LogConfig, contents: Contents, close: Callable[[bool], None]
) -> LogWriter:
    def note(checkpoints: Checkpoints) -> None:
        write_checkpoints(log_directory, {place: checkpoints})

    return LogWriter(log_directory / names.partition_directory(*place), config, contents, note, close)


def _recover(
    log_directory: Path, topic: str, partition: int, config: LogConfig, at_ms: int | None, was_clean: bool
) -> Contents:
    checkpoints = read_checkpoints(log_directory, topic, partition)
    at_ms = clock.now() if at_ms is None else at_ms
    path = log_directory / names.partition_directory(topic, partition)
    refuse_links(path)
    plan = plan_recovery(path, config, checkpoints, at_ms, clean=was_clean)
    apply_recovery(plan)
    return _load(plan, at_ms, clean=was_clean)


def begin(path: Path, start_offset: int, topic_id: str | None) -> Contents:
    """Makes a new partition's directory, empty but for its ``partition.metadata``. Raises OSError."""
    if start_offset < 0:
        raise UsageError(f"start_offset: {start_offset} is not an offset")
    path.mkdir()
    write_file(path / names.PARTITION_METADATA, partition_metadata(topic_id or random_id()))
    producers = Producers(ProducerState(start_offset), start_offset)
    return Contents([], SegmentState(start_offset), start_offset, start_offset, start_offset, (), producers)


def checked_name(topic: str, partition: int) -> str:
    """The name of a partition's directory. Raises :class:`UsageError` if Kafka would not give it."""
    name = names.partition_directory(topic, partition)
    parsed = names.parse_partition_directory(name)
    if parsed is None or (parsed.topic, parsed.partition, parsed.state) != (topic, partition, "live"):
        allowed = "a topic has 1 to 249 letters, digits, dots, underscores and dashes"
        raise UsageError(f"{name}: this is no name of a partition; {allowed}")
    return name


def _load(plan: RecoveryPlan, at_ms: int, *, clean: bool) -> Contents:
    """What is in a partition's directory after recovery. Snapshots are written and dropped as when Kafka loads it."""
    directory, segments = plan.directory, list(plan.segments)
    offsets = list_files(directory).offsets("producer-snapshot")
    stray = stray_snapshots(offsets, segments)
    limits = plan.log_start_offset, plan.log_end_offset
    _drop(directory, {*stray, *snapshots_out_of_range(offsets, *limits)})
    if clean and not {*offsets} - {*stray}:
        producers = no_producers(segments, plan.log_end_offset)
    else:
        producers = load_producers(list_files(directory), segments, *limits, at_ms)
    _drop(directory, {*producers.corrupt})
    for offset, snapshot in producers.write.items():
        write_file(directory / names.segment_file(offset, "producer-snapshot"), snapshot)
    producers.write.clear()
    return Contents(
        segments,
        plan.active,
        plan.log_start_offset,
        plan.recovery_point,
        plan.log_end_offset,
        plan.epochs,
        producers,
    )


def _drop(directory: Path, snapshots: set[int]) -> None:
    for offset in snapshots:
        (directory / names.segment_file(offset, "producer-snapshot")).unlink(missing_ok=True)


def _release(closing: ExitStack, held: Held, is_sound: bool) -> None:
    if not is_sound:
        spoil(held)
    closing.close()
