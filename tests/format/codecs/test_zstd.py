"""Frames and skippable frames follow each other; windows are up to 2^27 bytes."""

from __future__ import annotations

import pytest
import zstandard
from tests.format.codecs.payloads import NOISE, TEXT, inflate, skippable, zstd_stream

from brokerless.format.codecs.decompression_buffer import CodecError
from brokerless.format.layouts import ZSTD


def test_zstd_frames_and_skippable_frames_follow_each_other() -> None:
    frame = zstandard.ZstdCompressor().compress
    several = skippable(b"") + frame(TEXT) + skippable(NOISE[:1000]) + zstd_stream(b"!") + frame(b"") + frame(b"end")
    assert inflate(ZSTD, several) == TEXT + b"!end"
    assert inflate(ZSTD, several + skippable(b"last")) == TEXT + b"!end"
    with pytest.raises(CodecError):
        inflate(ZSTD, several + b"garbage")


@pytest.mark.parametrize("log", [27, 28])
def test_zstd_windows_go_up_to_two_to_the_27th(log: int) -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=log, write_content_size=False)
    payload = zstd_stream(b"data", compression_params=parameters)
    if log == 27:
        assert inflate(ZSTD, payload) == b"data"
    else:
        with pytest.raises(CodecError):
            inflate(ZSTD, payload)
