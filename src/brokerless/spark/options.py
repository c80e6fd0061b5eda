"""The options of ``spark.read`` and ``spark.readStream`` with ``format("brokerless")``: read once, on the driver.

Names and meanings are those of spark-sql-kafka (``KafkaSourceProvider`` of Spark 4), and of Spark's own file readers
(``path``, ``mode``, ``columnNameOfCorruptRecord``). ``kafka.*`` options speak to a broker and are passed over, but for
``kafka.isolation.level``.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from brokerless.errors import UsageError
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.kafka_names import ISOLATION_LEVELS, TopicPartition
from brokerless.log.names import INCLUDE, is_internal
from brokerless.log.storage.paths import full_path
from brokerless.log.tiered.options import tiered_options
from brokerless.typed.topic_type import Decoding, TopicType, decoding_of_options

SparkTable = Literal["records", "batches", "segments", "transactions"]
Mode = Literal["FAILFAST", "PERMISSIVE", "DROPMALFORMED"]

TABLES = ("records", "batches", "segments", "transactions")
MODES = ("FAILFAST", "PERMISSIVE", "DROPMALFORMED")
SPLIT_BYTES = 128 << 20
_DELAY = 15 * 60_000
LATEST, EARLIEST = -1, -2

_BROKERS_OPTIONS = (
    "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "groupIdPrefix", "kafkaConsumer.pollTimeoutMs",
)  # fmt: skip
"""Options of spark-sql-kafka that mean nothing without a broker."""

TABLES_LOSE_OPTIONS = (
    "Spark's catalog loses the options of a table, its path among them; use CREATE TEMPORARY VIEW name "
    "USING brokerless OPTIONS (path '/var/lib/kafka')"
)

_OFFSETS_EXAMPLE = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_TIMESTAMPS_EXAMPLE = '{"topicA":{"0":1700000000000},"topicB":{"0":1700000000000}}'


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """Which topics are selected; without any of these, all. At most one of them is set."""

    subscribe: frozenset[str] | None = None
    pattern: str | None = None
    assign: frozenset[TopicPartition] | None = None

    def have(self, topic: str | None, partition: int | None) -> bool:
        if self.subscribe is not None:
            return topic in self.subscribe
        if self.pattern is not None:
            # A broker lists no internal topics to the clients whose patterns it matches.
            return topic is not None and not is_internal(topic) and bool(re.fullmatch(self.pattern, topic))
        return self.assign is None or (topic, partition) in self.assign


@dataclass(frozen=True, slots=True)
class Limit:
    """The start or the end of reading in each partition; if nothing is set, a batch query reads all that is there."""

    edge: Literal["earliest", "latest"] | None = None
    """Begin or end at this end of the present data."""
    offsets: Mapping[TopicPartition, int] | None = None
    """By partition; also :data:`LATEST` and :data:`EARLIEST`."""
    timestamps: Mapping[TopicPartition, int] | None = None
    """By partition, in ms."""
    timestamp: int | None = None
    """For all partitions, in ms."""

    @property
    def partitions(self) -> frozenset[TopicPartition] | None:
        """Those that it names, which must be all."""
        named = self.timestamps if self.offsets is None else self.offsets
        return None if named is None else frozenset(named)


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a query; sizes in bytes."""

    paths: tuple[str, ...]
    """These may be patterns."""
    table: SparkTable = "records"
    topics: TopicSelection = TopicSelection()
    start: Limit = Limit()
    end: Limit = Limit()
    latest_without_match: bool = False
    """Where no record is as late as the starting timestamp: read nothing there, instead of an error."""
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    max_records: int | None = None
    split_bytes: int = SPLIT_BYTES
    headers: bool = False
    control: bool = False
    checksums: bool = True
    committed: bool = False
    mode: Mode = "FAILFAST"
    corrupt_column: str = "_corrupt_record"
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    """What one batch may inflate to."""
    include: tuple[str, ...] = ()
    as_it_lies: bool = False
    storage: Mapping[str, Any] = field(default_factory=dict[str, Any])
    decoding: Decoding | None = None
    topic_type: TopicType | None = None
    """Found by the driver where keys and values are decoded."""
    push_filters: bool | None = None
    """Whether a query's filters prune; None is where Spark does it right."""
    prune: bool = True
    """Whether headers' times prune for a filter by timestamp."""
    most_offsets: int | None = None
    """Of one trigger. This and the next two are for streaming queries."""
    least_offsets: int | None = None
    """How many offsets have to be there for a trigger, unless the last one was ``longest_delay`` (ms) ago."""
    longest_delay: int = _DELAY


