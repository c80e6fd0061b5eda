"""What a request compares: pairs of both sides, each a task, and what both have beside records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from brokerless.errors import UnreadableError
from brokerless.jobs.diff.beside.groups import GroupSettings
from brokerless.jobs.diff.beside.parts import GROUPS, ONLY, RECORDS, BesideRecords, compare_beside_records, requested
from brokerless.jobs.diff.job import DiffSettings, DiffTask, diff, diff_task
from brokerless.jobs.diff.pairing import (
    check_formats,
    check_pairing,
    requested_decoding,
    requested_pairs,
    requested_runs,
    requested_schemas,
    targets_of,
    with_decodings,
)
from brokerless.jobs.diff.pairs import Pair, Side
from brokerless.jobs.diff.partition_diff import PartitionDiff
from brokerless.jobs.diff.topics import TopicPair, by_key, decoded_topics, diff_topic_task, pair_topics
from brokerless.jobs.run.types import RunOptions
from brokerless.progress import Done, Report
from brokerless.requests.comparing import DiffRequest

DiffWork = Callable[[DiffTask[Any], Done], list[PartitionDiff | UnreadableError]]


@dataclass(frozen=True)
class DiffPlan:
    """A comparison of two sides."""

    sides: tuple[Side, Side]
    parts: frozenset[str]
    """What is compared, as :data:`ONLY` has it."""
    is_named: bool
    """Whether the request names ``parts``, and a side has to have them."""
    pairs: Sequence[Pair] | Sequence[TopicPair]
    """The pairs whose records are compared, each by ``work``."""
    work: DiffWork
    settings: DiffSettings
    of_groups: GroupSettings

    @property
    def size(self) -> int:
        """Bytes to read."""
        return sum(each.size for pair in self.pairs for each in pair.partitions)

    def compare_records(self, running: RunOptions) -> Generator[PartitionDiff | UnreadableError]:
        """Yield as :func:`brokerless.jobs.diff.job.diff`."""
        return diff(self.pairs, self.settings, work=self.work, running=running)

    def compare_others(self, report: Report) -> BesideRecords:
        """Compare what is not records, as :func:`compare_beside_records`."""
        return compare_beside_records(self.sides, self.parts, self.of_groups, report, is_named=self.is_named)


def plan_diff(
    request: DiffRequest,
    sides: tuple[Side, Side],
    report: Report,
    *,
    is_narrowed: bool = False,
    numbers: Collection[int] = (),
) -> DiffPlan:
    """Return what a request compares of two sides, whose partitions are selected. ``is_narrowed``: to some topics;
    ``numbers``: to partitions of these, all without any.

    Raises :class:`UsageError` for options that do not go together, or fit nothing here, and :class:`UnreadableError`.
    """
    check_pairing(request)
    settings = replace(DiffSettings.of(request), schemas=requested_schemas(request, sides))
    is_keyed, runs = by_key(request), requested_runs(request)
    parts = requested(request.only, _parts_of(request, is_keyed))
    by_offset = () if is_keyed else requested_pairs(request, sides, runs, report)
    pairs: Sequence[Pair] | Sequence[TopicPair] = ()
    if RECORDS in parts and is_keyed:
        pairs = decoded_topics(pair_topics(*sides), requested_decoding(request))
    elif RECORDS in parts:
        pairs = with_decodings(by_offset, request)
    check_formats(request, pairs)
    targets = targets_of(by_offset, runs, settings.max_batch_bytes)
    topics = {each.topic or "" for side in sides for each in side.partitions} if is_narrowed else None
    of_groups = GroupSettings(settings.allowed, topics, settings.max_batch_bytes, targets, partitions=numbers)
    return DiffPlan(
        sides, parts, is_named=bool(request.only), pairs=pairs,
        work=diff_topic_task if is_keyed else diff_task, settings=settings, of_groups=of_groups,
    )  # fmt: skip


def _parts_of(request: DiffRequest, is_keyed: bool) -> Collection[str]:
    """Return what is compared unless a request says it. Where keys pair records, positions of groups say nothing; and
    mirrors have other names, settings and ACLs."""
    if is_keyed:
        return (RECORDS,)
    return (RECORDS, GROUPS) if request.offset_syncs is not None else ONLY
