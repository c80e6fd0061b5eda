"""Members follow each other, headers may have all fields, and many members take no longer than they must."""

from __future__ import annotations

import gzip
import struct

import pytest
from tests.format.codecs.payloads import TEXT, gzip_with, inflate

from brokerless.format.codecs.decompression_buffer import CodecError
from brokerless.format.layouts import GZIP


def test_gzip_members_follow_each_other_and_what_follows_them_is_ignored() -> None:
    members = gzip.compress(TEXT) + gzip.compress(b"") + gzip.compress(b"end")
    assert inflate(GZIP, members) == TEXT + b"end"
    assert inflate(GZIP, members + b"\x1f\x8b no member") == TEXT + b"end"


@pytest.mark.parametrize("flags", [0x00, 0x08])
def test_many_tiny_gzip_members_take_time_by_their_number_alone(flags: int) -> None:
    member = gzip_with(flags, b"a name\0" if flags else b"", b"")
    assert inflate(GZIP, member * 100_000 + gzip.compress(TEXT)) == TEXT  # copied each time, it would take minutes


def test_gzip_headers_may_have_all_fields() -> None:
    fields = struct.pack("<H", 5) + b"extra" + b"a name\0" + b"a comment\0"
    assert inflate(GZIP, gzip_with(0x1E, fields, b"data")) == b"data"
    with pytest.raises(CodecError):
        inflate(GZIP, gzip_with(0x1C, fields, b"data")[:12])
    wrong = bytearray(gzip_with(0x02, b"", b"data"))
    wrong[4] ^= 1  # a time that the header's checksum does not know
    with pytest.raises(CodecError):
        inflate(GZIP, bytes(wrong))
