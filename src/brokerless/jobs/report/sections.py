"""What a report's page consists of: its sections, with their charts and the columns of their tables."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from brokerless.explanation.checkpoints import FILES
from brokerless.jobs.report.chart_rows import partition_name, topic_name
from brokerless.log.names import parse_segment_file
from brokerless.text import format_bytes, show_name
from brokerless.values import Row

CellKind = Literal[
    "text", "name", "wide", "number", "id", "bytes", "share", "time", "severity", "command", "folded", "places"
]
"""How a column is written and aligned; ``id`` is a number without separators of thousands, ``share`` one of 1, and
``folded`` a command that is shown after a click; ``places`` are several, of which the first is shown."""


@dataclass(frozen=True)
class TableColumn:
    """A column of a table."""

    name: str
    label: str
    kind: CellKind = "number"
    value: Callable[[Row], Any] | None = None
    """Returns the cell of a figure's row; by default that of the column ``name``."""

    def of(self, row: Row) -> Any:
        found = row[self.name] if self.value is None else self.value(row)
        if self.kind == "places":
            return [show_name(each) for each in found]
        return show_name(found) if isinstance(found, str) else found


@dataclass(frozen=True)
class TableView:
    """A table of the page."""

    name: str
    """The name of its figure."""
    label: str
    columns: tuple[TableColumn, ...]
    is_folded: bool = False
    is_titled: bool = True
    """On a phone, each row is a card, with the columns' labels before their values."""


@dataclass(frozen=True)
class Section:
    """A part of the page."""

    id: str
    title: str
    about: str
    charts: dict[str, str] = field(default_factory=dict[str, str])
    """Names in :data:`brokerless.jobs.report.charts.CHARTS`, with what they show."""
    tables: tuple[TableView, ...] = ()
    nothing: str = ""
    """What is there instead, where the tables are empty."""


def _message(row: Row) -> str:
    details = [f"{name} {row[name]}" for name in ("expected", "found") if row[name]]
    return f"{row['message']} ({', '.join(details)})" if details else row["message"]


def _advice(row: Row) -> str:
    return "" if row["advice"] in (None, "nothing") else row["advice"]


def _explain_command(row: Row) -> str:
    """The command that explains the bytes at a finding, or of a segment's first batch; none for what is no file of
    Kafka's."""
    name = row["file"].split("/")[-1]
    known = parse_segment_file(name)
    if known is None and name not in FILES:
        return ""
    position = row.get("position")
    is_by_position = position is not None and known is not None and known.kind != "producer-snapshot"
    return f"brokerless explain {shlex.quote(row['file'])}" + (f" --position {position}" if is_by_position else "")


def _batches(row: Row) -> str:
    if row["isCurrent"]:
        return "now" if row["batchBytes"] is None else f"now ({format_bytes(row['batchBytes'])} on average)"
    return "as now" if row["batchBytes"] is None else f"{row['batchBytes'] >> 10:,} KiB"


def _joined(name: str, separator: str = ", ", before: str = "") -> Callable[[Row], str]:
    return lambda row: separator.join(f"{before}{value}" for value in row[name])


_PARTITION = TableColumn("partition", "partition", "text", partition_name)
_TOPIC = TableColumn("topic", "topic", "text", lambda row: topic_name(row["topic"]))
_SUMS = (
    TableColumn("batches", "batches"),
    TableColumn("records", "records"),
    TableColumn("sizeInBytes", "size", "bytes"),
)
_TIMES = (TableColumn("minTimestamp", "first", "time"), TableColumn("maxTimestamp", "last", "time"))
_OFFSETS = (TableColumn("firstOffset", "first offset"), TableColumn("lastOffset", "last offset"))

