"""Reads one partition's files as one log: its intact batches, and what is missing."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from brokerless.clusters.directory_state import DirectoryState, load_directory_state
from brokerless.errors import UnreadableError
from brokerless.findings import BEFORE_FIRST_SEGMENT, Finding, Kind
from brokerless.format.read.batch_headers import read_headers
from brokerless.jobs.recovered.damaged_regions import BoundedList, PlacedRegion, Region, bounded_regions
from brokerless.jobs.recovered.intact_batches import INTACT_BATCH, find_intact_batches
from brokerless.jobs.recovered.losses import TO_THE_END, Loss, are_side_by_side, find_losses
from brokerless.jobs.recovered.open_files import LogFile, OpenFiles, sources_of
from brokerless.log import names
from brokerless.log.checkpoint.leader_epochs import Epochs, epochs_of, load_leader_epochs, truncate_from_end
from brokerless.log.completion.removed import unfinished_logs
from brokerless.log.directory import PartitionPath, resolve
from brokerless.log.index.readers import load_offset_index
from brokerless.log.live_segments import ReplacedError, check_permitted, list_again
from brokerless.log.offset_gaps import missing_logs
from brokerless.log.offsets_once.parts import decode_batch
from brokerless.log.offsets_once.records import runs_of
from brokerless.log.offsets_once.selection import BatchSelection, Logs, choose
from brokerless.log.storage.location import DirectoryEntry
from brokerless.offset_spans import Span
from brokerless.progress import Done, Report, ignore

Regions = list[PlacedRegion]
"""What is not intact; after the last intact batch, it was before ``TO_THE_END``."""


@dataclass(frozen=True, slots=True)
class PartitionFiles:
    """A partition's files, and what the log directory's checkpoints record of it."""

    paths: tuple[PartitionPath, ...]
    """Its directories, the live one first."""
    files: tuple[LogFile, ...]
    """Its log files, in the order of preference."""
    checkpointed_start: int | None = None
    """Its first offset by the checkpoints; None if that is not recorded."""
    checkpointed_end: int | None = None
    """Its end by the checkpoints; None if that is not recorded."""
    high_watermark: int | None = None
    """Its high watermark by the checkpoints; None if that is not recorded."""
    cleaned_until: int | None = None
    """Up to which offset it was compacted."""
    include: tuple[str, ...] = ()
    """With ``delete``, log files that wait for their deletion are among the files."""
    limit: int | None = None
    """The offset before which the log is read, as it was when it ended there; None for all of it."""

    @property
    def size(self) -> int:
        """Bytes to read."""
        return sum(file.size for file in self.files)

    @property
    def unreadable(self) -> tuple[Finding, ...]:
        """What is wrong with directories that could not be listed."""
        return tuple(finding for each in self.paths for finding in each.findings if finding.severity == "error")

    @property
    def left_out(self) -> tuple[Finding, ...]:
        """What listing says of offsets that are in no file here: segments of a bucket that are not read, or what is in
        one that was not given; and of a name that is not known whole."""
        kinds = Kind.TOPIC_NAME_CUT, *BEFORE_FIRST_SEGMENT
        found = (finding for each in self.paths for finding in each.findings if finding.severity != "error")
        return tuple(each for each in found if each.kind in kinds or (each.leaves_out and _is_of_bucket(each)))

    @property
    def is_unreadable(self) -> bool:
        """Whether nothing of it can be known, which is not the same as a partition without a file."""
        return bool(self.unreadable) and not self.files


@dataclass(frozen=True, slots=True)
class RecoveredLog:
    """The log that is in a partition's files. It has ``start <= offset < end``."""

    files: PartitionFiles
    intact: NDArray[np.void]
    """All intact batches of the files."""
    choice: BatchSelection
    """What became of each intact batch."""
    saved: NDArray[np.void]
    """The log's batches (:data:`INTACT_BATCH`), by offset."""
    regions: Regions
    begin: int
    """The offset at which its first segment begins."""
    start: int
    end: int
    lost: tuple[range, ...] = ()
    """Offsets of segments of which only an index is left."""

    def is_compacted(self, saved: NDArray[np.void]) -> bool:
        gaps = are_side_by_side(saved)[1:] & (saved["first"][1:] > saved["last"][:-1] + 1)
        is_known = self.files.cleaned_until is not None or self.files.paths[0].topic in names.COMPACTED_BY_KAFKA
        return is_known or bool(self.intact["compacted"].any() or gaps.any())

    def losses(self, saved: NDArray[np.void], regions: Regions) -> Iterator[Loss]:
        """Return what is missing if these batches are saved."""
        end = max([self.end, _indexed_end(self.files), *(each.stop for each in self.lost)])
        end = limited_to(self.files.limit, end)
        start = min([self.start, *(each.start for each in self.lost)])
        last = max((each.base_offset for each in self.files.paths[0].segments), default=None)
        return find_losses(
            saved, regions, start, end_offset=end, is_compacted=self.is_compacted(saved), is_end_empty=end == last
        )

    def with_unsaved(
        self, saved: NDArray[np.void], taken: NDArray[np.bool_], shrunk: Collection[tuple[str, int | None]] = ()
    ) -> Regions:
        """Return the regions, and those batches that could not be written after all. ``shrunk``: files and positions of
        those that were cut off before they were read again."""
        regions = bounded_regions()
        regions.add(self.regions)
        for row in np.flatnonzero(~taken).tolist():
            region = _as_region(self.files, saved, row)
            if (region.file, region.position) in shrunk:
                region = replace(region, kind=Kind.FILE_SHRUNK, message="the file became shorter while it was read")
            regions.add([(region, _following(saved, row))])
        return regions.items


