"""What the stores of tables share: the state that a table records, and what is refused."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from brokerless.errors import BrokerlessError, UnreadableError, UnwritableError, UsageError, missing_libraries
from brokerless.log.storage import paths
from brokerless.log.storage.write_errors import AGAIN, RIGHTS
from brokerless.table_formats.export_state import ExportState, RefusedTopicError
from brokerless.text import show_name

TOPIC, EXPORT, COMMIT = "brokerless.topic", "brokerless.export", "brokerless.commit"
"""Names of properties: a table's topic; what was exported (of a snapshot, and of the table); which commit it was."""

_ANY_COLUMN = pa.field("brokerless", pa.string())
"""Which every table could have."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_CALLS = re.compile(r"\s+0: \S.*", re.DOTALL)
"""The functions of deltalake that an error came through."""


class AnotherExportError(UsageError):
    """Another export has committed to the table meanwhile; nothing of this one was."""


@dataclass(frozen=True, slots=True)
class TableState:
    """What a table says was exported, and its columns, with times of day as such."""

    state: ExportState
    schema: pa.Schema


def check_topic(where: str, topic: str, found: str | None) -> None:
    """Refuses a table that is not the topic's."""
    if found is None:
        text = f"{where}: there is a table that no export made; export to another directory or namespace"
        raise RefusedTopicError(topic, text)
    if found != topic:
        text = f"{where}: this is the table of the topic {found}; export {topic} to another directory or namespace"
        raise RefusedTopicError(topic, text)


def lacking(own: pa.Schema, schema: pa.Schema) -> list[pa.Field]:
    """Return the fields of ``schema`` that a table with the columns ``own`` does not have, or has with other types."""
    return [each for each in schema if each.name not in own.names or own.field(each.name).type != each.type]


def check_schema(
    library: str, schema: pa.Schema, topic: str, where: str, attempt: Callable[[pa.Schema], object]
) -> None:
    """Refuse a schema of decoded values with which ``library`` could not read a table, with the first field that it has
    no way to read, or because it can add no column to the table at all. ``attempt`` raises for such a schema, and
    changes nothing."""
    try:
        attempt(schema)
    except Exception as error:
        own = pa.schema([each for each in schema if each.name not in ("key", "value")])
        try:
            attempt(own.append(_ANY_COLUMN))
        except Exception as reason:
            text = f"{where}: {library} can add no column to the table: {reason_of_library(reason)}"
            advice = "drop from the table what it names, or export to another directory"
            raise RefusedTopicError(topic, f"{text}; {advice}") from error
        for path, type_, single in _singles(schema):
            try:
                attempt(pa.schema([*own, single]))
            except Exception as reason:
                text = f"{where}: {library} could not read the table with the field {path} ({type_}) any more"
                advice = "the table is unchanged; export to the other format, to Parquet, or without --decode"
                raise RefusedTopicError(topic, f"{text}: {reason_of_library(reason)}; {advice}") from error
        raise


def _singles(schema: pa.Schema) -> Iterator[tuple[str, Any, pa.Field]]:
    """Yield each field of keys and values that has none within it: its path, its type, and its column with it alone."""
    for name in ("key", "value"):
        if name in schema.names:
            yield from _leaves(schema.field(name), name)


def _leaves(field: pa.Field, path: str) -> Iterator[tuple[str, Any, pa.Field]]:
    type_: Any = field.type
    t = pa.types
    if t.is_struct(type_):
        for child in type_:
            for inner, leaf, own in _leaves(child, f"{path}.{child.name}"):
                yield inner, leaf, field.with_type(pa.struct([own]))
    elif t.is_list(type_):
        for inner, leaf, own in _leaves(type_.value_field, f"{path}[]"):
            yield inner, leaf, field.with_type(pa.list_(own))
    elif t.is_map(type_):
        for inner, leaf, own in _leaves(type_.key_field, f"{path}{{}}"):
            yield inner, leaf, field.with_type(pa.map_(own, pa.string()))
        for inner, leaf, own in _leaves(type_.item_field, f"{path}[]"):
            yield inner, leaf, field.with_type(pa.map_(type_.key_field, own))
    else:
        yield path, type_, field


def check_directory(form: str, directory: str, not_in_names: re.Pattern[str]) -> None:
    """Refuse a directory of tables in whose path something is that a format's library takes for another thing, before
    anything is written. Raises :class:`UsageError`."""
    wrong = not_in_names.search(directory) if not paths.is_remote(directory) else None
    if wrong is not None:
        text = f"{form}'s tables cannot be below a directory with '{show_name(wrong[0])}' in its name"
        raise UsageError(f"{show_name(directory)}: {text}; export to another directory")


def not_by_day(topic: str, where: str) -> RefusedTopicError:
    """Return the error for a topic's table that is not partitioned by day. ``where``: the table."""
    return RefusedTopicError(
        topic, f"{where}: the table is partitioned in another way than by day; export to another one"
    )


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
        text = f"{where}: {reason_of_library(error)}"
        raise UnwritableError(text, number=_system_error(error, text)) from error


def _system_error(error: Exception, text: str) -> int | None:
    """Return the system's ``errno`` in what a library raised. An error of Delta is one of Rust's, which has no number:
    nothing but the system's sentence in its text tells a full disk from others."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    return next((number for number in (*AGAIN, *RIGHTS) if os.strerror(number) in text), None)


@contextmanager
def damaged_files(where: str) -> Generator[None]:
    """Raises what Arrow says of files with rows as :class:`UnreadableError`. ``where``: the table."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise UnreadableError(where, f"its files cannot be read: {reason_of_library(error)}") from error


def reason_of_library(error: Exception) -> str:
    """Return what a library says on one line, without colours and its calls."""
    return " ".join(_CALLS.sub("", _COLOUR.sub("", str(error))).split())[:500] or type(error).__name__
