"""States of one remote segment, each a directory of brokers with its bucket: what the metadata says of the segment,
which of its objects are there, whether another segment that is read has its offsets, and whether the local log has
them.

Made of the set ``killed`` of :mod:`tests.log.tiered`, in which a broker was killed while it copied: of the segment at
offset 4071 there are two whole copies. What readers and ``audit`` say of each state is in ``remote_cells.json``;
``python -m tests.states.remote_cells`` writes it anew: each row that it changes is a change to be told.
"""

from __future__ import annotations

import itertools
import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import brokerless
from brokerless import Finding
from tests.internals.remote.metadata import TOPIC, broker_directory, events, framed
from tests.internals.written import batch
from tests.log.tiered import golden

TARGET, OTHER = "aazvmO5pRNOKq6sQJFMIHQ", "g5XuWp50SsmNmsZ0ctD15A"
"""The segment that is judged, and the other copy."""
FIRST, LAST = 4071, 6061
"""Their offsets."""
END = 8284
"""Of the log."""
STARTED, FINISHED, DELETING, DELETED = range(4)

STATES = ("R", "N", "STARTED", "DELETING", "DELETED", "none")
"""R: finished, and brokers read it. N: finished, and replaced by the other copy. None: it is not in the metadata."""
OBJECTS = ("whole", "cut", "no-manifest", "gone")


@dataclass(frozen=True)
class Cell:
    """One state."""

    state: str
    objects: str
    covered: bool
    local: bool

    def __str__(self) -> str:
        return "-".join([self.state, self.objects, *["covered"] * self.covered, *["local"] * self.local])


def cells() -> Iterator[Cell]:
    """All that can be."""
    for state, objects, covered, local in itertools.product(STATES, OBJECTS, (True, False), (True, False)):
        if objects == "gone" and state not in ("R",):
            continue
        yield Cell(state, objects, covered, local)


def make(cell: Cell, target: Path) -> tuple[Path, Path]:
    """Write the directory and the bucket of a state below ``target``."""
    data = broker_directory("killed", target / "data")
    bucket = target / "bucket"
    shutil.copytree(golden() / "killed" / "bucket", bucket)
    if cell.local:
        _keep_locally(data, bucket)
    _write_metadata(cell, data)
    for path in [each for each in bucket.rglob("*") if each.is_file()]:
        if OTHER in path.name and not cell.covered:
            path.unlink()
        if TARGET in path.name:
            _damage(cell, path)
    return data, bucket


def _damage(cell: Cell, path: Path) -> None:
    if cell.objects == "gone" or (cell.objects == "no-manifest" and path.suffix == ".rsm-manifest"):
        path.unlink()
    elif cell.objects == "cut" and path.suffix == ".log":
        with path.open("r+b") as file:
            file.truncate(600_000)


def _keep_locally(data: Path, bucket: Path) -> None:
    """The local log begins with the segment, as its local retention is longer."""
    for path in bucket.rglob("*.log"):
        start = int(path.name[:20])
        if OTHER in path.name or (start > LAST and "kco38eCl" in path.name):
            shutil.copy(path, data / "killed-0" / f"{start:020}.log")


