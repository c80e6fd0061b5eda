"""Records by which readers' filters are tested: NaN, zeros of both signs, nulls, long texts, limits of numbers."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from tests.jobs.tables import DAY, avro
from tests.log.whole_batches import batch

from brokerless.typed.topic_type import Decoding

NAN, INFINITY = float("nan"), float("inf")
VALUE = {"type": "record", "name": "T", "fields": [
    {"name": "d", "type": ["null", "double"]}, {"name": "f", "type": ["null", "float"]},
    {"name": "s", "type": ["null", "string"]}, {"name": "n", "type": ["null", "long"]},
    {"name": "l", "type": {"type": "array", "items": ["null", "double"]}}, {"name": "e", "type": ["null", "double"]},
]}  # fmt: skip
DOUBLES = [NAN, 1.0, -1.0, -0.0, 0.0, None, INFINITY, 6.0, NAN, NAN, None, None, 2.0, 3.0, 5e-324, -INFINITY]
TEXTS = [
    "a" * 15 + "\ud7ff" + "b", "a" * 17, "b" * 15 + "\U0010ffff" + "c", "\U0010ffff" * 20, "", None, "x" * 5000,
    "é" * 16, "a" * 14 + "\ud7ff\U0010ffffz", "n\0n", None, None, "m" * 16, "m" * 15 + "\uffff", "1", "~",
]  # fmt: skip
LONGS = [1, (1 << 63) - 1, -(1 << 63), None, 0, 7, None, 3, None, None, None, None, 5, -5, 2, 9]
KINDS = {"string": "string", "double": "double", "long": "long"}


def rows() -> list[dict[str, Any]]:
    """Values, four a day: of two days, all columns are within a file of nulls or have a NaN first."""
    own: list[dict[str, Any]] = []
    for number, (double, text, long) in enumerate(zip(DOUBLES, TEXTS, LONGS, strict=True)):
        plain = [1.0, 2.0, 6.0, 9.0, None][number % 5]
        own.append({"d": double, "f": double, "s": text, "n": long, "l": [double, 1.0], "e": plain})
    return own


def keys(kind: str) -> list[Any]:
    return {"string": TEXTS, "double": DOUBLES, "long": LONGS}[kind]


def filtered_log(directory: Path, kind: str) -> tuple[Path, Decoding]:
    """A topic ``t`` of these values, whose keys are of a type of Avro."""
    source, schemas = directory / "logs" / "t-0", directory / "schemas"
    source.mkdir(parents=True)
    schemas.mkdir()
    (schemas / "1.avsc").write_text(json.dumps(VALUE))
    (schemas / "2.avsc").write_text(json.dumps({"type": KINDS[kind]}))
    with (source / "00000000000000000000.log").open("ab") as file:
        for offset, (key, value) in enumerate(zip(keys(kind), rows(), strict=True)):
            own = None if key is None else avro({"type": KINDS[kind]}, 2, key)
            data = avro(VALUE, 1, value)
            file.write(batch(offset, 1, 1_700_000_000_000 + offset * DAY // 4, data, key=own).tobytes())
    (source / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    return source, Decoding(str(schemas))


def literals(values: list[Any]) -> list[Any]:
    """Each value once, both zeros and NaN too."""
    found: dict[Any, Any] = {}
    for each in values:
        if each is not None:
            found[struct.pack(">d", each) if isinstance(each, float) else each] = each
    return list(found.values())
