"""Salvage: what is sound of damaged partitions, as clean partitions of a new log directory, and what is missing.

Every batch that is whole, has the right checksum and decodes is taken, wherever it is in the files of a partition;
offsets never change, and what is missing stays a hole. Nothing is written to what is read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import Finding, UnreadableError, UsageError
from brokerless.format.compression import DEFAULT_LIMIT
from brokerless.jobs.audits.notes import load_notes
from brokerless.jobs.convert import topic_id_of
from brokerless.jobs.salvages.choice import Choice, choose
from brokerless.jobs.salvages.losses import TO_THE_END, Loss, are_side_by_side, find_losses
from brokerless.jobs.salvages.sound import SOUND, Region, find_sound
from brokerless.jobs.salvages.writing import write_batches
from brokerless.log import names
from brokerless.log.bulk import PartitionOutput, output_directory
from brokerless.log.checkpoint_writers import random_id
from brokerless.log.checkpoints import load_leader_epochs
from brokerless.log.config import LogConfig
from brokerless.log.directory import LogDirectory, PartitionPath
from brokerless.log.epochs import Epochs, epochs_of, truncate_from_end
from brokerless.log.indexes import load_offset_index
from brokerless.log.segment import Report
from brokerless.log.storage import StorageOptions, open_file


@dataclass(frozen=True, slots=True)
class Salvage:
    """How all partitions are salvaged. ``limit``: bytes that one batch may inflate to. ``dry_run``: everything is done
    but writing. ``partial``: of v2 batches whose checksum is right, but which break off inside, the records before."""

    config: LogConfig = field(default_factory=LogConfig)
    limit: int = DEFAULT_LIMIT
    dry_run: bool = False
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """A log file of a partition; ``index``: the path of its offset index, if there is one."""

    path: str
    base_offset: int
    size: int
    index: str | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """One partition to save into ``directory``. ``paths``: its directories, the live one first. ``files``: in the order
    of preference. ``noted_start`` and ``noted_end``: its first offset and its end by the log directory's checkpoints,
    if they say so; ``is_compacted``: whether they say that it was compacted."""

    paths: tuple[PartitionPath, ...]
    files: tuple[Source, ...]
    topic: str
    partition: int
    directory: str
    topic_id: str
    salvage: Salvage
    noted_start: int | None = None
    noted_end: int | None = None
    is_compacted: bool = False
    storage_options: StorageOptions | None = None

    @property
    def name(self) -> str:
        return names.partition_directory(self.topic, self.partition)

    @property
    def size(self) -> int:
        """Bytes to read."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True)
class Result:
    """What was saved of one partition, and what was not. The log has ``start_offset <= offset < end_offset``.
    ``repeated`` and ``overlapping``: sound batches that were left out as others have their offsets, the same batches
    or different ones; ``misplaced``: those whose offset cannot be right. ``damaged``: bytes in no sound batch."""

    task: Task
    start_offset: int
    end_offset: int
    batches: int
    records: int
    bytes: int
    losses: tuple[Loss, ...]
    damaged: int
    repeated: int
    overlapping: int
    misplaced: int
    partial: int = 0
    """Batches of which only some records were saved."""


def plan(
    logs: Sequence[LogDirectory],
    directory: str | os.PathLike[str],
    salvage: Salvage,
    chosen: Callable[[PartitionPath], bool] = lambda _: True,
    include: Collection[str] = (),
    storage_options: StorageOptions | None = None,
) -> list[Task]:
    """A task for each partition. ``include``: with ``delete``, log files that wait for their deletion are read as well.

    Raises :class:`UsageError` if one of them cannot be written: it is there already, it is in two of the paths, its
    name is not known, or ``directory`` is in what is read.
    """
    to = str(output_directory(directory, [log.path for log in logs]))
    tasks: list[Task] = []
    topic_ids: dict[str, str] = {}
    for log in logs:
        notes = load_notes(log, storage_options)
        for paths in _by_partition(log, chosen):
            first = paths[0]
            topic, partition = first.topic or "", first.partition or 0
            other = next((each for each in tasks if (each.topic, each.partition) == (topic, partition)), None)
            if other is not None:
                raise UsageError(f"{other.name} is both in {other.paths[0].path} and in {first.path}; save one by one")
            known = (topic_id_of(each, storage_options) for each in paths)
            topic_id = next(filter(None, known), None) or topic_ids.get(topic) or random_id()
            topic_ids[topic] = topic_id
            lines = {name: offset for name, (_, offset) in notes.of(first).items()}
            ends = [lines[n] for n in (names.RECOVERY_POINT_CHECKPOINT, names.HIGH_WATERMARK_CHECKPOINT) if n in lines]
            task = Task(
                tuple(paths),
                tuple(_files(paths, include)),
                topic,
                partition,
                to,
                topic_id,
                salvage,
                lines.get(names.LOG_START_OFFSET_CHECKPOINT),
                max(ends, default=None),
                names.CLEANER_CHECKPOINT in lines,
                storage_options,
            )
            if os.path.lexists(Path(to) / task.name):
                raise UsageError(f"{Path(to) / task.name}: this partition exists already; write to another directory")
            tasks.append(task)
    return tasks


