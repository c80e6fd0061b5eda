"""Names tables: which catalogue has them, and which table is a topic's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from brokerless.errors import UsageError
from brokerless.log import names

TableFormat = Literal["iceberg", "delta"]

NAMESPACE = "kafka"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_]")
_NAMESPACE = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*")


@dataclass(frozen=True, slots=True)
class Catalog:
    """A catalogue of Iceberg, as pyiceberg takes it; by default a file of SQLite beside the tables, for one machine.

    Parameters
    ----------
    name
        One of pyiceberg's own configuration (``.pyiceberg.yaml``, ``PYICEBERG_CATALOG__NAME__URI``).
    properties
        Properties of the catalogue, in addition to those of the configuration.
    namespace
        Where the tables are in the catalogue.

    Raises
    ------
    UsageError
        For an invalid namespace.
    """

    name: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    namespace: str = NAMESPACE

    def __post_init__(self) -> None:
        if not isinstance(self.namespace, str) or not _NAMESPACE.fullmatch(self.namespace):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"namespace: {self.namespace!r} has other characters than letters, digits, _ and dots")

    @property
    def is_own(self) -> bool:
        """Whether this is the default: a file beside the tables."""
        return self.name is None and not self.properties


def table_name(topic: str) -> str:
    """Return the name of a topic's table: every character that not all engines take in a name is ``_``.

    Raises :class:`UsageError` for what is no topic's name.
    """
    if not names.is_partition(topic, 0):
        raise UsageError(f"{topic!r} is no name of a topic")
    return _NOT_IN_NAMES.sub("_", topic)
