"""Formats explained fields for a terminal: position, bytes, name, value and cost of each, and where its value is from.

From 110 columns on, notes are in a column of their own; where there are fewer, they are below.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from itertools import zip_longest

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.console import Console
from rich.text import Text

from brokerless.explanation.field import Field, FieldValue
from brokerless.explanation.files import LOG, Explanation
from brokerless.text import count_of, show, show_name
from brokerless.views.explain.json_lines import entries_of
from brokerless.views.text import escape

WIDE = 110
"""Columns of a terminal from which notes have a column of their own."""
_NARROWEST, _WIDEST = 76, 160
_ROW, _MOST_ROWS = 8, 4
"""Bytes in a row, and rows of one field."""
_LONGEST = 1000
"""Characters of a value that are shown."""
_LEAST_COST = 12
_LEAST_NAME, _MOST_NAME, _LEAST_VALUE = 20, 34, 9
_STYLES = {"position": "dim", "bytes": "cyan", "group": "bold", "note": "dim", "expected": "bold red", "part": ""}
_CONTENTS = ("key", "value")


@dataclass(frozen=True, slots=True)
class _TreeColumns:
    """Widths of the columns."""

    position: int
    name: int
    value: int
    note: int
    """0 where notes are below."""
    cost: int

    @property
    def right(self) -> int:
        """Where the name begins."""
        return self.position + 1 + 3 * _ROW - 1 + 2

    @property
    def below(self) -> int:
        """How wide a note below may be."""
        return self.name + self.value + self.cost


def lines(explanation: Explanation, width: int, color: bool) -> Iterator[str]:
    """Yield a line for each field and what continues below it, at most ``width`` columns wide, then what costs what."""
    width = max(_NARROWEST, min(width, _WIDEST))
    places = [len(str(each.end)) for each in explanation.fields]
    position = max([2, *places])
    largest = max([0, *map(_largest, explanation.fields)])
    cost = max(_LEAST_COST, len(_cost(largest, largest)))
    rest = width - position - 3 * _ROW - 2 - cost - 2
    name = min(max([_LEAST_NAME, *(_name_width(each, 0) for each in explanation.fields)]), rest - _LEAST_VALUE)
    if width >= WIDE:
        name = min(name, _MOST_NAME)
        columns = _TreeColumns(position, name, 18, note=rest - name - 18 - 2, cost=cost)
    else:
        columns = _TreeColumns(position, name, rest - name, note=0, cost=cost)
    console = Console(
        file=StringIO(), width=width, force_terminal=color, no_color=not color, highlight=False, soft_wrap=True,
        color_system="standard" if color else None, _environ={},
    )  # fmt: skip

    def render(text: Text) -> str:
        with console.capture() as captured:
            console.print(text, end="")
        return "\n".join(line.rstrip() for line in captured.get().split("\n"))

    yield _title(explanation)
    yield ""
    yield render(_head(columns))
    for _, whole, fields in entries_of(explanation):
        for each in fields:
            for row in _rows(each, 0, whole, columns):
                yield render(row)
    if explanation.kind == LOG and explanation.fields:
        yield ""
        yield from textwrap.wrap(_costs(explanation), width)


def _name_width(field: Field, depth: int) -> int:
    """Return how wide the names of a field and those below it are."""
    inside = () if field.inflated is None else field.inflated.fields
    below = [
        *(_name_width(each, depth + 1) for each in field.children),
        *(_name_width(each, depth + 2) for each in inside),
    ]
    return max([2 * depth + cell_len(show(field.name)), *below])


def _largest(field: Field) -> int:
    """Bytes of the longest of a field and those below it."""
    inside = () if field.inflated is None else field.inflated.fields
    return max([field.length, *map(_largest, (*field.children, *inside))])


def _title(explanation: Explanation) -> str:
    name = "built" if explanation.file is None else show_name(explanation.file)
    if not explanation.fields:
        return f"{name}: empty"
    first, last = explanation.fields[0], explanation.fields[-1]
    if explanation.kind == LOG:
        groups = [each for each in explanation.fields if each.children]
        what = "no batch" if not groups else groups[0].name if len(groups) == 1 else count_of(len(groups), "message")
        return f"{name}: {what}, {count_of(explanation.size, 'byte')} from {first.position} to {last.end - 1}"
    return f"{name}: {explanation.kind.replace('-', ' ')}, {count_of(explanation.size, 'byte')}"


def _head(columns: _TreeColumns) -> Text:
    at, hexadecimal = "at".rjust(columns.position), "bytes".ljust(3 * _ROW - 1)
    text = (
        f"{at} {hexadecimal}  {'field'.ljust(columns.name)} {'value'.ljust(columns.value)} {'cost'.rjust(columns.cost)}"
    )
    return Text(text + ("  meaning" if columns.note else ""), style="bold")


def _rows(field: Field, depth: int, whole: int, columns: _TreeColumns) -> Iterator[Text]:
    yield from _row(field, depth, whole, columns)
    for each in field.children:
        yield from _rows(each, depth + 1, whole, columns)
    if field.inflated is not None:
        inside = field.inflated
        title = f"inflated: {inside.codec}, {count_of(inside.size, 'byte')}; positions and costs are within them"
        indent = " " * (columns.right + 2 * depth + 2)
        for line in textwrap.wrap(title, columns.below - 2 * depth):
            yield Text(indent + line, style="bold")
        for each in inside.fields:
            yield from _rows(each, depth + 2, inside.size, columns)


def _row(field: Field, depth: int, whole: int, columns: _TreeColumns) -> Iterator[Text]:
    """A field's line, and those that continue its bytes at the left and its note at the right."""
    style = "expected" if field.expected is not None else "group" if field.children else ""
    shown = shown_value(field.value)
    is_cut = cell_len(shown) > columns.value
    name = set_cell_size("  " * depth + show(field.name), columns.name)
    value = set_cell_size(shown[:-1] if is_cut else shown, columns.value)
    value = set_cell_size(value, columns.value - 1) + "…" if is_cut else value
    first = [(f"{name} ", _STYLES.get(style, "")), (f"{value} ", _STYLES.get(style, ""))]
    first.append((_cost(field.length, whole).rjust(columns.cost), _STYLES["note"]))
    width = columns.note or columns.below - 2 * depth
    notes = [(each, "note") for each in _wrapped(field, shown if is_cut else "", width)]
    notes += [(each, "expected") for each in _expected(field, width)]
    below: list[list[tuple[str, str]]] = []
    if columns.note:
        if notes:
            first.append((f"  {notes[0][0]}", _STYLES[notes[0][1]]))
        indent = " " * (columns.name + columns.value + columns.cost + 4)
        below = [[(indent + text, _STYLES[kind])] for text, kind in notes[1:]]
    else:
        below = [[("  " * (depth + 1) + text, _STYLES[kind])] for text, kind in notes]
    below += [[("  " * (depth + 1) + text, _STYLES["part"])] for text in shown_parts(field)]
    hexadecimal = [] if field.children else _hexadecimal(field.own)
    place = str(field.position).rjust(columns.position)
    for index, (left, right) in enumerate(zip_longest(hexadecimal, [first, *below])):
        at = place if index == 0 else " " * columns.position
        head = [(f"{at} ", _STYLES["position"]), (f"{(left or '').ljust(3 * _ROW - 1)}  ", _STYLES["bytes"])]
        yield Text.assemble(*head, *(right or []))


