"""Types shared by jobs and their runners: tasks, their work, and progress callbacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar, Union

from brokerless.progress import Done, ignore

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

Place = Union["SparkContext", str]
Spark = Union["SparkContext", "SparkSession", str, None]


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

__all__ = ["NONE", "Done", "Place", "ResultT", "Sized", "Spark", "TaskT", "ValueT", "Work", "ignore"]
