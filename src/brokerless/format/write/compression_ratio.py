"""Estimates how well the next batch of a topic will compress, from the batches before it."""

from __future__ import annotations

import numpy as np

from brokerless.bounds import check_arguments
from brokerless.format.arrays import Int64s


class CompressionRatioEstimator:
    """Estimates the compression ratio of the next batch: the estimate falls slowly and rises at once.

    Source: ``CompressionRatioEstimator`` (4.1.1), whose float has 32 bits as well.
    """

    def __init__(self) -> None:
        self.estimate = np.float32(1)

    @check_arguments
    def update(self, size: int, uncompressed: int) -> None:
        """Count a batch: the bytes of its records after compression (``size``) and before (``uncompressed``)."""
        seen = np.float32(size) / np.float32(uncompressed)
        if seen > self.estimate:
            self.estimate = max(self.estimate + np.float32(0.05), seen)
        elif seen < self.estimate:
            self.estimate = max(self.estimate - np.float32(0.005), seen)

    @check_arguments
    def observe(self, payloads: Int64s, uncompressed: Int64s) -> None:
        """Count batches in order: their bytes after compression (``payloads``) and before (``uncompressed``)."""
        for size, plain in zip(payloads.tolist(), uncompressed.tolist(), strict=True):
            self.update(size, plain)
