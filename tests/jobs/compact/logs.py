"""Generated logs to be compacted, and what Kafka's own cleaner makes of them."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tests.kafka.jars import HELPERS_OF_3, HELPERS_OF_4, NEWEST, check, run
from tests.kafka.written import START, everything

from brokerless.format import layouts
from brokerless.format.write.builder import BatchAttributes, BatchBuilder
from brokerless.jobs.compact.settings import CompactOptions
from brokerless.log.commit.partition_writer import NewPartition, PartitionWriter
from brokerless.log.config import LogConfig

DAY = 86_400_000


@dataclass(frozen=True)
class Round:
    """One cleaning: at which time, up to which offset the log was clean, and whether the last segment is cleaned."""

    now_ms: int
    cleaned: int | None = None
    rolls: bool = True
    settings: dict[str, int] = field(default_factory=dict[str, int])

    def options(self, kafka: str) -> CompactOptions:
        own = {name.replace(".", "_"): value for name, value in self.settings.items()}
        return CompactOptions(self.now_ms, keep_active=not self.rolls, kafka=kafka, **own)  # type: ignore[arg-type]


def write_log(directory: Path, seed: int) -> tuple[Path, int]:
    """A partition of several segments, and its last offset and one more: of half of the seeds with v0 and v1 in front;
    of a third, with a transaction that is open at the end."""
    chance = random.Random(seed)
    legacy = _legacy(chance) if seed % 2 else []
    start = legacy[-1][1] + 1 if legacy else 0
    written = everything(seed, leader_epoch=3, rounds=chance.randrange(2, 7), start_offset=start)
    pieces = [piece for piece, _ in legacy] + written.pieces
    if seed % 3 == 0:
        pieces = pieces[: -chance.randrange(1, 12)]
    directory.mkdir(parents=True, exist_ok=True)
    least = max(map(len, pieces))
    config = LogConfig(segment_bytes=max(least, chance.choice([12_000, 30_000, 1 << 20])), index_interval_bytes=1000)
    with PartitionWriter(NewPartition(directory, "topic", 0, config)) as output:
        for piece in pieces:
            output.append(piece)
        end = output.log_end_offset
        output.commit()
    return directory / "topic-0", end


def _legacy(chance: random.Random) -> list[tuple[np.ndarray, int]]:
    """Messages and wrappers, each with its last offset."""
    found: list[tuple[np.ndarray, int]] = []
    offset = 0
    for magic in (layouts.MAGIC_V0, layouts.MAGIC_V1):
        for _ in range(chance.randrange(1, 6)):
            append_time = START if magic and chance.random() < 0.3 else None
            codec = chance.choice(("none", "gzip", "snappy", "lz4"))
            attributes = BatchAttributes(offset, append_time)
            builder = BatchBuilder(magic=magic, codec=codec, attributes=attributes)
            for _ in range(chance.randrange(1, 20)):
                key = chance.choice([None, b"", b"key-%d" % chance.randrange(30)])
                value = chance.choice([None, b"", chance.randbytes(chance.randrange(200))])
                offset = builder.append(START - 5000 if magic else -1, key, value, [], offset) + 1
            found.append((np.frombuffer(builder.close(), np.uint8), offset - 1))
    return found


def clean_by_kafka(work: Sequence[tuple[Path, Round]], version: str = NEWEST) -> list[dict[str, Any]]:
    """Kafka's cleaner on the directories of partitions, which it changes."""

    def name_of(setting: str) -> str:
        return "internal.segment.bytes" if setting == "segment.bytes" and version == NEWEST else setting

    def settings_of(how: Round) -> dict[str, str]:
        return {"cleanup.policy": "compact"} | {name_of(name): str(each) for name, each in how.settings.items()}

    lines = [
        {
            "directory": str(directory),
            "settings": settings_of(how),
            "nowMs": how.now_ms,
            "cleaned": how.cleaned,
            "rolls": how.rolls,
        }
        for directory, how in work
    ]
    stdin = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    sources = HELPERS_OF_4 if version == NEWEST else HELPERS_OF_3
    done = check(run("CleanLogs", stdin=stdin, helper=True, sources=sources, version=version))
    return [json.loads(line) for line in done.splitlines()]


def copy_of(partition: Path, directory: Path) -> Path:
    return Path(shutil.copytree(partition, directory / partition.name))
