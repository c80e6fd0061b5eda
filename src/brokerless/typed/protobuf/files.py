"""Compiles ``.proto`` texts, with what they import, into message types: by protoc, in a directory of its own.

protoc runs as a process: what it makes of a hostile text ends with it. Names of imports come from disks, so those that
would lead out of the directory are refused.
"""

from __future__ import annotations

import base64
import binascii
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from brokerless.errors import missing_libraries
from brokerless.typed.registry import Schema

_MAIN = "brokerless_schema.proto"
_TIMEOUT_S = 60
_OWN = "google/protobuf/"


@dataclass(frozen=True, slots=True)
class MessageTypes:
    """The messages of one schema. ``top``: descriptors of those that are in no other."""

    top: tuple[Any, ...]

    def descriptor(self, indexes: tuple[int, ...]) -> Any:
        """The message that Confluent's indexes lead to. Raises ValueError for one that is not there."""
        level: Any = self.top
        found: Any = None
        for index in indexes:
            found = _nested(level, index)
            if found is None:
                raise ValueError(f"the schema has no message {list(indexes)}")
            level = found.nested_types
        return found

    def find(self, full_name: str) -> Any:
        """The message with a full name; None without one."""
        try:
            return self.top[0].file.pool.FindMessageTypeByName(full_name) if self.top else None
        except KeyError:
            return None

    def message_class(self, indexes: tuple[int, ...]) -> Callable[[], Any]:
        from google.protobuf import message_factory

        return message_factory.GetMessageClass(self.descriptor(indexes))


def _nested(level: Any, index: int) -> Any:
    """A message by its index among all of its level; or where that is a map's entry, which no record is, or none, among
    those that are in the text: clients count differently."""
    if 0 <= index < len(level) and not level[index].GetOptions().map_entry:
        return level[index]
    own = [each for each in level if not each.GetOptions().map_entry]
    return own[index] if 0 <= index < len(own) else None


@lru_cache(maxsize=256)
def message_types(schema: Schema) -> MessageTypes:
    """The message types of a schema. Raises ValueError for one that cannot be compiled, :class:`UsageError` where the
    libraries are missing."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool
    except ImportError:
        raise missing_libraries("decoding Protobuf needs more", "decode") from None
    serialized = _serialized(schema)
    files: list[Any] = []
    if serialized is not None:
        files = serialized
    else:
        found = descriptor_pb2.FileDescriptorSet()
        found.ParseFromString(_compile(schema))
        files = list(found.file)
    pool = descriptor_pool.DescriptorPool()
    try:
        added: Any = None
        for each in files:
            added = pool.Add(each) or each  # the last one is the schema itself, after what it imports
        file = pool.FindFileByName(added.name)
    except (TypeError, KeyError) as error:
        raise ValueError(f"no Protobuf schema: {error}") from None
    # Not in the order of the text, but in that of the file's messages, which the indexes count.
    return MessageTypes(tuple(file.message_types_by_name[each.name] for each in files[-1].message_type))


def _serialized(schema: Schema) -> list[Any] | None:
    """The files of a schema that was registered as a serialized ``FileDescriptorProto`` in base64, as some clients do;
    None for a text."""
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    found: dict[str, Any] = {}
    for name, each in [*_imports(schema), ("", schema)]:
        try:
            file = descriptor_pb2.FileDescriptorProto()
            file.ParseFromString(base64.b64decode(each.text.encode(), validate=True))
        except (binascii.Error, DecodeError, ValueError):
            return None
        file.name = name or file.name or _MAIN
        found[file.name] = file
    needed = [*_well_known(list(found.values())), *found.values()]
    return needed


def _well_known(files: list[Any]) -> list[Any]:
    """Google's own files that others import, in the order in which they need one another."""
    from google.protobuf import descriptor_pb2, descriptor_pool

    pool: Any = descriptor_pool.Default()
    found: dict[str, Any] = {}

    def add(name: str) -> None:
        if name in found or not name.startswith(_OWN):
            return
        _import_own(name)
        own = descriptor_pb2.FileDescriptorProto()
        pool.FindFileByName(name).CopyToProto(own)
        for each in own.dependency:
            add(each)
        found[name] = own

    for file in files:
        for name in file.dependency:
            add(name)
    return list(found.values())


def _import_own(name: str) -> None:
    import importlib

    known = ("any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct", "timestamp",
             "type", "wrappers")  # fmt: skip
    short = name.removeprefix(_OWN).removesuffix(".proto")
    if short not in known:
        raise ValueError(f"the schema imports {name}, which is not there")
    importlib.import_module(f"google.protobuf.{short}_pb2")


def _imports(schema: Schema, seen: set[str] | None = None) -> Iterator[tuple[str, Schema]]:
    """Yield what a schema imports, each after its own imports, by the names in the texts."""
    seen = set() if seen is None else seen
    for name, each in schema.imports:
        if name not in seen:
            seen.add(name)
            yield from _imports(each, seen)
            yield name, each


def _compile(schema: Schema) -> bytes:
    """protoc's ``FileDescriptorSet`` of a schema's text and of all that it imports."""
    try:
        import grpc_tools
    except ImportError:
        raise missing_libraries("decoding Protobuf needs more", "decode") from None
    with tempfile.TemporaryDirectory(prefix="brokerless-proto-") as directory:
        root = Path(directory) / "in"
        for name, each in [*_imports(schema), (_MAIN, schema)]:
            path = root / _checked(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(each.text)
        out = Path(directory) / "out"
        own = Path(grpc_tools.__file__).parent / "_proto"
        command = [
            sys.executable, "-m", "grpc_tools.protoc", f"-I{root}", f"-I{own}", "--include_imports",
            f"--descriptor_set_out={out}", _MAIN,
        ]  # fmt: skip
        try:
            done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, check=False, cwd=directory)
        except subprocess.TimeoutExpired:
            raise ValueError(f"protoc did not compile the schema in {_TIMEOUT_S} seconds") from None
        if done.returncode or not out.exists():
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            raise ValueError(f"no Protobuf schema: {lines[0] if lines else 'protoc failed'}")
        return out.read_bytes()


def _checked(name: str) -> str:
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\\" in name or "\0" in name or len(name) > 500:
        raise ValueError(f"an import of the name {name!r}, which is none of a file")
    if name == _MAIN and len(parts) != 1:
        raise ValueError(f"an import of the name {name!r}")
    return name
