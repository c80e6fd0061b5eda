"""Remote segments of tiered storage, in the layout of Aiven's plugin: on a disk, and in a store that answers late."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.log.tiered import key_pairs
from tests.once import made_once

from benchmarks import data
from benchmarks.bucket import KEY_ID, Form, write_bucket
from benchmarks.measure import BenchmarkError, Pass, Side, Workload, python, warm_process
from benchmarks.object_server import serving
from benchmarks.scale import DEEP, write_segments
from brokerless.log.tiered.manifest import ENCRYPTED

SEGMENT = 192 << 20
"""Bytes of a segment: the data set has four without a codec, and two of lz4."""
DELAY = 0.03
"""Seconds that each request to the store takes longer."""
PLANNED = 1000
"""Segments for which a query is planned."""
LOOK_UPS = 10
_FORMS = {"plain": (False, False), "zstd": (True, False), "encrypted": (False, True), "zstd-encrypted": (True, True)}
_TRANSFORMED = ("zstd", "encrypted", "zstd-encrypted")


def workloads(records: int) -> Iterator[Workload]:
    for codec in ("none", "lz4"):
        yield Workload(
            f"tiered-plain-{codec}",
            "records/s",
            ours=in_python("read_bucket", codec, "plain", records),
            anchor="the same segments as files",
            theirs=in_python("read_files", codec, "plain", records),
        )
    for form in _TRANSFORMED:
        yield Workload(
            f"tiered-{form}",
            "records/s",
            ours=in_python("read_bucket", "none", form, records),
            anchor="the libraries alone, then the files",
            theirs=in_python("undo_and_read_files", "none", form, records),
            floor=in_python("undo", "none", form, records),
        )
    for codec, form in (("none", "plain"), ("lz4", "plain"), ("none", "zstd"), ("none", "zstd-encrypted")):
        yield Workload(
            f"tiered-s3-{form}-{codec}",
            "records/s",
            ours=from_store("read_bucket", codec, form, records, DELAY),
            anchor="the same store without delay",
            theirs=from_store("read_bucket", codec, form, records, 0),
            cores=2,
        )
    for form in ("plain", "zstd-encrypted"):
        yield Workload(
            f"tiered-s3-look-up-{form}",
            "s",
            ours=from_store("look_up", "lz4", form, records, DELAY, LOOK_UPS),
            anchor="three requests, one after the other",
            theirs=from_store("three_requests", "lz4", form, records, DELAY, LOOK_UPS),
        )
    yield Workload(
        "tiered-s3-plan",
        "s",
        ours=planning(DELAY),
        anchor="the same segments as files",
        theirs=lambda: warm_process(python(f"{__name__}:plan", str(many_segments() / "log"), "{}")),
        cores=2,
    )


def log_directory(codec: str, records: int) -> Path:
    """The data set's partition of a codec, cut into segments, with indexes: in a log directory of its own."""

    def write(target: Path) -> None:
        import brokerless

        source = data.segment(codec, records).parent
        for _ in brokerless.open(str(source)).convert(str(target / "log"), segment_bytes=SEGMENT):
            pass

    return made_once(data.CACHE / f"cut-{codec}-{data.events(records).name}", write) / "log"


def bucket(codec: str, form: str, records: int) -> Path:
    """The same as remote segments."""
    is_compressed, is_encrypted = _FORMS[form]

    def write(target: Path) -> None:
        key = key_pairs()[KEY_ID].read_bytes() if is_encrypted else None
        for each in log_directory(codec, records).glob("events-*"):
            write_bucket(each, target, Form(is_compressed, key))

    version = hashlib.sha256(Path(write_bucket.__code__.co_filename).read_bytes()).hexdigest()[:8]
    return made_once(data.CACHE / f"bucket-{codec}-{form}-{data.events(records).name}-{version}", write)


def in_python(function: str, codec: str, form: str, records: int) -> Side:
    def ready() -> contextlib.AbstractContextManager[Callable[[], Pass]]:
        path = log_directory(codec, records) if function == "read_files" else bucket(codec, form, records)
        files = str(log_directory(codec, records))
        return warm_process(python(f"{__name__}:{function}", str(path), "{}", files, str(records)))

    return ready


def from_store(function: str, codec: str, form: str, records: int, delay: float, amount: int = 1) -> Side:
    """``amount``: of how many that are done in a pass one counts."""

    @contextlib.contextmanager
    def ready() -> Iterator[Callable[[], Pass]]:
        with serving(bucket(codec, form, records), delay) as server:
            arguments = (server.url, json.dumps(server.options), "", str(records))
            with warm_process(python(f"{__name__}:{function}", *arguments)) as run:

                def counted() -> Pass:
                    server.requests()
                    done = run()
                    seen = {name: each / amount for name, each in server.requests().items()}
                    rate = {"megabytesPerSecond": seen["bytes"] / 1e6 / (done.seconds / amount)}
                    return replace(done, seconds=done.seconds / amount, cpu=done.cpu / amount, facts=seen | rate)

                counted()
                yield counted

    return ready


