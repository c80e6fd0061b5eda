"""Fields of the text files beside segments: checkpoints, metadata and properties. Each includes what separates it from
the next one: a space or the end of the line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import partial

from brokerless.explanation.builder import FieldBudget, FieldBuilder, Said, build
from brokerless.explanation.field import Field, FieldValue
from brokerless.explanation.records import RecordRange
from brokerless.log import names
from brokerless.log.checkpoint.text_files import MalformedFileError, parse_integer, parse_uuid

_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n|$)")
_WORD = re.compile(rb"[^ \t\x0b\f\r\n]+[ \t\x0b\f]*(?:\r\n|\r|\n|$)?")
_NAMED = re.compile(rb"([^:\r\n]*:[ \t\x0b\f]+)([^\r\n]*(?:\r\n|\r|\n|$))")
_PROPERTY = re.compile(rb"((?:\\.|[^\\:= \t\f\r\n])*[ \t\f]*[:=]?[ \t\f]*)([^\r\n]*(?:\r\n|\r|\n|$))")

_Parse = Callable[[str], FieldValue]


def _text(text: str) -> FieldValue:
    return text


def _int32(text: str) -> FieldValue:
    return parse_integer(text, text)


def _int64(text: str) -> FieldValue:
    return parse_integer(text, text, 64)


def _uuid(text: str) -> FieldValue:
    return parse_uuid(text, text)


_OFFSETS: tuple[tuple[str, _Parse, str], ...] = (("topic", _text, ""), ("partition", _int32, ""))
_ENTRIES: dict[str, tuple[tuple[str, _Parse, str], ...]] = {
    names.LEADER_EPOCH_CHECKPOINT: (("epoch", _int32, ""), ("start_offset", _int64, "the epoch's first offset")),
    names.RECOVERY_POINT_CHECKPOINT: (*_OFFSETS, ("offset", _int64, "all before it is flushed: recovery begins here")),
    names.HIGH_WATERMARK_CHECKPOINT: (*_OFFSETS, ("offset", _int64, "high watermark: all before it is committed")),
    names.LOG_START_OFFSET_CHECKPOINT: (*_OFFSETS, ("offset", _int64, "the first one that is served")),
    names.CLEANER_CHECKPOINT: (*_OFFSETS, ("offset", _int64, "the log was compacted up to here")),
}
"""What the words of a checkpoint's lines are."""
_JSON = (names.QUORUM_STATE, names.CLEAN_SHUTDOWN)
FILES = frozenset({*_ENTRIES, *_JSON, names.PARTITION_METADATA, names.META_PROPERTIES})
"""The names of files that can be explained."""


def explain_text_file(data: bytes, name: str, chosen: RecordRange, budget: FieldBudget) -> tuple[Field, ...]:
    """Return the fields of one of :data:`FILES`."""

    def fill(builder: FieldBuilder) -> None:
        if name in _ENTRIES:
            _take_checkpoint(builder, _ENTRIES[name], chosen)
        elif name == names.PARTITION_METADATA:
            _take_partition_metadata(builder)
        elif name == names.META_PROPERTIES:
            _take_properties(builder)
        else:
            _take_json(builder)

    return build(data, 0, fill, budget)


def _take_checkpoint(builder: FieldBuilder, words: Sequence[tuple[str, _Parse, str]], chosen: RecordRange) -> None:
    """Version, count, and lines of ``words`` (``CheckpointFile``)."""
    if _take_word(builder, "version", _int32, "") != 0:
        builder.expect("version 0")
    if not builder.left:
        return
    count = _take_word(builder, "count", _int32, "entries that follow")
    assert isinstance(count, int)
    index = 0
    while builder.left and (chosen.limit is None or index < chosen.limit) and index < count:
        with builder.group(f"entry[{index}]"):
            line = _match(_LINE, builder)
            if len(line.split()) != len(words):
                builder.expect(f"a line of {len(words)} words: {', '.join(name for name, _, _ in words)}")
            for name, parse, note in words:
                _take_word(builder, name, parse, note)
        index += 1
    if builder.left and index < count:
        builder.take_rest(f"not shown: {count - index} more", name="entries")
    elif builder.left or index < count:
        builder.expect(f"{count} entries, as the count says; {'more lines' if builder.left else index} are there")


def _take_partition_metadata(builder: FieldBuilder) -> None:
    """Two lines of a name and a value (``PartitionMetadata``)."""
    for name, parse in (("version", _int32), ("topic_id", _uuid)):
        match = _NAMED.match(builder.data, builder.at)
        if match is None:
            builder.expect(f"{name}, a colon, a space and a value")
        builder.take(f"{name}_name", len(match[1]), _decode(match[1]), Said("a name, a colon and a space"))
        _take_text(builder, name, match[2], parse=parse, note="KIP-516: in base64" if name == "topic_id" else "")
    builder.take_rest("Kafka's reader ignores it")


def _take_properties(builder: FieldBuilder) -> None:
    """Lines of Java's ``Properties``: comments, and names with values."""
    while builder.left:
        line = _match(_LINE, builder)
        if line.strip()[:1] in (b"", b"#", b"!"):
            builder.take("comment", len(line), _decode(line).rstrip("\r\n"))
            continue
        match = _PROPERTY.match(builder.data, builder.at)
        if match is None or not match[1] + match[2]:
            builder.expect("a property")
        name = _unescape(_decode(match[1]).rstrip(":= \t\f"))
        with builder.group(name or "property"):
            builder.take("name", len(match[1]), name)
            _take_text(builder, "value", match[2], parse=partial(_parse_property, name), note="")


def _parse_property(name: str, text: str) -> FieldValue:
    parse = {"version": _int32, "broker.id": _int32, "node.id": _int32, "directory.id": _uuid}.get(name, _text)
    return parse(_unescape(text))


def _take_json(builder: FieldBuilder) -> None:
    """One object, member by member (``quorum-state``, KIP-595)."""
    text, decoder = builder.data.decode("latin-1"), json.JSONDecoder()  # a character for each byte
    try:
        if not isinstance(json.loads(builder.data), dict):
            builder.expect("an object in JSON")
        builder.take("begin", text.index("{") + 1, None)
        while (match := re.compile(r'\s*,?\s*"((?:[^"\\]|\\.)*)"\s*:\s*').match(text, builder.at)) is not None:
            end = decoder.raw_decode(text, match.end())[1]
            value = json.loads(builder.data[match.end() : end])
            shown = value if isinstance(value, int | float | str | bool | None) else json.dumps(value)
            builder.take(match[1] or "member", end - builder.at, shown, Said("a name, a colon and a value, in JSON"))
    except (ValueError, RecursionError):
        builder.expect("an object in JSON")
    builder.take_rest(name="end")


def _take_word(builder: FieldBuilder, name: str, parse: _Parse, note: str) -> FieldValue:
    return _take_text(builder, name, _match(_WORD, builder), parse=parse, note=note)


def _take_text(builder: FieldBuilder, name: str, data: bytes, parse: _Parse, note: str) -> FieldValue:
    """Takes text and what separates it; its value is without."""
    try:
        value = parse(_decode(data).rstrip(" \t\x0b\f\r\n"))
    except MalformedFileError as error:
        builder.expect(f"{name}: {error.args[1]}")
    if not data:
        builder.expect(name)
    builder.take(name, len(data), value, Said(note))
    return value


def _match(pattern: re.Pattern[bytes], builder: FieldBuilder) -> bytes:
    match = pattern.match(builder.data, builder.at)
    return b"" if match is None else match[0]


def _decode(data: bytes) -> str:
    return data.decode(errors="backslashreplace")


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)
