"""Checksums of frames, blocks and contents count where Kafka checks them; what is written is what Kafka writes."""

from __future__ import annotations

import pytest
from tests.format.codecs.payloads import NOISE, TEXT, inflate, lz4_frame

from brokerless.format.codecs import lz4
from brokerless.format.codecs.decompression_buffer import CodecError
from brokerless.format.layouts import LZ4


def test_only_v0_may_have_the_wrong_lz4_header_checksum_that_it_wrote() -> None:
    frame = bytearray(lz4_frame(TEXT))
    assert frame[6] == 0x82
    frame[6] = 0x1A
    assert inflate(LZ4, bytes(frame), magic=0) == TEXT
    for magic in (1, 2):
        with pytest.raises(CodecError, match="checksum"):
            inflate(LZ4, bytes(frame), magic=magic)


def test_lz4_checksums_count_for_blocks_and_not_for_the_content() -> None:
    frame = bytearray(lz4_frame(NOISE, flags=0x74))
    frame[-1] ^= 1
    assert inflate(LZ4, bytes(frame)) == NOISE
    frame[-9] ^= 1  # the last block's
    with pytest.raises(CodecError, match="checksum"):
        inflate(LZ4, bytes(frame))


def test_lz4_blocks_must_not_depend_on_each_other() -> None:
    with pytest.raises(CodecError, match="depend"):
        inflate(LZ4, lz4_frame(TEXT, flags=0x40))


def test_the_frame_of_lz4() -> None:
    """As golden files have it: in v0 with another header checksum."""
    for magic, header in ((0, "04224d1860401a"), (1, "04224d18604082"), (2, "04224d18604082")):
        data = lz4.make_compressor(9, magic)(memoryview(b"abc"))
        assert data.hex() == header + "03000080" + b"abc".hex() + "00000000"