def _write_metadata(cell: Cell, data: Path) -> None:
    """The events as the state has them: of the target in the place of its own, and of the other copy."""
    known = events("killed")
    number = known[0]["metadataPartition"]
    rest = [each for each in known if each["segmentId"] not in (TARGET, OTHER)]
    starts = {each["segmentId"]: each for each in known if "startOffset" in each}
    own = {
        "R": [(TARGET, STARTED), (TARGET, FINISHED)],
        "N": [(TARGET, STARTED), (TARGET, FINISHED), (OTHER, STARTED), (OTHER, FINISHED)],
        "STARTED": [(TARGET, STARTED)],
        "DELETING": [(TARGET, STARTED), (TARGET, FINISHED), (TARGET, DELETING)],
        "DELETED": [(TARGET, STARTED), (TARGET, FINISHED), (TARGET, DELETING), (TARGET, DELETED)],
        "none": [],
    }[cell.state]
    other = [(OTHER, STARTED), (OTHER, FINISHED)] * (cell.covered and cell.state != "N")
    steps = [*other, *own] if cell.state == "R" else [*own, *other]
    before = [_event(each) for each in rest if each["metadataOffset"] < 6]
    after = [_event(each) for each in rest if each["metadataOffset"] >= 6]
    at = next(each["eventTimestampMs"] for each in known if each["metadataOffset"] == 6)
    middle = [
        _event({**(starts[segment] if not state else {}), "segmentId": segment, "state": state,
                "eventTimestampMs": at + order})
        for order, (segment, state) in enumerate(steps)
    ]  # fmt: skip
    log = data / f"{TOPIC}-{number}" / f"{0:020}.log"
    log.write_bytes(b"".join(batch(offset, [(None, each)]) for offset, each in enumerate([*before, *middle, *after])))
    for path in log.parent.glob("*.index"):
        path.unlink()
    for path in log.parent.glob("*.timeindex"):
        path.unlink()


def _event(event: Mapping[str, Any]) -> bytes:
    known = events("killed")[0]
    of = {"name": known["topic"], "id": known["topicId"], "partition": known["partition"]}
    names = ("COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED")
    state = event["state"] if isinstance(event["state"], int) else names.index(event["state"])
    fields: dict[str, Any] = {
        "remoteLogSegmentId": {"topicIdPartition": of, "id": event["segmentId"]},
        "brokerId": 1,
        "eventTimestampMs": event["eventTimestampMs"],
        "customMetadata": None,
        "remoteLogSegmentState": state,
    }
    if state != STARTED:
        return framed(1, fields)
    own = {
        "startOffset": event["startOffset"],
        "endOffset": event["endOffset"],
        "maxTimestampMs": event["eventTimestampMs"],
        "segmentSizeInBytes": event.get("segmentSizeInBytes", 1_276_109),
        "segmentLeaderEpochs": [
            {"leaderEpoch": int(epoch), "offset": offset} for epoch, offset in event["segmentLeaderEpochs"].items()
        ],
    }
    return framed(0, {**fields, **own})


RECORDED = Path(__file__).with_suffix(".json")


def said(cell: Cell, target: Path) -> dict[str, Any]:
    """Return what readers give and say, and ``audit``. ``lacks``: the first and the last offset that is not given;
    ``listed`` and ``audit``: findings about the segment; ``leaves_out``: the kinds by which readers exit with 1."""
    data, bucket = make(cell, target)
    log = brokerless.open(data, remote=bucket)
    partition = log.partition("killed", 0)
    damage: list[Finding] = []
    batches = partition.records(["offset"], on_damage=damage.append)
    given = {offset for batch in batches for offset in batch["offset"].to_pylist()}
    lacking = sorted(set(range(FIRST, END)) - given)
    remote = log.audit().remote
    return {
        "lacks": [lacking[0], lacking[-1]] if lacking else None,
        "leaves_out": sorted({each.kind.value for each in damage if each.leaves_out}),
        "listed": _shown(each for each in partition.paths[0].findings if TARGET in each.file),
        "served": 0 if remote is None else remote.referenced,
        "audit": _shown(each.finding for each in (remote.findings if remote else ()) if each.segment_id == TARGET),
    }


def _shown(findings: Iterable[Finding]) -> list[str]:
    return sorted({f"{each.kind.value} {each.severity}" for each in findings})


def recorded() -> dict[str, dict[str, Any]]:
    """What is written down, by state."""
    return json.loads(RECORDED.read_text())


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        found = {str(each): said(each, Path(scratch) / str(each)) for each in cells()}
    lines = [f"{json.dumps(name)}: {json.dumps(row)}" for name, row in found.items()]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
