"""Reads several partitions at the same time, in threads, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from queue import Empty, Full, Queue
from threading import Event, Thread

import pyarrow as pa

ReadTable = Callable[[], Iterator[pa.RecordBatch]]
_WAIT = 0.1
"""Seconds after which a thread looks whether anybody still waits for it."""


def read_all(reads: Sequence[ReadTable], threads: int) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of several readers: with one thread, or one reader, one reader's after the other's. Else
    as they come, of each in its order; no more than two for each thread are held. Raises what a reader raises."""
    if threads < 2 or len(reads) < 2:
        for read in reads:
            yield from read()
        return
    waiting: Queue[ReadTable] = Queue()
    for read in reads:
        waiting.put(read)
    done: Queue[pa.RecordBatch | BaseException | None] = Queue(2 * threads)
    stopped = Event()
    workers = [
        Thread(target=_work, args=(waiting, done, stopped), daemon=True) for _ in range(min(threads, len(reads)))
    ]
    for each in workers:
        each.start()
    try:
        working = len(workers)
        while working:
            found = done.get()
            if found is None:
                working -= 1
            elif isinstance(found, BaseException):
                raise found
            else:
                yield found
            del found
    finally:
        stopped.set()
        for each in workers:
            each.join()


def _work(waiting: Queue[ReadTable], done: Queue[pa.RecordBatch | BaseException | None], stopped: Event) -> None:
    """Takes readers until there is none left."""

    def put(found: pa.RecordBatch | BaseException | None) -> bool:
        while not stopped.is_set():
            try:
                done.put(found, timeout=_WAIT)
            except Full:
                continue
            return True
        return False

    try:
        while not stopped.is_set():
            try:
                read = waiting.get_nowait()
            except Empty:
                break
            for batch in read():
                if not put(batch):
                    return
                del batch
    except BaseException as error:  # whoever takes the batches raises it
        put(error)
        return
    put(None)
