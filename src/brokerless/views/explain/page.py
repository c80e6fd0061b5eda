"""Explained fields as one HTML page that needs no network: bytes beside fields, each of which leads to the other.

All text of a log is escaped, and none of it is in a script: the page's own script finds fields by their numbers. The
page's Content-Security-Policy allows that script and the page's style alone, by their hashes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.metadata import version
from importlib.resources import files
from string import Template

from brokerless.explanation.field import Field
from brokerless.explanation.files import Explanation
from brokerless.log.storage.atomic import write_output
from brokerless.log.storage.write_errors import unwritable
from brokerless.text import count_of, policy_hash, show, show_name
from brokerless.views.explain.json_lines import entries_of
from brokerless.views.explain.terminal import share, shown_parts, shown_value

MOST_BYTES = 512
"""Bytes of one field that the page has; JSON has all."""
MOST_CHARACTERS = 4000
"""Characters of one value that the page has."""
_ROW = 16
_DEEPEST = 8
"""Levels of groups that are set in; those below are at the same place."""


def write_page(explanation: Explanation, to: str) -> None:
    """Writes the page to a file. Raises :class:`UnwritableError`, with ``to`` unchanged."""
    page = render(explanation, f"Made by brokerless {version('brokerless')}")
    with unwritable(to):
        write_output(to, page.encode())


def render(explanation: Explanation, made: str) -> str:
    """Return the page; ``made`` is printed below it."""
    name = "A batch that was built" if explanation.file is None else show_name(explanation.file)
    what = explanation.kind.replace("-", " ")
    style, script = _own("page.css"), _own("page.js")
    sections = "\n".join(_sections(explanation)) or "<p>There is nothing in it.</p>"
    return Template(_own("page.html")).substitute(
        title=escape(f"{name}: brokerless explain"),
        name=escape(name),
        about=escape(f"{what[0].upper()}{what[1:]}: {count_of(explanation.size, 'byte')} explained"),
        made=escape(made),
        sections=sections,
        style=style,
        style_hash=policy_hash(style),
        script=script,
        script_hash=policy_hash(script),
    )


@dataclass(slots=True)
class _ByteRun:
    """One run of bytes: the HTML of its fields, and the fields that have bytes of their own with their numbers."""

    rows: list[str] = field(default_factory=list[str])
    leaves: list[tuple[int, Field]] = field(default_factory=list[tuple[int, Field]])
    inflated: list[tuple[int, Field]] = field(default_factory=list[tuple[int, Field]])


def _sections(explanation: Explanation) -> Iterator[str]:
    number = 0
    for position, whole, fields in entries_of(explanation):
        if not fields:
            continue
        section = _ByteRun()
        for each in fields:
            number = _add(section, each, 0, whole=whole, number=number)
        title = f"{fields[0].name}, {count_of(whole, 'byte')} from {position}"
        yield _section(title if position is not None else f"file, {count_of(whole, 'byte')}", section)
        for payload, each in section.inflated:
            assert each.inflated is not None
            inside = _ByteRun()
            for inner in each.inflated.fields:
                number = _add(inside, inner, 0, whole=each.inflated.size, number=number)
            size = count_of(each.inflated.size, "byte")
            yield _section(f"inflated {each.name}: {each.inflated.codec}, {size}", inside, f"inflated-{payload}")


def _add(section: _ByteRun, each: Field, depth: int, whole: int, number: int) -> int:
    """Adds the rows of a field and those below it, of which ``number`` is the first with bytes; returns the next."""
    place = len(section.rows)
    section.rows.append("")
    after = number
    for child in each.children:
        after = _add(section, child, depth + 1, whole=whole, number=after)
    if not each.children:
        section.leaves.append((number, each))
        after = number + 1
        if each.inflated is not None and each.inflated.fields:
            section.inflated.append((number, each))
    section.rows[place] = _row(each, depth, whole, first=number, last=after - 1)
    return after


def _row(each: Field, depth: int, whole: int, first: int, last: int) -> str:
    name = escape(show(each.name))
    mark = ' class="group"' if each.children else f' id="field-{first}"'
    if not each.children:
        name = f'<a href="#bytes-{first}">{name}</a>'
    return (
        f'<tr{mark} data-first="{first}" data-last="{last}"><td class="number">{each.position}</td>'
        f'<th scope="row" class="depth-{min(depth, _DEEPEST)}">{name}</th><td class="number">{each.length}</td>'
        f'<td class="value">{escape(_cut(shown_value(each.value)))}</td>'
        f'<td class="number">{share(each.length, whole)}</td><td class="meaning">{_meaning(each, first)}</td></tr>'
    )


def _meaning(each: Field, number: int) -> str:
    found = [escape(show(each.note))] if each.note else []
    found += [escape(part) for part in shown_parts(each)]
    if each.expected is not None:
        found.append(f'<span class="expected">expected: {escape(show(each.expected))}</span>')
    if each.inflated is not None and each.inflated.fields:
        found.append(f'<a href="#inflated-{number}">see what is inside</a>')
    return "".join(found) if len(found) < 2 else f"<ul>{''.join(f'<li>{text}</li>' for text in found)}</ul>"


def _section(title: str, section: _ByteRun, mark: str = "") -> str:
    identity = f' id="{mark}"' if mark else ""
    name = escape(title, quote=True)
    heads = "".join(
        f'<th scope="col"{kind}>{label}</th>'
        for label, kind in (
            ("at", ' class="number"'), ("field", ""), ("bytes", ' class="number"'), ("value", ""),
            ("cost", ' class="number"'), ("meaning", ""),
        )
    )  # fmt: skip
    rows = "\n".join(section.rows)
    dump = "\n".join(_dump(section.leaves))
    return (
        f'<section{identity} aria-label="{name}">\n<h2>{name}</h2>\n'
        f'<div class="bytes" role="group" aria-label="Bytes of {name}">\n{dump}\n</div>\n'
        f"<table><thead><tr>{heads}</tr></thead><tbody>\n{rows}\n</tbody></table>\n</section>"
    )


def _dump(leaves: Sequence[tuple[int, Field]]) -> Iterator[str]:
    """Rows of hexadecimal bytes, in which each field is a link."""
    digits = max([4, *(len(str(each.end)) for _, each in leaves)])
    row: list[str] = []
    filled = 0
    for number, each in leaves:
        shown, left = each.own[:MOST_BYTES], len(each.own) - MOST_BYTES
        at = 0
        while at < len(shown):
            if not filled:
                row = [f'<span class="at">{str(each.position + at).rjust(digits)}  </span>']
            piece = shown[at : at + _ROW - filled]
            row.append(_bytes(number, piece, is_first=at == 0))
            at, filled = at + len(piece), filled + len(piece)
            if filled == _ROW:
                yield f'<div class="row">{"".join(row)}</div>'
                filled = 0
        if left > 0:
            if filled:
                yield f'<div class="row">{"".join(row)}</div>'
            filled = 0
            more = f"... {count_of(left, 'more byte')}"
            yield f'<div class="row">{" " * (digits + 2)}<span class="at">{more}</span></div>'
    if filled:
        yield f'<div class="row">{"".join(row)}</div>'


def _bytes(number: int, data: bytes, *, is_first: bool) -> str:
    """A field's bytes within one row; only its first ones are reached by the Tab key."""
    mark = f'id="bytes-{number}"' if is_first else 'tabindex="-1"'
    kind = ' class="even"' if number % 2 else ""
    return f'<a {mark} href="#field-{number}" data-first="{number}" data-last="{number}"{kind}>{data.hex(" ")}</a> '


def _cut(text: str) -> str:
    more = len(text) - MOST_CHARACTERS
    return text if more <= 0 else f"{text[:MOST_CHARACTERS]} ... {count_of(more, 'more character')}"


def _own(name: str) -> str:
    return files("brokerless.views.explain").joinpath(name).read_text("utf-8").rstrip("\n")