_NAMES = (
    "path", "paths", "table", "subscribe", "subscribePattern", "assign", "startingOffsets", "endingOffsets",
    "startingTimestamp", "endingTimestamp", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy", "failOnDataLoss", "minPartitions", "maxRecordsPerPartition",
    "maxPartitionBytes", "includeHeaders", "includeControl", "checksums", "mode", "columnNameOfCorruptRecord",
    "maxBatchBytes", "maxInflatedBytes", "include", "asItLies", "storageOptions", "pushFilters", "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger", "maxTriggerDelay", "decode", "schemas", "keyFormat", "valueFormat", "decodeScan",
    "keyPairs", "layout", "remote", "prune",
)  # fmt: skip

_UNITS = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}

_ISOLATION = "kafka.isolation.level"
"""The one option of those for a broker that says what is read."""


def parse_options(given: Mapping[str, str]) -> Options:
    """Return the options of a batch query. Raises :class:`UsageError` for what is not allowed, and says what is."""
    options = parse_any_options(given)
    _check_limits(options.start, options.end)
    for side, limit, edge, offset in (
        ("starting", options.start, "latest", LATEST),
        ("ending", options.end, "earliest", EARLIEST),
    ):
        if limit.edge == edge:
            other = "earliest" if edge == "latest" else "latest"
            raise UsageError(
                f"option {side}Offsets: {edge!r} is not possible in a batch query; give {other!r} or offsets"
            )
        for topic, partition in (each for each, value in (limit.offsets or {}).items() if value == offset):
            raise UsageError(
                f"option {side}Offsets: {offset} ({edge}) for {topic}-{partition} is not possible in a batch query"
            )
    start, end = (Limit() if each.edge else each for each in (options.start, options.end))
    return replace(options, start=start, end=end, most_offsets=None, least_offsets=None, longest_delay=_DELAY)


def parse_stream_options(given: Mapping[str, str]) -> Options:
    """Return the options of a streaming query. Raises :class:`UsageError` for what is not allowed, and says what is."""
    options = parse_any_options(given)
    if options.end != Limit():
        raise UsageError(
            "options endingOffsets, endingTimestamp and endingOffsetsByTimestamp: a streaming query has no end; "
            "with trigger(availableNow=True) it ends with the data present when it starts"
        )
    if options.table != "records":
        raise UsageError(f"option table: only records can be streamed, not {options.table}; read it with spark.read")
    if (options.least_offsets or 0) > (options.most_offsets or 1 << 63):
        raise UsageError("option minOffsetsPerTrigger: it is more than maxOffsetsPerTrigger")
    return options


def parse_any_options(given: Mapping[str, str]) -> Options:
    """Return the options of a query of which it is not known yet whether it is a batch or a streaming query."""
    options = {name.lower(): value for name, value in given.items()}
    _refuse_tables(options)
    _refuse_unknown(options)
    read = _OptionsReader(options)
    return Options(
        paths=read.paths(),
        table=cast(SparkTable, read.choice("table", TABLES, "records")),
        topics=read.topics(),
        start=read.limit("starting"),
        end=read.limit("ending"),
        latest_without_match=read.choice("startingOffsetsByTimestampStrategy", ("error", "latest"), "error")
        == "latest",
        fail_on_data_loss=read.flag("failOnDataLoss", True),
        min_partitions=read.positive("minPartitions"),
        max_records=read.positive("maxRecordsPerPartition"),
        split_bytes=read.positive("maxPartitionBytes") or SPLIT_BYTES,
        headers=read.flag("includeHeaders", False),
        control=read.flag("includeControl", False),
        checksums=read.flag("checksums", True),
        committed=read.choice(_ISOLATION, ISOLATION_LEVELS, "read_uncommitted") == "read_committed",
        mode=cast(Mode, read.choice("mode", MODES, "FAILFAST")),
        corrupt_column=read.text("columnNameOfCorruptRecord") or "_corrupt_record",
        max_batch_bytes=read.positive("maxBatchBytes") or read.positive("maxInflatedBytes") or DEFAULT_MAX_BATCH_BYTES,
        include=read.states(),
        as_it_lies=read.flag("asItLies", False),
        storage=read.storage(),
        decoding=decoding_of_options(options),
        push_filters={"true": True, "false": False}.get(read.choice("pushFilters", ("auto", "true", "false"), "auto")),
        prune=read.flag("prune", True),
        most_offsets=read.positive("maxOffsetsPerTrigger"),
        least_offsets=read.positive("minOffsetsPerTrigger"),
        longest_delay=read.milliseconds("maxTriggerDelay", _DELAY),
    )


