"""What the stores of tables share: the state that a table records, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from brokerless.errors import UsageError
from brokerless.table_formats.export_state import ExportState, RefusedTopicError

TOPIC, EXPORT, COMMIT = "brokerless.topic", "brokerless.export", "brokerless.commit"
"""Names of properties: a table's topic; what was exported (of a snapshot, and of the table); which commit it was."""


class AnotherExportError(UsageError):
    """Another export has committed to the table meanwhile; nothing of this one was."""


@dataclass(frozen=True, slots=True)
class TableState:
    """What a table says was exported, and its columns, with times of day as such. ``has_times``: it says which columns
    are times of day. ``is_outdated``: it lacks what ``renew`` of its store gives it, without which readers find less
    than there is."""

    state: ExportState
    schema: pa.Schema
    has_times: bool
    is_outdated: bool = False


def check_topic(where: str, topic: str, found: str | None) -> None:
    """Refuses a table that is not the topic's."""
    if found is None:
        text = f"{where}: there is a table that no export made; export to another directory or namespace"
        raise RefusedTopicError(topic, text)
    if found != topic:
        text = f"{where}: this is the table of the topic {found}; export {topic} to another directory or namespace"
        raise RefusedTopicError(topic, text)
