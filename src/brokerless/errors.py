"""The exceptions that brokerless raises.

Damage is data, not control flow: readers return what they could read and a :class:`~brokerless.Finding` for each place
that they could not. Only what stops a whole call (a path that is not there, a wrong argument) is raised.
"""

from __future__ import annotations

import shlex
import sys
from os import PathLike, fspath

from brokerless.findings import Finding, Kind, Severity
from brokerless.text import name_options


class BrokerlessError(Exception):
    """The base of everything that brokerless raises on purpose.

    Its text names options in the caller's way: as parameters in Python, as ``--options`` on the command line."""

    def __str__(self) -> str:
        return name_options(super().__str__())


class UnreadableError(BrokerlessError):
    """A path that does not exist, cannot be opened, or holds nothing that this call can read.

    The text has the ``path`` and the ``reason``; ``path`` is empty if the reason names it already. If reading goes on
    without the file, a finding of this ``kind`` is reported.
    """

    def __init__(self, path: str | PathLike[str], reason: str, kind: Kind = Kind.UNREADABLE_FILE) -> None:
        super().__init__(path, reason)
        self.path = fspath(path)
        self.reason = reason
        self.kind = kind

    def __str__(self) -> str:
        return name_options(f"{self.path}: {self.reason}" if self.path else self.reason)

    def reason_for(self, path: str) -> str:
        """Return why ``path`` cannot be read: the reason, after the path of this error if that is another one."""
        return self.reason if self.path == path else str(self)

    def finding(self, path: str, offset: int | None = None) -> Finding:
        """Return the finding to report if reading goes on without the file.

        Parameters
        ----------
        path : str
            The file or directory that is not read; the message names another one that the error is about.
        offset : int, optional
            The first offset that may be in it.

        Returns
        -------
        Finding
            Of the kind of this error.
        """
        return self.kind.at(path, self.reason_for(path), offset=offset)


def refused_log(path: str | PathLike[str], why: str) -> UnreadableError:
    """Return the error of a log that no broker loads. ``why``: what is in it, and at which position or offset."""
    return UnreadableError(path, f"{why}; Kafka refuses to load this log", Kind.LOG_REFUSED)


class OutOfFilesError(BrokerlessError):
    """A file that cannot be opened now: the process, or the system, has its maximum of open files.

    Nothing is known of the file. This is no :class:`UnreadableError`, so that no reader takes it for damage.
    """

    def __init__(self, path: str | PathLike[str], reason: str) -> None:
        super().__init__(path, reason)
        self.path = fspath(path)
        self.reason = reason

    def __str__(self) -> str:
        return name_options(f"{self.path}: {self.reason}")


class UsageError(BrokerlessError):
    """A wrong argument or option; the message says what is allowed."""


class UnwritableError(BrokerlessError):
    """A path where nothing can be written: not permitted, no space left. Existing files are left intact.

    ``number`` is the system's ``errno`` where it is known; ``has_remedy``: whether the text says what to do about it.
    """

    def __init__(self, message: str, *, number: int | None = None, has_remedy: bool = False) -> None:
        super().__init__(message)
        self.number = number
        self.has_remedy = has_remedy


class ClusterError(BrokerlessError):
    """A running cluster that cannot be reached, does not let us in, or refuses what is sent to it.

    ``has_remedy``: whether the text says which settings of the client to see to.
    """

    def __init__(self, message: str, *, has_remedy: bool = False) -> None:
        super().__init__(message)
        self.has_remedy = has_remedy


class RefusedError(BrokerlessError):
    """Batches that a log does not accept. ``reason`` is what Kafka throws, such as ``OffsetsOutOfOrderException``."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    def __reduce__(self) -> tuple[type[RefusedError], tuple[str, str]]:
        return type(self), (self.reason, str(self))


def refused_batch(
    path: str,
    reason: object,
    *,
    as_: str = "",
    severity: Severity = "error",
    place: tuple[int | None, int | None] = (None, None),
) -> Finding:
    """Return the finding about a batch that a log does not take. ``as_``: of what it was to be written as; ``place``:
    its position and first offset."""
    position, offset = place
    text = f"cannot be written{as_ and f' as {as_}'}: {reason}"
    return Kind.BATCH_REFUSED.at(path, text, severity=severity, position=position, offset=offset)


class DamageError(BrokerlessError):
    """The first damage, where a caller did not choose to go on; ``finding`` says where it is."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding

    def __reduce__(self) -> tuple[type[DamageError], tuple[Finding]]:
        return type(self), (self.finding,)


def missing_libraries(what: str, extra: str) -> UsageError:
    """Return the error of what cannot be done without the libraries of an extra, such as "SQL needs DuckDB"."""
    return UsageError(f"{what}: {install_command(extra)}")


def install_command(extra: str) -> str:
    """Return the command that installs the libraries of an extra; in the file that ``make bundle`` makes, what is not
    in it.

    It is that of the interpreter that runs this: there, pip finds the brokerless that is installed. Another one would
    take a project of this name from an index, which may be a stranger's.
    """
    if "brokerless_bundle" in sys.modules:
        return f"this one file has all but Spark; use a wheel of brokerless, with its extra {extra}"
    return shlex.join([sys.executable or "python", "-m", "pip", "install", f"brokerless[{extra}]"])


def raise_errors(finding: Finding) -> None:
    """The default for damage: an error is raised, warnings and infos are ignored."""
    if finding.severity == "error":
        raise DamageError(finding)


class JobError(BrokerlessError):
    """Tasks that Spark gave up: its workers cannot run them, or were lost too often."""
