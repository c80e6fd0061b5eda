"""Estimates how well the next batch of a topic will compress, from the batches before it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]


class CompressionRatioEstimator:
    """A damped estimate of the compression ratio: it falls slowly and rises at once (``CompressionRatioEstimator``,
    4.1.1). In 32 bits, as Kafka's."""

    def __init__(self) -> None:
        self.estimate = np.float32(1)

    def update(self, size: int, uncompressed: int) -> None:
        """Counts a batch whose records take ``size`` bytes, ``uncompressed`` before."""
        seen = np.float32(size) / np.float32(uncompressed)
        if seen > self.estimate:
            self.estimate = max(self.estimate + np.float32(0.05), seen)
        elif seen < self.estimate:
            self.estimate = max(self.estimate - np.float32(0.005), seen)

    def observe(self, payloads: Int64s, uncompressed: Int64s) -> None:
        """Counts batches in order: the bytes of their payloads, and of their records before compression."""
        for size, plain in zip(payloads.tolist(), uncompressed.tolist(), strict=True):
            self.update(size, plain)
