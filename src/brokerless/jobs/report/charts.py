"""Charts of a report's figures, as values of Vega-Altair: a notebook shows them, and the page embeds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from brokerless.errors import missing_libraries
from brokerless.jobs.report.chart_rows import (
    OTHERS,
    batch_size_rows,
    compression_rows,
    damaged_partitions,
    size_rows,
    throughput_rows,
    timeline_rows,
)
from brokerless.jobs.report.figures import Figures
from brokerless.values import Row

if TYPE_CHECKING:
    import altair

CODEC_COLOURS = {
    "none": "#8a94a6",
    "gzip": "#d9822b",
    "snappy": "#2e9e6b",
    "lz4": "#3b78d8",
    "zstd": "#8a5cd1",
    "several": "#17a3b8",
    "unknown": "#c23b4b",
}
TOPIC_COLOURS = (
    "#3b78d8", "#2e9e6b", "#d9822b", "#8a5cd1", "#17a3b8", "#c2568f", "#94a02c", "#b0694a",
)  # fmt: skip
REST_COLOUR = "#8a94a6"
_BYTES_AXIS = (
    "datum.value >= 1e9 ? format(datum.value / 1e9, '.4~g') + ' GB' : "
    "datum.value >= 1e6 ? format(datum.value / 1e6, '.4~g') + ' MB' : "
    "datum.value >= 1e3 ? format(datum.value / 1e3, '.4~g') + ' KB' : datum.value + ' B'"
)


def vega_altair() -> Any:
    """Return the module of the charts' library. Raises :class:`UsageError` where it is not installed."""
    try:
        import altair
    except ImportError as error:
        raise missing_libraries("charts need Vega-Altair", "report") from error
    return altair


def sizes(figures: Figures) -> altair.LayerChart:
    """Return a treemap of ``partitions``: the area is the size in bytes, the colour the topic."""
    alt, rows = vega_altair(), size_rows(figures["partitions"])
    plane = {"axis": None, "scale": alt.Scale(domain=[0, 2.6], nice=False, zero=False)}
    height = {"axis": None, "scale": alt.Scale(domain=[1, 0], nice=False, zero=False)}
    tooltip = [
        alt.Tooltip("label:N", title="partition"),
        alt.Tooltip("sizeInBytes:Q", title="bytes", format=","),
        alt.Tooltip("records:Q", title="records", format=","),
        alt.Tooltip("segments:Q", title="segments", format=","),
    ]
    base = alt.Chart(alt.InlineData(values=rows))
    rectangles = base.mark_rect(xOffset=1, x2Offset=-1, yOffset=1, y2Offset=-1, cornerRadius=2).encode(
        x=alt.X("x:Q", **plane),
        x2="x2:Q",
        y=alt.Y("y:Q", **height),
        y2="y2:Q",
        color=_topic_colour(alt, [row["topic"] for row in rows]).legend(None),
        tooltip=tooltip,
    )
    # A label is there where it fits: about 7 pixels a character, whatever the width of the chart is.
    fits = "(datum.x2 - datum.x) / 2.6 * width > 7 * length(datum.label) + 12 && (datum.y2 - datum.y) * height > 22"
    labels = (
        base.transform_calculate(middle="(datum.x + datum.x2) / 2", centre="(datum.y + datum.y2) / 2")
        .transform_filter(fits)
        .mark_text(fontWeight=600, color="white", aria=False)
        .encode(x=alt.X("middle:Q", **plane), y=alt.Y("centre:Q", **height), text="label:N")
    )
    return _finish(alt.layer(rectangles, labels), 300, "Partitions by size")


def timeline(figures: Figures) -> altair.LayerChart:
    """Each of the ``segments`` from its first to its last timestamp, in a line for each partition. Colours are codecs;
    a red tick is where offsets are missing before a segment."""
    alt, rows = vega_altair(), timeline_rows(figures["segments"], damaged_partitions(figures.get("findings")))
    lanes = sorted({row["partition"] for row in rows})
    tooltip = [
        alt.Tooltip("partition:N"),
        alt.Tooltip("firstOffset:Q", title="first offset", format=","),
        alt.Tooltip("lastOffset:Q", title="last offset", format=","),
        alt.Tooltip("gapBefore:Q", title="offsets missing before", format=","),
        alt.Tooltip("sizeInBytes:Q", title="bytes", format=","),
        alt.Tooltip("format:N"),
        alt.Tooltip("compression:N"),
        alt.Tooltip("leaderEpochs:N", title="leader epochs"),
        alt.Tooltip("from:T", title="from", format="%Y-%m-%d %H:%M:%S"),
        alt.Tooltip("to:T", title="to", format="%Y-%m-%d %H:%M:%S"),
    ]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("from:T", scale=alt.Scale(type="utc", nice=False), title=None),
        y=alt.Y("partition:N", sort=lanes, title=None, axis=_plain_axis(alt)),
        tooltip=tooltip,
    )
    colour = _codec_colour(alt, rows)
    # A segment of a moment has no width: its tick is seen.
    layers = [
        base.mark_tick(thickness=2, size=12, aria=False).encode(color=colour),
        base.mark_bar(height=12, cornerRadius=1, x2Offset=-1).encode(x2="to:T", color=colour),
    ]
    if any(row["gapBefore"] > 0 for row in rows):
        gaps = base.transform_filter("datum.gapBefore > 0")
        layers.append(gaps.mark_tick(color="#d33d4e", thickness=2, size=20))
    return _finish(alt.layer(*layers), max(60, 24 * len(lanes)), "Segments of each partition by their timestamps")


