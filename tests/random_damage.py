"""Damage of any kind, done at random to the files of a partition."""

from __future__ import annotations

import random
from pathlib import Path


def damage_at_random(directory: Path, chance: random.Random) -> None:
    """One to three files of segments are changed, cut, emptied, lost, or get another one's content."""
    for _ in range(chance.choice((1, 1, 2, 3))):
        path = chance.choice(sorted(directory.glob("000*")))
        data = bytearray(path.read_bytes())
        start = chance.randrange(len(data) + 1)
        length = chance.choice((1, 12, 512, 4096))
        kind = chance.choice(("flip", "flip", "cut", "zero", "repeat", "append", "insert", "lose", "take"))
        if kind == "flip" and start < len(data):
            data[start] ^= 1 << chance.randrange(8)
        elif kind == "cut":
            del data[start:]
        elif kind == "zero":
            data[start : start + length] = bytes(len(data[start : start + length]))
        elif kind == "repeat":
            data[start : start + length] = data[:length]
        elif kind == "append":
            data += chance.randbytes(length)
        elif kind == "insert":
            data[start:start] = chance.randbytes(length)
        elif kind == "take":
            data[:] = chance.choice(sorted(directory.glob(f"*{path.suffix}"))).read_bytes()
        path.write_bytes(data)
        if kind == "lose":
            path.unlink()
