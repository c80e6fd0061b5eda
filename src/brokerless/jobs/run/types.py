"""Types shared by jobs and their runners: tasks, their work, and where they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar, Union

from brokerless.progress import Done

if TYPE_CHECKING:
    from pyspark import SparkContext

RunPlace = Union["SparkContext", str]
"""Where tasks run: a Spark application, or processes of this machine."""


class Sized(Protocol):
    @property
    def size(self) -> int:
        """Bytes to read."""
        ...


TaskT = TypeVar("TaskT", bound=Sized)
ValueT = TypeVar("ValueT")
ResultT = TypeVar("ResultT")
Work = Callable[[TaskT, Done], ValueT]

NONE = "none"
"""For ``spark``: never."""
