"""The estimate of the compression ratio is damped as Kafka's is."""

from __future__ import annotations

import numpy as np
import pytest

from brokerless.format.write.compression_ratio import CompressionRatioEstimator


def test_the_estimate_rises_at_once_and_falls_slowly() -> None:
    ratio = CompressionRatioEstimator()
    ratio.update(50, 100)
    assert ratio.estimate == pytest.approx(0.995)
    ratio.update(110, 100)
    assert ratio.estimate == pytest.approx(1.1)
    ratio.update(1101, 1000)
    assert ratio.estimate == pytest.approx(1.15)


def test_many_batches_count_as_one_after_another() -> None:
    sizes, uncompressed = np.array([50, 110, 1101, 10]), np.array([100, 100, 1000, 1000])
    many, single = CompressionRatioEstimator(), CompressionRatioEstimator()
    many.observe(sizes, uncompressed)
    for size, plain in zip(sizes.tolist(), uncompressed.tolist(), strict=True):
        single.update(size, plain)
    assert many.estimate == single.estimate
