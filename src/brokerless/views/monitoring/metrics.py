"""Formats a run as metrics in Prometheus's text format, such as node_exporter's textfile collector reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from brokerless.text import readable
from brokerless.views.monitoring.checked_run import CheckedRun, Place

_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})


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
    yield _sample("unreadable_paths", {}, len(run.unread))
    yield from _head("exit_code", "0 for no error, 1 for errors, 2 for paths that could not be opened.")
    yield _sample("exit_code", {}, run.exit_code)
    yield from _head("duration_seconds", "How long the run took.")
    yield _sample("duration_seconds", {}, run.duration_s)
    yield from _head("last_run_timestamp_seconds", "When the run ended, since the epoch.")
    yield _sample("last_run_timestamp_seconds", {}, run.ended_ms / 1000)


def _head(name: str, text: str) -> tuple[str, str]:
    return f"# HELP brokerless_verify_{name} {text}", f"# TYPE brokerless_verify_{name} gauge"


def _labels_of(place: Place | None) -> dict[str, str]:
    if place is None:
        return {"topic": "", "partition": "", "path": ""}
    number = "" if place.partition is None else str(place.partition)
    return {"topic": place.topic or "", "partition": number, "path": place.path}


def _sample(name: str, labels: dict[str, str], value: float) -> str:
    text = ",".join(f'{key}="{readable(each).translate(_ESCAPES)}"' for key, each in labels.items())
    return f"brokerless_verify_{name}{f'{{{text}}}' if text else ''} {value}"
