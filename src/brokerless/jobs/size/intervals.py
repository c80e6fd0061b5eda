"""Ratio estimates from blocks of a sample, with their 95 % intervals (Student's t), and where a codec's batches end."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokerless.format.arrays import Floats
from brokerless.format.write.compression_ratio import CompressionRatioEstimator

_T = (
    math.inf, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11,
    2.10, 2.09, 2.09, 2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05, 2.05, 2.04,
)  # fmt: skip
"""Two-sided 95 % quantiles of Student's t by degrees of freedom, 0 to 30."""
_ROUND, _ROUND_BYTES, _ROUND_ROWS = 64, 8 << 20, 1 << 17
"""A conversion cuts so many batches, bytes or records with one estimate of the compression ratio."""
_SIMULATED = 3000
"""Rounds that are simulated; after them, the estimate has settled."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio and half of its 95 % interval's width."""

    value: float
    half: float

    @property
    def relative(self) -> float:
        return self.half / self.value if self.value else 0.0


def t_quantile(degrees: int) -> float:
    return _T[max(0, degrees)] if degrees < len(_T) else 1.96 + 2.5 / degrees


def ratio_of(sizes: NDArray[Any], sources: NDArray[Any], fraction: float = 0.0) -> Ratio:
    """Return the ratio of two sums from some blocks of a sample, which is ``fraction`` of all. Of fewer than two
    blocks, nothing is known of its error (infinite).

    Blocks are taken as drawn at random: from even positions they are nearer to the truth, so the interval is wide
    rather than narrow."""
    blocks, total = len(sizes), float(sources.sum())
    if not total:
        return Ratio(0.0, 0.0)
    value = float(sizes.sum()) / total
    if blocks < 2:
        return Ratio(value, math.inf)
    residuals = sizes - value * sources
    variance = blocks / (blocks - 1) * float((residuals**2).sum()) / total**2
    return Ratio(value, t_quantile(blocks - 1) * math.sqrt(variance * max(0.0, 1 - fraction)))


def ratio_estimates(
    batch_size: int, source_bytes: float, row_bytes: float, seen: Callable[[float], Sequence[tuple[int, int]]]
) -> tuple[Floats, Floats]:
    """Return how the estimate of the compression ratio moves while ``source_bytes`` (uncompressed, of records of
    ``row_bytes``) become batches: the bytes that are cut with each estimate, and the estimates.

    ``seen``: the payloads of batches, and their bytes before, that are cut with an estimate. A conversion begins with 1
    (``CompressionRatioEstimator``), so that its first batches are smaller than later ones.
    """
    estimator, left = CompressionRatioEstimator(), source_bytes
    cut: list[float] = []
    estimates: list[float] = []
    of_batches: dict[float, cycle[tuple[int, int]]] = {}
    while left > 0 and len(cut) < _SIMULATED:
        estimate = float(estimator.estimate)
        batch = max(row_bytes, batch_size / (1.05 * estimate))
        number = int(max(1, min(_ROUND, min(_ROUND_BYTES, _ROUND_ROWS * row_bytes) // batch)))
        cut.append(min(left, number * batch))
        estimates.append(estimate)
        left -= number * batch
        key = round(math.log(max(estimate, 1e-6)), 2)
        if key not in of_batches:
            of_batches[key] = cycle(seen(estimate) or [(1, 1)])
        for _, (payload, plain) in zip(range(number), of_batches[key], strict=False):
            estimator.update(payload, plain)
    if left > 0:  # it goes on as it did in the second half
        cut.append(left)
        estimates.append(float(np.mean(estimates[len(estimates) // 2 :])))
    return np.array(cut), np.array(estimates)
