"""Sums up a broker's next start: does it start on these log directories, and what is lost by that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

from brokerless.clusters.directory_state import load_directory_state
from brokerless.clusters.start.directories import plan_directories
from brokerless.clusters.start.directory_files import is_deleted
from brokerless.clusters.start.effects import Effect, directory_effects, partition_effects
from brokerless.clusters.start.job import plan_partition
from brokerless.clusters.start.remote_deletions import RemoteDeletion, count_deleted
from brokerless.clusters.start.results import Restart
from brokerless.clusters.start.retention_forecast import Retention
from brokerless.errors import UnreadableError
from brokerless.findings import Finding
from brokerless.kafka_names import TopicPartition
from brokerless.log import names
from brokerless.log.directory import LogDirectory
from brokerless.log.settings.definitions import find_version, versions
from brokerless.log.storage.location import Location
from brokerless.log.storage.paths import is_remote, local
from brokerless.progress import Done, ignore
from brokerless.text import count_of, format_bytes, show_name


@dataclass(frozen=True, slots=True)
class StartOutcome:
    """The outcome of a start for one log directory."""

    refused: int
    """How many causes there are why a broker does not start, in any of its directories."""
    first_refusal: str | None
    """One of these causes, in this directory if it has one."""
    offline: bool
    """Whether it starts with its other directories only."""
    lost_bytes: int
    """Bytes of log that are cut or deleted."""
    lost_records: int
    """Records that clients do not get any more."""
    not_served: int
    """How many partitions are stray, not loaded or not served."""
    created: int
    """How many partitions begin empty."""
    unknown: int
    """How many partitions could not be read, or of how many it is not known whether they are stray."""
    uncommitted: int = 0
    """How many partitions it deletes whose commit was cut short."""
    remote_deletions: tuple[RemoteDeletion, ...] = ()
    """Reported with the node's first directory."""
    misread_bytes: int = 0
    """Bytes of log that retention deletes soon after it, as time indexes say that records are older than they are."""
    expired_bytes: int = 0
    """Bytes of log that retention deletes soon after it by the topics' settings, in ``expired_segments`` segments of
    ``expired_partitions``; ``expired_settings`` are those that decide, and ``expired_by_default`` whether any of them
    is only Kafka's default, which server.properties may change."""
    expired_segments: int = 0
    expired_partitions: int = 0
    expired_settings: tuple[str, ...] = ()
    expired_by_default: bool = False
    effects: tuple[Effect, ...] = ()
    """All that it does to the directory and to its partitions, for the Kafka that is named."""
    version: str | None = None
    """The Kafka that starts, where it was selected, or where the newest does not; None for the newest."""
    newest: StartOutcome | None = None
    """The outcome for the newest, where that does not start, and ``version`` is an older one that does."""
    starts_without: tuple[str, ...] = ()
    """Directories of the broker, this or others, that are offline while it goes on with the rest."""
    elsewhere: frozenset[TopicPartition] = frozenset()
    """Partitions that other directories of the broker have."""


def foresee_start(
    directories: Sequence[LogDirectory],
    max_batch_bytes: int | None = None,
    done: Done = ignore,
    *,
    with_partitions: bool = True,
    version: str | None = None,
) -> Mapping[str, StartOutcome]:
    """Sum up the start of a broker that has these log directories, for each path of a local one, if one of them has a
    ``meta.properties``; without any, they are copies of partitions, and have no entry. Where the newest Kafka refuses
    one, an older one that does not is assumed: its broker wrote the directory. ``done`` is called with bytes read.
    ``with_partitions``: what it does within partitions as well. ``version``: of the Kafka that starts, and no other is
    assumed then. Raises :class:`UsageError` for one that is not known."""
    if version is not None:
        version = find_version(version)
    if not any(map(is_started_on, directories)):
        return {}
    own = {each.path: each for each in directories if each.is_local_log_directory}
    reading = _StartReading(max_batch_bytes, with_partitions)
    if version is not None:
        return {path: replace(each, version=version) for path, each in _outcomes(own, version, reading, done).items()}
    newest = _outcomes(own, None, reading, done)
    if not _is_refused(newest):
        return newest
    for older_version in reversed(versions()[:-1]):
        if _is_refused(_outcomes(own, older_version, replace(reading, with_partitions=False), ignore)):
            continue
        older = _outcomes(own, older_version, reading, ignore)
        if not _is_refused(older):
            return {path: replace(each, version=older_version, newest=newest.get(path)) for path, each in older.items()}
    return newest


def _is_refused(outcomes: Mapping[str, StartOutcome]) -> bool:
    return any(each.refused for each in outcomes.values())


@dataclass(frozen=True, slots=True)
class _StartReading:
    max_batch_bytes: int | None
    with_partitions: bool


