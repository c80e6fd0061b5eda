"""Types shared by jobs and their runners: tasks, their work, and where they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar, Union

from brokerless.progress import Done, Say, ignore
from brokerless.requests.option_types import Spark

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


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How the tasks of a job are run, and who hears of it."""

    done: Done = ignore
    """Called with the bytes that were read since the last call."""
    spark: Spark = NONE
    """A master (``local[4]``, ``spark://host:7077``) for which a session is started and stopped, a session, ``"none"``
    for this machine without Spark (in this process, or with one for each processor where there is much to read), or
    None: on Spark from :data:`brokerless.jobs.run.job.MANY_BYTES` on, if it is there."""
    say: Say = ignore
    """Called with what people should know, such as that Spark was chosen."""
    processes: int | None = None
    """At most so many on this machine; None for one for each processor. With 1, no other is started, which only a
    program whose main module can be imported may do."""


HERE = RunOptions()
"""On this machine, and nobody hears of it."""
ALONE = RunOptions(processes=1)
"""In this process, as a program's that starts no others."""
