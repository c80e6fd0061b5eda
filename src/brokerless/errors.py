"""The exceptions that brokerless raises, and what takes earlier names of parameters.

Damage is data, not control flow: readers return what they could read and a :class:`~brokerless.Finding` for each place
that they could not. Only what stops a whole call (a path that is not there, a wrong argument) is raised.
"""

from __future__ import annotations

import re
import shlex
import sys
import warnings
from collections.abc import Callable
from functools import wraps
from os import PathLike, fspath
from typing import ParamSpec, TypeVar

from brokerless.findings import Finding


class BrokerlessError(Exception):
    """The base of everything that brokerless raises on purpose."""


class UnreadableError(BrokerlessError):
    """A path that does not exist, cannot be opened, or holds nothing that this call can read.

    ``path`` is empty where the reason names it in its own way; the text is both.
    """

    def __init__(self, path: str | PathLike[str], reason: str) -> None:
        super().__init__(path, reason)
        self.path = fspath(path)
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.path else self.reason

    def reason_for(self, path: str) -> str:
        """Return why ``path`` cannot be read: the reason, with the path of the file it is about if that is another."""
        return self.reason if self.path == path else str(self)


class UsageError(BrokerlessError):
    """A wrong argument or option; the message says what is allowed."""


class UnwritableError(BrokerlessError):
    """A path where nothing can be written: not permitted, no space left. Existing files are left intact."""


class ClusterError(BrokerlessError):
    """A running cluster that cannot be reached, does not let us in, or refuses what is sent to it."""


class RefusedError(BrokerlessError):
    """Batches that a log does not accept. ``reason`` is what Kafka throws, such as ``OffsetsOutOfOrderException``."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    def __reduce__(self) -> tuple[type[RefusedError], tuple[str, str]]:
        return type(self), (self.reason, str(self))


class DamageError(BrokerlessError):
    """Raised where a caller asked to stop at the first damage; ``finding`` says where it is."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding

    def __reduce__(self) -> tuple[type[DamageError], tuple[Finding]]:
        return type(self), (self.finding,)


def missing_libraries(what: str, extra: str) -> UsageError:
    """Return the error of what cannot be done without the libraries of an extra, such as "SQL needs DuckDB".

    The command that installs them names these libraries alone: a project called brokerless on an index may be a
    stranger's.
    """
    return UsageError(f"{what}: {install_command(extra)}")


def install_command(extra: str) -> str:
    """Return the command that installs the libraries of an extra, by what was declared when this was installed; in the
    file that ``make bundle`` makes, what is not in it."""
    if "brokerless_bundle" in sys.modules:
        return f"this one file has all but Spark; use a wheel of brokerless, with its extra {extra}"
    from importlib.metadata import requires  # which takes as long to import as all of this package that ls needs

    marked = (each.partition(";") for each in requires("brokerless") or ())
    is_own = re.compile(rf"""extra\s*==\s*['"]{re.escape(extra)}['"]""")
    own = [name.strip() for name, _, marker in marked if is_own.search(marker)]
    return shlex.join(["pip", "install", *(each if "<" in each else each.split(">=")[0] for each in own)])


def raise_errors(finding: Finding) -> None:
    """The default for damage: an error is raised, warnings and infos are ignored."""
    if finding.severity == "error":
        raise DamageError(finding)


class JobError(BrokerlessError):
    """Tasks that Spark gave up: its workers cannot run them, or were lost too often."""


Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def renamed(**earlier: str) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Decorate a function of which some parameters had another name: each earlier name, and what it is called now."""

    def decorate(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        @wraps(function)
        def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            for old in earlier.keys() & kwargs.keys():
                new = earlier[old]
                if new in kwargs:
                    raise UsageError(f"{new} and {old} are one option; give {new} alone")
                warnings.warn(f"{old}= is called {new}= now", DeprecationWarning, stacklevel=2)
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate
