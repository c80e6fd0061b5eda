"""Writes a report as one HTML page that needs no network: tables and charts as data, and the scripts that draw them.

Nothing that comes from the log becomes HTML or a script: it is escaped where it is in the page's own text, and else it
is data that scripts put in as text. The page's Content-Security-Policy allows its own scripts, by their hashes, and
no request.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from html import escape
from importlib.metadata import version
from importlib.resources import files
from string import Template
from typing import Any

from brokerless import arrow, clock
from brokerless.clusters.start.start import StartOutcome, describe_harms, describe_retention, has_start_errors
from brokerless.errors import UsageError, missing_libraries
from brokerless.findings import SEVERITIES
from brokerless.jobs.report.charts import CHARTS, vega_altair
from brokerless.jobs.report.figures import Figures
from brokerless.jobs.report.job import LastBackup, Outcome, gather_audited, sum_up
from brokerless.jobs.report.page_rows import finding_rows, topic_rows
from brokerless.jobs.report.sections import SECTIONS, Section, TableView
from brokerless.jobs.run.types import ALONE, RunOptions
from brokerless.log.directory import LogDirectory, PartitionPath
from brokerless.log.storage.atomic import write_output
from brokerless.log.storage.write_errors import refuse_directory, unwritable
from brokerless.progress import Say, ignore
from brokerless.text import format_bytes, policy_hash, show_name
from brokerless.values import Row

MOST_ROWS = 20_000
"""Rows of a table that are in the page."""
_MAX_SAFE_INTEGER = 2**53 - 1


@dataclass(frozen=True, slots=True)
class ReportFile:
    """The file of a page."""

    path: str | os.PathLike[str]
    """Where the page is written."""
    backup: LastBackup | None = None
    """What the page says of a backup, if one was named."""


def write_report(
    directory: LogDirectory,
    partitions: Sequence[PartitionPath],
    to: ReportFile,
    *,
    max_batch_bytes: int | None = None,
    running: RunOptions = ALONE,
) -> Figures:
    """Writes the page about some partitions of a log directory to the file ``to``, and returns its figures. See
    :func:`brokerless.jobs.report.job.gather`. Raises :class:`UnwritableError`, with ``to`` unchanged."""
    refuse_directory(to.path, "a file in it, such as report.html")
    figures, audits, start = gather_audited(directory, partitions, max_batch_bytes=max_batch_bytes, running=running)
    made_by = f"brokerless {version('brokerless')}"
    outcome = sum_up(directory, audits, start, to.backup)
    page = render(figures, directory.path, clock.now(), made_by=made_by, outcome=outcome, say=running.say)
    with unwritable(to.path):
        write_output(os.fspath(to.path), page.encode())
    return figures


def render(
    figures: Figures, path: str, now_ms: int, made_by: str, outcome: Outcome | None = None, say: Say = ignore
) -> str:
    """Return the page. ``figures`` has all tables of :data:`brokerless.jobs.report.schemas.FIGURES`; ``now_ms`` is
    printed as the time of the report. Where the charts' library is not installed, the page has all but charts, and
    ``say`` is called with that."""
    rows = {name: arrow.rows(table) for name, table in figures.items()}
    settings = None if outcome is None else outcome.settings
    rows["partitions"].sort(key=lambda row: row["sizeInBytes"], reverse=True)
    rows["topics"] = topic_rows(rows["partitions"], rows["lag"], settings)
    each_finding, rows["findings"] = rows["findings"], finding_rows(rows["findings"])
    tables = {view.name: _table(view, rows[view.name]) for section in SECTIONS for view in section.tables}
    charts, drawing, missing = _charts(figures)
    if missing:
        say(f"the page has no charts: {missing}")
    scripts = {"charts_script": drawing, "script": _own("page.js")}
    made = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    sections = "\n".join(_section(section, rows, charts) for section in SECTIONS)
    name = show_name(path)
    return Template(_own("page.html")).substitute(
        title=escape(f"{name}: brokerless report"),
        script_sources=" ".join(f"'{policy_hash(text)}'" for text in scripts.values()),
        style=_own("page.css"),
        path=escape(name),
        made=escape(f"{made}, by {made_by}"),
        note=f'<p class="made">Without charts: {escape(missing)}</p>' if missing else "",
        tiles=_tiles(rows, each_finding, outcome, now_ms),
        links="\n".join(f'<li><a href="#{each.id}">{escape(each.title)}</a></li>' for each in SECTIONS),
        sections=sections,
        data=json_in_html({"tables": tables, "charts": charts}),
        **scripts,
    )


def _charts(figures: Figures) -> tuple[dict[str, Any], str, str]:
    """The charts that have rows, the script that draws them, and what is missing where there are none for that."""
    try:
        vega_altair()
        script = charts_script()
    except UsageError as error:
        return {}, "", str(error)
    made = {name: _chart(make(figures).to_dict()) for name, make in CHARTS.items()}
    return {name: each for name, each in made.items() if each["rows"]}, script, ""


def json_in_html(value: Any) -> str:
    """JSON that no HTML parser mistakes for the end of its element, and no JavaScript for that of a line."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def charts_script() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, as vl-convert carries them: nothing is downloaded."""
    try:
        import vl_convert
    except ImportError as error:
        raise missing_libraries("a report needs vl-convert", "report") from error
    return _bundled(vl_convert.javascript_bundle)


