"""Formats what was saved of damaged logs and what was lost, as tables and as rows for JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from brokerless.findings import Kind
from brokerless.jobs.recovered.losses import NOT_THERE, Loss
from brokerless.jobs.salvage.carve import TOPIC, Carved
from brokerless.jobs.salvage.job import SalvageResult
from brokerless.log.storage.destination import Destination
from brokerless.text import count_of, format_bytes
from brokerless.views.table import format_number, format_span, table
from brokerless.views.text import format_times

_COLUMNS = ("partition", "offsets", "batches", "records", "size", "lost offsets", "damaged")
_LOSSES = ("partition", "lost offsets", "count", "bytes", "after", "before", "cause")
_CARVED = ("partition", "offsets", "epoch", "batches", "records", "size", "from", "to", "position", "pieces")
_MOST_LINES = 200
_CAUSES = {
    NOT_THERE: "no file has them: a segment or its end is missing",
    Kind.CHECKSUM_MISMATCH: "checksum does not match",
    Kind.TRUNCATED_BATCH: "cut off",
    Kind.BATCH_SIZE_INVALID: "overwritten: no batch where one should be",
    Kind.ZERO_TAIL: "zero bytes to the end of the file",
    Kind.UNREADABLE_FILE: "the file cannot be read",
    Kind.FILE_SHRUNK: "the file became shorter while it was read",
    Kind.OFFSET_MISPLACED: "the batch's offset cannot be right",
}


def row(result: SalvageResult) -> dict[str, Any]:
    """Return a partition for programs."""
    task = result.task
    return {
        "topic": task.topic,
        "partition": task.partition,
        "sources": [each.path for each in task.paths],
        **_written(task.salvage.dry_run, task.salvage.parquet, task.directory, name=task.name, files=result.files),
        "startOffset": result.start_offset,
        "endOffset": result.end_offset,
        "batches": result.batches,
        "records": result.records,
        "sizeInBytes": result.bytes,
        "segmentsIn": len(result.live_base_offsets),
        "segmentsOut": len(result.base_offsets) or None,
        "damagedBytes": result.damaged,
        "repeatedBatches": result.repeated,
        "overlappingBatches": result.overlapping,
        "misplacedBatches": result.misplaced,
        "partialBatches": result.partial,
        "losses": [loss_row(each) for each in result.losses],
    }


def partition_lines(results: Sequence[SalvageResult]) -> Iterator[str]:
    return table(_COLUMNS, [_cells(each) for each in results], right=_COLUMNS[2:])


def loss_lines(losses: Sequence[tuple[str, Loss]]) -> Iterator[str]:
    """Yield a table of losses, each with its partition's name, if there are any; of very many, the first."""
    shown, rest = losses[:_MOST_LINES], [loss for _, loss in losses[_MOST_LINES:]]
    after = format_times([loss.after for _, loss in shown], "s")
    before = format_times([loss.before for _, loss in shown], "s")
    cells = [
        [name, _range(loss), _count(loss), format_bytes(loss.bytes), *times, _cause(loss)]
        for (name, loss), *times in zip(shown, after, before, strict=True)
    ]
    yield from table(_LOSSES, cells, right=("count", "bytes")) if cells else iter(())
    if rest:
        holes, offsets = sum(loss.gaps for loss in rest), sum(loss.offsets or 0 for loss in rest)
        yield f"and {count_of(holes, 'more hole')} with {count_of(offsets, 'offset')}; --json lists more of them"


def carved_row(carved: Carved) -> dict[str, Any]:
    """Return a group of carved batches for programs."""
    carving = carved.carving
    return {
        "topic": TOPIC,
        "partition": carved.partition,
        "source": carving.path,
        **_written(
            carving.dry_run, carving.parquet, carving.directory, name=f"{TOPIC}-{carved.partition}", files=carved.files
        ),
        "firstOffset": carved.first_offset,
        "lastOffset": carved.last_offset,
        "leaderEpoch": carved.leader_epoch,
        "batches": carved.batches,
        "records": carved.records,
        "sizeInBytes": carved.bytes,
        "minTimestamp": carved.min_timestamp,
        "maxTimestamp": carved.max_timestamp,
        "runs": [{"position": position, "end": end} for position, end in carved.runs],
    }


def carved_lines(found: Sequence[Carved]) -> Iterator[str]:
    """Return a table of groups."""
    starts = format_times([each.min_timestamp for each in found], "s")
    ends = format_times([each.max_timestamp for each in found], "s")
    cells = [
        [
            f"{TOPIC}-{each.partition}",
            f"{each.first_offset}..{each.last_offset}",
            *map(format_number, (each.leader_epoch, each.batches, each.records)),
            format_bytes(each.bytes),
            *times,
            format_number(each.runs[0][0]),
            format_number(len(each.runs)),
        ]
        for each, *times in zip(found, starts, ends, strict=True)
    ]
    return table(_CARVED, cells, right=(*_CARVED[2:6], *_CARVED[8:]))


def _written(dry_run: bool, parquet: bool, to: Destination, name: str, files: Sequence[str]) -> dict[str, Any]:
    """The partition's directory, or the files of its table."""
    if parquet:
        return {"target": None if dry_run else to.path, "files": list(files)}
    return {"target": None if dry_run else to.join(name)}


def _cells(each: SalvageResult) -> list[str]:
    offsets, lost = format_span(each.start_offset, each.end_offset), lost_offsets(each.losses)
    counts = format_number(each.batches), format_number(each.records), format_bytes(each.bytes)
    return [each.task.name, offsets, *counts, lost, format_bytes(each.damaged)]


def lost_offsets(losses: Sequence[Loss]) -> str:
    """Return how many offsets are lost, as far as that is known: ``12``, or ``12+``."""
    lost = format_number(sum(loss.offsets or 0 for loss in losses))
    return lost + ("+" if any(loss.offsets is None for loss in losses) else "")


def _range(loss: Loss) -> str:
    return f"{loss.first_offset}..{'?' if loss.last_offset is None else loss.last_offset}"


def _count(loss: Loss) -> str:
    if loss.offsets is None:
        return "?"
    return ("up to " if loss.upper_bound else "") + format_number(loss.offsets)


def _cause(loss: Loss) -> str:
    return "; ".join(_CAUSES.get(each, each) for each in loss.causes)


def loss_row(loss: Loss) -> dict[str, Any]:
    """Return a loss for programs."""
    return {
        "firstOffset": loss.first_offset,
        "lastOffset": loss.last_offset,
        "offsets": loss.offsets,
        "holes": loss.gaps,
        "isUpperBound": loss.upper_bound,
        "sizeInBytes": loss.bytes,
        "timestampAfter": loss.after,
        "timestampBefore": loss.before,
        "causes": list(loss.causes),
        "regions": [
            {
                "file": region.file,
                "position": region.position,
                "end": region.end,
                "kind": region.kind,
                "message": region.message,
                "claimedOffset": region.offset,
                "places": region.places,
                "damagedBytes": region.size,
            }
            for region in loss.regions
        ],
    }
