"""Shows what topics cost and would cost: tables for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from brokerless.jobs.size.choices import Choice
from brokerless.jobs.size.estimate import Estimate
from brokerless.jobs.size.result import TopicSize, monthly_cost
from brokerless.text import count_of, format_bytes, show_name
from brokerless.views.table import format_number, table

_BEST, _HEAVIEST, _LONGEST = 6, 5, 40
"""Formats and codecs that are listed with their bytes in all; keys and so on; characters of a name."""


def lines(topic: TopicSize, price_per_gb: float | None = None) -> Iterator[str]:
    """Yield a topic, and what it would cost."""
    yield from _head(topic)
    if not topic.records.bytes:
        return
    yield from _matrix(topic)
    yield from _best(topic, price_per_gb)
    yield from _contents(topic)
    yield from _heaviest(topic)


def _head(topic: TopicSize) -> Iterator[str]:
    contents, kind = topic.contents, topic.kind
    name = "file" if topic.topic is None else show_name(topic.topic)
    records = count_of(round(topic.records.bytes), "record") + _error(topic.records)
    yield f"{name}: {count_of(topic.partitions, 'partition')}, {records}, {format_bytes(topic.bytes)}"
    if kind is not None and contents.batches:
        each = f"{contents.records / contents.batches:,.1f} records and {contents.stored / contents.batches:,.0f} bytes"
        yield f"now {'mostly ' if topic.is_mixed else ''}v{kind[0]} {kind[1]}, in batches of {each} on average"
    share = topic.bytes_read / topic.bytes if topic.bytes else 1.0
    why = ", more than requested: at least four batches, and they are large" if topic.is_over_budget else ""
    read = f"{format_bytes(topic.bytes_read)} were read ({share:.1%}{why})"
    yield read if topic.is_exact else f"{read}: sizes are estimates, in 95 % of cases within the interval"


def _matrix(topic: TopicSize) -> Iterator[str]:
    """Bytes a record: a line for each format, codec and level, a column for each size of a batch."""
    packings = list(dict.fromkeys((each.batch_records, each.batch_bytes) for each in topic.sizes))
    packings.sort(key=lambda each: (each != (None, None), each[1] or 0, each[0] or 0))
    kinds = list(dict.fromkeys((each.magic, each.codec, each.level) for each in topic.sizes))
    rows: list[list[str]] = []
    for magic, codec, level in kinds:
        own = [topic.sizes.get(Choice(magic, codec, level, *packing)) for packing in packings]
        cells = ["-" if each is None else f"{each.bytes / topic.records.bytes:,.1f}" for each in own]
        rows.append([f"v{magic}", codec if level is None else f"{codec} {level}", *cells])
    titles = [_packing(*each) for each in packings]
    yield ""
    yield "bytes a record, by the records or bytes of a batch:"
    yield from table(("format", "codec", *titles), rows, right=titles, needed=("format",))


def _packing(records: int | None, size: int | None) -> str:
    if records is not None:
        return f"{records:,} rec"
    if size is None:
        return "unchanged"
    return f"{size >> 10:,} KiB" if size < 1 << 20 or size % (1 << 20) else f"{size >> 20:,} MiB"


def _best(topic: TopicSize, price_per_gb: float | None) -> Iterator[str]:
    found: dict[tuple[int, str, int | None], Choice] = {}
    for choice in sorted(topic.sizes, key=lambda each: (topic.sizes[each].bytes, each.batch_records is not None)):
        found.setdefault((choice.magic, choice.codec, choice.level), choice)
    best = [*found.values()][:_BEST]
    if topic.best is not None and topic.best not in best:
        best.append(topic.best)
    names = ["format", "codec", "batch", "bytes in all", "interval", "of now", *(["a month"] if price_per_gb else [])]
    rows = [["now", "", "", format_number(topic.bytes), "", "100.0%", *_cost(topic.bytes, price_per_gb)]]
    for choice in best:
        size = topic.sizes[choice]
        within = "exact" if topic.is_exact else f"{size.low:,.0f}..{size.high:,.0f}"
        codec = choice.codec if choice.level is None else f"{choice.codec} {choice.level}"
        cells = [f"v{choice.magic}", codec, _packing(choice.batch_records, choice.batch_bytes), f"{size.bytes:,.0f}"]
        rows.append([*cells, within, f"{size.bytes / topic.bytes:.1%}", *_cost(size.bytes, price_per_gb)])
    yield ""
    yield "the smallest of each format and codec:"
    yield from table(names, rows, right=names[3:], needed=("format",))


def _cost(size: float, price_per_gb: float | None) -> list[str]:
    return [f"{monthly_cost(size, price_per_gb):,.2f}"] if price_per_gb else []


def _contents(topic: TopicSize) -> Iterator[str]:
    contents = topic.contents
    parts = {
        "keys": contents.keys,
        "values": contents.values,
        "headers": contents.headers,
        "record overhead": contents.overhead,
        "batch headers": contents.batch_headers,
    }
    whole = contents.before_compression
    yield ""
    yield "what is there, before compression:"
    rows = [[name, f"{value:,.0f}", f"{value / whole:.1%}"] for name, value in parts.items()]
    yield from table(("part", "bytes", "share"), rows, right=("bytes", "share"))
    stored = format_bytes(round(contents.stored))
    is_smaller = contents.stored < whole
    yield f"compression makes {stored} of these {format_bytes(round(whole))}" if is_smaller else f"they take {stored}"
    records = contents.records
    fixed, absolute, varints = contents.fixed_width, contents.without_deltas, contents.varints
    saved = (
        f"varints save {(fixed - absolute) / records:,.1f} bytes a record, deltas {(absolute - varints) / records:,.1f}"
    )
    yield f"v2 has {varints / records:,.1f} bytes of overhead a record: against fields of fixed width, {saved}"
    for (magic, codec), count in topic.smaller_from.items():
        how = "without a codec" if codec == "none" else f"with {codec}"
        when = "never smaller in v2 here" if count is None else f"smaller in v2 from {count_of(count, 'record')} on"
        lost = ", which has no headers" if contents.headers else ""
        yield f"a batch {how} is {when} than in v{magic}{lost}"
    repacked = topic.best_batches
    if repacked is not None:
        more = topic.bytes - topic.sizes[repacked].bytes
        packing = _packing(repacked.batch_records, repacked.batch_bytes)
        cost = f"{format_bytes(round(more))} ({more / topic.bytes:.1%})"
        if more > 0:
            yield f"today's batches cost {cost} more than batches of {packing} in the same format and codec"
        else:
            yield "no other batches in the same format and codec are smaller than today's"


def _heaviest(topic: TopicSize) -> Iterator[str]:
    contents = topic.contents
    for title, counts, whole in (
        ("key", contents.by_key, contents.stored),
        ("header (before compression)", contents.by_header, contents.headers),
        ("producer ID", contents.by_producer, contents.stored),
        ("hour", contents.by_hour, contents.stored),
    ):
        if len(counts) > (title in ("key", "producer ID", "hour")):
            rows = [
                [_name(title, name), f"{value:,.0f}", f"{value / whole:.1%}"]
                for name, value in counts.most_common(_HEAVIEST)
            ]
            yield ""
            yield from table((f"heaviest {title}", "bytes", "share"), rows, right=("bytes", "share"))


def _name(title: str, name: Any) -> str:
    if name is None:
        return "(null)"
    if title == "hour":
        try:
            return datetime.fromtimestamp(name * 3600, UTC).strftime("%Y-%m-%dT%H:00Z")
        except (OverflowError, ValueError, OSError):
            return f"hour {name}"
    if isinstance(name, bytes):
        text = show_name(name.decode(errors="backslashreplace"))
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
    return "(none)" if name == -1 else str(name)


def _error(value: Estimate) -> str:
    return f" (± {(value.high - value.low) / 2 / value.bytes:.1%})" if value.high > value.low else ""


def totals(topic: TopicSize, price_per_gb: float | None = None) -> Iterator[str]:
    """All topics together."""
    yield ""
    yield f"all topics: {count_of(topic.partitions, 'partition')}, {format_bytes(topic.bytes)}"
    if topic.records.bytes:
        yield from _matrix(topic)
        yield from _best(topic, price_per_gb)


def advice(topic: TopicSize, paths: Sequence[str], options: Sequence[str]) -> Iterator[str]:
    """Yield the command line that makes the best of it."""
    if topic.best is not None and topic.records.bytes:
        yield ""
        yield topic.best.command(paths, options)
