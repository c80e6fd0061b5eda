"""Formats what a run of a pipeline did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from brokerless.jobs.pipeline.job import PipelineRun
from brokerless.text import count_of, format_bytes, show_name
from brokerless.views.findings import FindingGroups
from brokerless.views.jobs.export import exported_lines


def run_lines(run: PipelineRun, to: str, root: str = "") -> Iterator[str]:
    """Yield what is new, by partition; what was verified; what was found for the first time; where the tables are.
    ``root``: what paths are shown without."""
    if run.interrupted:
        yield f"continued after {run.interrupted}, which did not come to its end"
    directories = "1 log directory" if run.log_directories == 1 else f"{run.log_directories:,} log directories"
    what = f"{count_of(run.partitions, 'partition')} in {directories}"
    if run.refused:
        refused = ", ".join(show_name(topic) for topic in sorted(run.refused))
        yield f"not exported, see the findings: {refused}"
    if not run.is_new:
        yield f"nothing new in {what}"
        return
    if run.exported:
        yield from exported_lines(run.exported)
        yield ""
    records, files = sum(each.records for each in run.exported), sum(len(each.files) for each in run.exported)
    size = format_bytes(sum(each.size for each in run.exported))
    if run.segments_verified:
        yield f"verified {count_of(run.segments_verified, 'segment')}, {format_bytes(run.bytes_verified)}"
    yield f"{count_of(records, 'record')} of {what}: {count_of(files, 'file')}, {size}, written to {show_name(to)}"
    groups = FindingGroups()
    for finding in run.findings:
        if finding.severity != "info":
            groups.add(finding)
    yield from groups.lines(root)
    yield f"{groups.verdict()}, {count_of(len(run.ranges), 'damaged range')}"
    yield from (f"the page is {show_name(page)}" for page in run.pages)


def run_objects(run: PipelineRun) -> Iterator[dict[str, Any]]:
    """Yield what programs read of a run: rows with the names of their tables."""
    row = run.row()
    yield {"table": "runs", **row, "started": run.started_ms}
    for each in run.exported:
        yield {
            "table": "exported",
            "topic": each.topic,
            "partition": each.partition,
            "source": each.source,
            "startOffset": each.start_offset,
            "nextOffset": each.next_offset,
            "records": each.records,
            "sizeInBytes": each.size,
            "files": len(each.files),
        }
    yield from ({"table": "refused", "topic": topic, "message": text} for topic, text in sorted(run.refused.items()))
    yield from ({"table": "damaged", **asdict(each)} for each in run.ranges)
    yield from ({"table": "findings", **each.as_dict()} for each in run.findings if each.severity != "info")