@dataclass(frozen=True, slots=True)
class _OptionsReader:
    options: Mapping[str, str]

    def text(self, name: str) -> str | None:
        value = self.options.get(name.lower())
        return None if value is None else value.strip()

    def choice(self, name: str, allowed: tuple[str, ...], default: str) -> str:
        value = self.text(name)
        if value is None:
            return default
        for each in allowed:
            if value.lower() == each.lower():
                return each
        raise UsageError(f"option {name}: {value!r} is none of {', '.join(allowed)}")

    def flag(self, name: str, default: bool) -> bool:
        return self.choice(name, ("true", "false"), "true" if default else "false") == "true"

    def positive(self, name: str) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if re.fullmatch(r"\+?[0-9]+", value, re.ASCII) is None or int(value) == 0:
            raise UsageError(f"option {name}: {value!r} is not a whole number above 0")
        return int(value)

    def milliseconds(self, name: str, default: int) -> int:
        """Return a time as Spark has it: ``90s``, ``15m``, ``2h``; without a unit, ms."""
        value = self.text(name)
        if value is None:
            return default
        found = re.fullmatch(r"([0-9]+)\s*([a-z]*)", value.lower(), re.ASCII)
        if found is None or found[2] not in _UNITS:
            raise UsageError(f"option {name}: {value!r} is not a time such as 500ms, 30s or 15m")
        return int(found[1]) * _UNITS[found[2]]

    def paths(self) -> tuple[str, ...]:
        """Return the paths in full, as executors have a directory of their own."""
        one, many = self.options.get("path"), self.options.get("paths")
        found = [] if not one else [one]
        if many is not None:
            found += cast(list[str], self.json("paths", many, _is_list_of_text, '["/var/lib/kafka/orders-0"]'))
        if not found:
            raise UsageError(
                "no path: give load() a log directory, a partition's directory or a log file, "
                f'as in load("/var/lib/kafka"); {TABLES_LOSE_OPTIONS}'
            )
        return tuple(map(full_path, found))

    def topics(self) -> TopicSelection:
        given = [name for name in ("assign", "subscribe", "subscribePattern") if self.text(name) is not None]
        if len(given) > 1:
            raise UsageError(
                f"options {' and '.join(given)}: only one of assign, subscribe, subscribePattern is allowed"
            )
        if not given:
            return TopicSelection()
        name, value = given[0], cast(str, self.text(given[0]))
        if name == "subscribe":
            topics = frozenset(topic.strip() for topic in value.split(",") if topic.strip())
            if not topics:
                raise UsageError(f"option subscribe: no topics in {value!r}; give their names, with commas between")
            return TopicSelection(subscribe=topics)
        if name == "subscribePattern":
            try:
                re.compile(value)
            except re.error as error:
                raise UsageError(f"option subscribePattern: {value!r} is not a regular expression: {error}") from None
            if not value:
                raise UsageError("option subscribePattern: the pattern is empty")
            return TopicSelection(pattern=value)
        parsed = self.json("assign", value, _is_assignment, '{"topicA":[0,1],"topicB":[2,4]}')
        return TopicSelection(assign=frozenset((topic, each) for topic, numbers in parsed.items() for each in numbers))

    def limit(self, side: str) -> Limit:
        """The first of these that is given counts, as in spark-sql-kafka: timestamp, timestamps, offsets."""
        timestamp = self.text(f"{side}Timestamp")
        if timestamp is not None:
            if re.fullmatch(r"[+-]?[0-9]+", timestamp, re.ASCII) is None:
                raise UsageError(
                    f"option {side}Timestamp: {timestamp!r} is not a number of milliseconds since the epoch"
                )
            return Limit(timestamp=int(timestamp))
        name = f"{side}OffsetsByTimestamp"
        text = self.text(name)
        if text is not None:
            return Limit(timestamps=_by_partition(self.json(name, text, _is_by_partition, _TIMESTAMPS_EXAMPLE)))
        name = f"{side}Offsets"
        text = self.text(name)
        edge = "earliest" if side == "starting" else "latest"
        if text is None:
            return Limit()
        if text.lower() in ("earliest", "latest"):
            return Limit(edge="earliest" if text.lower() == "earliest" else "latest")
        if not text.startswith("{"):
            allowed = f"{edge!r} (of a stream, also 'latest')" if edge == "earliest" else repr(edge)
            raise UsageError(f"option {name}: {text!r} is neither {allowed} nor JSON such as {_OFFSETS_EXAMPLE}")
        offsets = _by_partition(self.json(name, text, _is_by_partition, _OFFSETS_EXAMPLE))
        for (topic, partition), offset in offsets.items():
            if offset < 0 and offset not in (EARLIEST, LATEST):
                raise UsageError(
                    f"option {name}: {offset} for {topic}-{partition} is not an offset; {EARLIEST} is the earliest, "
                    f"{LATEST} the latest"
                )
        return Limit(offsets=offsets)

    def states(self) -> tuple[str, ...]:
        states = tuple(each.strip().lower() for each in (self.text("include") or "").split(",") if each.strip())
        for state in states:
            if state not in INCLUDE:
                raise UsageError(f"option include: {state!r} is none of {', '.join(INCLUDE)}")
        return states

    def storage(self) -> Mapping[str, Any]:
        text = self.text("storageOptions")
        options: dict[str, Any] = {}
        if text is not None:
            options = self.json("storageOptions", text, lambda value: isinstance(value, dict), '{"anon": true}')
        key_pairs = self.text("keyPairs")
        files = {} if key_pairs is None else self.json("keyPairs", key_pairs, _is_by_name, '{"key1": "key1.pem"}')
        remote: Sequence[str] | str | None = self.text("remote")
        if isinstance(remote, str) and remote.lstrip().startswith("["):
            remote = self.json("remote", remote, _is_list, '["s3://a", "s3://b"]')
        return tiered_options(options, files, self.text("layout"), remote)

    def json(self, name: str, text: str, is_right: Callable[[Any], bool], example: str) -> Any:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if value is None or not is_right(value):
            raise UsageError(f"option {name}: expected JSON such as {example}, found {text!r}")
        return value


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in cast(list[Any], value))


