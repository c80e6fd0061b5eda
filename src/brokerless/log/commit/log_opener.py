"""Opens a partition's log for writing: locks its log directory, recovers an interrupted commit, and loads the log."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from brokerless.log.commit.commit import recover_commit
from brokerless.log.config import DEFAULTS, LogConfig
from brokerless.log.recovery.log_loader import new_writer, recover_contents
from brokerless.log.storage.atomic import sync_directory
from brokerless.log.storage.directory_lock import DirectoryLock, lock_directory, mark_unclean, only_writer
from brokerless.log.storage.write_errors import unwritable
from brokerless.log.write.log_writer import LogWriter
from brokerless.log.write.new_partition import checked_name, create_partition


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
        lock = stack.enter_context(lock_directory(log_directory, exclusive=True))
        recover_commit(log_directory)
        stack.enter_context(only_writer(path))
        if path.is_dir():
            contents = recover_contents(
                log_directory, topic, partition, config=config, at_ms=at_ms, was_clean=lock.was_clean
            )
        else:
            contents = create_partition(path, start_offset, topic_id)
            sync_directory(log_directory)
        closing = stack.pop_all()
        return new_writer(
            log_directory,
            (topic, partition),
            config,
            contents=contents,
            close=lambda is_clean: _release(closing, lock, is_clean),
        )


def _release(closing: ExitStack, lock: DirectoryLock, is_clean: bool) -> None:
    if not is_clean:
        mark_unclean(lock)
    closing.close()
