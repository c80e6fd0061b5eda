"""Writes a new partition as a whole: it becomes visible when it is complete, or never.

Until then its directory has a name that a broker deletes at its start and that readers skip:
``TOPIC-N.<32 hex digits>-delete`` (``LocalLog.logDeleteDirName``, 4.1.1). The last step renames it. What goes to an
object store is written into a temporary directory of this machine, and sent there under this name when it is complete.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import UsageError
from brokerless.format import layouts
from brokerless.format.read.batch_headers import Batches
from brokerless.format.write.encoder import encode_empty_batch
from brokerless.log import names
from brokerless.log.checkpoint.leader_epochs import Epochs, leader_epoch_checkpoint
from brokerless.log.checkpoint.offset_checkpoints import PartitionOffsets
from brokerless.log.commit.commit import commit, discard
from brokerless.log.commit.types import StagedPartition
from brokerless.log.config import DEFAULTS, LogConfig
from brokerless.log.producer.state import ProducerState
from brokerless.log.storage.atomic import write_file
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.directory_lock import lock_directory
from brokerless.log.storage.location import DirectoryEntry, Location
from brokerless.log.storage.paths import is_local_within, is_remote, local, without_credentials
from brokerless.log.storage.write_errors import unwritable
from brokerless.log.write.copied_boundaries import SegmentBoundaries
from brokerless.log.write.log_writer import Appended, LogWriter
from brokerless.log.write.new_partition import checked_name, create_partition

_DATED: tuple[names.SegmentFileKind, ...] = ("log", "offset-index", "time-index")
_LONGEST_NAME = 255
_LARGEST_FILE = 1 << 30
"""Bytes of a file that is put beside segments: a snapshot of the cluster's metadata has some megabytes."""


def output_directory(location: Location, sources: Iterable[str] = ()) -> Destination:
    """Return a log directory to write to, as people name it, while ``sources`` are read.

    Raises :class:`UsageError` for one that cannot be written to, for none, and for one that is in what is read.
    """
    name = location.path
    if not name:
        raise UsageError("the directory to write to has no name")
    if is_remote(name) and name.rstrip("/").endswith(":"):
        raise UsageError(f"{name}: this URL names no bucket or directory")
    if "::" in name and is_remote(name):
        raise UsageError(
            f"{name}: logs cannot be written into an archive; give a directory, or a URL of one file system"
        )
    name = name.rstrip("/") if is_remote(name) else str(Path(local(name)))
    for source in (without_credentials(each)[0] for each in sources):
        if is_remote(source) == is_remote(name) and _is_within(name, source):
            raise UsageError(f"{name} is within {source}, which is read; write to another directory")
    if not is_remote(name) and Path(name).exists() and not Path(name).is_dir():
        raise UsageError(f"{name}: this is a file; give a directory")
    return Destination(location.at(name))


def _is_within(path: str, directory: str) -> bool:
    """Return whether a path is a directory or in it, links followed."""
    if is_remote(path):
        return f"{path}/".startswith(f"{directory.rstrip('/')}/")
    return is_local_within(path, directory)


@dataclass(frozen=True, slots=True)
class NewPartition:
    """The place where a partition is written."""

    directory: str | Path | Destination
    topic: str
    partition: int
    config: LogConfig = DEFAULTS
    topic_id: str | None = None
    """The ID that ``partition.metadata`` gets, random by default. A broker takes the partition only if it knows the
    topic by this ID."""
    owner: str = ""
    """The owner of the staged directory, see :func:`unfinished_name`."""
    may_exist: bool = False
    """Whether the partition may be there already: the new one takes its place, or is appended to it."""


