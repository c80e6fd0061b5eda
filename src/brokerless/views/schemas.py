"""Formats schemas and their use: as tables, and as rows for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from brokerless.views.table import format_number, table

if TYPE_CHECKING:
    from brokerless.typed.usage import SchemaReport

_MOST_FIELDS = 40
_PLAIN = ("bytes", "string")
"""Formats that say the type."""


def report_rows(report: SchemaReport) -> Iterator[dict[str, Any]]:
    """Rows of the tables ``subjects``, ``uses`` and ``types``, each with its table."""
    for name, rows in (("subjects", report.subjects()), ("uses", report.uses()), ("types", report.types())):
        for row in rows:
            yield {"table": name, **row}


def report_lines(report: SchemaReport) -> Iterator[str]:
    """Lines for people."""
    subjects = report.subjects()
    if subjects:
        yield f"schemas in {report.source}:"
        names = ("subject", "version", "id", "type", "compatibility", "references", "records")
        yield from _indented(table(names, [_subject(row) for row in subjects], right=("version", "id", "records")))
        yield ""
    else:
        yield _without_subjects(report)
        yield ""
    uses = report.uses()
    if uses:
        yield "used by:"
        names = ("topic", "side", "id", "framing", "schema", "records")
        yield from _indented(table(names, [_use(row) for row in uses], right=("id", "records")))
        yield ""
    yield "types:"
    for row in report.types():
        fields = row["fields"]
        is_whole = bool(fields) and fields[0]["name"] is None and row["format"] not in _PLAIN
        type_ = f", {fields[0]['type']}" if is_whole else ""
        yield f"  {row['topic'] or '-'} {row['side']}: {row['format']}{type_}"
        for each in fields[:_MOST_FIELDS] if fields[0:1] and fields[0]["name"] is not None else ():
            yield f"    {each['name']}: {each['type']}"
        if len(fields) > _MOST_FIELDS:
            yield f"    and {len(fields) - _MOST_FIELDS} more"


def _without_subjects(report: SchemaReport) -> str:
    if report.source is None:
        return "no schemas: there is no topic _schemas beside the logs; give them with --schemas"
    deleted = len(report.registry.by_id)
    if not deleted:
        return f"no schemas in {report.source}: no record of it is of one"
    what = "its one schema was" if deleted == 1 else f"its {deleted:,} schemas were"
    return f"no subjects in {report.source}: {what} deleted for good; what was written by them is still decoded"


def _indented(lines: Any) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _subject(row: dict[str, Any]) -> list[str]:
    version = f"{row['version']} deleted" if row["isDeleted"] else str(row["version"])
    references = ", ".join(row["references"]) or "-"
    cells = [row["subject"], version, str(row["id"]), row["type"], row["compatibility"] or "-", references]
    return [*cells, format_number(row["records"])]


def _use(row: dict[str, Any]) -> list[str]:
    schema = "unknown" if row["subject"] is None else f"{row['subject']} {row['version']}"
    records = format_number(row["records"])
    return [row["topic"] or "-", row["side"], str(row["id"]), row["framing"], schema, records]
