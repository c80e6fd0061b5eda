"""Findings, which report damage as values, and the exceptions that brokerless raises.

Damage is data, not control flow: readers return what they could read and a :class:`Finding` for each place that they
could not. Only what stops a whole call (a path that is not there, a wrong argument) is raised.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from brokerless.text import html_table

Severity = Literal["info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One observation about one place in one file.

    ``kind`` is a stable identifier in kebab-case; ``position`` is in bytes from the start of ``file``; ``offset`` is a
    Kafka offset, where one is known; ``expected`` and ``found`` are for people.
    """

    severity: Severity
    kind: str
    file: str
    position: int | None
    offset: int | None
    message: str
    expected: str | None = None
    found: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        place = self.file if self.position is None else f"{self.file}, position {self.position}"
        text = f"{place}: {self.message}"
        details = [f"{name} {value}" for name, value in (("expected", self.expected), ("found", self.found)) if value]
        return f"{text} ({', '.join(details)})" if details else text

    def _repr_html_(self) -> str:
        """For notebooks."""
        rows = [(name, value) for name, value in self.as_dict().items() if value is not None]
        return html_table(f"{self.severity}: {self.kind}", ("field", "value"), rows)


class BrokerlessError(Exception):
    """The base of everything that brokerless raises on purpose."""


class UnreadableError(BrokerlessError):
    """A path that does not exist, cannot be opened, or holds nothing that this call can read."""


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


def raise_errors(finding: Finding) -> None:
    """The default for damage: an error is raised, warnings and infos are ignored."""
    if finding.severity == "error":
        raise DamageError(finding)


class JobError(BrokerlessError):
    """Tasks that Spark gave up: its workers cannot run them, or were lost too often."""