FINDINGS = TableView(
    "findings",
    "Findings of the audit",
    (
        TableColumn("severity", "severity", "severity"),
        TableColumn("message", "finding", "wide", _message),
        TableColumn("count", "times", value=lambda row: row["count"] if row["count"] > 1 else None),
        TableColumn("places", "place", "places"),
        TableColumn("advice", "what to do", "wide", _advice),
        TableColumn("kind", "see its bytes", "command", _explain_command),
    ),
    is_titled=False,
)
TOPICS = TableView(
    "topics",
    "Topics",
    (
        _TOPIC,
        TableColumn("partitions", "partitions"),
        TableColumn("segments", "segments"),
        *_SUMS,
        TableColumn("policy", "cleanup.policy", "text"),
        TableColumn("retention", "retention", "text"),
        TableColumn("lag", "largest lag"),
        *_TIMES,
    ),
)
"""Its rows are made by the page, from those of partitions and lag."""
PARTITIONS = TableView(
    "partitions", "Partitions", (_PARTITION, TableColumn("segments", "segments"), *_SUMS, *_OFFSETS, *_TIMES)
)
SEGMENTS = TableView(
    "segments",
    "Segments",
    (
        _PARTITION,
        TableColumn("baseOffset", "base offset", "id"),
        TableColumn("lastOffset", "last offset"),
        TableColumn("gapBefore", "gap before"),
        *_SUMS,
        TableColumn("magics", "formats", "text", _joined("magics", before="v")),
        TableColumn("compressions", "codecs", "text", _joined("compressions")),
        TableColumn("leaderEpochs", "leader epochs", "text", _joined("leaderEpochs", " to ")),
        *_TIMES,
        TableColumn("file", "see its bytes", "folded", _explain_command),
    ),
)
THROUGHPUT = TableView(
    "throughput",
    "Throughput",
    (TableColumn("start", "from", "time"), TableColumn("end", "to", "time"), _TOPIC, *_SUMS),
    is_folded=True,
)
BATCH_SIZES = TableView(
    "batchSizes",
    "Batch sizes",
    (_TOPIC, TableColumn("fromBytes", "from (bytes)"), TableColumn("belowBytes", "below (bytes)"), *_SUMS),
    is_folded=True,
)
COMPRESSION = TableView(
    "compression",
    "Compression",
    (
        _TOPIC,
        TableColumn("magic", "format", "text", lambda row: f"v{row['magic']}"),
        TableColumn("compression", "codec", "text", lambda row: row["compression"] or "unknown"),
        *_SUMS,
    ),
    is_folded=True,
)
TOPIC_SIZES = TableView(
    "topicSizes",
    "Other formats and codecs",
    (
        _TOPIC,
        TableColumn("format", "format", "text", lambda row: row["format"] or "several"),
        TableColumn("compression", "codec", "text", lambda row: row["compression"] or "several"),
        TableColumn("batchBytes", "batches", "text", _batches),
        TableColumn("sizeInBytes", "size", "bytes"),
        TableColumn("low", "at least", "bytes", lambda row: None if row["isExact"] else row["low"]),
        TableColumn("high", "at most", "bytes", lambda row: None if row["isExact"] else row["high"]),
        TableColumn(
            "currentSizeInBytes", "of now", "share", lambda row: row["sizeInBytes"] / max(1, row["currentSizeInBytes"])
        ),
        TableColumn("command", "to convert", "command"),
    ),
)
PRODUCERS = TableView(
    "producers",
    "Producers",
    (
        _PARTITION,
        TableColumn("producerId", "producer id", "text", lambda row: _producer(row["producerId"])),
        TableColumn("producerEpoch", "epoch", "id", lambda row: _known(row["producerEpoch"])),
        *_SUMS,
        TableColumn("transactionalBatches", "in transactions"),
        *_TIMES,
    ),
)
TRANSACTIONS = TableView(
    "transactions",
    "Transactions",
    (
        _PARTITION,
        TableColumn("committed", "committed"),
        TableColumn("aborted", "aborted"),
        TableColumn("open", "open"),
        TableColumn("withoutData", "only a marker"),
    ),
)
LAG = TableView(
    "lag",
    "Lag of consumer groups",
    (
        TableColumn("group", "group", "name"),
        _PARTITION,
        TableColumn("offset", "committed offset"),
        TableColumn("endOffset", "end offset"),
        TableColumn("lag", "lag"),
        TableColumn("commitTimestamp", "committed", "time"),
    ),
)

SECTIONS = (
    Section("findings", "Findings",
            "What an audit of every batch, index and checkpoint found, the worst first; what says the same is one row.",
            tables=(FINDINGS,), nothing="Nothing was found."),
    Section("topics", "Topics",
            "The topics, the largest first; the lag is that of the group that is farthest behind. Policy and retention "
            "are those of the cluster's metadata in the directory; what only a server.properties says is not known.",
            tables=(TOPICS,), nothing="There are no topics."),
    Section("sizes", "Sizes", "Each rectangle is a partition, as large as its log files; topics have colours.",
            charts={"sizes": "Partitions by size"}, tables=(PARTITIONS,), nothing="There are no partitions."),
    Section("timeline", "Segments",
            "From the first to the last timestamp of each segment. A red mark is where offsets are missing before it.",
            charts={"timeline": "Segments by time"}, tables=(SEGMENTS,), nothing="There are no segments."),
    Section("throughput", "Throughput",
            "Records by topic and hour, or by as many hours as fit; a batch counts where its last timestamp is.",
            charts={"throughput": "Records by time"}, tables=(THROUGHPUT,), nothing="There are no batches."),
    Section("batches", "Batches", "How large the batches are, and what they take by message format and codec.",
            charts={"batchSizes": "Batches by their size in bytes", "compression": "Bytes by topic and codec"},
            tables=(BATCH_SIZES, COMPRESSION), nothing="There are no batches."),
    Section("choices", "Formats and codecs",
            "What the largest topics take now, and what each format and codec would make of them with the batch size "
            "that makes it smallest. Sizes of large topics are estimates, with the range that has the true one in 95 % "
            "of cases. The command writes the smallest that loses nothing, beside what is there.",
            tables=(TOPIC_SIZES,), nothing="There are no records."),
    Section("producers", "Producers", "Who wrote how much to which partition, by the ids in batch headers.",
            tables=(PRODUCERS,), nothing="There are no batches."),
    Section("transactions", "Transactions", "How transactions ended, by their markers.",
            tables=(TRANSACTIONS,), nothing="There are no transactions."),
    Section("lag", "Consumer groups", "How far committed offsets are from the ends of the partitions that are here.",
            tables=(LAG,), nothing="There are no committed offsets: __consumer_offsets is not here, or is empty."),
)  # fmt: skip


def _producer(producer_id: int | None) -> str:
    return "all others" if producer_id is None else "not idempotent" if producer_id < 0 else str(producer_id)


def _known(value: int | None) -> int | None:
    return None if value is None or value < 0 else value
