"""Kernels are cached where something can be written, and compiled all the same where nothing can."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numba
import numba.core.caching
import pytest

from brokerless.format.kernel import kernel


@pytest.fixture
def nowhere_to_write(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """As where neither the sources' directory nor the home directory can be written to."""
    everywhere = numba.core.caching.CacheImpl._locator_classes
    told = [each for each in everywhere if "UserProvided" in each.__name__]
    monkeypatch.setattr(numba.core.caching.CacheImpl, "_locator_classes", told)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def double(number: int) -> int:
    return number * 2


def test_without_another_place_the_cache_is_in_a_directory_of_ones_own(nowhere_to_write: Path) -> None:
    assert kernel("int64(int64)")(double)(21) == 42
    (place,) = nowhere_to_write.iterdir()
    assert place.stat().st_mode & 0o777 == 0o700
    assert list(place.rglob("*.nbi"))


def test_a_directory_that_others_can_write_to_is_not_trusted(nowhere_to_write: Path) -> None:
    assert kernel("int64(int64)")(double)(21) == 42
    (place,) = nowhere_to_write.iterdir()
    for file in place.rglob("*.nb?"):
        file.unlink()
    place.chmod(0o777)
    numba.config.CACHE_DIR = ""
    assert kernel("int64(int64)")(double)(21) == 42
    assert not list(place.rglob("*.nb?"))