def salvage(tasks: Sequence[Task], report: Report, done: Callable[[int], object] = lambda _: None) -> Iterator[Result]:
    """Runs tasks one by one. ``report`` is called with what was left out though it is sound, ``done`` with the bytes
    that were read (and again with those that were written)."""
    for task in tasks:
        yield run(task, report, done)


def run(task: Task, report: Report, done: Callable[[int], object]) -> Result:
    """Saves one partition."""
    sound, regions = _read(task, report, done)
    bases = np.array([file.base_offset for file in task.files], np.int64)
    choice = choose(sound, bases, task.noted_end)
    _tell(task, sound, choice, report)
    saved = sound[choice.taken]
    regions += [(_as_region(task, sound, row), _following(sound, row)) for row in choice.misplaced.tolist()]
    first_base = int(bases.min()) if len(bases) else 0
    begin = min(first_base, int(saved["first"][0])) if len(saved) else first_base
    live_end = max((each.base_offset for each in task.paths[0].segments), default=0)
    end = max(live_end, task.noted_end or 0, int(saved["last"][-1]) + 1 if len(saved) else 0)
    live_begin = min((each.base_offset for each in task.paths[0].segments), default=begin)
    start = max(begin, task.noted_start or 0)
    start = (
        start if begin == live_begin and start <= end else begin
    )  # what was deleted is to be seen if it was asked for
    if not task.salvage.dry_run:
        taken = _write(task, saved, begin, start, end, report, done)
        regions += [(_as_region(task, saved, row), _following(saved, row)) for row in np.flatnonzero(~taken).tolist()]
        saved = saved[taken]
    gaps = are_side_by_side(saved)[1:] & (saved["first"][1:] > saved["last"][:-1] + 1)
    is_compacted = task.is_compacted or bool(sound["compacted"].any() or gaps.any())
    losses = find_losses(saved, regions, start, max(end, _indexed_end(task)), is_compacted)
    return Result(
        task,
        start,
        end,
        len(saved),
        int(saved["records"].sum()),
        int(saved["size"].sum()),
        tuple(losses),
        sum(region.size for region, _ in regions if not region.is_empty),
        len(choice.repeated),
        len(choice.overlapping),
        len(choice.misplaced),
        int(saved["partial"].sum()),
    )


def _by_partition(log: LogDirectory, chosen: Callable[[PartitionPath], bool]) -> list[list[PartitionPath]]:
    """The directories of each partition, the live one first."""
    found: dict[tuple[str, int], list[PartitionPath]] = {}
    for each in log.partitions:
        if each.topic is None or each.partition is None:
            text = "which partition this is cannot be told; give its directory, as orders-0, or carve it"
            raise UsageError(f"{each.path}: {text}")
        if chosen(each):
            found.setdefault((each.topic, each.partition), []).append(each)
    return [sorted(paths, key=lambda each: each.state != "live") for paths in found.values()]


def _files(paths: Sequence[PartitionPath], include: Collection[str]) -> Iterator[Source]:
    states = {"swap", "deleted"} if "delete" in include else {"swap"}
    for each in paths:
        for segment in each.segments:
            index = None if segment.offset_index is None else segment.offset_index.path
            yield Source(segment.log.path, segment.base_offset, segment.log.size or 0, index)
    for each in paths:
        for entry in each.leftovers:
            named = names.parse_segment_file(entry.name)
            if named is not None and named.kind == "log" and named.state in states:
                yield Source(entry.path, named.offset, entry.size or 0)


