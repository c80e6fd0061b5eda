"""Plans what is written again: which partition goes into which log directory, with which topic ID.

Of several log directories, such as those of several brokers, each is written to one of its own name. A plan checks all
that can be wrong before anything is read or written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from brokerless.errors import UsageError
from brokerless.jobs.named_partitions import by_name, topic_id_of_partition
from brokerless.log import names
from brokerless.log.checkpoint.topic_ids import choose_topic_ids
from brokerless.log.commit.commit import refuse_existing
from brokerless.log.commit.partition_writer import NewPartition, output_directory
from brokerless.log.commit.run_record import refuse_written, run_of
from brokerless.log.config import LogConfig
from brokerless.log.directory import LogDirectory, PartitionPath
from brokerless.log.live_segments import as_it_lies, directory_as_it_lies
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.location import Location
from brokerless.log.storage.paths import full_path, is_remote


class Source(NamedTuple):
    """A path that is read, and which of its partitions were chosen."""

    directory: LogDirectory
    partitions: Sequence[PartitionPath]

    @classmethod
    def all_of(cls, directory: LogDirectory) -> Source:
        return cls(directory, directory.partitions)

    def as_it_lies(self) -> Source:
        """Return the source by the names that files have now, and not as the next start of a broker completes them."""
        return Source(directory_as_it_lies(self.directory), [as_it_lies(each) for each in self.partitions])


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteTask(ABC):
    """A partition that is to be written."""

    topic: str
    partition: int
    to: Destination | None
    """The log directory to write it into; None in a dry run without one."""
    topic_id: str
    owner: str = ""
    """The owner in the names of directories that the job has not finished."""

    @property
    def name(self) -> str:
        return names.partition_directory(self.topic, self.partition)

    @property
    def directory(self) -> Destination:
        """The log directory that is written to."""
        assert self.to is not None
        return self.to

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes to read."""

    def place(self, config: LogConfig, topic_id: str | None = None) -> NewPartition:
        """Return where the partition is written. ``topic_id``: where it is not that of the task."""
        return NewPartition(
            self.directory,
            self.topic,
            self.partition,
            config=config,
            topic_id=topic_id or self.topic_id,
            owner=self.owner,
        )

    @property
    @abstractmethod
    def read_paths(self) -> tuple[str, ...]:
        """The directories of partitions that are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTask(RewriteTask):
    """One partition that becomes one other."""

    source: PartitionPath

    @property
    def size(self) -> int:
        """Bytes to read."""
        return self.source.size

    @property
    def read_paths(self) -> tuple[str, ...]:
        return (self.source.path,)

    @property
    def base_offsets(self) -> tuple[int, ...]:
        """The base offsets of the source's segments."""
        return tuple(segment.base_offset for segment in self.source.segments)


RewriteTaskT = TypeVar("RewriteTaskT", bound=RewriteTask)


@dataclass(frozen=True, slots=True)
class Target:
    """A log directory that is written to."""

    directory: Destination
    sources: tuple[LogDirectory, ...]
    """The paths that become it."""
    run: str
    """The run by which a repeat of the same command is known, see :mod:`brokerless.log.commit.run_record`."""


@dataclass(frozen=True, slots=True)
class Plan(Generic[RewriteTaskT]):
    """The plan of a rewrite: a task for each partition that is to be written, and the log directories for them."""

    tasks: tuple[RewriteTaskT, ...]
    targets: tuple[Target, ...]
    dry_run: bool
    finished: tuple[str, ...] = ()
    """Partitions that an earlier run has written, by their names in its manifest."""

    @property
    def size(self) -> int:
        """Bytes to read."""
        return sum(task.size for task in self.tasks)


class TargetPartition(NamedTuple):
    """A partition that is to be written."""

    topic: str
    partition: int
    topic_id: str | None
    """The ID of its topic; None if none is known."""
    paths: tuple[str, ...]
    """The paths whose contents it is made of."""

    @property
    def name(self) -> str:
        return names.partition_directory(self.topic, self.partition)


