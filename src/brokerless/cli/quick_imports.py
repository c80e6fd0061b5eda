"""Imports Arrow's datasets without pandas, which takes as long as all else that a query needs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from types import ModuleType

_PANDAS = "pandas"


class _WithoutPandas:
    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        if name == _PANDAS:
            raise ModuleNotFoundError(name)


def import_datasets() -> None:
    """Imports ``pyarrow.dataset``, which looks for pandas wherever that is installed. Arrow takes it for missing then
    where it would recognize what is pandas': for a process of our own, in which no command has anything of it."""
    if _PANDAS in sys.modules or "pyarrow.dataset" in sys.modules:
        return
    hidden = _WithoutPandas()
    sys.meta_path.insert(0, hidden)
    try:
        importlib.import_module("pyarrow.dataset")
    finally:
        sys.meta_path.remove(hidden)
