"""Parses mutated manifests: each is a manifest, or refused with a reason, in bounded time and memory.

python -m tests.log.tiered.fuzz_manifests 20000 SEED
"""

from __future__ import annotations

import base64
import json
import random
import sys
import time
import tracemalloc
from typing import Any

import zstandard
from tests.log.tiered import golden

from brokerless.log.tiered.manifest import Manifest, parse_manifest
from brokerless.values import WrongJsonError

_VALUES: list[Any] = [
    None, True, -1, 0, 1, 28, 2**31 - 1, 2**31, 2**63, 1.5, "", "1", "a:b", "variable", "fixed", [], {}, [[]], {"0": 0},
    "A" * 22, "../../x", "x" * 300, "\0", 10**40,
]  # fmt: skip


def mutate(data: bytes, randomness: random.Random) -> bytes:
    """Other values, other bytes, or another chunk index."""
    kind = randomness.randrange(4)
    if kind == 0:
        changed = bytearray(data)
        for _ in range(randomness.randint(1, 8)):
            changed[randomness.randrange(len(changed))] = randomness.randrange(256)
        return bytes(changed)
    if kind == 1:
        start, end = sorted(randomness.randrange(len(data)) for _ in range(2))
        return data[:start] + data[end:] if randomness.random() < 0.5 else data[:end]
    document = json.loads(data)
    if kind == 2:
        for _ in range(randomness.randint(1, 3)):
            inner, name = randomness.choice(list(places(document)))
            is_number = type(inner[name]) is int and randomness.random() < 0.5
            inner[name] = inner[name] + randomness.randint(0, 99) if is_number else randomness.choice(_VALUES)
        return json.dumps(document).encode()
    sizes = bytearray(randomness.randbytes(randomness.choice((0, 4, 8, 9, 13, 40))))
    if randomness.random() < 0.7 and len(sizes) > 8:
        sizes[:9] = (randomness.choice((0, 1, 2, 3, 2**31 - 1))).to_bytes(4, "big") + sizes[4:8] + b"\1"
    if randomness.random() < 0.01:
        sizes = bytearray(64 << 20)
    document["chunkIndex"] = {
        "type": "variable",
        "originalChunkSize": randomness.choice((1, 4096, 2**31 - 1)),
        "originalFileSize": randomness.choice((0, 1, 5000, 2**31 - 1)),
        "transformedChunks": base64.b64encode(zstandard.ZstdCompressor().compress(bytes(sizes))).decode(),
    }
    return json.dumps(document).encode()


def places(value: Any) -> list[tuple[Any, Any]]:
    """Each member of a document: what it is in, and its name."""
    if not isinstance(value, dict):
        return []
    return [(value, name) for name in value] + [place for inner in value.values() for place in places(inner)]


def run(count: int, seed: int) -> tuple[int, int]:
    """How many manifests were parsed, and how many refused."""
    randomness = random.Random(seed)
    manifests = [each.read_bytes() for each in sorted(golden().glob("*/bucket/**/*.rsm-manifest"))]
    parsed = 0
    for _ in range(count):
        try:
            manifest = parse_manifest(mutate(randomness.choice(manifests), randomness))
        except WrongJsonError:
            continue
        parsed += 1
        check(manifest)
    return parsed, count - parsed


def check(manifest: Manifest) -> None:
    """What is parsed can be used."""
    chunks = manifest.chunks
    for chunk in {0, chunks.count // 2, chunks.count - 1}:
        if 0 <= chunk < chunks.count:
            start, end = chunks.range(chunk, chunk)
            assert 0 <= start < end <= chunks.stored_size
            assert 0 < chunks.size_of(chunk) <= chunks.chunk_size
    assert manifest.start_offset <= manifest.end_offset
    assert "/" not in manifest.topic


if __name__ == "__main__":
    began = time.perf_counter()
    tracemalloc.start()
    print(run(int(sys.argv[1]), int(sys.argv[2])), f"{time.perf_counter() - began:.1f} s", end=" ")
    print(f"{tracemalloc.get_traced_memory()[1] >> 20} MiB")