def describe_files(
    paths: Sequence[PartitionPath], state: DirectoryState, include: Collection[str] = ()
) -> PartitionFiles:
    """Return the files of a partition's directories. ``include``: with ``delete``, log files that wait for their
    deletion.

    Raises :class:`UnreadableError` for one that this user may not read.
    """
    check_permitted(paths)
    lines = {name: offset for name, (_, offset) in state.of(paths[0]).items()}
    ends = [lines[name] for name in (names.RECOVERY_POINT_CHECKPOINT, names.HIGH_WATERMARK_CHECKPOINT) if name in lines]
    return PartitionFiles(
        tuple(paths),
        tuple(_files(paths, include)),
        lines.get(names.LOG_START_OFFSET_CHECKPOINT),
        checkpointed_end=max(ends, default=None),
        high_watermark=lines.get(names.HIGH_WATERMARK_CHECKPOINT),
        cleaned_until=lines.get(names.CLEANER_CHECKPOINT),
        include=tuple(include),
    )


def list_files_again(files: PartitionFiles) -> PartitionFiles:
    """List a partition's files again, as they are now; directories that cannot be listed any more stay as they were."""
    paths = [list_again(each, ignore) or each for each in files.paths]
    try:
        state = load_directory_state(resolve(paths[0].location))
    except UnreadableError:
        return files
    return up_to(describe_files(paths, state, files.include), files.limit)


def up_to(files: PartitionFiles, limit: int | None) -> PartitionFiles:
    """Return what of a partition's files is of the log as it was when it ended at ``limit``; all for None."""
    if limit is None:
        return files

    def before(entry: DirectoryEntry) -> bool:
        named = names.parse_segment_file(entry.name)
        return named is None or named.offset <= limit

    paths = tuple(
        replace(
            each,
            segments=tuple(segment for segment in each.segments if segment.base_offset <= limit),
            producer_snapshots=tuple(filter(before, each.producer_snapshots)),
            orphaned_files=tuple(filter(before, each.orphaned_files)),
        )
        for each in files.paths
    )
    bounds = {
        name: None if (value := getattr(files, name)) is None else min(value, limit)
        for name in ("checkpointed_start", "checkpointed_end", "high_watermark")
    }
    own = tuple(each for each in files.files if each.base_offset <= limit)
    return replace(files, paths=paths, files=own, limit=limit, **bounds)


