"""Opens a partition's log for writing: locks its log directory, recovers an interrupted commit, and loads the log."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from brokerless.bounds import check_arguments
from brokerless.log.commit.commit import recover_commit
from brokerless.log.config import DEFAULTS, LogConfig
from brokerless.log.recovery.log_loader import new_writer, recover_contents
from brokerless.log.storage.atomic import sync_directory
from brokerless.log.storage.directory_lock import DirectoryLock, lock_directory, mark_unclean, only_writer
from brokerless.log.storage.write_errors import unwritable
from brokerless.log.write.log_writer import LogWriter
from brokerless.log.write.new_partition import checked_name, create_partition


@check_arguments
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
    """Open a partition of a log directory for writing; after anything but a clean stop, it is recovered first.

    The log directory is locked, as by a running broker, until the log is closed. Producers that were idle for a day are
    forgotten, as at a broker's start.

    Parameters
    ----------
    directory
        The log directory.
    topic, partition
        The partition. One that does not exist is made.
    config
        The topic's settings.
    start_offset
        Where the log of a new partition begins.
    topic_id
        Of a new partition, as ``partition.metadata`` has it; random by default.
    at_ms
        The time (ms since the epoch), now by default.

    Returns
    -------
    LogWriter
        The open log.

    Raises
    ------
    UsageError
        If a broker runs there, and for an invalid name.
    UnreadableError
        For a log that Kafka refuses to load.
    UnwritableError
        Where the disk fails, and for a symbolic link in place of the partition or of a file in it.
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
