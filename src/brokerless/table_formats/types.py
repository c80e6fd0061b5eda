"""What the stores of tables share: the state that a table records, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from brokerless.errors import BrokerlessError, UnwritableError, UsageError, missing_libraries
from brokerless.table_formats.export_state import ExportState, RefusedTopicError

TOPIC, EXPORT, COMMIT = "brokerless.topic", "brokerless.export", "brokerless.commit"
"""Names of properties: a table's topic; what was exported (of a snapshot, and of the table); which commit it was."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


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


@contextmanager
def library_errors(form: str, library: str, where: str) -> Generator[None]:
    """Raises what a format's library, a catalogue and a storage raise as errors of ours. ``where``: the table."""
    try:
        yield
    except BrokerlessError:
        raise
    except ModuleNotFoundError as error:
        raise missing_libraries(f"{form} needs {library} ({error})", form.lower()) from error
    except Exception as error:
        raise UnwritableError(f"{where}: {reason_of_library(error)}") from error


def reason_of_library(error: Exception) -> str:
    """Return what a library says on one line, without colours."""
    return " ".join(_COLOUR.sub("", str(error)).split())[:500] or type(error).__name__
