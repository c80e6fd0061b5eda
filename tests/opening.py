"""Does something where a module of ours opens a location."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from brokerless.log.storage.location import Location


def replace_call(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, method: str, replacement: Callable[[Location], Any]
) -> Callable[[Location], Any]:
    """Has ``replacement`` called in place of a method of :class:`Location`, by this module only; returns the method."""
    real = getattr(Location, method)

    def called(location: Location) -> Any:
        is_meant = sys._getframe(1).f_globals["__name__"] == module.__name__  # type: ignore[reportPrivateUsage]
        return replacement(location) if is_meant else real(location)

    monkeypatch.setattr(Location, method, called)
    return real
