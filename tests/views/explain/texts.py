"""Explained batches and files as text, kept beside this module: ``python -m tests.views.explain.texts`` writes them.

After a change, read those that differ as someone would who has never seen the format.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tests.golden import golden

from brokerless.explanation.files import explain
from brokerless.views.explain.terminal import lines

TEXTS = Path(__file__).parent / "texts"
CLEAN = "brokers/clean/data"
_LOG = "00000000000000000000.log"


@dataclass(frozen=True)
class Kept:
    """What is explained, in how many columns. A position below 0 is one from the end."""

    path: str
    width: int = 80
    offset: int | None = None
    position: int | None = None
    records: int | None = 2


KEPT = {
    **{
        f"{version}-{name}": Kept(f"articles/{version}-{name}/{_LOG}", 80 if version == "v2" else 120)
        for version, names in {
            "v0": ("key-value", "null-key", "two-messages"),
            "v1": ("key-value", "null-key", "two-messages"),
            "v2": ("key-value", "null-key", "two-records"),
        }.items()
        for name in names
    },
    "v0-wrapper": Kept("specials/compacted-v0-gzip/*.log"),
    "v1-wrapper": Kept("specials/compacted-v1-lz4/*.log", 120),
    "v1-wrapper-append-time": Kept("specials/timestamps-v1-gzip-append/*.log", records=1),
    "v2-headers": Kept("formats/v2-none-create/*.log", offset=7, records=1),
    "v2-compressed": Kept("specials/compacted-v2-zstd/*.log", 120),
    "v2-append-time": Kept("specials/timestamps-v2-none-append/*.log"),
    "v2-delete-horizon": Kept("specials/delete-horizon-none/*.log", 120),
    "v2-transaction": Kept("specials/transactions/*.log", 120),
    "transaction-marker": Kept("specials/transactions/*.log", position=800),
    "kraft-control": Kept("specials/kraft-control/*.log", 120),
    "damaged-crc": Kept("damaged/all-crcs-wrong/*.log", 120, records=1),
    "damaged-varint": Kept("damaged/record-key-length-varint-6-bytes/*.log", 80, position=78),
    "damaged-cut": Kept("damaged/tail-cut-v2-none-72/*.log", 120, position=-1),
    "damaged-zeros": Kept("damaged/tail-zeros-v2-none-61/*.log", 80, position=-61),
    "offset-index": Kept(f"{CLEAN}/txn-0/*10.index", 120),
    "time-index": Kept(f"{CLEAN}/txn-0/*10.timeindex"),
    "transaction-index": Kept(f"{CLEAN}/txn-0/*10.txnindex", 120),
    "producer-snapshot": Kept(f"{CLEAN}/txn-0/*10.snapshot"),
    "leader-epoch-checkpoint": Kept(f"{CLEAN}/epochs-0/leader-epoch-checkpoint"),
    "recovery-point": Kept(f"{CLEAN}/recovery-point-offset-checkpoint", 120),
    "high-watermark": Kept(f"{CLEAN}/replication-offset-checkpoint"),
    "log-start-offset": Kept(f"{CLEAN}/log-start-offset-checkpoint"),
    "cleaner-offset": Kept(f"{CLEAN}/cleaner-offset-checkpoint", 120),
    "partition-metadata": Kept(f"{CLEAN}/txn-0/partition.metadata"),
    "meta-properties": Kept(f"{CLEAN}/meta.properties"),
    "quorum-state": Kept(f"{CLEAN}/__cluster_metadata-0/quorum-state", 120),
    "consumer-offsets": Kept(f"{CLEAN}/__consumer_offsets-0/{_LOG}", 120, records=1),
    "transaction-state": Kept(f"{CLEAN}/__transaction_state-0/{_LOG}", records=1),
    "cluster-metadata": Kept(f"{CLEAN}/__cluster_metadata-0/{_LOG}", 120, offset=3, records=1),
}


def text_of(name: str) -> str:
    """The text of one of :data:`KEPT`."""
    kept = KEPT[name]
    (path,) = sorted(golden().glob(kept.path))[:1]
    position = kept.position
    if position is not None and position < 0:
        position += path.stat().st_size
    explained = explain(path, offset=kept.offset, position=position, records=kept.records)
    shown = replace(explained, file=str(path.relative_to(golden())))
    return "".join(f"{line}\n" for line in lines(shown, kept.width, color=False))


def stale() -> Iterator[str]:
    """The names of texts that have changed, or are not kept."""
    for name in KEPT:
        path = TEXTS / f"{name}.txt"
        if not path.exists() or path.read_text() != text_of(name):
            yield name


if __name__ == "__main__":
    TEXTS.mkdir(exist_ok=True)
    for each in stale():
        (TEXTS / f"{each}.txt").write_text(text_of(each))
        print(each)
