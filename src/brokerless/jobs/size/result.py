"""What one topic costs and would cost: the result of the size job, and its lines of JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import hypot
from typing import Any

from brokerless.clock import HOUR_MS
from brokerless.findings import Finding
from brokerless.format import layouts
from brokerless.jobs.size.choices import Choice
from brokerless.jobs.size.contents import Contents, sum_of
from brokerless.jobs.size.estimate import Estimate
from brokerless.text import format_bytes, html_table, json_bytes, short_repr

_NEARLY_ALL = 0.95
HEAVIEST = 10
"""Keys, headers, producers and hours that are listed."""


@dataclass(frozen=True, slots=True)
class TopicSize:
    """A topic's size: what it costs and would cost, in bytes of its segments' logs."""

    topic: str | None
    """None for a lone file."""
    partitions: int
    bytes: int
    """What is there, from the log start offsets on."""
    is_exact: bool
    bytes_read: int
    """The bytes that were read for the estimate."""
    records: Estimate
    """How many records there are, with a 95 % interval, or exact, with none."""
    sizes: dict[Choice, Estimate]
    """By choice, with 95 % intervals, or exact, with none."""
    contents: Contents
    """Estimates as well, scaled to the topic."""
    bytes_other: float
    """The bytes of control batches, and of batches without records."""
    smaller_from: dict[tuple[int, str], int | None]
    """By format (0, 1) and codec, from how many records on a batch is smaller in v2; None for never."""
    findings: tuple[Finding, ...] = ()
    """What could not be read."""
    is_over_budget: bool = False
    """Whether more was read than requested, as the fewest batches of a sample are so large."""

    __repr__ = short_repr

    @property
    def kind(self) -> tuple[int, str] | None:
        """The format and codec of most bytes that are there; None without records."""
        kinds = self.contents.kinds.most_common(1)
        return (kinds[0][0][0], layouts.codec_name(kinds[0][0][1])) if kinds else None

    @property
    def is_mixed(self) -> bool:
        """Whether :attr:`kind` is not that of nearly all bytes."""
        kinds = self.contents.kinds
        return not kinds or kinds.most_common(1)[0][1] < _NEARLY_ALL * kinds.total()

    @property
    def best(self) -> Choice | None:
        """The smallest that ``convert`` can write without losing anything: v2, and not by a number of records."""
        fitting = [each for each in self.sizes if each.magic == layouts.MAGIC_V2 and each.batch_records is None]
        return min(fitting or self.sizes, key=lambda each: self.sizes[each].bytes, default=None)

    @property
    def best_batches(self) -> Choice | None:
        """The smallest with the format and codec that nearly all bytes have, in other batches."""
        if self.is_mixed:
            return None
        same = [
            each
            for each in self.sizes
            if (each.magic, each.codec) == self.kind and each.level is None and not each.is_unchanged
        ]
        return min(same, key=lambda each: self.sizes[each].bytes, default=None)

    def as_dicts(self, price_per_gb: float | None = None) -> list[dict[str, Any]]:
        """Return the objects that ``size --json`` writes: the present state, then one for each choice."""
        contents, kind, best = self.contents, self.kind, self.best
        now = {
            "topic": self.topic,
            "format": None if kind is None else f"v{kind[0]}",
            "compression": None if kind is None else kind[1],
            "level": None,
            "batchRecords": round(contents.records / contents.batches, 1) if contents.batches else None,
            "batchBytes": round(contents.stored / contents.batches, 1) if contents.batches else None,
            **self._costs(Estimate(self.bytes, self.bytes, self.bytes), price_per_gb),
            "isCurrent": True,
            "isBest": False,
            "isExact": self.is_exact,
            "partitions": self.partitions,
            "records": round(self.records.bytes),
            "recordsLow": round(self.records.low),
            "recordsHigh": round(self.records.high),
            "bytesRead": self.bytes_read,
            "contents": self._contents(),
            "smallerFrom": [
                {"format": f"v{magic}", "compression": codec, "records": records}
                for (magic, codec), records in self.smaller_from.items()
            ],
            "heaviest": self.heaviest(),
        }
        choices = [
            {"topic": self.topic, **choice.as_dict(), **self._costs(size, price_per_gb)}
            | {"isCurrent": False, "isBest": choice == best, "isExact": self.is_exact}
            for choice, size in self.sizes.items()
        ]
        return [now, *choices]

    def _repr_html_(self) -> str:
        """For notebooks: what is there, then the smallest choices."""
        now, *choices = self.as_dicts()
        names = ("format", "compression", "level", "batchRecords", "batchBytes", "sizeInBytes", "low", "high")
        by_size = sorted(choices, key=lambda row: row["sizeInBytes"])
        rows = [tuple(row[name] for name in names) for row in [now, *by_size]]
        return html_table(f"{self.topic or 'file'}: {format_bytes(self.bytes)}; first what is there now", names, rows)

    def _costs(self, size: Estimate, price_per_gb: float | None) -> dict[str, Any]:
        records = self.records.bytes
        costs = {
            "sizeInBytes": round(size.bytes),
            "bytesPerRecord": round(size.bytes / records, 2) if records else None,
            "low": int(size.low),
            "high": -int(-size.high // 1),
        }
        return costs if price_per_gb is None else costs | {"monthlyCost": monthly_cost(size.bytes, price_per_gb)}

    def _contents(self) -> dict[str, Any]:
        contents = self.contents
        names = {
            "keys": contents.keys,
            "values": contents.values,
            "headers": contents.headers,
            "recordOverhead": contents.overhead,
            "batchHeaders": contents.batch_headers,
            "compressedTo": contents.stored,
            "other": self.bytes_other,
            "overheadV2": contents.varints,
            "overheadWithoutDeltas": contents.without_deltas,
            "overheadFixedWidth": contents.fixed_width,
            "batches": contents.batches,
        }
        return {name: round(value) for name, value in names.items()}

    def heaviest(self, most: int = HEAVIEST) -> dict[str, list[dict[str, Any]]]:
        """Return the keys, headers, producers and hours (ms since the epoch) with the most bytes."""
        contents = self.contents
        hours = Counter({hour * HOUR_MS: value for hour, value in contents.by_hour.items()})
        names: dict[str, Counter[Any]] = {
            "keys": contents.by_key,
            "headers": contents.by_header,
            "producers": contents.by_producer,
            "hours": hours,
        }
        return {
            name: [{"name": json_bytes(key), "sizeInBytes": round(value)} for key, value in counts.most_common(most)]
            for name, counts in names.items()
        }


def monthly_cost(size: float, price_per_gb: float) -> float:
    """Return the cost of ``size`` bytes for a month, where ``price_per_gb`` is that of 10^9 bytes."""
    return round(size / 1e9 * price_per_gb, 4)


def total(topics: Sequence[TopicSize]) -> TopicSize:
    """All topics as one; the errors of estimates are independent, so their squares add up."""
    filled = [each for each in topics if each.records.bytes] or list(topics[:1])
    chosen = [choice for choice in filled[0].sizes if all(choice in each.sizes for each in filled)] if filled else []
    return TopicSize(
        None,
        sum(each.partitions for each in topics),
        sum(each.bytes for each in topics),
        is_exact=all(each.is_exact for each in topics),
        bytes_read=sum(each.bytes_read for each in topics),
        records=sum_estimates([each.records for each in topics]),
        sizes={choice: sum_estimates([each.sizes[choice] for each in filled]) for choice in chosen},
        contents=sum_of(each.contents for each in topics),
        bytes_other=sum(each.bytes_other for each in topics),
        smaller_from={},
    )


def sum_estimates(parts: Iterable[Estimate]) -> Estimate:
    value = below = above = 0.0
    for each in parts:
        value += each.bytes
        below, above = hypot(below, each.bytes - each.low), hypot(above, each.high - each.bytes)
    return Estimate(value, value - below, value + above)
