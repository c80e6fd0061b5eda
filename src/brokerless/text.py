"""Text for people: untrusted text (names, records) made safe to encode, print and show as HTML; sizes in bytes.

Messages are written with the options of the command line, ``--offset-map``. While a command runs, they stay; everywhere
else the same text names parameters, ``offset_map=``. Options of a command that is named (``kafka-topics --alter``,
``verify --budget``) are unchanged.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Generator, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from html import escape
from typing import Any, TypeVar

_CONTROLS = re.compile("[\x00-\x1f\x7f]+")
_MOST_ESCAPES = 1 << 14
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT = "\ufffd".encode()

ItemT = TypeVar("ItemT")
_MOST_ROWS = 60
_MOST_LINES = 20
_SHOWN = 60
_LEFT, _RIGHT = ' style="text-align: left"', ' style="text-align: right"'

_OTHER_NAMES = {
    "all": "all_",
    "as": "as_",
    "command-config": "config",
    "format": "message_format",
    "key-pair": "key_pairs",
    "log-start": "log_starts",
    "map": "mapping",
    "no-prune": "prune=False",
    "public-key": "public_keys",
    "super-user": "super_users",
}
"""Parameters that are not called as the option, by the option's name."""
_COMMANDS = (
    "audit|backup|batches|carve|cat|check|cluster|compact|convert|diff|drill|erase|explain|export|forget|internals|keys|load|ls|"
    "merge|pipeline|prove|prune|rebuild|report|restart|restore|salvage|schema|serve|size|snapshots|sql|trim|verify"
)
_AFTER_OPTIONS = (
    "and|are|does|ends|exclude|for|go|has|is|keeps|lists|need|names|needs|of|only|or|out|puts|raises|reads|removes|restores|"
    "says|sets|shows|takes|to|where|with|writes"
)
"""What follows an option in a sentence of which it is a part; all else is its value."""
_OPTION = re.compile(
    rf"(?P<command>(?:\bbrokerless |\bkafka-[a-z-]+|\bjq |\b(?:{_COMMANDS})(?= --))[^;,()]*)"
    r"|(?<![\w-])--(?P<name>[a-z][a-z0-9-]*[a-z0-9])"
    rf"(?: (?P<id>\S+)=FILE|(?P<value> (?=[^\s(&-])(?!(?:{_AFTER_OPTIONS})\b(?!-))))?"
)
"""A command with what follows it, or an option with the file of an ID, or with the space before its value."""
_is_command = False


def readable(name: str) -> str:
    """Return a name as UTF-8 can hold it: what is no UTF-8 in a path (PEP 383) becomes ``\\xff``.

    What is UTF-8 becomes text even where Python's own idea of paths is ASCII.
    """
    for errors in ("surrogateescape", "backslashreplace"):  # the latter: what only Windows has in names
        with suppress(UnicodeEncodeError):
            return name.encode(errors=errors).decode(errors="backslashreplace")
    raise AssertionError("everything can be escaped")


def java_text(data: bytes) -> str:
    """Return UTF-8 as Java's ``String`` takes it: what is none becomes U+FFFD, and an encoded surrogate, cut off or
    not, is one of them (Python would make up to three)."""
    return _SURROGATE.sub(_REPLACEMENT, data).decode(errors="replace")


def show(text: str) -> str:
    """Return ``text`` without anything that moves a terminal's cursor or does not show."""
    if text.isprintable():
        return text
    text = _CONTROLS.sub(lambda run: _escaped(run[0]), text)
    return text if text.isprintable() else text.translate(_ESCAPES)


def show_name(name: str) -> str:
    """Return a path, or a message that has one in it, on one line."""
    return show(readable(name))


def json_bytes(value: Any) -> Any:
    """Return bytes as JSON has keys and values: text where they are UTF-8, else ``{"base64": ...}``; all else is
    unchanged."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def format_bytes(size: int) -> str:
    """Return ``999 B``, ``1.0 KB``, ``682.1 MB``: powers of 1000."""
    if size < 1000:
        return f"{size} B"
    value = float(size)
    for unit in ("KB", "MB", "GB", "TB", "PB"):
        value /= 1000
        if value < 999.95:
            return f"{value:.1f} {unit}"
    return f"{value / 1000:.1f} EB"


_SIZE = re.compile(r"([0-9]{1,15}) ?([KMGT]?|[KMGT]I?B|B)", re.IGNORECASE)
_UNITS = {"": 1, "B": 1} | {
    letter + ending: base**power
    for power, letter in enumerate("KMGT", 1)
    for ending, base in (("", 1024), ("IB", 1024), ("B", 1000))
}


def count_of(number: int, name: str) -> str:
    """Return ``1 record``, ``1,234 records``."""
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def short_list(names: Sequence[str], most: int = 3) -> str:
    """Return the first names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def parse_bytes(text: str) -> int | None:
    """Parse ``1000``, ``500MB`` (powers of 1000), ``1GiB`` or ``1G`` (powers of 1024) in bytes; None for what is
    none."""
    match = _SIZE.fullmatch(text)
    return None if match is None else int(match[1]) * _UNITS[match[2].upper()]