def limited_to(limit: int | None, offset: int) -> int:
    """Return an offset, or the limit where that is lower."""
    return offset if limit is None else min(offset, limit)


def find_log(
    files: PartitionFiles,
    opened: OpenFiles,
    max_batch_bytes: int,
    partial: bool,
    report: Report,
    done: Done,
    first: int = 0,
) -> RecoveredLog:
    """Reads all of the files, which are in ``opened`` from number ``first`` on. ``max_batch_bytes``: bytes that one
    batch may inflate to; ``partial``: of v2 batches that break off inside, the records before. ``report`` gets what is
    left out though it is intact. Raises :class:`ReplacedError` where a file is not the one that was listed, and
    :class:`UnreadableError` for one that this user may not read, or that no key pair fits."""
    for finding in (*files.unreadable, *files.left_out):
        report(finding)
    intact, regions = _read(
        files, opened, first, max_batch_bytes=max_batch_bytes, partial=partial, report=report, done=done
    )
    bases = np.array([file.base_offset for file in files.files], np.int64)
    runs = lambda batch: _offsets_of_batch(batch, opened, first, max_batch_bytes)  # noqa: E731
    intact, choice = choose(intact, Logs(bases, _logs(files.files), runs, files.checkpointed_end))
    _report(files, intact, choice, report)
    saved = intact[choice.taken]
    regions.add((_as_region(files, intact, row), _following(intact, row)) for row in choice.misplaced.tolist())
    first_base = int(bases.min()) if len(bases) else files.limit or 0
    begin = min(first_base, int(saved["first"][0])) if len(saved) else first_base
    live = [each.base_offset for each in files.paths[0].segments]
    end = max(max(live, default=begin), files.checkpointed_end or 0, int(saved["last"][-1]) + 1 if len(saved) else 0)
    regions.add(_not_taken(files, intact, choice.lost, end))
    start = max(begin, files.checkpointed_start or 0)
    # What was deleted is to be seen if it was selected.
    start = start if begin == min(live, default=begin) and start <= end else begin
    missing = (*(offsets for offsets, _ in missing_logs(files.paths[0])), *_in_bucket(files, bases))
    lost = tuple(each for each in missing if files.limit is None or each.start < files.limit)
    return RecoveredLog(
        files, intact, choice, saved=saved, regions=regions.items, begin=begin, start=start, end=end, lost=lost
    )


def _offsets_of_batch(batch: NDArray[np.void], files: OpenFiles, first: int, max_batch_bytes: int) -> list[Span]:
    """The offsets of an intact batch's records (:data:`INTACT_BATCH`, shape ``(1,)``), whose ``file`` counts from
    ``first`` on; all that its header says where it cannot be read any more."""
    number, position, size, begin, last = (
        int(batch[name][0]) for name in ("file", "position", "size", "first", "last")
    )
    buffer = files.get(first + number).read(position, size)
    columns = None
    if len(buffer) == size:
        columns = decode_batch(buffer, read_headers(buffer, np.zeros(1, np.int64)), max_batch_bytes)
        if columns is None:
            return []
    return [(begin, last + 1)] if columns is None else runs_of(columns.offset[: columns.rows])


def _is_of_bucket(finding: Finding) -> bool:
    """Return whether a finding is about a remote segment or its objects."""
    return finding.kind.startswith("remote-")


def _in_bucket(files: PartitionFiles, bases: NDArray[np.int64]) -> Iterator[range]:
    """Offsets of segments of a bucket that are not read: up to the next segment, or the first of each alone where there
    is none. ``bases``: of the segments that are read."""
    found = (*files.unreadable, *files.left_out)
    starts = {each.offset for each in found if each.offset is not None and each.leaves_out and _is_of_bucket(each)}
    for start in sorted(starts - set(bases.tolist())):
        after = bases[bases > start]
        yield range(start, int(after.min()) if len(after) else start + 1)


