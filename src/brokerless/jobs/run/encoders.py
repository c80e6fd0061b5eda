"""Encodes batches in several threads, since codecs and kernels release the GIL."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Self

from brokerless.format.write.encoder import Encoder
from brokerless.ordered_threads import processors
from brokerless.tables.batcher import BatchSettings, Cut, Encoded, encode

AT_ONCE = 4
"""Pieces of a few batches that are encoded at once; always as many, so that output does not depend on the machine."""


class Encoders:
    """Encodes in as many threads as this process has processors, a few at most."""

    def __init__(self, settings: BatchSettings, threads: int | None = None) -> None:
        if threads is None:
            threads = min(processors(), AT_ONCE)
        self._free: SimpleQueue[Encoder] = SimpleQueue()
        for _ in range(threads):
            self._free.put(settings.encoder())
        self._pool = ThreadPoolExecutor(threads, "brokerless-encode")

    def submit(self, cut: Cut) -> Future[Encoded]:
        return self._pool.submit(self._encode, cut)

    def _encode(self, cut: Cut) -> Encoded:
        encoder = self._free.get()
        try:
            return encode(encoder, cut)
        finally:
            self._free.put(encoder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)
