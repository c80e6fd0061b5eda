"""Sizes of topics in other formats, codecs and batch sizes: estimated from a sample, or exact.

A topic that is sampled is one task. One that is read as a whole is as many as it has partitions, times groups of
choices, whose results are added up.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice

from brokerless.errors import UsageError
from brokerless.findings import Finding
from brokerless.format import layouts
from brokerless.format.codecs.compression import LEVELS
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.jobs.run.job import in_order, run
from brokerless.jobs.run.types import HERE, RunOptions
from brokerless.jobs.size.batch_finder import offsets_of
from brokerless.jobs.size.choices import Choice, choices_of, is_too_large
from brokerless.jobs.size.contents import Contents, contents_of, sum_of
from brokerless.jobs.size.crossover import smaller_from
from brokerless.jobs.size.estimate import Estimate, Estimator, Population
from brokerless.jobs.size.exact import measure_partition
from brokerless.jobs.size.places import SampledSegment, places_of
from brokerless.jobs.size.result import TopicSize, sum_estimates
from brokerless.jobs.size.sample import MOST_BYTES, SHARE, WHOLE, Sample, read_sample
from brokerless.log.directory import PartitionPath
from brokerless.log.offset_gaps import missing_logs
from brokerless.ordered_threads import processors
from brokerless.progress import Done
from brokerless.requests.checking import SizeRequest
from brokerless.tables.read_options import bound

_HEAVIEST = 1000
"""Keys and so on that a task hands to the driver."""
_CROSSOVER_BYTES = 256 << 10
"""Bytes of a sample for where v2 becomes smaller, of a topic that is read as a whole."""


@dataclass(frozen=True, slots=True)
class SizeSettings:
    """The settings of an estimate."""

    choices: tuple[Choice, ...] = field(default_factory=lambda: tuple(choices_of()))
    sample: float | None = None
    """How much of each topic is read: bytes, or a share below 1; None for :data:`SHARE` and at most
    :data:`MOST_BYTES`."""
    is_full: bool = False
    """Whether all is read."""
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    """How many bytes one batch may inflate to."""

    def __post_init__(self) -> None:
        if not self.choices:
            ranges = ", ".join(f"{codec} {low} to {high}" for codec, (low, high, _) in LEVELS.items())
            raise UsageError(f"nothing to compare: v0 and v1 have no zstd, and levels are {ranges}")
        if self.sample is not None and self.sample <= 0:
            raise UsageError("a sample has more than 0 bytes")

    def budget(self, size: int) -> int | None:
        """Bytes to sample of a topic of ``size``; None to read all of it."""
        if self.is_full or (self.sample is None and size <= WHOLE):
            return None
        if self.sample is None:
            return min(MOST_BYTES, int(SHARE * size))
        budget = int(self.sample * size if self.sample < 1 else self.sample)
        return budget if budget < size else None


def settings_of(request: SizeRequest) -> SizeSettings:
    """Return the settings that were requested. Raises :class:`UsageError` for what excludes each other."""
    if request.full and request.sample is not None:
        raise UsageError("--full and --sample exclude each other; use one of them")
    if request.levels and request.codecs and not LEVELS.keys() & set(request.codecs):
        leveled = f"{', '.join([*LEVELS][:-1])} and {[*LEVELS][-1]}"
        raise UsageError(f"--level: only {leveled} have levels; leave it out, or compare one of these with --codec")
    choices = choices_of(
        tuple(request.message_formats),
        tuple(request.codecs),
        tuple(request.levels),
        batch_records=tuple(request.batch_records),
        batch_bytes=tuple(request.batch_sizes),
    )
    return SizeSettings(tuple(choices), request.sample, request.full, bound(request.max_batch_bytes))


@dataclass(frozen=True, slots=True)
class SizeTask:
    """Some partitions of one topic."""

    partitions: tuple[PartitionPath, ...]
    choices: tuple[Choice, ...]
    budget: int | None
    """The bytes to sample; None to read all of them."""
    settings: SizeSettings
    threads: int
    with_contents: bool = True
    """Whether what does not depend on the choices is measured."""
    places: tuple[SampledSegment, ...] = ()
    """The partitions' segments."""
    findings: tuple[Finding, ...] = ()
    """Findings about the segments."""

    @property
    def size(self) -> int:
        """About how many bytes are read and encoded."""
        read = sum(each.size for each in self.partitions) if self.budget is None else self.budget
        return read * max(1, len(self.choices))


