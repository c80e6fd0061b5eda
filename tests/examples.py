"""Examples that Hypothesis tries, and values of parameters, of which ``--quick`` has less.

They are the same in each run, so that no seed decides whether the suite passes. ``make examples`` tries all of them,
other runs a fourth, and ``make fuzz`` tries others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

_share = 1


def set_up(share: int, is_random: bool = False) -> None:
    """Before test modules are imported. No test measures time, and Hypothesis is not to either."""
    global _share
    _share = share
    settings.register_profile(
        "brokerless",
        max_examples=100 // share,
        deadline=None,
        derandomize=not is_random,
        database=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("brokerless")


def examples(count: int, **more: Any) -> settings:
    """``count``: how many ``make examples`` and ``make fuzz`` try."""
    return settings(max_examples=max(count // _share, 10), **more)


def usual_part(count: int) -> int:
    """Return how many of ``count`` seeds are tried, of which ``make examples`` and ``make fuzz`` try all."""
    return max(count // _share, 1)


def some_quick(values: Sequence[Any], step: int = 4, reason: str = "one of many") -> list[Any]:
    """Parameters (tuples for several at once), of which ``--quick`` takes the first one of each ``step``."""
    slow = pytest.mark.slow(reason=reason)
    parts = [each if isinstance(each, tuple) else (each,) for each in values]
    return [pytest.param(*part, marks=[slow] if at % step else []) for at, part in enumerate(parts)]
