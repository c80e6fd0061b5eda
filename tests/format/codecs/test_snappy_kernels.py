"""Blocks of all elements that the format knows inflate as the library inflates them, and what it refuses is refused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from brokerless.format.codecs.payload_kernels import INFLATE
from brokerless.format.columns import SLACK
from brokerless.format.layouts import SNAPPY

Element = tuple[int, bytes] | tuple[int, int, int]

LITERALS = st.tuples(st.integers(0, 4), st.binary(min_size=1, max_size=200))
"""How many bytes say how long it is, and what it holds."""
COPIES = st.tuples(st.sampled_from([1, 2, 4]), st.integers(1, 64), st.integers(1, 70) | st.integers(1, 3000))
"""How many bytes say where it copies from, how many bytes it copies, and from how far back."""
SELDOM = st.sampled_from([0] * 9 + [1, 2, 9])


@examples(1000)
@given(LITERALS, st.lists(LITERALS | COPIES, max_size=30), SELDOM, SELDOM, SELDOM, st.integers(0, 100))
def test_blocks_of_any_elements(
    first: Element, elements: list[Element], too_far: int, cut: int, missing: int, space: int
) -> None:
    size, body = encode([first, *elements], too_far)
    size = max(0, size - missing)
    block = varint(size) + body[: len(body) - cut]
    try:
        expected = pa.Codec("snappy").decompress(block, size, asbytes=True)  # Google's own, as in Kafka
    except OSError:
        expected = None
    assert inflate(block, space) == (expected or None)  # one of no bytes is left to the library


def inflate(block: bytes, space: int) -> bytes | None:
    """What the kernel makes of a block before ``space`` other bytes; None if it leaves that to the library."""
    buffer = np.frombuffer(block + b"\xff" * space, np.uint8)
    output, bounds, state = np.full(10_000 + SLACK, 7, np.uint8), np.zeros(2, np.int64), np.zeros(3, np.int64)
    starts, ends = np.zeros(1, np.int64), np.array([len(block)])
    done = INFLATE[SNAPPY](0, 0, buffer, starts, ends, 0, 0, 1, output, SLACK, 10_000, bounds, state)
    assert not done or (output[bounds[1] + SLACK :] == 7).all()
    return output[: bounds[1]].tobytes() if done else None


def encode(elements: Sequence[Element], too_far: int) -> tuple[int, bytes]:
    """What the elements make (bytes), and how they are written. The last copy begins ``too_far`` before the block."""
    size, body = 0, b""
    for place, element in enumerate(elements):
        if len(element) == 2:
            extra, data = element
            extra = extra if extra or len(data) <= 60 else 1
            tag = (len(data) - 1 if extra == 0 else 59 + extra) << 2
            body += bytes([tag]) + (len(data) - 1).to_bytes(extra, "little") + data if extra else bytes([tag]) + data
            size += len(data)
            continue
        extra, length, back = element
        back = size + too_far if too_far and place == len(elements) - 1 else min(back, size)
        if extra == 1:
            length, back = 4 + length % 8, min(back, 2047)
            body += bytes([1 | (length - 4) << 2 | back >> 8 << 5, back & 255])
        else:
            body += bytes([extra // 2 + 1 | (length - 1) << 2]) + back.to_bytes(extra, "little")
        size += length
    return size, body


def varint(number: int) -> bytes:
    return bytes([number & 127 | 128]) + varint(number >> 7) if number > 127 else bytes([number])
