"""What audit says of a replica by each verdict of placement: its kind, and its path, as docs/start.md has them.

Commands are held against each other elsewhere; here the kinds themselves are written down."""

from __future__ import annotations

from pathlib import Path

from brokerless.clusters.placement import Verdict
from tests.states import faces
from tests.states.outcomes import NEWEST
from tests.states.placements import PLACEMENTS, Change, make_placement, named, remove, replace, write

FUTURE, METADATA = named("orders-1", "future"), "data/orders-1/partition.metadata"
EXPECTED: dict[Verdict, tuple[Change, str, str]] = {
    Verdict.PROMOTED: (PLACEMENTS["future-assigned-here"], f"data/{FUTURE}", "future-promoted"),
    Verdict.MOVING: (PLACEMENTS["future-moving"], f"data-2/{FUTURE}", "future-directory"),
    Verdict.EMPTIED: (PLACEMENTS["future-in-second-source-gone"], f"data-2/{FUTURE}", "future-emptied"),
    Verdict.BLOCKED: (PLACEMENTS["future-beside-live"], f"data/{FUTURE}", "future-repeated"),
    Verdict.OTHER_DIRECTORY: (PLACEMENTS["directory-id-other"], "data/orders-1", "directory-id-mismatch"),
    Verdict.OTHER_TOPIC: (
        PLACEMENTS["other-topic-id-same-number"], "data/orders-0/partition.metadata", "topic-id-mismatch",
    ),
    Verdict.TOPIC_UNKNOWN: (PLACEMENTS["unknown-topic-id"], METADATA, "topic-unknown"),
    Verdict.PARTITION_UNKNOWN: (
        PLACEMENTS["copied-to-unknown-number"], "data/orders-9/partition.metadata", "partition-unknown",
    ),
    Verdict.ELSEWHERE: (replace("meta.properties", "node.id=.*", "node.id=7"), METADATA, "replica-elsewhere"),
    Verdict.NO_ID: (remove("orders-1/partition.metadata"), METADATA, "partition-metadata-missing"),
    Verdict.ID_CORRUPT: (write("orders-1/partition.metadata", b"garbage\n"), METADATA, "partition-metadata-corrupt"),
    Verdict.TWICE: (PLACEMENTS["copied-to-second"], "data-2/orders-1", "partition-repeated"),
    Verdict.STRAY: (PLACEMENTS["stray"], f"data/{named('orders-1', 'stray')}", "stray-directory"),
    Verdict.DELETED: (PLACEMENTS["delete"], f"data/{named('orders-1', 'delete')}", "deleted-directory"),
}  # fmt: skip
"""For each verdict a change of a broker's directory, a path below what it makes, and the kind that is said of it."""


def said(verdict: Verdict, root: Path) -> set[str]:
    """Return the kinds that audit finds at the path of a verdict."""
    change, path, _ = EXPECTED[verdict]
    directories = make_placement(NEWEST, change, root)
    with faces.without_waiting():
        rows = faces.run("audit", "--json", *directories).json
    return {row["kind"] for row in rows if row.get("file") == str(root / path) and row.get("kind")}
