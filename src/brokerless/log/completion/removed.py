"""Finds the offsets that a start deletes although no file that stays has them.

A start deletes files by names and by where ``.swap`` files end, not by what is in them. So it may delete the only file
that has some offsets: segments between two ``.swap`` files, or after the end of one that was cut off.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from brokerless.log import names
from brokerless.log.completion.files import Completion, Removal, RemovalReason, end_of_log
from brokerless.offset_spans import Span, union, without


def unfinished_logs(completion: Completion) -> Iterator[Removal]:
    """Yield the logs of ``.swap`` files that a start removes, and those of ``.cleaned`` files of which no file that
    stays is the one that they were to replace."""
    kept = completion.logs
    for each in completion.removed("cleaned", "swap-unfinished"):
        if each.file.kind == "log" and (each.reason == "swap-unfinished" or each.file.offset not in kept):
            yield each


def with_lost(completion: Completion) -> Completion:
    """Add to a completion what is lost by it."""
    lost = tuple(only_removed(completion))
    return replace(completion, lost=lost) if lost else completion


def only_removed(completion: Completion) -> Iterator[tuple[Removal, tuple[Span, ...]]]:
    """Yield each log that a start removes, and that has offsets which no file that stays has, with these.

    What a compaction took is not missing: where a ``.swap`` file shows that it is a compaction's output and is not cut
    off, all of a segment that begins in it was compacted, unless the log would end before it: compactions leave the
    last segment alone. What waits for its deletion is nobody's any more. Offsets that several have are those of the
    first: of a segment, of a ``.swap`` file, and then of a ``.cleaned`` one.
    """
    kept = completion.logs
    reasons: tuple[RemovalReason, ...] = ("replaced", "swap-unfinished", "cleaned")
    logs = [each for reason in reasons for each in completion.removed(reason) if each.file.kind == "log"]
    # What was being written is a part of the segment that it was to replace.
    logs = [each for each in logs if each.reason == "replaced" or each.file.offset not in kept]
    if not logs:
        return
    from brokerless.log.completion.offsets import offsets_of  # it imports NumPy

    swapped = {name for _, name in completion.rename}
    swaps = {
        base: offsets_of(entry, base) for base, entry in kept.items() if names.segment_file(base, "log") in swapped
    }
    last = max(kept, default=0)
    named: list[Span] = []
    for each in logs:
        own = offsets_of(each.entry, each.file.offset).spans
        there = [*named]
        for base, entry in kept.items():
            if not own or base >= own[-1][1]:
                continue
            if (swap := swaps.get(base)) is None:
                index = completion.live.get(names.segment_file(base, "offset-index"))
                there.append((base, end_of_log(entry, base, index)))
            else:
                is_all = swap.is_compacted and not swap.is_cut and base <= each.file.offset < swap.end and base < last
                there.append((base, own[-1][1] if is_all else swap.end))
        if spans := without(own, union(there)):
            named += spans
            yield each, tuple(spans)
