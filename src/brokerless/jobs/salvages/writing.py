"""Sound batches of some files -> a new partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import Finding, RefusedError
from brokerless.format import layouts
from brokerless.log.bulk import PartitionOutput
from brokerless.log.segment import Report
from brokerless.log.storage import File, StorageOptions, open_file

_PIECE = 8 << 20
_OPEN = 16
"""Files that are open at once."""


def write_batches(
    output: PartitionOutput,
    saved: NDArray[np.void],
    paths: Sequence[str],
    report: Report,
    done: Callable[[int], object],
    storage_options: StorageOptions | None = None,
) -> NDArray[np.bool_]:
    """Appends batches, by offset, and says which of them the log took (bool); why not is reported."""
    taken = np.ones(len(saved), np.bool_)
    with _Files(paths, storage_options) as files:
        for start, end in _pieces(saved):
            piece = saved[start:end]
            buffers = list(_copies(piece, files))
            try:
                output.append(buffers[0] if len(buffers) == 1 else np.concatenate(buffers))
            except RefusedError:
                for row in range(start, end):
                    try:
                        output.append(np.concatenate(list(_copies(saved[row : row + 1], files))))
                    except RefusedError as error:
                        taken[row] = False
                        path, position = paths[int(saved["file"][row])], int(saved["position"][row])
                        text = f"a log does not take this batch: {error}"
                        report(Finding("error", "batch-refused", path, position, int(saved["first"][row]), text))
            del buffers
            done(int(piece["size"].sum()))
    return taken


def _pieces(saved: NDArray[np.void]) -> Iterator[tuple[int, int]]:
    start = 0
    ends = np.cumsum(saved["size"])
    while start < len(saved):
        before = int(ends[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(ends, before + _PIECE, side="right")))
        yield start, end
        start = end


def _copies(piece: NDArray[np.void], files: _Files) -> Iterator[NDArray[np.uint8]]:
    """The bytes of batches, those that are side by side at once."""
    apart = (piece["file"][1:] != piece["file"][:-1]) | (
        piece["position"][1:] != piece["position"][:-1] + piece["size"][:-1]
    )
    starts = [0, *(np.flatnonzero(apart) + 1).tolist()]
    for start, end in zip(starts, [*starts[1:], len(piece)], strict=True):
        position = int(piece["position"][start])
        size = int(piece["position"][end - 1] + piece["size"][end - 1]) - position
        file = files.get(int(piece["file"][start]))
        buffer = file.read(position, size)
        changed = np.flatnonzero(piece["magic"][start:end] > layouts.MAGIC_V2)
        if len(changed):
            # Kafka's reader takes every larger magic for 2, and so was the checksum right; a log has to say 2.
            buffer = buffer.copy()
            buffer[piece["position"][start:end][changed] - position + layouts.MAGIC_POSITION] = layouts.MAGIC_V2
        yield buffer


class _Files:
    """Files by number, of which a few are open."""

    def __init__(self, paths: Sequence[str], storage_options: StorageOptions | None) -> None:
        self._paths, self._options = paths, storage_options
        self._open: dict[int, File] = {}

    def get(self, number: int) -> File:
        if number not in self._open:
            if len(self._open) == _OPEN:
                self._open.pop(next(iter(self._open))).close()
            self._open[number] = open_file(self._paths[number], self._options)
        return self._open[number]

    def __enter__(self) -> _Files:
        return self

    def __exit__(self, *_: object) -> None:
        with ExitStack() as stack:
            for file in self._open.values():
                stack.callback(file.close)
