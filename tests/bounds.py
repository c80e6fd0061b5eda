"""All kernels, over real and damaged bytes, with every access to an array checked: ``make bounds``.

``python -m tests.bounds 10000 [SEED]`` needs the environment of :func:`checked`. Arrays end where the bytes end, so
that a kernel that reads on raises IndexError; where it does, the bytes are written to a file that the error names.
"""

from __future__ import annotations

import hashlib
import io
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

import brokerless
from brokerless.errors import BrokerlessError
from brokerless.format import layouts
from brokerless.format.append.leader import append
from brokerless.format.append.types import AppendConfig
from brokerless.format.codecs.decompression import Inflater, find_payloads
from brokerless.format.codecs.decompression_buffer import CodecError
from brokerless.format.convert import ConversionTarget, Converter
from brokerless.format.kernel_library import CHECK_BOUNDS
from brokerless.format.read.batch_headers import checksums_match, read_headers
from brokerless.format.read.batch_scan import scan_batches
from brokerless.format.read.resync import find_batch
from brokerless.interchange import jsonl_writer
from brokerless.interchange.jsonl_reader import read_lines
from brokerless.tables.partitioner import partition_for_key
from tests.format import twin
from tests.golden import all_cases
from tests.test_mutations import NAME, SOURCES, mutated, random_mutation, repaired

ROOT = Path(__file__).parents[1]
LIMIT = 1 << 20
T = TypeVar("T")


def checked() -> dict[str, str]:
    """The environment of a process whose kernels check bounds. Numba compiles again when a kernel's own file changes,
    but not for the helpers that it has from others."""
    kernels = sorted(path for path in (ROOT / "src").rglob("*.py") if b"format.kernel import" in path.read_bytes())
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in kernels)).hexdigest()[:16]
    cache = ROOT / ".cache" / "checked-kernels" / digest
    return {**os.environ, "BROKERLESS_CHECK_BOUNDS": "1", "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(cache)}


def array(data: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8)


def read(path: Path) -> list[bytes]:
    """A file in every way that there is to read it; returns what its records are as JSON Lines."""
    log = brokerless.open(path)
    for batch in log.batches(on_damage=lambda _: None):
        batch.validate()
    list(log.verify())
    log.segments(on_damage=lambda _: None)
    lines: list[bytes] = []
    for batch in log.records(control=True, on_damage=lambda _: None):
        batch.validate()
        lines.append(b"".join(bytes(piece) for piece in jsonl_writer.records(batch)))
        if batch.num_rows:
            partition_for_key(batch.column("key"), 7)
    return lines


def rewrite(data: bytes, chance: random.Random) -> None:
    """Its batches in other formats and codecs, and as produced."""
    buffer = array(data)
    find_batch(buffer, chance.randrange(len(data) + 1))
    batches = read_headers(buffer, scan_batches(buffer).positions)
    if len(batches):
        batches = batches.take(checksums_match(buffer, batches))
    target = ConversionTarget(chance.choice([0, 1, 2, 2]), None, None, chance.choice([None, 0, 200, 16384]))
    converter = Converter(target, LIMIT)
    for _ in converter.convert(buffer, batches):
        pass
    list(converter.flush())
    config = AppendConfig(to_magic=chance.choice([0, 1, 2]), codec=chance.choice(["producer", *layouts.CODECS]))
    origin = chance.choice(["client", "replication"])
    append(buffer, config, chance.choice([0, 5, 2**40]), 3, 1_700_000_000_000, origin, LIMIT)


def shortened(data: bytes, chance: random.Random) -> bytes:
    """The last batch ends earlier, with bytes that say that more should come, and yet its sizes are right."""
    positions, end, _ = twin.chain(data)
    if not positions or end - positions[-1] < 40:
        return data
    at = positions[-1]
    least = 62 if data[at + 16] == 2 else 27
    bytes_left = bytearray(data[: at + chance.randint(min(least, end - at), end - at)])
    ending = chance.choice([0, 1, 2, 3, 5, 10])
    if ending and len(bytes_left) - at > least + ending:
        bytes_left[-ending:] = bytes([chance.choice([0x80, 0xFF, 0x00, 0x7F])]) * ending
    bytes_left[at + 8 : at + 12] = (len(bytes_left) - at - 12).to_bytes(4, "big")
    repaired(bytes_left, 1)
    return bytes(bytes_left)


def payload(chance: random.Random) -> tuple[int, bytes]:
    """A compressed payload, cut, with bytes changed, and with the sizes of its framing right more often than not."""
    codec = chance.choice([1, 2, 3, 4])
    plain = chance.randbytes(chance.choice([0, 1, 3, 40, 300])) * chance.choice([1, 1, 20])
    data = bytearray(twin.COMPRESS[layouts.CODECS[codec]](plain))
    if chance.random() < 0.7:
        del data[chance.randint(min(18, len(data)), min(len(data), 60)) :]
    for _ in range(chance.choice([0, 0, 1, 2])):
        if data:
            data[chance.randrange(len(data))] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randint(0, 255)])
    ending = chance.choice([0, 0, 1, 2, 3, 4, 5])
    if 0 < ending < len(data):
        data[-ending:] = bytes([chance.choice([0x00, 0x80, 0xFF])]) * ending
    if codec == 2 and len(data) >= 20 and chance.random() < 0.8:
        data[16:20] = (len(data) - 20).to_bytes(4, "big")
    if codec == 3 and len(data) > 15 and chance.random() < 0.8:
        data[7:11], data[-4:] = (len(data) - 15).to_bytes(4, "little"), bytes(4)
    return codec, bytes(data)


