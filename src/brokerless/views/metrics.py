"""Formats what a run of ``verify`` or ``diff`` finds as metrics in Prometheus's text format, such as node_exporter's
textfile collector reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from brokerless import clock
from brokerless.findings import Finding, Severity
from brokerless.jobs.diff.partition_diff import PartitionDiff
from brokerless.jobs.diff.results import Diff
from brokerless.log.directory import PartitionPath
from brokerless.log.names import partition_directory
from brokerless.log.tiered.object_names import partition_directory_of
from brokerless.text import readable

_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})


@dataclass(frozen=True, slots=True)
class PartitionPlace:
    """The place of a partition; that of a lone file has no topic. ``size`` in bytes."""

    path: str
    topic: str | None
    partition: int | None
    size: int

    @property
    def name(self) -> str:
        """A name such as ``orders-0``; the path of a lone file."""
        if self.topic is None or self.partition is None:
            return self.path
        return partition_directory(self.topic, self.partition)


@dataclass(slots=True)
class CheckedRun:
    """``started_ms`` and ``ended_ms``: since the epoch. ``counts``: findings by the path of the partition (empty for
    what is in none), severity and kind. ``unread``: how many paths were not read."""

    started_ms: int
    places: dict[str, PartitionPlace]
    ended_ms: int = 0
    exit_code: int = 0
    counts: Counter[tuple[str, Severity, str]] = field(default_factory=Counter[tuple[str, Severity, str]])
    unread: int = 0

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
    return "".join(f"{line}\n" for line in _lines(run))


def _lines(run: CheckedRun) -> Iterator[str]:
    yield from _head("findings", "Findings by partition, severity and kind.")
    for (path, severity, kind), count in sorted(run.counts.items()):
        own = _labels_of(run.places.get(path))
        yield _sample("findings", {**own, "severity": severity, "kind": kind}, count)
    errors = Counter[str]()
    for (path, severity, _), count in run.counts.items():
        errors[path] += count if severity == "error" else 0
    yield from _head("partition_errors", "Findings of severity error of a partition.")
    for place in run.places.values():
        yield _sample("partition_errors", _labels_of(place), errors[place.path])
    yield from _head("partition_bytes", "Bytes of a partition's logs.")
    for place in run.places.values():
        yield _sample("partition_bytes", _labels_of(place), place.size)
    yield from _head("unreadable_paths", "Paths that could not be opened.")
    yield _sample("unreadable_paths", {}, run.unread)
    yield from _head("exit_code", "0 for no error, 1 for errors, 2 for paths that could not be opened.")
    yield _sample("exit_code", {}, run.exit_code)
    yield from _head("duration_seconds", "How long the run took.")
    yield _sample("duration_seconds", {}, (run.ended_ms - run.started_ms) / 1000)
    yield from _head("last_run_timestamp_seconds", "When the run ended, since the epoch.")
    yield _sample("last_run_timestamp_seconds", {}, run.ended_ms / 1000)


def diff_metrics(compared: Diff, exit_code: int) -> str:
    """Return the metrics of a run of ``diff``, which has ended now."""
    return "".join(f"{line}\n" for line in _diff_lines(compared, exit_code))


def _diff_lines(compared: Diff, exit_code: int) -> Iterator[str]:
    yield from _head("records", "Records of a partition: the same, and those that differ.", "diff")
    for each in compared.partitions:
        for result in ("same", "missing", "extra", "changed"):
            labels = {**_labels_of_diff(each), "result": result}
            yield _sample("records", labels, getattr(each, result), "diff")
    yield from _head("causes", "Records of a partition by cause, allowed or not.", "diff")
    for each in compared.partitions:
        for cause, count in sorted((each.causes or {}).items()):
            yield _sample("causes", {**_labels_of_diff(each), "cause": cause}, count, "diff")
    yield from _head("differs", "1 for a partition that differs or could not be compared, 0 for the same.", "diff")
    for each in compared.partitions:
        yield _sample("differs", _labels_of_diff(each), int(not each.is_same), "diff")
    yield from _head("group_positions", "Positions of groups that differ.", "diff")
    for group in compared.groups:
        yield _sample("group_positions", {"group": group.group}, len(group.differences), "diff")
    yield from _head("exit_code", "0 for the same, 1 for differences, 2 for what could not be opened.", "diff")
    yield _sample("exit_code", {}, exit_code, "diff")
    yield from _head("last_run_timestamp_seconds", "When the run ended, since the epoch.", "diff")
    yield _sample("last_run_timestamp_seconds", {}, clock.now() / 1000, "diff")


def _labels_of_diff(each: PartitionDiff) -> dict[str, str]:
    side = each.right or each.left
    path = "" if side is None else side.path
    return _labels_of(PartitionPlace(path, each.topic, each.partition, 0))


def _head(name: str, text: str, command: str = "verify") -> tuple[str, str]:
    return f"# HELP brokerless_{command}_{name} {text}", f"# TYPE brokerless_{command}_{name} gauge"


def _labels_of(place: PartitionPlace | None) -> dict[str, str]:
    if place is None:
        return {"topic": "", "partition": "", "path": ""}
    number = "" if place.partition is None else str(place.partition)
    return {"topic": place.topic or "", "partition": number, "path": place.path}


def _sample(name: str, labels: dict[str, str], value: float, command: str = "verify") -> str:
    text = ",".join(f'{key}="{readable(each).translate(_ESCAPES)}"' for key, each in labels.items())
    return f"brokerless_{command}_{name}{f'{{{text}}}' if text else ''} {value}"