def policy_hash(text: str) -> str:
    """Return what allows a page's own script or style in its Content-Security-Policy: ``sha256-...``."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def html_table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table with a caption. Integers are on the right, with separators of thousands; None is empty. Of many
    rows, the first and how many more there are."""
    cells = list(rows)
    lines = ["".join(f"<td{_align(value)}>{_cell(value)}</td>" for value in row) for row in cells[:_MOST_ROWS]]
    if len(cells) > _MOST_ROWS:
        lines.append(f'<td colspan="{len(columns)}">and {len(cells) - _MOST_ROWS:,} more</td>')
    heads = "".join(
        f'<th scope="col"{_align(cells[0][at] if cells else None)}>{escape(name)}</th>'
        for at, name in enumerate(columns)
    )
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    title = f"<caption>{escape(show_name(caption))}</caption>"
    return f"<table>{title}<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def short_repr(self: Any) -> str:
    """Shows a dataclass on one line, as the ``repr`` of what a job returns: which partition it is of, its numbers and
    texts, and how many there are of what is many. Plans and paths, of which a ``repr`` would have thousands, are left
    out."""
    parts = [] if (name := _partition_of(self)) is None else [name]
    for field, found in _short_fields(self):
        is_many = not isinstance(found, str | int | float)
        parts.append(f"{len(found):,} {field.replace('_', ' ')}" if is_many else f"{field}={found!r}")
    return f"{type(self).__name__}({', '.join(parts)})"


def short_html(self: Any) -> str:
    """Shows the same as a table, for notebooks."""
    rows: list[tuple[str, Any]] = [] if (name := _partition_of(self)) is None else [("partition", name)]
    rows += [
        (field, found if isinstance(found, str | int | float) else len(found)) for field, found in _short_fields(self)
    ]
    return html_table(type(self).__name__, ("field", "value"), rows)


class ShownList(list[ItemT]):
    """A list whose ``repr`` has a line for each of the first items, and which a notebook shows as a table, with
    ``name`` above it."""

    name: str | None = None

    def __repr__(self) -> str:
        lines = [repr(each) for each in self[:_MOST_LINES]]
        if len(self) > _MOST_LINES:
            lines.append(f"... and {len(self) - _MOST_LINES:,} more")
        return "[" + ",\n ".join(lines) + "]"

    def _repr_html_(self) -> str:
        rows = [_row_of(each) for each in self[: _MOST_ROWS + 1]]
        columns = list(dict.fromkeys(name for row in rows for name in row))
        cells = [[row.get(name) for name in columns] for row in rows]
        cells += [[] for _ in self[_MOST_ROWS + 1 :]]  # which are counted
        name = f"{type(self[0]).__name__}, {len(self):,} of them" if self else "nothing"
        return html_table(self.name or name, columns, cells)


def _row_of(item: Any) -> dict[str, Any]:
    """Return what a table has of one item: its own row, else what :func:`short_repr` shows."""
    own_row = getattr(item, "_table_row", None)
    if own_row is not None:
        return own_row()
    if not is_dataclass(item):
        return {"": repr(item)}
    partition = {} if (name := _partition_of(item)) is None else {"partition": name}
    return partition | {
        field: found if isinstance(found, str | int | float) else len(found) for field, found in _short_fields(item)
    }


def _short_fields(value: Any) -> Iterator[tuple[str, Any]]:
    """Yields the fields that are shown of a dataclass: texts, shortened, numbers, and what has a length above 0."""
    for field in fields(value):
        found = getattr(value, field.name)
        if field.name in ("topic", "partition", "task"):
            continue
        if isinstance(found, str):
            yield field.name, found if len(found) <= _SHOWN else f"{found[:_SHOWN]}..."
        elif isinstance(found, int | float) or (isinstance(found, Sized) and len(found)):
            yield field.name, found


def _partition_of(value: Any) -> str | None:
    for path in ("", "task", "task.source", "source"):
        at = value
        for name in filter(None, path.split(".")):
            at = getattr(at, name, None)
        topic, partition = getattr(at, "topic", None), getattr(at, "partition", None)
        if isinstance(topic, str):
            return topic if partition is None else f"{topic}-{partition}"
    return None


def _align(value: Any) -> str:
    return _RIGHT if isinstance(value, int) else _LEFT


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else escape(show_name(str(value)))


def _escaped(text: str) -> str:
    return text.encode("unicode_escape").decode()


class _Escapes(dict[int, str]):
    """What to write for each character, found out when it is first met."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        text = char if char.isprintable() else _escaped(char)
        if len(self) < _MOST_ESCAPES:
            self[code] = text
        return text


_ESCAPES = _Escapes()


@contextmanager
def named_for_commands() -> Generator[None]:
    """Leave options unchanged while a command runs, in all its threads."""
    global _is_command
    before, _is_command = _is_command, True
    try:
        yield
    finally:
        _is_command = before


def name_options(text: str) -> str:
    """Return a message with its options named for its reader."""
    return text if _is_command or "--" not in text else _OPTION.sub(_parameter, text)


def _parameter(match: re.Match[str]) -> str:
    name = match["name"]
    if name is None:
        return match[0]
    own = _OTHER_NAMES.get(name, name.replace("-", "_"))
    if match["id"] is not None:
        return f'{own}={{"{match["id"]}": "FILE"}}'
    is_subject = match.start() == 0 and match.string[match.end() :].startswith(":")
    return own if is_subject or "=" in own else f"{own}="
