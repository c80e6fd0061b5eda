"""The options of ``df.write.format("brokerless")``: read once, on the driver, into one value.

Their names are those of Kafka's topic settings, of the producer's ``batch.size`` and of spark-sql-kafka's sink, so what
a job said to a broker (``kafka.compression.type``) is heard here; ``kafka.*`` options that speak to a broker only are
passed over. Spark makes names lower case.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from brokerless.errors import UsageError
from brokerless.format import layouts
from brokerless.format.codecs.compression import LEVELS
from brokerless.jobs.load.routing import Routing
from brokerless.kafka_names import COMPRESSION_TYPES
from brokerless.log.commit.partition_writer import output_directory
from brokerless.log.config import LogConfig
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.location import Location
from brokerless.log.storage.paths import StorageOptions, full_path
from brokerless.tables.batcher import BatchSettings

_PLACES = ("topic", "partition", "partitions")
_LOG = ("segment.bytes", "segment.ms", "segment.index.bytes", "index.interval.bytes")
_LEVELS = tuple(f"compression.{codec}.level" for codec in LEVELS)
_BATCHES = ("compression.type", *_LEVELS, "batch.size", "message.timestamp.type", "message.format.version")
_SPARKS = ("path", "checkpointLocation", "queryName", "includeHeaders", "storageOptions")
"""What Spark, or a job that wrote to Kafka before, gives as well."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The place where a DataFrame is written, and the form."""

    directory: Destination
    """An existing log directory, or one that will be made; a URL goes with the option ``storageOptions``."""
    placement: Routing
    settings: BatchSettings
    config: LogConfig


def parse_sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Reads what the user gave. Raises :class:`UsageError` for what is not allowed, and says what is."""
    options = _known(given)
    path = options.get("path", "")
    if not path:
        raise UsageError(
            'no path: give save() or start() a log directory, as in save("/backup/restored"); saveAsTable() and CREATE '
            "TABLE are not possible, as Spark's catalog loses the options of a table, its path among them"
        )
    numbers = {name: _number(name, options.get(name)) for name in ("partition", "partitions", *_LOG, "batch.size")}
    log: dict[str, Any] = {name.replace(".", "_"): value for name in _LOG if (value := numbers[name]) is not None}
    placement = Routing(options.get("topic"), numbers["partition"], numbers["partitions"])
    location = Location(path, _storage_options(options.get("storageOptions")))
    return SinkOptions(
        output_directory(location.at(full_path(location.path))),  # executors have a directory of their own
        placement,
        _settings(options, numbers["batch.size"]),
        LogConfig(**log),
    )


def _known(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options by their own names. Spark passes over options that it does not know, but one that is misspelt
    costs data."""
    known = {name.lower(): name for name in (*_PLACES, *_LOG, *_BATCHES, *_SPARKS)}
    found: dict[str, str] = {}
    for option, value in given.items():
        name = known.get(option.lower().removeprefix("kafka."))
        if name is None:
            _refuse_unknown(option.lower(), known)
            continue
        if found.get(name, value) != value:
            raise UsageError(f"option {name}: it is given twice, as {found[name]!r} and as {value!r}")
        found[name] = value
    return found


def _refuse_unknown(option: str, known: Mapping[str, str]) -> None:
    bare = option.removeprefix("kafka.")
    near = difflib.get_close_matches(bare, known, n=1, cutoff=0.85)
    if near:
        raise UsageError(f"there is no option {option!r}; is {known[near[0]]!r} meant?")
    if bare == option:
        ours = ", ".join((*_PLACES, *_LOG, *_BATCHES))
        raise UsageError(f"there is no option {option!r}; there are {ours}")


def _storage_options(text: str | None) -> StorageOptions | None:
    try:
        value: Any = None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        value = text
    if value is not None and not isinstance(value, dict):
        raise UsageError('option storageOptions: this is not a JSON object, such as {"anon": true}')
    return value


def _settings(options: Mapping[str, str], batch_size: int | None) -> BatchSettings:
    codec = options.get("compression.type", "none").lower()
    codec = "none" if codec == "uncompressed" else codec
    if codec not in COMPRESSION_TYPES:
        raise UsageError(f"option compression.type: {codec!r} is none of {', '.join(COMPRESSION_TYPES)}, uncompressed")
    levels = {each: _number(name, options.get(name)) for each, name in zip(LEVELS, _LEVELS, strict=True)}
    for each, level in levels.items():
        BatchSettings(each, level).encoder()  # raises if there is no such level
    version = options.get("message.format.version")
    more: dict[str, Any] = {} if batch_size is None else {"batch_size": batch_size}
    if "message.timestamp.type" in options:
        more["message_timestamp_type"] = options["message.timestamp.type"]
    settings = BatchSettings(
        codec, levels.get(codec), message_format=layouts.MAGIC_V2 if version is None else _format(version), **more
    )
    settings.encoder()  # raises what is wrong with them
    return settings


def _format(version: str) -> int:
    """Return which message format a version of Kafka writes (``MetadataVersion.highestSupportedRecordVersion``,
    3.9.1)."""
    match = re.fullmatch(r"([0-9]{1,3})\.([0-9]{1,3})(\.[0-9]+)*(-IV[0-9]+)?", version.strip(), re.ASCII)
    if match is None or (int(match[1]), int(match[2])) < (0, 8):
        raise UsageError(
            f"option message.format.version: {version!r} is not a version of Kafka; 0.8 and 0.9 write message "
            "format v0, 0.10 writes v1, and all from 0.11 on write v2"
        )
    number = int(match[1]), int(match[2])
    if number >= (0, 11):
        return layouts.MAGIC_V2
    return layouts.MAGIC_V1 if number == (0, 10) else layouts.MAGIC_V0


def _number(name: str, value: str | None) -> int | None:
    if value is None:
        return None
    if re.fullmatch(r"[+-]?[0-9]{1,19}", value.strip(), re.ASCII) is None:
        raise UsageError(f"option {name}: {value!r} is not a whole number")
    return int(value)
