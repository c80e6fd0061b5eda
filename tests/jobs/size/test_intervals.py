from __future__ import annotations

import math

import numpy as np
import pytest

from brokerless.jobs.size.intervals import ratio_estimates, ratio_of, t_quantile


def test_the_interval_holds_the_ratio_of_all_in_95_percent_of_samples() -> None:
    rng = np.random.default_rng(5)
    sources = rng.lognormal(8, 0.3, 20_000)
    sizes = sources * rng.normal(0.4, 0.1, 20_000)
    true, held = sizes.sum() / sources.sum(), 0
    for _ in range(1000):
        rows = rng.integers(0, 20_000, 12)
        ratio = ratio_of(sizes[rows], sources[rows])
        held += abs(ratio.value - true) <= ratio.half
    assert 920 <= held <= 985


def test_one_block_says_nothing_of_its_error_and_all_of_them_have_none() -> None:
    assert math.isinf(ratio_of(np.array([3.0]), np.array([4.0])).half)
    assert ratio_of(np.array([3.0, 1.0]), np.array([4.0, 4.0]), 1.0).half == 0
    assert ratio_of(np.array([3.0, 1.0]), np.array([4.0, 4.0])).value == 0.5


@pytest.mark.parametrize(("degrees", "expected"), [(1, 12.71), (10, 2.23), (30, 2.04), (60, 2.0), (1000, 1.96)])
def test_quantiles_are_those_of_student(degrees: int, expected: float) -> None:
    assert t_quantile(degrees) == pytest.approx(expected, abs=0.01)


def test_the_first_batches_are_cut_as_if_nothing_compressed() -> None:
    cut, estimates = ratio_estimates(16384, 1e9, 100, lambda _: [(20, 100)])
    assert estimates[0] == 1
    assert estimates[-1] == pytest.approx(0.2, abs=0.01)
    assert (np.diff(estimates) <= 0).all()
    assert cut.sum() == pytest.approx(1e9)
    few, same = ratio_estimates(1 << 20, 5e6, 100, lambda _: [(20, 100)])
    assert (few.sum(), same.tolist()) == (pytest.approx(5e6), [1.0])