def inflate(codec: int, data: bytes) -> None:
    buffer, row = array(data), np.zeros(1, np.int64)
    found = find_payloads(buffer, row, row + len(data), np.array([codec], np.int8), np.array([2], np.int8))
    inflater = Inflater(LIMIT)
    inflater.inflate_many(found, 0, LIMIT)
    inflater.clear()
    inflater.check_header(codec, 2, buffer.data)


def load(lines: bytes, chance: random.Random) -> None:
    """Lines as they are written, with bytes changed, cut, or repeated."""
    text = bytearray(lines)
    for _ in range(chance.choice([0, 1, 3])):
        at = chance.randrange(len(text) + 1)
        match chance.randrange(4):
            case 0:
                text[at : at + 1] = chance.choice([b'"', b"\\", b"\\u", b"{", b"}", b"]", b":", b"\n", b"9", b"\x80"])
            case 1:
                del text[at : at + chance.choice([1, 8, 60])]
            case 2:
                text[at:at] = text[at : at + chance.choice([1, 8, 60])]
            case _:
                del text[at:]
    for mode in ("auto", "base64"):
        for _ in read_lines(io.BytesIO(bytes(text)), "lines", mode):
            pass


def run(count: int, seed: int, directory: Path) -> None:
    chance = random.Random(seed)
    path = directory / NAME
    lines = [b'{"value":"v"}\n']
    for number in range(count):
        data = mutated(random_mutation(chance)) if number % 3 else chance.choice(SOURCES)
        data = shortened(data, chance) if number % 2 else data
        path.write_bytes(data)
        found = kept(data, lambda: read(path))
        kept(data, lambda data=data: rewrite(data, chance))
        codec, compressed = payload(chance)
        kept(compressed, lambda codec=codec, compressed=compressed: inflate(codec, compressed))
        lines = [line for line in found or () if len(line) < 20_000] or lines
        text = chance.choice(lines)
        kept(text, lambda text=text: load(text, chance))


def kept(data: bytes, work: Callable[[], T]) -> T | None:
    """What work gives, if it is not refused; bytes at which a kernel leaves its arrays stay in a file."""
    try:
        return work()
    except IndexError as error:
        with tempfile.NamedTemporaryFile(prefix="bounds-", delete=False) as file:
            file.write(data)
        error.add_note(f"the bytes are in {file.name}")
        raise
    except (BrokerlessError, CodecError):
        return None


def golden_logs() -> Iterator[Path]:
    return (log for each in all_cases() for log in each.logs)


def main(arguments: list[str]) -> None:
    count, seed = int(arguments[0]), int(arguments[1]) if len(arguments) > 1 else 1
    if not CHECK_BOUNDS:
        sys.exit("kernels check no bounds here: set BROKERLESS_CHECK_BOUNDS and NUMBA_CACHE_DIR (make bounds does)")
    files = 0
    if count >= 1000:
        for path in golden_logs():
            kept(path.read_bytes(), lambda path=path: read(path))
            files += 1
    with tempfile.TemporaryDirectory() as directory:
        run(count, seed, Path(directory))
    print(f"no kernel left its arrays in {files} golden files and {count} mutations (seed {seed})")


if __name__ == "__main__":
    main(sys.argv[1:])