@cache
def _bundled(bundle: Callable[[str], str]) -> str:
    """Once in a process, which may write many reports: it takes a second, as vl-convert starts a JavaScript engine."""
    return bundle("window.vegaEmbed = vegaEmbed;").replace("</script", "<\\/script")


def _own(name: str) -> str:
    return files("brokerless.jobs.report").joinpath(name).read_text("utf-8")


def _table(view: TableView, rows: Sequence[Row]) -> dict[str, Any]:
    """Return what the page has of a table; a column that is empty in all rows is left out."""
    values = {each: [_exact(each.of(row)) for row in rows[:MOST_ROWS]] for each in view.columns}
    shown = [each for each, of_column in values.items() if any(value not in (None, "") for value in of_column)]
    columns = [{"name": each.name, "label": each.label, "kind": each.kind} for each in shown]
    return {"columns": columns, "rows": list(zip(*(values[each] for each in shown), strict=True))}


def _exact(value: Any) -> Any:
    """A number that JavaScript would round, as text: it is formatted and compared all the same."""
    return str(value) if isinstance(value, int) and abs(value) > _MAX_SAFE_INTEGER else value


def _chart(spec: dict[str, Any]) -> dict[str, Any]:
    """A chart without the names of its columns in each row."""
    (values,) = spec.pop("datasets").values() if "datasets" in spec else (spec["data"]["values"],)
    spec.pop("data", None)
    for layer in spec.get("layer", ()):
        layer.pop("data", None)
    columns = list(values[0]) if values else []
    return {"spec": spec, "columns": columns, "rows": [[row[name] for name in columns] for row in values]}


def _section(section: Section, rows: dict[str, list[Row]], charts: dict[str, Any]) -> str:
    parts = [f"<h2>{escape(section.title)}</h2>"]
    views = [view for view in section.tables if rows[view.name]]
    if not views:
        parts.append(f'<p class="nothing">{escape(section.nothing)}</p>')
    else:
        parts.append(f'<p class="about">{escape(section.about)}</p>')
    drawn = [
        _chart_holder(name, title, len(section.charts) > 1) for name, title in section.charts.items() if name in charts
    ]
    parts += [f'<div class="pair">{"".join(drawn)}</div>'] if len(drawn) > 1 else drawn
    for view in views:
        parts.append(_table_holder(view, len(rows[view.name])))
    body = "\n".join(parts)
    return f'<section id="{section.id}">\n{body}\n</section>'


def _chart_holder(name: str, title: str, is_titled: bool) -> str:
    heading = f"<h3>{escape(title)}</h3>" if is_titled else ""
    return f'<div>{heading}<div class="chart" data-chart="{name}"></div></div>'


def _table_holder(view: TableView, rows: int) -> str:
    untitled = "" if view.is_titled else ' data-untitled="true"'
    holder = f'<div data-table="{view.name}" data-label="{escape(view.label)}"{untitled}></div>'
    if rows > MOST_ROWS:
        holder += f'<p class="nothing">The first {MOST_ROWS:,} of {rows:,}; brokerless report --json has all.</p>'
    return (
        f"<details><summary>{escape(view.label)} as a table</summary>{holder}</details>" if view.is_folded else holder
    )