def _outcomes(
    own: Mapping[str, LogDirectory], version: str | None, reading: _StartReading, done: Done
) -> dict[str, StartOutcome]:
    outcomes: dict[str, StartOutcome] = {}
    bound = reading.max_batch_bytes
    directories = plan_directories(list(own.values()), max_batch_bytes=bound, version=version)
    starts_without = tuple(each.path for each in directories if each.offline is not None)
    for planned in directories:
        directory = own[planned.path]
        state = load_directory_state(directory)
        restarts: list[Restart] = []
        partitions = directory.partitions if reading.with_partitions else ()
        for partition in partitions:
            with suppress(UnreadableError):  # which is reported of the partition
                restarts.append(plan_partition(partition, state, planned, bound))
            done(partition.size)
        refusals = [*map(str, planned.refused), *(each.refused for each in restarts if each.is_fatal and each.refused)]
        outcomes[planned.path] = StartOutcome(
            len(refusals),
            refusals[0] if refusals else None,
            planned.offline is not None or any(each.refused and not each.is_fatal for each in restarts),
            lost_bytes=sum(each.lost_bytes for each in restarts),
            lost_records=sum(each.lost.records for each in restarts),
            not_served=sum(bool(each.refused or each.stray or each.unserved) for each in restarts),
            created=len(planned.created),
            unknown=len(partitions) - len(restarts) + (planned.unknown is not None),
            uncommitted=sum(each.is_unfinished and is_deleted(each) for each in directory.others),
            remote_deletions=planned.remote_deletions,
            misread_bytes=sum(
                each.retention.expired_size for each in restarts if each.retention and each.retention.misread
            ),
            **_expired([each.retention for each in restarts if each.retention and not each.retention.misread]),
            effects=(
                *directory_effects(planned),
                *(effect for each in restarts for effect in partition_effects(each)),
            ),
            starts_without=starts_without,
            elsewhere=frozenset(
                each.place for other in own.values() for each in other.partitions if other.path != planned.path
            ),
        )
    refused = [each for each in outcomes.values() if each.refused]
    if not refused:
        return outcomes
    causes = sum(each.refused for each in refused)
    return {
        path: replace(each, refused=causes, first_refusal=each.first_refusal or refused[0].first_refusal)
        for path, each in outcomes.items()
    }


def describe_harms(outcome: StartOutcome) -> str:
    """Return in one line what a start takes away; empty where that is nothing."""
    lost_records = count_of(outcome.lost_records, "record")
    found = [
        f"it deletes {show_name(count_deleted(outcome.remote_deletions))}" if outcome.remote_deletions else "",
        f"{format_bytes(outcome.lost_bytes)} are cut off, with {lost_records}" * bool(outcome.lost_bytes),
        f"{lost_records} not seen any more" * bool(outcome.lost_records and not outcome.lost_bytes),
        f"retention deletes {format_bytes(outcome.misread_bytes)} by wrong time indexes" * bool(outcome.misread_bytes),
        f"{count_of(outcome.not_served, 'partition')} not served" * bool(outcome.not_served),
        f"{count_of(outcome.created, 'partition')} begun empty" * bool(outcome.created),
        f"{count_of(outcome.uncommitted, 'partition')} deleted whose commit was cut short" * bool(outcome.uncommitted),
        "not all is known" * bool(outcome.unknown),
    ]
    return ", ".join(filter(None, found))


def describe_retention(outcome: StartOutcome) -> str:
    """Return in one line what retention deletes after a start by the topics' settings; empty where that is nothing.
    Segments before log start offsets, of which nothing is served, are none of it."""
    if not outcome.expired_segments or outcome.refused:
        return ""
    counts = f"{outcome.expired_segments:,} segment{'s' * (outcome.expired_segments != 1)}"
    where = f"{outcome.expired_partitions:,} partition{'s' * (outcome.expired_partitions != 1)}"
    by = " and ".join(outcome.expired_settings) + " (Kafka's default)" * outcome.expired_by_default
    size = format_bytes(outcome.expired_bytes)
    return f"deletes {counts} of {size} in {where} some minutes after the start, by {by}"


class _ExpiredSegments(TypedDict):
    expired_bytes: int
    expired_segments: int
    expired_partitions: int
    expired_settings: tuple[str, ...]
    expired_by_default: bool


def _expired(found: Sequence[Retention]) -> _ExpiredSegments:
    return {
        "expired_bytes": sum(each.expired_size for each in found),
        "expired_segments": sum(len(each.expired) for each in found),
        "expired_partitions": sum(bool(each.expired) for each in found),
        "expired_settings": tuple(sorted({name for each in found for name in each.deciding})),
        "expired_by_default": any(set(each.deciding) & set(each.defaults) for each in found),
    }


def start_findings(outcome: StartOutcome) -> Iterator[Finding]:
    """Yield the findings of a start, each once, in the scope of the start. What only the newest Kafka refuses, where
    an older one starts on the directory, is a warning."""
    seen = set[Finding]()
    for each in outcome.effects:
        if each.finding is not None and each.finding not in seen:
            seen.add(each.finding)
            yield each.finding
    if outcome.newest is not None:
        known = {(each.kind, each.file) for each in seen}
        for each in start_findings(outcome.newest):
            if (each.kind, each.file) not in known:
                yield each if each.severity != "error" else replace(each, severity="warning", by_scope=None)


def has_start_errors(outcome: StartOutcome) -> bool:
    """Return whether a start has errors, be it that it takes nothing away."""
    return any(each.severity == "error" for each in start_findings(outcome))


def bare_directories(directories: Sequence[LogDirectory], paths: Iterable[str]) -> list[LogDirectory]:
    """Return those of ``paths``, given beside a broker's log directories, at which nothing is, as where a disk is not
    mounted: a broker ends there. None without directories that a broker starts on."""
    if not any(map(is_started_on, directories)):
        return []
    return [LogDirectory(Location(path), "log-directory", ()) for path in paths if _has_nothing(path)]


def _has_nothing(path: str) -> bool:
    if is_remote(path) or path == "-":
        return False
    try:
        return not any(Path(local(path)).iterdir())
    except FileNotFoundError:
        return True
    except OSError:
        return False


def is_started_on(directory: LogDirectory) -> bool:
    """Return whether a directory is a broker's own, by its ``meta.properties``, and local."""
    return directory.is_local_log_directory and names.META_PROPERTIES in directory.files
