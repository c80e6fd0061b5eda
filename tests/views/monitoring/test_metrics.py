"""Prometheus's own parser reads the metrics, whatever topics and paths are called."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from brokerless.findings import Finding, Kind
from brokerless.views.monitoring.checked_run import CheckedRun, Place
from brokerless.views.monitoring.metrics import metrics

ODD = 'a"b\\c\nd-0'


def test_the_parser_gets_every_sample() -> None:
    run = CheckedRun(1_000, {ODD: Place(ODD, 'a"b\\c\nd', 0, 42), "x-1": Place("x-1", "x", 1, 7)}, 3_500, 1)
    run.unread = ["nowhere: there is no such file or directory"]
    for kind in (Kind.CHECKSUM_MISMATCH, Kind.CHECKSUM_MISMATCH, Kind.ZERO_TAIL):
        run.add(Finding("error", kind, f"{ODD}/0.log", position=1, offset=2, message="m"))
    run.add(Finding("warning", Kind.TRUNCATED_BATCH, "elsewhere", position=1, offset=2, message="m"))
    samples = {
        (each.name.removeprefix("brokerless_verify_"), *sorted(each.labels.items())): each.value
        for family in text_string_to_metric_families(metrics(run))
        for each in family.samples
    }
    odd = (("partition", "0"), ("path", ODD), ("topic", 'a"b\\c\nd'))
    other = (("partition", "1"), ("path", "x-1"), ("topic", "x"))
    none = (("partition", ""), ("path", ""))
    assert samples == {
        ("findings", ("kind", "checksum-mismatch"), *odd[:2], ("severity", "error"), odd[2]): 2,
        ("findings", ("kind", "zero-tail"), *odd[:2], ("severity", "error"), odd[2]): 1,
        ("findings", ("kind", "truncated-batch"), *none, ("severity", "warning"), ("topic", "")): 1,
        ("partition_errors", *odd): 3,
        ("partition_errors", *other): 0,
        ("partition_bytes", *odd): 42,
        ("partition_bytes", *other): 7,
        ("unreadable_paths",): 1,
        ("exit_code",): 1,
        ("duration_seconds",): 2.5,
        ("last_run_timestamp_seconds",): 3.5,
    }
