"""zstd as Kafka reads and writes it (KIP-110): frames and skippable frames one after another.

Windows are up to 2^27 bytes. Kafka writes one frame; ours has the size of its content in the header as well.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import zstandard

from brokerless.format.codecs.decompression_buffer import CodecError, InflateBuffer

LEVELS = (-131072, 22, 3)
"""The lowest and the highest level, and Kafka's default (KIP-390)."""
_STEP = 1 << 20
"""Bytes that are inflated at once, where a frame holds more than was guessed."""


def make_decompressor() -> zstandard.ZstdDecompressor:
    return zstandard.ZstdDecompressor(max_window_size=1 << 27)


def read(decompressor: zstandard.ZstdDecompressor, payload: memoryview, output: InflateBuffer) -> None:
    """Appends what the frames hold. Raises :class:`CodecError`; what was inflated before it stays."""
    from brokerless.format.codecs.zstd_frame_kernels import find_end_of_frames

    # The library does not say where a frame ended, and takes a cut-off one for the end of the stream.
    end = find_end_of_frames(np.frombuffer(payload, np.uint8))
    # What inflates further than most takes several reads.
    step = max(1 << 16, 8 * len(payload))
    try:
        reader = decompressor.stream_reader(payload, read_across_frames=True)
        while True:
            target = output.reserve(step, minimum=1)
            size = reader.readinto(target)
            output.used += size
            if size < len(target):
                break
            step = _STEP
    except zstandard.ZstdError as error:
        raise CodecError(f"zstd: the stream does not decompress ({error})") from None
    if end != len(payload):
        raise CodecError(f"zstd: the stream is cut off, or has garbage, from byte {end} on")


def make_compressor(level: int) -> Callable[[memoryview], bytes]:
    return zstandard.ZstdCompressor(level=level, write_checksum=False).compress