def recorded_epochs(files: PartitionFiles, end: int) -> Epochs:
    """Leader epochs as the source records them, if its checkpoint is intact; otherwise they are those of the
    batches."""
    for each in files.paths:
        if each.leader_epoch_checkpoint is not None:
            loaded = load_leader_epochs(each.leader_epoch_checkpoint.location)
            if not loaded.findings:
                return truncate_from_end(epochs_of(loaded), end)
    return ()


def _files(paths: Sequence[PartitionPath], include: Collection[str]) -> Iterator[LogFile]:
    """The segments, and of partitions as they lie what a start puts in their place, or removes although it is the only
    file with some offsets. ``include``: as :func:`describe_files`."""
    with_deleted = bool({"delete", "deleted"} & set(include))
    for each in paths:
        yield from sources_of(each)
    for each in paths:
        completion, others = each.completion, list[tuple[int, DirectoryEntry]]()
        if completion.as_it_lies:
            others += ((base, entry) for base, entry in completion.logs.items() if entry.name.endswith(".swap"))
            others += ((one.file.offset, one.entry) for one in unfinished_logs(completion))
        deleted = completion.removed("deleted") if with_deleted else ()
        others += ((one.file.offset, one.entry) for one in deleted if one.file.kind == "log")
        for base_offset, entry in sorted(others, key=lambda other: other[1].name):
            yield LogFile(entry.location, base_offset, entry.size or 0, index=None, entry=entry)


def _logs(sources: Sequence[LogFile]) -> NDArray[np.int64]:
    """To which log each file belongs: a number for each directory; -1 for files that wait for their deletion."""
    directories: dict[str, int] = {}
    logs = np.full(len(sources), -1, np.int64)
    for number, each in enumerate(sources):
        directory, name = os.path.split(each.path)
        named = names.parse_segment_file(name)
        if named is None or named.state == "live":
            logs[number] = directories.setdefault(directory, len(directories))
    return logs


def _read(
    files: PartitionFiles,
    opened: OpenFiles,
    first: int,
    max_batch_bytes: int,
    partial: bool,
    report: Report,
    done: Done,
) -> tuple[NDArray[np.void], BoundedList[PlacedRegion]]:
    """All intact batches, by file and position; and what else is in the files."""
    intact: list[NDArray[np.void]] = [np.zeros(0, INTACT_BATCH)]
    regions = bounded_regions()
    bases = sorted({file.base_offset for file in files.files})
    for number, source in enumerate(files.files):
        waiting = bounded_regions()  # of which is not known yet before which offset they were
        following = next((base for base in bases if base > source.base_offset), TO_THE_END)
        try:
            for found in find_intact_batches(opened.get(first + number), max_batch_bytes, partial):
                if isinstance(found, Region):
                    if (
                        found.kind == Kind.MESSAGE_CHECKSUM_MISMATCH
                    ):  # not all of its records are lost, and maybe not seen
                        report(
                            found.kind.at(
                                found.file,
                                found.message,
                                severity="warning",
                                position=found.position,
                                offset=found.offset,
                            )
                        )
                    waiting.add([_from(found, source.base_offset)])
                    continue
                found["file"] = number
                before = int(found["first"][0])
                _add_placed(regions, waiting, before, files.limit)
                waiting.clear()
                intact.append(found if files.limit is None else found[found["last"] < files.limit])
                done(int(found["size"].sum()))
            opened.release(first + number)
        except ReplacedError:
            raise
        except UnreadableError as error:
            if error.kind == Kind.PERMISSION_DENIED:
                raise
            if error.kind == Kind.REMOTE_KEY_MISSING:  # an empty log in its place would pass for what was there
                raise UnreadableError(source.path, error.reason, error.kind) from error
            after, reason = source.base_offset, error.reason_for(source.path)
            report(error.finding(source.path, after))
            region = Region(
                source.path, 0, source.size, kind=Kind.UNREADABLE_FILE, message=reason, after=after, offset=after
            )
            waiting.add([(region, after)])
        _add_placed(regions, waiting, following, files.limit)
    return np.concatenate(intact), regions


