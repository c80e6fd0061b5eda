"""Files of ours on users' disks and in buckets: each is one document of JSON with a version, and is declared once.

Whatever lies under such a name may be from anybody, cut off, or of a later version: it is read strictly, up to a bound,
and no link is followed. It is replaced at once, so that a kill leaves the old one or the new one. A journal, to which
lines are appended, ends where :func:`end_of_lines` says. What has many rows is a small Parquet file
(:func:`parse_table`).
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO, Generic, cast, get_args

from msgspec import Struct, inspect
from msgspec.structs import fields

from brokerless.bounds import MAX_INT32
from brokerless.errors import UnreadableError, UsageError
from brokerless.log.storage import file_tree
from brokerless.log.storage.guarded_files import read_own
from brokerless.log.storage.location import Location
from brokerless.values import ValueT, WrongJsonError, from_members, parse_json, to_json

if TYPE_CHECKING:
    import pyarrow as pa

_BLOCK = 4096


@dataclass(frozen=True)
class OwnFile(Generic[ValueT]):
    """A kind of file that brokerless writes on users' disks."""

    kind: type[ValueT]
    """The type of its content; a member of it is the version, a ``Literal`` of those that are read."""
    what: str
    """What the file is, for messages."""
    advice: str
    """What to do with a file that is something else, for messages."""
    limit: int = 16 << 20
    """Bytes that a file may have at most."""

    def load(self, location: Location) -> ValueT:
        """Return the content of a file. Raises as :meth:`parse`, and :class:`UnreadableError` where there is none."""
        return self.parse(read_own(location, self.limit), location.path)

    def find(self, location: Location) -> ValueT | None:
        """Return the content of a file; None where there is none. Raises as :meth:`parse`."""
        return self.load(location) if file_tree.exists(location) else None

    def parse(self, data: bytes, path: str) -> ValueT:
        """Return the content of what was read from ``path``.

        Raises :class:`UnreadableError` for what is something else, and :class:`UsageError` for what a later version of
        brokerless wrote."""
        try:
            found = parse_json(data)
            self._refuse_newer(found, path)
            return from_members(found, self.kind)
        except WrongJsonError as error:
            raise UnreadableError(path, f"this is not {self.what} ({error}); {self.advice}") from error

    def dump(self, value: ValueT, path: str) -> bytes:
        """Return a file's bytes. Raises :class:`UsageError` for more than would be read again."""
        data = to_json(value)
        if len(data) > self.limit:
            raise UsageError(f"{path}: {len(data)} bytes are more than {self.what} may have ({self.limit})")
        return data

    def save(self, location: Location, value: ValueT) -> None:
        """Write a file, in place of one that is there. Raises :class:`UnwritableError`, and as :meth:`dump`."""
        file_tree.write(location, self.dump(value, location.path))

    def _refuse_newer(self, found: Any, path: str) -> None:
        name, newest = self._version
        version = found.get(name) if isinstance(found, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if isinstance(version, int) and version > newest:
            raise UsageError(f"{path}: a newer brokerless wrote this (version {version}); use that one")

    @cached_property
    def _version(self) -> tuple[str, int]:
        """The member that has the version, and the newest that is read."""
        versions = ((each.encode_name, get_args(each.type)) for each in fields(self.kind))  # type: ignore[arg-type]
        return next((name, max(known)) for name, known in versions if known and all(type(one) is int for one in known))


def end_of_lines(file: BinaryIO) -> int:
    """Return where the whole lines of a journal end (bytes): a kill cuts the last one short, and a power loss leaves
    zeros in place of what was not synced."""
    end = _first_zero(file, file.seek(0, os.SEEK_END))
    while end:
        at = max(0, end - _BLOCK)
        file.seek(at)
        block = file.read(end - at)
        if b"\n" in block:
            return at + block.rindex(b"\n") + 1
        end = at
    return end


def _first_zero(file: BinaryIO, size: int) -> int:
    file.seek(0)
    while block := file.read(1 << 20):
        if (at := block.find(b"\0")) >= 0:
            return file.tell() - len(block) + at
    return size


def digest(content: Any) -> str:
    """Return the SHA-256 of content as JSON without spaces whose members are sorted (``jq -cSj .``)."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def table_schema(*kinds: type[Struct]) -> pa.Schema:
    """Return the schema of a table that has the members of some values as columns: texts, integers, of 32 bits where
    their types say so, and lists of these."""
    import pyarrow as pa

    def column_type(type_: Any) -> pa.DataType:
        match type_:
            case inspect.UnionType(types):
                return column_type(types[0])
            case inspect.VarTupleType(item_type):
                return pa.list_(column_type(item_type))
            case inspect.IntType():
                return pa.int32() if type_.le == MAX_INT32 else pa.int64()
            case _:
                return pa.string()

    structs = [cast("inspect.StructType", inspect.type_info(kind)) for kind in kinds]
    return pa.schema([(each.encode_name, column_type(each.type)) for struct in structs for each in struct.fields])


def dump_table(table: pa.Table) -> bytes:
    """Return a table as a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue().to_pybytes()


def parse_table(data: bytes, schema: pa.Schema) -> pa.Table:
    """Return the table that a Parquet file has, with the columns of ``schema``, and the file's metadata; a column
    that it lacks is null.

    This thread alone reads it. A thread of Arrow's that frees ``data`` while Python ends would end this process with an
    abort: ``~PyBuffer`` waits for Python's lock, and is not to raise (pyarrow 26).

    Raises ``pa.ArrowException``, OSError or ValueError for what is no such file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(pa.BufferReader(data)) as file:
        there = [name for name in schema.names if name in file.schema_arrow.names]
        table = file.read(columns=there, use_threads=False)
    columns = [
        table.column(each.name).cast(each.type) if each.name in there else pa.nulls(table.num_rows, each.type)
        for each in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema.with_metadata(table.schema.metadata))