class PartitionWriter:
    """Writes a new partition into a log directory: it becomes visible when it is complete, or never.

    Use it in a with statement: at the end of the block, all that was written is removed, unless :meth:`commit` or
    :meth:`finish` was called. Meanwhile the log directory is locked against brokers; several partitions may be written
    into it. A partition for a URL is written into a temporary directory (``TMPDIR``), and sent when it is complete.
    """

    def __init__(
        self,
        place: NewPartition,
        *,
        start_offset: int = 0,
        has_offsets: bool = True,
        base_offsets: Iterable[int] = (),
        producers: ProducerState | None = None,
    ) -> None:
        """Begin to write a partition.

        ``start_offset``: where the log begins. ``has_offsets``: of :class:`StagedPartition`. ``base_offsets``: where
        segments begin in addition to those that the place's ``config`` makes necessary. ``producers``: those that are
        known where the log begins; it follows what is appended.

        Raises :class:`UsageError` if there is such a partition, if a broker runs on the directory, or for an impossible
        name; UnwritableError where the disk fails.
        """
        self._to = Destination.of(place.directory)
        self._topic, self._partition = place.topic, place.partition
        name = checked_name(place.topic, place.partition)
        self._epochs: Epochs = ()
        self._cleaned_until: int | None = None
        self._has_offsets = has_offsets
        self._is_ours = True
        self._boundaries = SegmentBoundaries(base_offsets)
        self._at_end: list[DirectoryEntry] = []
        self._modified: dict[int, int | None] = {}
        with ExitStack() as stack, unwritable(self._to):
            log_directory = self._to.local if not self._to.is_remote else scratch_directory(stack)
            stack.enter_context(lock_directory(log_directory, exclusive=False))
            if not place.may_exist and self._to.exists(name):
                raise UsageError(f"{self._to.join(name)}: this partition exists already; write to another directory")
            self._path = log_directory / unfinished_name(place.topic, place.partition, place.owner)
            contents = create_partition(self._path, start_offset, place.topic_id, producers)
            self._writer = LogWriter(self._path, place.config, contents, is_bulk=True, boundaries=self._boundaries)
            self._resources = stack.pop_all()

    @property
    def log_end_offset(self) -> int:
        """The offset after the last record: the next one gets it, or a larger one."""
        return self._writer.log_end_offset

    def append(self, buffer: NDArray[np.uint8], batches: Batches | None = None) -> Appended:
        """Append whole batches with their final offsets, as :meth:`LogWriter.append`. The more at once, the faster."""
        return self._writer.append(buffer, batches)

    def roll(self, offset: int) -> None:
        """Begin a new segment at ``offset``, the log's end or later, unless the last one begins there."""
        self._writer.roll(offset)

    def set_limits(
        self,
        log_start_offset: int,
        log_end_offset: int,
        epochs: Epochs,
        magic: int = layouts.MAGIC_V2,
        cleaned_until: int | None = None,
    ) -> None:
        """Set what the batches of a log that is written again do not say.

        If its last records are missing, an empty batch takes the last offset, as after a compaction: without it, a
        consumer would never come to the end of the log. The formats before v2 have no empty batch.

        Parameters
        ----------
        log_start_offset
            The first offset that a reader gets.
        log_end_offset
            The offset after the last record.
        epochs
            The first offset of each leader epoch; if empty, the batches' own epochs stay.
        magic
            The message format.
        cleaned_until
            The offset up to which the log was compacted: that explains missing offsets. None for none.
        """
        if log_end_offset > self._writer.log_end_offset:
            if magic < layouts.MAGIC_V2 or log_start_offset >= log_end_offset:
                self._writer.roll(log_end_offset)
            else:
                recorded = [epoch for epoch, start in epochs or self._writer.leader_epochs if start < log_end_offset]
                epoch = max(recorded, default=layouts.NO_PARTITION_LEADER_EPOCH)
                self._writer.append(encode_empty_batch(log_end_offset - 1, epoch))
        for offset in self._boundaries.take_all():
            if offset == self._writer.log_end_offset:  # the last segment was empty
                self._writer.roll(offset)
        self._writer.delete_records_before(log_start_offset)
        self._epochs = epochs
        self._cleaned_until = None if cleaned_until is None else min(cleaned_until, self._writer.log_end_offset)

    def explain_gaps(self) -> None:
        """Record that no offset is lost: the cleaner's checkpoint then covers all that are missing.

        Otherwise, a gap between two segments is reported as a missing segment."""
        self._cleaned_until = self._writer.log_end_offset

    def copy_file(self, entry: DirectoryEntry) -> None:
        """Copy a small file of another partition to this one. Raises UnreadableError, UnwritableError."""
        with unwritable(self._path):
            write_file(self._path / entry.name, entry.location.read(_LARGEST_FILE))

    def copy_at_end(self, entry: DirectoryEntry) -> None:
        """Copy a small file at the end, in place of the one that the writer makes under its name."""
        self._at_end.append(entry)

    def keep_modified(self, base_offset: int, modified_ms: int | None) -> None:
        """Set the modification time of the segments from ``base_offset`` on, in ms; None for when they are written.

        Retention and the tombstones of v0 and v1 go by it (``LogSegment.setLastModified``, 4.4.0)."""
        self._modified[base_offset] = modified_ms

    def finish(self) -> StagedPartition:
        """Sync everything and return the staged partition, to be committed later, in any process.

        :func:`brokerless.log.commit.commit.commit` or :func:`brokerless.log.commit.commit.discard` gets it in the end.
        The log directory is not locked any longer. Raises UnwritableError; then :meth:`abandon` still removes it.
        """
        unfinished = self._finish()
        send_staged(self._to, unfinished, self._path)
        self._is_ours = False
        self._resources.close()
        return unfinished

    def commit(self) -> None:
        """Sync everything and give the partition its name. A broker that starts on it has nothing to recover.

        Raises :class:`UsageError` if the partition exists already, and UnwritableError; it is not there then.
        """
        if self._to.is_remote:
            unfinished = self.finish()
            try:
                commit(self._to, [unfinished])
            except BaseException:
                discard(self._to, [unfinished])
                raise
            return
        commit(self._to, [self._finish()])
        self._is_ours = False
        self._resources.close()

    def _finish(self) -> StagedPartition:
        self._writer.close()
        for entry in self._at_end:
            self.copy_file(entry)
        with unwritable(self._path):
            self._set_modified()
            if self._epochs:
                write_file(self._path / names.LEADER_EPOCH_CHECKPOINT, leader_epoch_checkpoint(self._epochs))
            files = Destination.of(self._path.parent).files(self._path.name)
        start, end = self._writer.log_start_offset, self._writer.log_end_offset
        checkpoints = PartitionOffsets(
            end, start if start > self._writer.segments[0] else None, end, self._cleaned_until
        )
        return StagedPartition(
            self._path.name,
            self._topic,
            self._partition,
            log_start_offset=start,
            log_end_offset=end,
            checkpoints=checkpoints,
            files=files,
            has_offsets=self._has_offsets,
        )

    def _set_modified(self) -> None:
        for base_offset in self._writer.segments if self._modified else ():
            since = max((each for each in self._modified if each <= base_offset), default=base_offset)
            modified_ms = self._modified.get(since)
            if modified_ms is None:
                continue
            for kind in _DATED:
                with suppress(FileNotFoundError):
                    times = (modified_ms * 1_000_000, modified_ms * 1_000_000)
                    os.utime(self._path / names.segment_file(base_offset, kind), ns=times)

    def abandon(self) -> None:
        """Remove what was written. Nothing happens after :meth:`commit` or :meth:`finish`."""
        if self._is_ours:
            self._writer.abandon()
            shutil.rmtree(self._path, ignore_errors=True)
        self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.abandon()


def scratch_directory(stack: ExitStack) -> Path:
    """Return a log directory for what is sent away when it is complete."""
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="brokerless-", ignore_cleanup_errors=True)))


def send_staged(directory: Destination, staged: StagedPartition, path: Path) -> None:
    """Send the files of a partition that is complete at a path of this machine, if it is for an object store; none of
    them stays there where that fails."""
    if directory.is_remote:
        try:
            for name, _ in staged.files:
                directory.send(path / name, staged.directory, name)
        except BaseException:
            discard(directory, [staged])
            raise


def unfinished_name(topic: str, partition: int, owner: str = "") -> str:
    """Return the name of a partition's directory while it is being written; a long topic is cut, as Kafka does.
    ``owner``: hexadecimal digits that all directories of one job have in common, the first of the 32; the last ones say
    that it is ours."""
    unique = (owner + uuid.uuid4().hex)[: 32 - len(names.UNFINISHED)] + names.UNFINISHED
    suffix = f"-{partition}.{unique}-delete"
    return topic[: _LONGEST_NAME - len(suffix)] + suffix


def allow_many_files() -> None:
    """Allow as many open files as the system lets this process have: each partition that is written takes a few."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
