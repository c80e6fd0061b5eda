"""Disks of a cluster of three nodes, made of the demo's, and its backup."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import brokerless
from brokerless.views.internals.rebuild import rebuild_rows

DEMO = Path(__file__).parents[4] / "demo" / "data"
REPLICAS = {("orders", 0): [1, 2, 3], ("orders", 1): [2, 3], ("orders", 2): [3, 1], ("payments", 0): [2]}


def mapping(file: Path, nodes: Sequence[int], was: Mapping[int, int] | None = None) -> Path:
    """A mapping file: the first node is a controller as well."""
    document: list[dict[str, Any]] = [
        {
            "id": each,
            "roles": ["broker", *(["controller"] if each == nodes[0] else [])],
            "listeners": {"PLAINTEXT": f"127.0.0.1:{9000 + each}", "CONTROLLER": f"127.0.0.1:{9100 + each}"},
        }
        for each in nodes
    ]
    for each in document:
        if was and each["id"] in was:
            each["was"] = was[each["id"]]
    file.write_text(json.dumps({"nodes": document}))
    return file


def three_nodes(directory: Path) -> list[Path]:
    """The disks of three nodes: node 1 has what the metadata has there, and node 2 has the other partitions."""
    rows = list(rebuild_rows(brokerless.rebuild(DEMO, directory / "unused")))
    for row in (each for each in rows if each["table"] == "partitions"):
        own = REPLICAS.get((row["topic"], row["partition"]), [1])
        row |= {"replicas": own, "isr": own, "directories": ["A" * 21 + "Q"] * len(own)}
    state = directory / "state.jsonl"
    state.write_text("".join(json.dumps(row) + "\n" for row in rows))
    nodes = mapping(directory / "nodes.json", (1, 2, 3))
    brokerless.rebuild(DEMO, directory / "disks", state=state, mapping=nodes, apply=True)
    for each in ("orders-1", "payments-0"):
        shutil.copytree(DEMO / each, directory / "disks" / "node-2" / each)
    return sorted((directory / "disks").iterdir())