def _read(
    task: Task, report: Report, done: Callable[[int], object]
) -> tuple[NDArray[np.void], list[tuple[Region, int]]]:
    """All sound batches, by file and position; and what else is in the files, with the offset before which it was."""
    sound: list[NDArray[np.void]] = [np.zeros(0, SOUND)]
    regions: list[tuple[Region, int]] = []
    bases = sorted({file.base_offset for file in task.files})
    for number, source in enumerate(task.files):
        waiting: list[Region] = []
        following = next((base for base in bases if base > source.base_offset), TO_THE_END)
        try:
            with open_file(source.path, task.storage_options) as file:
                for found in find_sound(file, task.salvage.limit, task.salvage.partial):
                    if isinstance(found, Region):
                        waiting.append(found if found.after is not None else _from(found, source.base_offset))
                        continue
                    found["file"] = number
                    regions += [(region, int(found["first"][0])) for region in waiting]
                    waiting.clear()
                    sound.append(found)
                    done(int(found["size"].sum()))
        except UnreadableError as error:
            reason = str(error).removeprefix(f"{source.path}: ")
            report(Finding("error", "unreadable-file", source.path, None, source.base_offset, reason))
            after = source.base_offset
            waiting.append(Region(source.path, 0, source.size, "unreadable-file", reason, after, after))
        regions += [(region, following) for region in waiting]
    return np.concatenate(sound), regions


def _from(region: Region, base_offset: int) -> Region:
    kind, text = region.kind, region.message
    return Region(region.file, region.position, region.end, kind, text, base_offset, region.offset)


def _as_region(task: Task, batches: NDArray[np.void], row: int) -> Region:
    """A sound batch that is not in the log."""
    each = batches[row]
    position, offset = int(each["position"]), int(each["first"])
    after = int(batches["last"][row - 1]) + 1 if row else task.files[int(each["file"])].base_offset
    path, text = task.files[int(each["file"])].path, "a batch whose offset cannot be right"
    return Region(path, position, position + int(each["size"]), "offset-misplaced", text, after, offset)


def _following(batches: NDArray[np.void], row: int) -> int:
    return int(batches["first"][row + 1]) if row + 1 < len(batches) else TO_THE_END


def _tell(task: Task, sound: NDArray[np.void], choice: Choice, report: Report) -> None:
    for rows, kind, text in (
        (
            choice.misplaced,
            "offset-misplaced",
            "left out: a sound batch whose offset, which no checksum covers, is wrong",
        ),
        (choice.overlapping, "offset-overlap", "left out: another batch with some of these offsets was taken"),
    ):
        for row in rows.tolist():
            each = sound[row]
            place = task.files[int(each["file"])].path, int(each["position"]), int(each["first"])
            report(Finding("warning", kind, *place, text))


def _write(
    task: Task,
    saved: NDArray[np.void],
    begin: int,
    start: int,
    end: int,
    report: Report,
    done: Callable[[int], object],
) -> NDArray[np.bool_]:
    with ExitStack() as stack:
        Path(task.directory).mkdir(parents=True, exist_ok=True)
        output = stack.enter_context(
            PartitionOutput(
                task.directory,
                task.topic,
                task.partition,
                task.salvage.config,
                start_offset=begin,
                topic_id=task.topic_id,
            )
        )
        files = [file.path for file in task.files]
        taken = write_batches(output, saved, files, report, done, task.salvage.limit, task.storage_options)
        output.set_limits(start, end, _epochs(task, end))
        output.commit()
    return taken


def _epochs(task: Task, end: int) -> Epochs:
    """Leader epochs as the source notes them, if the note is sound; otherwise they are those of the batches."""
    for each in task.paths:
        if each.leader_epoch_checkpoint is not None:
            loaded = load_leader_epochs(each.leader_epoch_checkpoint.path, task.storage_options)
            if not loaded.findings:
                return truncate_from_end(epochs_of(loaded), end)
    return ()


def _indexed_end(task: Task) -> int:
    """Where the log ends at least, by what stands beside the live segments."""
    end = 0
    for file in task.files:
        if file.index is None:
            continue
        index = load_offset_index(file.index, file.base_offset, task.storage_options)
        if index.is_sound and len(index.offsets):
            end = max(end, int(index.offsets[-1]) + 1)
    for entry in task.paths[0].producer_snapshots:
        named = names.parse_segment_file(entry.name)
        end = max(end, 0 if named is None else named.offset)
    return end
