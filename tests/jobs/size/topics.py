"""Topics of different kinds, from a seed: small and large values, compressible and random, trends, mixed keys."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from brokerless.api.loading import load
from brokerless.tables.batcher import BatchSettings

START = 1_700_000_000_000
Values = Callable[[np.random.Generator, int], bytes]


def _words(seed: int, count: int = 400) -> list[bytes]:
    rng = np.random.default_rng(seed)
    return [bytes(rng.integers(97, 123, int(rng.integers(2, 11)), dtype=np.uint8)) for _ in range(count)]


WORDS = _words(1)


def text(rng: np.random.Generator, size: int) -> bytes:
    """Words, of which some are frequent."""
    picked = np.minimum(rng.zipf(1.4, size // 6 + 1), len(WORDS)) - 1
    return b" ".join([WORDS[each] for each in picked.tolist()])[:size]


def event(rng: np.random.Generator, size: int) -> bytes:
    """JSON with the same names, and numbers that differ."""
    user, amount = int(rng.integers(10_000)), int(rng.integers(1_000_000))
    start = b'{"type":"order","user":%d,"amount":%d,"currency":"EUR","note":"' % (user, amount)
    return start + text(rng, max(1, size - len(start))) + b'"}'


def noise(rng: np.random.Generator, size: int) -> bytes:
    return rng.bytes(size)


def half(rng: np.random.Generator, size: int) -> bytes:
    """Half a text, half random."""
    return text(rng, size // 2) + rng.bytes(size - size // 2)


def mixed(rng: np.random.Generator, size: int) -> bytes:
    """One kind or the other."""
    return event(rng, size) if rng.random() < 0.7 else rng.bytes(size)


def write_topic(
    directory: Path, seed: int, values: Values, sizes: str, total: int, settings: BatchSettings, keys: int = 50
) -> int:
    """Writes topic ``t`` with about ``total`` bytes of values; returns how many records it has. ``sizes``: how values'
    sizes are drawn. ``keys``: how many different keys there are, 0 for none."""
    rng = np.random.default_rng(seed)
    draw: dict[str, Callable[[float], float]] = {
        "small": lambda _: rng.integers(5, 60),
        "medium": lambda _: rng.normal(300, 80),
        "large": lambda _: rng.normal(6000, 1500),
        "skewed": lambda _: rng.lognormal(5, 1.2),
        "growing": lambda at: rng.normal(60 + 800 * at, 20),
        "waves": lambda at: rng.normal(300 + 250 * np.sin(20 * at), 30),
    }
    rows: list[bytes] = []
    done = 0
    while done < total:
        rows.append(values(rng, int(max(1, draw[sizes](done / total)))))
        done += len(rows[-1]) + 20
    count = len(rows)
    columns: dict[str, pa.Array] = {
        "topic": pa.array(["t"] * count),
        "partition": pa.array(np.zeros(count, np.int32)),
        "timestamp": pa.array(START + np.cumsum(rng.poisson(3, count))),
        "value": pa.array(rows, pa.binary()),
    }
    if keys:
        columns["key"] = pa.array([b"key-%d" % key for key in (rng.zipf(1.3, count) % keys).tolist()], pa.binary())
    load([pa.record_batch(columns)], str(directory), settings=settings)
    return count


KINDS = [text, event, noise, half, mixed]
SIZES = ["small", "medium", "large", "skewed", "growing", "waves"]
STORED = [
    BatchSettings(),
    BatchSettings("zstd"),
    BatchSettings("lz4", batch_size=64 << 10),
    BatchSettings(batch_size=600),
    BatchSettings("gzip", batch_size=4000),
    BatchSettings("snappy", message_format=1),
]


def kinds() -> list[tuple[Values, str, BatchSettings, int]]:
    """Twenty of the combinations: each kind with four kinds of sizes, each stored in another way."""
    pairs = list(itertools.product(KINDS, SIZES))
    chosen = [pairs[(7 * number) % len(pairs)] for number in range(20)]
    return [
        (values, sizes, STORED[number % len(STORED)], (0, 50, 5000)[number % 3])
        for number, (values, sizes) in enumerate(chosen)
    ]
