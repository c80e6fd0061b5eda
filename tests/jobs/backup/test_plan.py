"""In which order partitions are backed up: those first of which retention deletes the next segment."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from brokerless.internals.metadata.cluster import Cluster, ResourceType
from brokerless.jobs.backup.plan import by_expiry

DAY_MS = 86_400_000


def task(topic: str, modified: int, size: int = 0) -> Any:
    """A partition, as far as the order needs it."""
    segment = SimpleNamespace(log=SimpleNamespace(modified=modified))
    files = SimpleNamespace(paths=[SimpleNamespace(segments=[segment])])
    return SimpleNamespace(place=SimpleNamespace(topic=topic), files=(files,), size=size)


def test_what_goes_first_is_backed_up_first() -> None:
    tasks = [task("kept", 0), task("week", 0), task("day", DAY_MS), task("brokers", 0), task("refused", 0, size=1)]
    cluster = Cluster(
        topics={each.place.topic: each.place.topic for each in tasks},
        configs={
            (ResourceType.TOPIC, "kept"): {"retention.ms": "-1"},
            (ResourceType.TOPIC, "week"): {"retention.ms": str(7 * DAY_MS)},
            (ResourceType.TOPIC, "day"): {"retention.ms": str(DAY_MS)},
            (ResourceType.TOPIC, "refused"): {"retention.ms": "soon"},
            (ResourceType.BROKER, ""): {"log.retention.ms": str(3 * DAY_MS)},
        },
    )
    assert [tasks[each].place.topic for each in by_expiry(tasks, cluster)] == [
        "day",
        "brokers",
        "refused",
        "week",
        "kept",
    ]
    assert [tasks[each].place.topic for each in by_expiry(tasks[:2], None)] == ["kept", "week"]