def _is_by_name(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for each in cast(dict[str, Any], value).values())


def _is_list_of_text(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in cast(list[Any], value))


def _is_assignment(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(numbers, list) and all(type(each) is int for each in cast(list[Any], numbers))
        for numbers in cast(dict[str, Any], value).values()
    )


def _is_by_partition(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(numbers, dict)
        and all(re.fullmatch("[0-9]+", key, re.ASCII) for key in cast(dict[str, Any], numbers))
        and all(type(each) is int for each in cast(dict[str, Any], numbers).values())
        for numbers in cast(dict[str, Any], value).values()
    )


def _by_partition(value: dict[str, dict[str, int]]) -> dict[TopicPartition, int]:
    return {(topic, int(key)): number for topic, numbers in value.items() for key, number in numbers.items()}


def _check_limits(start: Limit, end: Limit) -> None:
    for name, starts, ends in (
        ("Offsets", start.offsets, end.offsets),
        ("OffsetsByTimestamp", start.timestamps, end.timestamps),
    ):
        if starts is None or ends is None:
            continue
        if starts.keys() != ends.keys():
            raise UsageError(f"options starting{name} and ending{name} name different partitions")
        for (topic, partition), first in starts.items():
            last = ends[topic, partition]
            if first > last >= 0:
                raise UsageError(
                    f"option starting{name}: {first} for {topic}-{partition} is past ending{name}, which is {last}"
                )


def _refuse_tables(options: Mapping[str, str]) -> None:
    """Spark's catalog gives a data source of Python a table's properties when the table is made, and nothing at all
    when it is read (``V2SessionCatalog``, 4.3): such a table could never be read."""
    if "provider" in options:
        raise UsageError(f"CREATE TABLE ... USING brokerless is not possible: {TABLES_LOSE_OPTIONS}")


def _refuse_unknown(options: Mapping[str, str]) -> None:
    """Spark does not check a source's options, and a misspelt one would cost data without a word. Those for a broker
    (``kafka.*``) are many and mean nothing here, unless they are nearly the one that does."""
    known = {name.lower(): name for name in (*_NAMES, *_BROKERS_OPTIONS, _ISOLATION)}
    for option in options.keys() - known.keys():
        bare = option.removeprefix("kafka.")
        near = difflib.get_close_matches(option, known, n=1, cutoff=0.75) if bare == option else []
        near = near or difflib.get_close_matches(f"kafka.{bare}", [_ISOLATION], n=1, cutoff=0.85)
        if near:
            raise UsageError(f"there is no option {option!r}; is {known[near[0]]!r} meant?")
        if bare == option:
            raise UsageError(f"there is no option {option!r}; there are {', '.join((*_NAMES, _ISOLATION))}")