SizePlan = tuple[str | None, int, list[SizeTask]]
"""A topic's name, the number of its partitions, and its tasks."""


@dataclass(frozen=True, slots=True)
class SizeTaskResult:
    """The sizes of a task's partitions."""

    bytes: int
    """The bytes that are there."""
    bytes_read: int
    """The bytes that were read."""
    sizes: dict[Choice, Estimate]
    """Estimates for all that is there, by choice."""
    records: Estimate
    """An estimate of how many records are there."""
    contents: Contents
    """An estimate of the contents that are there."""
    bytes_other: float
    smaller_from: dict[tuple[int, str], int | None]
    findings: tuple[Finding, ...]
    is_over_budget: bool = False
    """Whether more was read than requested."""


def size(
    partitions: Sequence[PartitionPath],
    settings: SizeSettings,
    running: RunOptions = HERE,
) -> Generator[TopicSize]:
    """Yield the size of each topic, in order, as :func:`size_planned`."""
    yield from size_planned(plan(partitions, settings), running)


def size_planned(plans: Sequence[SizePlan], running: RunOptions = HERE) -> Generator[TopicSize]:
    """Yield the size of each topic that was planned, in order. ``done`` of ``running`` is called with bytes of
    :func:`work_of`."""
    tasks = [task for _, _, own in plans for task in own]
    values = run(run_task, tasks, running, name="brokerless size")
    with closing(values):
        results = in_order(values)
        for topic, number, own in plans:
            yield _assemble(topic, number, list(zip(own, islice(results, len(own)), strict=True)))


def work_of(plans: Sequence[SizePlan]) -> int:
    """Return what all tasks read and encode, about, in bytes."""
    return sum(task.size for _, _, own in plans for task in own)