def throughput(figures: Figures) -> altair.Chart:
    """Records by hour and topic (``throughput``); bars are of several hours where there would be too many."""
    alt, rows = vega_altair(), throughput_rows(figures["throughput"])
    chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_rect(x2Offset=-0.5)
        .encode(
            x=alt.X("start:T", scale=alt.Scale(type="utc", nice=False), title=None),
            x2="end:T",
            y=alt.Y("above:Q", title="records", axis=alt.Axis(format="~s", tickMinStep=1)),
            y2="below:Q",
            color=_topic_colour(alt, [row["topic"] for row in rows]),
            tooltip=[
                alt.Tooltip("topic:N"),
                alt.Tooltip("start:T", title="from", format="%Y-%m-%d %H:%M"),
                alt.Tooltip("end:T", title="to", format="%Y-%m-%d %H:%M"),
                alt.Tooltip("records:Q", format=","),
                alt.Tooltip("sizeInBytes:Q", title="bytes", format=","),
            ],
        )
    )
    return _finish(chart, 240, "Records of each topic by time")


def batch_sizes(figures: Figures) -> altair.Chart:
    """Return how many batches are how large (``batchSizes``), by powers of two."""
    alt, rows = vega_altair(), batch_size_rows(figures["batchSizes"])
    chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_bar(color=TOPIC_COLOURS[0], cornerRadiusEnd=2)
        .encode(
            x=alt.X("batches:Q", title="batches", axis=alt.Axis(format="~s", tickMinStep=1)),
            y=alt.Y("size:N", sort=[row["size"] for row in rows], title=None, axis=_plain_axis(alt)),
            tooltip=[
                alt.Tooltip("size:N", title="bytes a batch"),
                alt.Tooltip("batches:Q", format=","),
                alt.Tooltip("records:Q", format=","),
                alt.Tooltip("sizeInBytes:Q", title="bytes", format=","),
            ],
        )
    )
    return _finish(chart, max(60, 24 * len(rows)), "Batches by their size")


def compression(figures: Figures) -> altair.Chart:
    """Bytes by topic and codec (``compression``)."""
    alt, rows = vega_altair(), compression_rows(figures["compression"])
    topics = sorted({row["topic"] for row in rows}, key=lambda topic: (topic == OTHERS, topic))
    chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_bar(cornerRadius=1)
        .encode(
            x=alt.X("sizeInBytes:Q", stack="zero", title="bytes", axis=alt.Axis(labelExpr=_BYTES_AXIS, tickCount=4)),
            y=alt.Y("topic:N", sort=topics, title=None, axis=_plain_axis(alt)),
            color=_codec_colour(alt, rows),
            order=alt.Order("rank:Q"),
            tooltip=[
                alt.Tooltip("topic:N"),
                alt.Tooltip("format:N"),
                alt.Tooltip("compression:N"),
                alt.Tooltip("batches:Q", format=","),
                alt.Tooltip("records:Q", format=","),
                alt.Tooltip("sizeInBytes:Q", title="bytes", format=","),
            ],
        )
    )
    return _finish(chart, max(60, 26 * len(topics)), "Bytes of each topic by codec")


CHARTS = {
    "sizes": sizes,
    "timeline": timeline,
    "throughput": throughput,
    "batchSizes": batch_sizes,
    "compression": compression,
}


def _plain_axis(alt: Any) -> Any:
    return alt.Axis(domain=False, ticks=False, labelLimit=140)


def _topic_colour(alt: Any, topics: list[str]) -> Any:
    names = sorted(set(topics), key=lambda topic: (topic == OTHERS, topic))
    colours = [REST_COLOUR if each == OTHERS else TOPIC_COLOURS[at % 8] for at, each in enumerate(names)]
    return alt.Color("topic:N", title="topic", sort=names, scale=alt.Scale(domain=names, range=colours))


def _codec_colour(alt: Any, rows: list[Row]) -> Any:
    codecs = [codec for codec in CODEC_COLOURS if any(row["compression"] == codec for row in rows)]
    scale = alt.Scale(domain=codecs, range=[CODEC_COLOURS[codec] for codec in codecs])
    return alt.Color("compression:N", title="codec", sort=codecs, scale=scale)


def _finish(chart: Any, height: int, description: str) -> Any:
    properties = {"width": "container", "height": height, "background": "transparent", "description": description}
    return chart.properties(**properties).configure_view(stroke=None)
