"""Imports what a query needs without what takes long: pandas, and looking for garbage among what is imported."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Sequence
from types import ModuleType

_PANDAS = "pandas"


class _WithoutPandas:
    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        if name == _PANDAS:
            raise ModuleNotFoundError(name)


def import_for_queries() -> None:
    """Imports ``pyarrow.dataset``, which looks for pandas wherever that is installed, and all of ours that is on it.
    Arrow takes pandas for missing then where it would recognize what is pandas': for a process of our own, in which no
    command has anything of it."""
    hidden = _WithoutPandas()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        if _PANDAS not in sys.modules and "pyarrow.dataset" not in sys.modules:
            sys.meta_path.insert(0, hidden)
            importlib.import_module("pyarrow.dataset")
            sys.meta_path.remove(hidden)
        importlib.import_module("brokerless.sql.session")
    finally:
        if hidden in sys.meta_path:
            sys.meta_path.remove(hidden)
        if was_enabled:
            gc.enable()