def _tiles(rows: dict[str, list[Row]], findings: list[Row], outcome: Outcome | None, now_ms: int) -> str:
    partitions = rows["partitions"]
    times = [row[name] for row in partitions for name in ("minTimestamp", "maxTimestamp") if row[name] is not None]
    span = "no timestamps"
    if times:
        span = f"{_date(min(times))} to {_date(max(times))}"
    topics = len({row["topic"] for row in partitions})
    counts = [sum(row["severity"] == name for row in findings) for name in SEVERITIES]
    named = [
        f"{count:,} {name}{'s' * (count > 1)}" for name, count in zip(SEVERITIES[:2], counts, strict=False) if count
    ]
    worst = next((name for name, count in zip(SEVERITIES[:2], counts, strict=False) if count), "ok")
    less = ", ".join([*named[1:], f"{counts[2]:,} for information"])
    size = sum(row["sizeInBytes"] for row in partitions)
    tiles = [
        ("verdict", "Audit", f'<span class="{worst}">{named[0] if named else "ok"}</span>', less),
        ("topics", "Topics", f"{topics:,}", f"{len(partitions):,} partitions"),
        (
            "segments",
            "Segments",
            f"{len(rows['segments']):,}",
            f"{sum(row['batches'] for row in partitions):,} batches",
        ),
        ("records", "Records", f"{sum(row['records'] for row in partitions):,}", escape(span)),
        ("size", "Size", format_bytes(size), f"{size:,} bytes"),
    ]
    if outcome is not None:
        tiles[1:1] = [("start", "A broker's start", *_start(outcome.start)), ("lost", "Offsets lost", *_lost(outcome))]
    if outcome is not None and outcome.backup is not None:
        tiles[3:3] = [("backup", "Last complete backup", *_backup(outcome.backup, now_ms))]
    return "\n".join(
        f'<div id="tile-{name}"><dt>{label}</dt><dd>{value}<small>{more}</small></dd></div>'
        for name, label, value, more in tiles
    )


def _start(start: StartOutcome | None) -> tuple[str, str]:
    """Return whether a broker would start, and what that would cost; HTML."""
    if start is None:
        return "not known", "only of a whole local log directory with its meta.properties"
    if start.refused:
        return '<span class="error">no</span>', escape(show_name(start.first_refusal or ""))
    harms = [escape(describe_harms(start)), "this directory is offline" * start.offline]
    if start.newest is not None and start.newest.refused:
        harms.append(f"with Kafka {start.version}; the newest refuses it: {escape(start.newest.first_refusal or '')}")
    text = ", ".join(filter(None, harms))
    if not text and has_start_errors(start):
        text = "with the errors that are listed below"
    retention = describe_retention(start)
    later = f"; retention {escape(retention)}" if retention else ""
    return f'<span class="{"warning" if text else "ok"}">yes</span>', (text or "and cuts nothing off") + later


def _backup(backup: LastBackup, now_ms: int) -> tuple[str, str]:
    """Return when a cluster was backed up as a whole, and where; HTML."""
    later = f"; {backup.later:,} newer are not complete" if backup.later else ""
    where = escape(show_name(backup.place))
    if backup.snapshot is None:
        return '<span class="error">none</span>', f"in {where}{later}"
    at = datetime.fromtimestamp(backup.snapshot.created / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    hours = max(0, now_ms - backup.snapshot.created) // 3_600_000
    age = f"{hours:,} hours ago" if hours < 48 else f"{hours // 24:,} days ago"
    return f'<span class="{"warning" if later else "ok"}">{at}</span>', f"{age}, in {where}{later}"


def _lost(outcome: Outcome) -> tuple[str, str]:
    more = f"and more in {outcome.uncounted:,} partitions" if outcome.uncounted else "in no intact batch"
    if not outcome.lost_offsets and outcome.uncounted:
        return '<span class="error">not known</span>', f"of {outcome.uncounted:,} damaged partitions"
    return f'<span class="{"error" if outcome.lost_offsets else "ok"}">{outcome.lost_offsets:,}</span>', more


def _date(ms: int) -> str:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d")
    except (OverflowError, OSError, ValueError):
        return f"{ms} ms"
