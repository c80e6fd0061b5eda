"""What is written has the header of xerial's framing, and several streams may follow each other."""

from __future__ import annotations

import pytest
from tests.format.codecs.payloads import TEXT, inflate, xerial

from brokerless.format.codecs import snappy
from brokerless.format.codecs.decompression_buffer import CodecError
from brokerless.format.layouts import SNAPPY


def test_the_header_of_snappy() -> None:
    assert snappy.compress(memoryview(b"abc"))[:16].hex() == "82534e41505059000000000100000001"


def test_a_second_header_may_stand_where_a_block_would() -> None:
    assert inflate(SNAPPY, xerial(TEXT, 32768) + xerial(b"more", 100)) == TEXT + b"more"
    with pytest.raises(CodecError, match="second header"):
        inflate(SNAPPY, xerial(b"data", 100) + xerial(b"", 1)[:10])
