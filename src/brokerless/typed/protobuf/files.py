"""Compiles ``.proto`` texts, with what they import, into message types: by protoc, in a directory of its own.

protoc runs as a process: what it makes of a hostile text ends with it. Names of imports come from disks, so those that
would lead out of the directory are refused. ``google/type/*`` and ``confluent/*`` are in no registry, as Confluent's
clients bring them with them; so do we, in ``builtin/``, where a registry does not have them.
"""

from __future__ import annotations

import base64
import binascii
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any

from brokerless.errors import missing_libraries
from brokerless.typed.registry import Schema

_MAIN = "brokerless_schema.proto"
_TIMEOUT_S = 60
_OWN = "google/protobuf/"
_BUILTIN = ("google/type", "confluent", "confluent/type", "confluent/types")


@dataclass(frozen=True, slots=True)
class MessageTypes:
    """The messages of one schema."""

    top: tuple[Any, ...]
    """The descriptors of messages that are in no other."""

    def descriptor(self, indexes: tuple[int, ...]) -> Any:
        """Return the message that Confluent's indexes lead to. Raises ValueError for one that is not there."""
        level: Any = self.top
        found: Any = None
        for index in indexes:
            found = _nested(level, index)
            if found is None:
                raise ValueError(f"the schema has no message {list(indexes)}")
            level = found.nested_types
        return found

    def find(self, full_name: str) -> Any:
        """Return the message with a full name; None without one."""
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
    """Return the message types of a schema. Raises ValueError for one that cannot be compiled, :class:`UsageError`
    where the libraries are missing."""
    try:
        from google.protobuf import descriptor_pool
    except ImportError:
        raise missing_libraries("decoding Protobuf needs more", "decode") from None
    serialized = _serialized(schema)
    needed = _compile(_texts(schema)) if serialized is None else serialized
    pool = descriptor_pool.DescriptorPool()
    try:
        added: Any = None
        for each in needed:
            added = pool.Add(each) or each  # the last one is the schema itself, after what it imports
        file = pool.FindFileByName(added.name)
    except (TypeError, KeyError) as error:
        raise ValueError(f"no Protobuf schema: {error}") from None
    # Not in the order of the text, but in that of the file's messages, which the indexes count.
    return MessageTypes(tuple(file.message_types_by_name[each.name] for each in needed[-1].message_type))


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
    return [*_well_known(found), *found.values()]


def _well_known(given: dict[str, Any]) -> list[Any]:
    """Files of Google's and Confluent's that others import, in the order in which they need one another."""
    from google.protobuf import descriptor_pb2, descriptor_pool

    pool: Any = descriptor_pool.Default()
    found: dict[str, Any] = {}

    def add(name: str) -> None:
        if name in found:
            return
        if name in _builtin_texts() and name not in given:
            for each in _builtin_files(name):
                found.setdefault(each.name, each)
        if not name.startswith(_OWN):
            return
        _import_own(name)
        own = descriptor_pb2.FileDescriptorProto()
        pool.FindFileByName(name).CopyToProto(own)
        for each in own.dependency:
            add(each)
        found[name] = own

    for file in given.values():
        for name in file.dependency:
            add(name)
    return list(found.values())


@cache
def _builtin_texts() -> dict[str, str]:
    """The files that Confluent's clients bring with them, by their names in imports."""
    root = files("brokerless.typed.protobuf") / "builtin"
    found: dict[str, str] = {}
    for folder in _BUILTIN:
        for each in root.joinpath(*folder.split("/")).iterdir():
            if each.name.endswith(".proto"):
                found[f"{folder}/{each.name}"] = each.read_text()
    return found


@cache
def _builtin_files(name: str) -> tuple[Any, ...]:
    """One of these files, after those that it imports."""
    return tuple(_compile({_MAIN: f'syntax = "proto3"; import "{name}";'})[:-1])


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


def _texts(schema: Schema) -> dict[str, str]:
    return {**{name: each.text for name, each in _imports(schema)}, _MAIN: schema.text}


def _compile(texts: dict[str, str]) -> list[Any]:
    """Return what protoc makes of the text :data:`_MAIN`, after all that it imports."""
    try:
        import grpc_tools
        from google.protobuf import descriptor_pb2
    except ImportError:
        raise missing_libraries("decoding Protobuf needs more", "decode") from None
    with tempfile.TemporaryDirectory(prefix="brokerless-proto-") as directory:
        root = Path(directory) / "in"
        for name, text in {**_builtin_texts(), **texts}.items():
            path = root / _checked(name)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            except OSError as error:  # its name is too long, or that of a directory around another one
                raise ValueError(f"an import of the name {name[:60]!r}: {error.strerror}") from None
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
            lines = done.stderr.decode(errors="replace").replace(f"{root}/", "").strip().splitlines()
            errors = [each for each in lines if ": warning: " not in each] or ["protoc failed"]
            raise ValueError(f"no Protobuf schema: {errors[0]}")
        found = descriptor_pb2.FileDescriptorSet()
        found.ParseFromString(out.read_bytes())
        return list(found.file)


def _checked(name: str) -> str:
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\\" in name or "\0" in name or len(name) > 500:
        raise ValueError(f"an import of the name {name!r}, which is none of a file")
    if name == _MAIN and len(parts) != 1:
        raise ValueError(f"an import of the name {name!r}")
    return name