def _hexadecimal(data: bytes) -> list[str]:
    rows = [data[at : at + _ROW].hex(" ") for at in range(0, min(len(data), _ROW * _MOST_ROWS), _ROW)]
    more = len(data) - _ROW * _MOST_ROWS
    return [*rows, f"... {more:,} more"] if more > 0 else rows


def _wrapped(field: Field, value: str, width: int) -> list[str]:
    """The whole value, where its column is too narrow for it, and the note."""
    rows = chop_cells(value[:_LONGEST], width) if value else []
    if len(value) > _LONGEST:
        rows.append(f"... {len(value) - _LONGEST:,} more characters")
    return rows + textwrap.wrap(show(field.note), width)


def _expected(field: Field, width: int) -> list[str]:
    return [] if field.expected is None else textwrap.wrap(f"expected: {show(field.expected)}", width)


def shown_value(value: FieldValue) -> str:
    """Return a value as text on one line, without anything that moves a terminal's cursor."""
    match value:
        case None:
            return ""
        case bytes():
            return escape(value)
        case bool():
            return "yes" if value else "no"
        case str():
            return show(value)
        case _:
            return str(value)


def shown_parts(field: Field) -> list[str]:
    """Return the flags of a field by name. What each byte adds to a varint is in the field's note."""
    if any(isinstance(each.value, str) and set(each.value) <= {"0", "1"} for each in field.parts):
        return []
    return [
        f"bit{'s' if '-' in each.bits else ''} {each.bits}: {each.name} {shown_value(each.value)}"
        for each in field.parts
        if each.name != "unused" or each.value
    ]


def _cost(length: int, whole: int) -> str:
    return f"{length:,} B {share(length, whole):>6}"


def share(length: int, whole: int) -> str:
    """``10.5%`` of the whole; below a hundredth without the fraction."""
    percent = 100 * length / whole if whole else 0.0
    return f"{percent:.0f}%" if percent >= 99.95 else f"{percent:.1f}%"


def _costs(explanation: Explanation) -> str:
    """Return what the bytes are spent on."""
    spent = {"header": 0, "keys and values": 0, "payload": 0, "record overhead": 0, "not read": 0}
    for path, field in explanation.leaves():
        names = path.split(".")
        if field.name in ("unread", "records", "messages"):
            kind = "not read"
        elif field.inflated is not None or field.name == "payload":
            kind = "payload"
        elif any(each in _CONTENTS for each in names) and not any(each.startswith("header[") for each in names):
            kind = "keys and values"
        else:
            kind = "header" if len(names) == 2 else "record overhead"
        spent[kind] += field.length
    size = explanation.size
    costs = (f"{name} {count_of(each, 'byte')} ({share(each, size)})" for name, each in spent.items() if each)
    return f"cost: {', '.join(costs)}"
