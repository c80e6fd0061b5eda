"""Writes the report pages of a pipeline: one for each log directory, with what the runs found."""

from __future__ import annotations

from importlib.metadata import version

from brokerless import clock
from brokerless.arrow import table_of
from brokerless.findings import harm_of
from brokerless.jobs.audit.advice import advice_for
from brokerless.jobs.ledger import Ledger, path_of
from brokerless.jobs.pipeline.recording import PRIVATE
from brokerless.jobs.pipeline.settings import Settings
from brokerless.jobs.report.figures import Figures, read_figures
from brokerless.jobs.report.job import lag_table
from brokerless.jobs.report.page import render
from brokerless.jobs.report.schemas import FIGURES
from brokerless.log.directory import LogDirectory
from brokerless.log.storage import file_tree
from brokerless.progress import Say, ignore
from brokerless.text import readable
from brokerless.values import Row


def write_pages(directories: list[LogDirectory], ledger: Ledger, settings: Settings, say: Say) -> tuple[str, ...]:
    """Return the paths of the pages, in the order of the log directories; without charts where their library is not
    installed, which ``say`` is called with. Headers are read again; findings are those of the ledger. Raises
    :class:`UnwritableError`."""
    to = settings.root / PRIVATE
    written: list[str] = []
    for number, directory in enumerate(directories, 1):
        figures = _figures(directory, ledger, settings)
        page = render(figures, directory.path, clock.now(), f"brokerless {version('brokerless')}", None, say)
        name = "report.html" if number == 1 else f"report-{number}.html"
        file_tree.write(to / name, page.encode())
        written.append((to / name).path)
    return tuple(written)


def _figures(directory: LogDirectory, ledger: Ledger, settings: Settings) -> Figures:
    partitions = directory.partitions
    figures = read_figures(partitions, on_damage=ignore, on_unreadable=ignore, max_batch_bytes=settings.max_batch_bytes)
    own = {path_of(each.path) for each in directory.partitions}
    own |= {path_of(segment.log.path) for each in directory.partitions for segment in each.segments}
    rows: list[Row] = [
        {"topic": checked.topic, "partition": checked.partition, "advice": advice_for(found)}
        | {name: readable(value) if isinstance(value, str) else value for name, value in found.as_dict().items()}
        for checked in ledger.entries.values()
        if checked.path in own
        for found in checked.findings
    ]
    rows.sort(key=lambda row: harm_of(row["severity"], row["kind"]))
    figures["findings"] = table_of(rows, FIGURES["findings"])
    figures["lag"] = lag_table(partitions)
    empty = {name: table_of([], FIGURES[name]) for name in FIGURES if name not in figures}
    return {name: (figures | empty)[name] for name in FIGURES}