def target_partitions(partitions: Sequence[PartitionPath], command: str) -> list[TargetPartition]:
    """One for each of these. Raises :class:`UsageError` as :func:`by_name`."""
    return [
        TargetPartition(*each.place, topic_id_of_partition(each), (each.path,))
        for each in by_name(partitions, f"{command} them one by one").values()
    ]


class OfTarget(NamedTuple):
    """The sources of one log directory that is written to."""

    prefix: str
    """Where the directory is in the one that the user named: ``""`` if it is that one, or ``b1/``."""
    directory: Destination
    sources: list[Source]

    @property
    def partitions(self) -> list[PartitionPath]:
        return [each for source in self.sources for each in source.partitions]

    @property
    def logs(self) -> list[LogDirectory]:
        return [each.directory for each in self.sources]


def by_target(sources: Sequence[Source], to: Location) -> Iterator[OfTarget]:
    """Yield the log directories that are written to. Raises :class:`UsageError` for one that cannot be written to or is
    in what is read, and as :func:`own_names`."""
    prefixes = [f"{each}/" if each else "" for each in own_names([each.directory for each in sources])]
    for prefix in dict.fromkeys(prefixes):
        location = to.at(f"{to.path.rstrip('/')}/{prefix.rstrip('/')}") if prefix else to
        directory = output_directory(location, [each.directory.path for each in sources])
        yield OfTarget(prefix, directory, [each for each, own in zip(sources, prefixes, strict=True) if own == prefix])


def own_names(sources: Sequence[LogDirectory]) -> list[str]:
    """Return which directory in the one that the user names each path is written to: ``""`` for that one itself.
    Several log directories have the names of their sources, with so much of their paths that no two are the same:
    ``b1`` and ``b2``, or ``b1/data`` and ``b2/data``.

    Raises :class:`UsageError` for a path that is given twice, or has no name.
    """
    if sum(each.kind == "log-directory" for each in sources) < 2:
        return ["" for _ in sources]
    parts = [_parts(each.path) for each in sources]
    for each, own in zip(sources, parts, strict=True):
        if not own or {"", ".", ".."} & set(own):
            raise UsageError(f"{each.path} is no name for a directory; give log directories one by one")
        if parts.count(own) > 1:
            raise UsageError(f"{each.path} is given twice; give each log directory once")
    depth = 1
    while len({tuple(each[-depth:]) for each in parts}) < len(parts):
        depth += 1
    return ["/".join(each[-depth:]) for each in parts]


def _parts(path: str) -> list[str]:
    if not is_remote(path):
        return full_path(path).strip("/").split("/")
    url = next((part for part in path.split("::") if "://" in part), path)
    return url.partition("://")[2].strip("/").split("/")


def rewritten_topics(sources: Sequence[Source], named: Collection[str]) -> set[str]:
    """Return which of Kafka's own topics get other batches, instead of being copied unchanged: those that are
    ``named``, and those whose directories are sources.

    Raises :class:`UsageError` if KRaft's own log is among them, as no broker starts then.
    """
    found = named_topics(sources, named)
    if names.CLUSTER_METADATA in found:
        raise UsageError(
            f"{names.CLUSTER_METADATA} is KRaft's own log, and no broker starts on other batches in it; leave it out, "
            "or give its whole log directory, of which it is copied unchanged"
        )
    return found


def named_topics(sources: Sequence[Source], named: Collection[str]) -> set[str]:
    """Return the topics that are ``named``, and those whose partitions' directories are sources."""
    return {
        *named,
        *(each.topic or "" for log, chosen in sources for each in chosen if each.path == log.path),
    }


def plan_target(
    command: str, of: OfTarget, new: Sequence[TargetPartition], *, dry_run: bool
) -> tuple[Target, list[str]]:
    """Returns what is written to, and the topic ID of each new partition.

    Raises :class:`UsageError` for a partition that is there already, or of another ID than its topic's others there.
    """
    run = run_of(command, (path for each in new for path in each.paths))
    if dry_run:
        refuse_existing(of.directory, [each.name for each in new])
    else:
        refuse_written(of.directory, [each.name for each in new], run)
    topic_ids = choose_topic_ids(of.directory, [(each.topic, each.topic_id, each.paths[0]) for each in new])
    return Target(of.directory, tuple(of.logs), run), topic_ids