def planning(delay: float) -> Side:
    @contextlib.contextmanager
    def ready() -> Iterator[Callable[[], Pass]]:
        with (
            serving(many_segments() / "bucket", delay) as server,
            warm_process(python(f"{__name__}:plan", server.url, json.dumps(server.options))) as run,
        ):

            def counted() -> Pass:
                server.requests()
                return replace(run(), facts=server.requests())

            yield counted

    return ready


def many_segments() -> Path:
    """A log directory of many small segments, and the same as a bucket."""

    def write(target: Path) -> None:
        write_segments(target / "first")
        first = target / "first" / "events-0"
        segments = len(list(first.glob("*.log")))
        for number in range(-(-PLANNED // segments)):
            shutil.copytree(first, target / "log" / f"events-{number}")
            write_bucket(target / "log" / f"events-{number}", target / "bucket", Form())
        shutil.rmtree(target / "first")

    return made_once(data.CACHE / f"many-segments-{PLANNED}-{DEEP}", write)


def read_bucket(path: str, options: str, _: str, records: str) -> int:
    """All columns of all records, checksums verified, on one core."""
    log = opened(path, options)
    return counted(sum(batch.num_rows for batch in log.records(jobs=1)), records)


def read_files(path: str, options: str, _: str, records: str) -> int:
    """The same of the segments as files."""
    return read_bucket(path, options, "", records)


def undo(path: str, _: str, __: str, records: str) -> int:
    """What the libraries take that decrypt and decompress, into memory that is used again, with reading the objects."""
    import zstandard

    done = 0
    for manifest, log, decryptor in objects(path):
        index, memory = manifest.chunks, bytearray(manifest.chunks.chunk_size)
        scratch = bytearray(max(2 * len(memory), 1 << 10))
        for chunk in range(index.count):
            start, end = index.range(chunk, chunk)
            stored: Any = log.read(start, end - start).data
            target = memoryview(memory)[: index.size_of(chunk)]
            if decryptor is not None:
                plain = memoryview(scratch)[: len(stored) - ENCRYPTED] if manifest.is_compressed else target
                decryptor.into(stored, plain)
                stored = plain
            if manifest.is_compressed:
                zstandard.ZstdDecompressor().stream_reader(stored, len(stored)).readinto(target)
            done += len(target)
    return int(records) if done else 0


def undo_and_read_files(path: str, options: str, files: str, records: str) -> int:
    """That, and then all records of the segments as files."""
    undo(path, options, files, records)
    return read_bucket(files, "{}", "", records)


@functools.cache
def objects(path: str) -> list[tuple[Any, Any, Any]]:
    """Each segment's manifest, its object, and what decrypts its chunks, or None."""
    from brokerless.log.storage.location import Location
    from brokerless.log.tiered.decryption import decryptor
    from brokerless.log.tiered.manifest import parse_manifest

    keys = {name: file.read_bytes() for name, file in key_pairs().items()}
    found: list[tuple[Any, Any, Any]] = []
    for each in sorted(Path(path).rglob("*.rsm-manifest")):
        manifest = parse_manifest(each.read_bytes())
        decrypt = None if manifest.encryption is None else decryptor(manifest.encryption, keys)
        found.append((manifest, Location(str(each.with_suffix(".log"))).open(), decrypt))
    return found


def look_up(path: str, options: str, _: str, records: str) -> int:
    """One record each at offsets all over a log that is open."""
    partition = open_once(path, options)
    count = int(records)
    for number in range(LOOK_UPS):
        offset = (2 * number + 1) * count // (2 * LOOK_UPS)
        (batch,) = partition.records(start_offset=offset, limit=1)
        if batch.column("offset").to_pylist() != [offset]:
            raise BenchmarkError(f"offset {offset} was not found")
    return LOOK_UPS


def three_requests(path: str, options: str, _: str, __: str) -> int:
    """As often, three small ranges one after the other."""
    import fsspec

    fs: Any = fsspec.filesystem("s3", **json.loads(options))
    name = log_of(path, options)
    for _number in range(LOOK_UPS):
        for start in range(3):
            fs.cat_file(name, start=start << 10, end=(start + 1) << 10)
    return LOOK_UPS


@functools.cache
def log_of(path: str, options: str) -> str:
    import fsspec

    fs: Any = fsspec.filesystem("s3", **json.loads(options))
    return next(name for name in fs.find(path) if name.endswith(".log"))


@functools.cache
def open_once(path: str, options: str) -> Any:
    return opened(path, options).partitions[0]


def opened(path: str, options: str) -> Any:
    import brokerless

    keys = {name: str(file) for name, file in key_pairs().items()}
    return brokerless.open(path, storage_options=json.loads(options), key_pairs=keys)


def counted(found: int, records: str) -> int:
    if found != int(records):
        raise BenchmarkError(f"{found} records were read")
    return found


def plan(path: str, options: str) -> int:
    """The tasks of a query for all columns of all records; returns the number of segments."""
    from brokerless.spark.options import parse_options
    from brokerless.spark.plan import plan as plan_query

    tasks: Any = plan_query(parse_options({"path": path, "storageOptions": options}))
    return sum(len(each.splits) for each in tasks)
