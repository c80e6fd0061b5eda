"""Formats what a run of ``verify``, ``diff``, ``check`` or ``snapshots`` finds as metrics in Prometheus's text format,
such as node_exporter's textfile collector reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from brokerless import clock
from brokerless.findings import Finding, Severity
from brokerless.jobs.check.job import CheckResult
from brokerless.jobs.diff.partition_diff import PartitionDiff
from brokerless.jobs.diff.results import Diff
from brokerless.log.backups.snapshot import Snapshot
from brokerless.log.directory import PartitionPath
from brokerless.log.names import partition_directory
from brokerless.log.tiered.object_names import partition_directory_of
from brokerless.text import readable

_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})


@dataclass(frozen=True, slots=True)
class PartitionPlace:
    """The place of a partition; that of a lone file has no topic."""

    path: str
    topic: str | None
    partition: int | None
    size: int
    """In bytes."""

    @property
    def name(self) -> str:
        """A name such as ``orders-0``; the path of a lone file."""
        if self.topic is None or self.partition is None:
            return self.path
        return partition_directory(self.topic, self.partition)


@dataclass(slots=True)
class CheckedRun:
    """The outcome of a run that checked partitions."""

    started_ms: int
    """Since the epoch."""
    places: dict[str, PartitionPlace]
    ended_ms: int = 0
    """Since the epoch."""
    exit_code: int = 0
    counts: Counter[tuple[str, Severity, str]] = field(default_factory=Counter[tuple[str, Severity, str]])
    """Findings by the path of the partition (empty for what is in none), severity and kind."""
    unread: int = 0
    """How many paths were not read."""

    def add(self, found: Finding) -> None:
        """Count what was found next."""
        self.counts[self._place_of(found.file), found.severity, str(found.kind)] += 1

    def _place_of(self, file: str) -> str:
        """The path of the partition that a file or an object belongs to, empty where that is not known."""
        above, name = file.rpartition("/")[0], partition_directory_of(file)
        named = [each.path for each in self.places.values() if each.name == name]
        return next((each for each in (above, file) if each in self.places), named[0] if len(named) == 1 else "")


def begin_run(partitions: Sequence[PartitionPath], started_ms: int) -> CheckedRun:
    """Return a run over these partitions that has found nothing yet."""
    return CheckedRun(
        started_ms, {each.path: PartitionPlace(each.path, each.topic, each.partition, each.size) for each in partitions}
    )


def metrics(run: CheckedRun) -> str:
    """Return all metrics, each with its help and type; they are of the last run."""
    errors = Counter[str]()
    for (path, severity, _), count in run.counts.items():
        errors[path] += count if severity == "error" else 0
    counted = [
        ({**_labels_of(run.places.get(path)), "severity": severity, "kind": kind}, count)
        for (path, severity, kind), count in sorted(run.counts.items())
    ]
    places = [(each, _labels_of(each)) for each in run.places.values()]
    found = [
        Metric("findings", "Findings by partition, severity and kind.", counted),
        Metric(
            "partition_errors", "Findings of severity error of a partition.",
            [(labels, errors[each.path]) for each, labels in places],
        ),
        Metric("partition_bytes", "Bytes of a partition's logs.", [(labels, each.size) for each, labels in places]),
        Metric.of("unreadable_paths", "Paths that could not be opened.", run.unread),
        Metric.of("exit_code", "0 for no error, 1 for errors, 2 for paths that could not be opened.", run.exit_code),
        Metric.of("duration_seconds", "How long the run took.", (run.ended_ms - run.started_ms) / 1000),
        _last_run(run.ended_ms),
    ]  # fmt: skip
    return _text("verify", found)


def diff_metrics(compared: Diff, exit_code: int) -> str:
    """Return the metrics of a run of ``diff``, which has ended now."""
    pairs = [(each, _labels_of_diff(each)) for each in compared.partitions]
    results = ("same", "missing", "extra", "changed")
    found = [
        Metric(
            "records", "Records of a partition: the same, and those that differ.",
            [({**labels, "result": one}, getattr(each, one)) for each, labels in pairs for one in results],
        ),
        Metric(
            "causes", "Records of a partition by cause, allowed or not.",
            [
                ({**labels, "cause": cause}, count)
                for each, labels in pairs
                for cause, count in sorted((each.causes or {}).items())
            ],
        ),
        Metric(
            "differs", "1 for a partition that differs or could not be compared, 0 for the same.",
            [(labels, int(not each.is_same)) for each, labels in pairs],
        ),
        Metric(
            "group_positions", "Positions of groups that differ.",
            [({"group": each.group}, len(each.differences)) for each in compared.groups],
        ),
        Metric.of("exit_code", "0 for the same, 1 for differences, 2 for what could not be opened.", exit_code),
        _last_run(clock.now()),
    ]  # fmt: skip
    return _text("diff", found)


def check_metrics(result: CheckResult, exit_code: int) -> str:
    """Return the metrics of a run of ``check``, which has ended now."""
    counts = Counter((str(each.severity), str(each.kind)) for each in result.findings)
    found = [
        Metric.of("snapshots", "Snapshots that were checked.", len(result.snapshots)),
        Metric.of("objects", "Objects that these snapshots name.", result.objects),
        Metric.of("bytes", "Bytes of these objects.", result.size),
        Metric.of("unnamed_objects", "Objects of segments that no snapshot names.", result.unnamed),
        Metric(
            "findings", "Findings by severity and kind.",
            [({"severity": severity, "kind": kind}, count) for (severity, kind), count in sorted(counts.items())],
        ),
        Metric.of("exit_code", "0 for what is as it was stored, 1 for findings.", exit_code),
        _last_run(clock.now()),
    ]  # fmt: skip
    return _text("check", found)


def snapshots_metrics(snapshots: Sequence[Snapshot], exit_code: int) -> str:
    """Return the metrics of the snapshots of a backup, the newest last. A time of a snapshot is when it was made; those
    of some topics only do not count as the last complete one."""
    complete = [each for each in snapshots if each.is_complete and not each.is_selection]
    last = snapshots[-1] if snapshots else None
    found = [
        Metric.of("count", "Snapshots that can be read.", len(snapshots)),
        Metric.of("last_timestamp_seconds", "When the last one was made.", last and last.created / 1000),
        Metric.of(
            "last_complete_timestamp_seconds", "When the last one was made that has all of the cluster.",
            complete[-1].created / 1000 if complete else None,
        ),
        Metric.of("last_bytes", "Bytes of the logs in the last one.", last and last.size),
        Metric.of("last_new_bytes", "Bytes of logs that it stored.", last and last.new_size),
        Metric.of("last_partitions", "Partitions in the last one.", last and len(last.partitions)),
        Metric.of("last_missing_partitions", "Partitions that it lacks.", last and len(last.missing)),
        Metric.of("exit_code", "0, or 1 where a snapshot cannot be read.", exit_code),
        _last_run(clock.now()),
    ]  # fmt: skip
    return _text("snapshots", found)


class Metric(NamedTuple):
    """A gauge, and its values by labels."""

    name: str
    text: str
    samples: Sequence[tuple[Mapping[str, str], float]]

    @classmethod
    def of(cls, name: str, text: str, value: float | None) -> Metric:
        """One without labels; without a sample where there is no value."""
        return cls(name, text, () if value is None else [({}, value)])


def _last_run(ended_ms: int) -> Metric:
    return Metric.of("last_run_timestamp_seconds", "When the run ended, since the epoch.", ended_ms / 1000)


def _text(command: str, found: Sequence[Metric]) -> str:
    lines: list[str] = []
    for each in found:
        name = f"brokerless_{command}_{each.name}"
        lines += [f"# HELP {name} {each.text}", f"# TYPE {name} gauge"]
        for labels, value in each.samples:
            text = ",".join(f'{key}="{readable(one).translate(_ESCAPES)}"' for key, one in labels.items())
            lines.append(f"{name}{f'{{{text}}}' if text else ''} {value}")
    return "".join(f"{line}\n" for line in lines)


def _labels_of_diff(each: PartitionDiff) -> dict[str, str]:
    side = each.right or each.left
    path = "" if side is None else side.path
    return _labels_of(PartitionPlace(path, each.topic, each.partition, 0))


def _labels_of(place: PartitionPlace | None) -> dict[str, str]:
    if place is None:
        return {"topic": "", "partition": "", "path": ""}
    number = "" if place.partition is None else str(place.partition)
    return {"topic": place.topic or "", "partition": number, "path": place.path}