def _add_placed(
    regions: BoundedList[PlacedRegion], waiting: BoundedList[PlacedRegion], before: int, limit: int | None
) -> None:
    """Add what was before an offset, and of a log with a limit what was before that."""
    found = (region for region, after in waiting.items if limit is None or after < limit)
    regions.add((region, limited_to(limit, before)) for region in found)


def _from(region: Region, base_offset: int) -> PlacedRegion:
    after = base_offset if region.after is None else region.after
    return replace(region, after=after), after


def _as_region(files: PartitionFiles, batches: NDArray[np.void], row: int) -> Region:
    """An intact batch that is not in the log."""
    each = batches[row]
    position, offset = int(each["position"]), int(each["first"])
    after = int(batches["last"][row - 1]) + 1 if row else files.files[int(each["file"])].base_offset
    path, text = files.files[int(each["file"])].path, "a batch whose offset cannot be right"
    return Region(
        path,
        position,
        position + int(each["size"]),
        kind=Kind.OFFSET_MISPLACED,
        message=text,
        after=after,
        offset=offset,
    )


def _not_taken(
    files: PartitionFiles, batches: NDArray[np.void], lost: Mapping[int, list[Span]], end: int
) -> Iterator[PlacedRegion]:
    """Intact batches of which offsets are in no batch that was taken, each with the offset before which these are."""
    for row, spans in lost.items():
        text = "a batch that begins among the offsets of others, and is not next to them"
        region = replace(_as_region(files, batches, row), kind=Kind.OFFSET_OVERLAP, message=text, after=spans[0][0])
        within = [min(last, end) for first, last in spans if first < end]
        if within:
            yield region, within[-1]
            region = replace(region, after=end, damaged=0)
        if spans[-1][1] > end:
            yield region, TO_THE_END


def _following(batches: NDArray[np.void], row: int) -> int:
    return int(batches["first"][row + 1]) if row + 1 < len(batches) else TO_THE_END


def _report(files: PartitionFiles, intact: NDArray[np.void], choice: BatchSelection, report: Report) -> None:
    for rows, kind, text in (
        (
            choice.misplaced,
            Kind.OFFSET_MISPLACED,
            "left out: an intact batch whose offset, which no checksum covers, is wrong",
        ),
        (choice.overlapping, Kind.OFFSET_OVERLAP, "left out: another batch with some of these offsets was taken"),
        (
            choice.cut,
            Kind.OFFSET_OVERLAP,
            "only its records from this offset on were taken: batches before have the rest",
        ),
    ):
        for row in rows.tolist():
            each = intact[row]
            report(
                kind.at(
                    files.files[int(each["file"])].path,
                    text,
                    severity="warning",
                    position=int(each["position"]),
                    offset=int(each["first"]),
                )
            )


def _indexed_end(files: PartitionFiles) -> int:
    """Return where the log ends at least, by what stands beside the live segments."""
    end = 0
    for file in files.files:
        if file.index is None:
            continue
        index = load_offset_index(file.index, file.base_offset)
        if not index.is_valid or not len(index.offsets):
            continue
        last = int(index.offsets[-1])
        # A flipped bit may have made it anything; with fewer bytes than offsets before it, nothing is believed.
        if last - file.base_offset <= index.positions[-1]:
            end = max(end, last + 1)
    for entry in files.paths[0].producer_snapshots:
        named = names.parse_segment_file(entry.name)
        end = max(end, 0 if named is None else named.offset)
    return end