def plan(partitions: Sequence[PartitionPath], settings: SizeSettings) -> list[SizePlan]:
    """Return the name of each topic or lone file, its number of partitions, and its tasks."""
    topics: dict[str, list[PartitionPath]] = {}
    for each in partitions:
        topics.setdefault(f"/{each.path}" if each.topic is None else each.topic, []).append(each)
    found: list[SizePlan] = []
    threads = max(1, processors() // max(1, len(topics)))
    for own in topics.values():
        met: list[Finding] = []
        places = tuple(places_of(own, met.append))
        budget = settings.budget(sum(place.size for place in places))
        common = SizeTask(
            tuple(own),
            settings.choices,
            budget,
            settings=settings,
            threads=threads,
            with_contents=True,
            places=places,
            findings=tuple(met),
        )
        tasks = [common] if budget is not None else _whole(common)
        found.append((own[0].topic, len(own), tasks))
    return found


def _whole(task: SizeTask) -> list[SizeTask]:
    """Tasks for each partition and group of choices; and one without choices, for the sample of all."""
    groups = min(len(task.choices), processors()) if sum(each.size for each in task.partitions) > WHOLE else 1
    of_partitions = [
        replace(task, partitions=(each,), choices=choices, with_contents=number == 0, places=places)
        for each in task.partitions
        for places in [tuple(place for place in task.places if place.partition is each)]
        for number in range(groups)
        for choices in [task.choices[number::groups]]
    ]
    budget = min(_CROSSOVER_BYTES, sum(place.size for place in task.places))
    return [replace(task, choices=(), budget=budget), *of_partitions]


def run_task(task: SizeTask, done: Done) -> SizeTaskResult:
    """Samples a topic, or reads some partitions."""
    if task.budget is None:
        return _run_whole(task, [], done)
    findings, places = list(task.findings), list(task.places)
    limit = task.settings.max_batch_bytes
    sample = read_sample(places, task.budget, findings.append, limit)
    by_partition: dict[str, int] = {}
    for place in places:
        by_partition[place.partition.path] = by_partition.get(place.partition.path, 0) + place.size
    offsets = offsets_of(places)
    population = Population(tuple(by_partition.values()), len(places), offsets)
    estimator = Estimator(sample, population)
    sizes = _estimate_all(task, estimator, done) if sample.rows else {}
    done(task.size - task.budget * len(sizes))
    factor = population.bytes / sample.bytes_read if sample.bytes_read else 0.0
    contents = sum_of(contents_of(group) for group in sample.groups).scaled(factor)
    other, smaller = sample.bytes_other * factor, _crossovers(sample, contents)
    records, read = estimator.records(), min(sample.touched, population.bytes)
    contents = contents.lightened(_HEAVIEST)
    parts = sizes, records, contents, other, smaller, tuple(findings)
    return SizeTaskResult(population.bytes, read, *parts, is_over_budget=sample.is_over_budget)


def _estimate_all(task: SizeTask, estimator: Estimator, done: Done) -> dict[Choice, Estimate]:
    """All choices, those of one format, codec and level one after the other, from small batches to large ones."""
    record_bytes = float(estimator.sizes.payload.mean())
    fitting = [choice for choice in task.choices if not is_too_large(choice, record_bytes)]
    groups: dict[tuple[int, str, int | None], list[Choice]] = {}
    for choice in sorted(fitting, key=lambda each: (each.batch_bytes or 0) or (each.batch_records or 0) * record_bytes):
        groups.setdefault((choice.magic, choice.codec, choice.level), []).append(choice)

    def estimate(group: list[Choice]) -> list[tuple[Choice, Estimate]]:
        return [(choice, estimator.estimate(choice)) for choice in group]

    found: dict[Choice, Estimate] = {}
    with ThreadPoolExecutor(task.threads) as pool:
        for estimates in pool.map(estimate, groups.values()):
            found.update(estimates)
            done((task.budget or 0) * len(estimates))
    return {choice: found[choice] for choice in fitting}


def _crossovers(sample: Sample, contents: Contents) -> dict[tuple[int, str], int | None]:
    """Return the crossovers without a codec, and with the present one, if older formats have it."""
    if not sample.rows:
        return {}
    kinds = contents.kinds.most_common(1)
    current = layouts.codec_name(kinds[0][0][1]) if kinds else "none"
    codecs = ["none"] if current in ("none", "zstd") else ["none", current]
    magics = layouts.MAGIC_V0, layouts.MAGIC_V1
    return {(magic, codec): smaller_from(sample, magic, codec) for codec in codecs for magic in magics}


def _run_whole(task: SizeTask, findings: list[Finding], done: Done) -> SizeTaskResult:
    (partition,) = task.partitions
    findings += (finding for _, finding in missing_logs(partition))
    measured = measure_partition(
        partition, task.choices, findings.append, done=done, max_batch_bytes=task.settings.max_batch_bytes,
        with_contents=task.with_contents,
    )  # fmt: skip
    sizes = {choice: Estimate(value, value, value) for choice, value in measured.bytes.items()}
    bytes_ = sum(place.size for place in task.places)
    records = measured.contents.records
    contents = measured.contents.lightened(_HEAVIEST)
    exact = Estimate(records, records, records)
    return SizeTaskResult(
        bytes_,
        bytes_,
        sizes,
        records=exact,
        contents=contents,
        bytes_other=measured.bytes_other,
        smaller_from={},
        findings=tuple(findings),
    )


def _assemble(topic: str | None, partitions: int, results: list[tuple[SizeTask, SizeTaskResult]]) -> TopicSize:
    """The result of a topic's tasks. Of partitions that were read for several groups of choices, each finds the same
    damage."""
    sampled, whole = results[0][1], [result for _, result in results[1:]]
    if not whole:
        sizes, findings = sampled.sizes, tuple(dict.fromkeys(sampled.findings))
        parts = sampled.records, sizes, sampled.contents, sampled.bytes_other, sampled.smaller_from, findings
        read = sampled.bytes_read
        return TopicSize(topic, partitions, sampled.bytes, False, read, *parts, is_over_budget=sampled.is_over_budget)
    own = [result for task, result in results[1:] if task.with_contents]
    bytes_ = sum(each.bytes for each in own)
    sizes: dict[Choice, Estimate] = {}
    for choice in results[1][0].settings.choices:
        each = [result.sizes[choice] for result in whole if choice in result.sizes]
        if len(each) == partitions:  # else it cannot be written for one of them
            sizes[choice] = sum_estimates(each)
    contents, records = sum_of(each.contents for each in own), sum_estimates([each.records for each in own])
    findings = tuple(dict.fromkeys(finding for each in whole for finding in each.findings))
    parts = records, sizes, contents, sum(each.bytes_other for each in own), sampled.smaller_from, findings
    return TopicSize(topic, partitions, bytes_, True, bytes_, *parts)
