"""A reader of JUnit's XML gets a test case for each partition, with its errors as a failure."""

from __future__ import annotations

from junitparser import Error, Failure, JUnitXml

from brokerless.findings import Finding, Kind
from brokerless.views.monitoring.checked_run import CheckedRun, Place
from brokerless.views.monitoring.junit import junit


def test_partitions_are_test_cases() -> None:
    places = {f"d/{name}-0": Place(f"d/{name}-0", name, 0, 1) for name in ("sound", "hurt", "odd\x00\ud800<&")}
    run = CheckedRun(1_000, places, 1_250, 1)
    run.unread = ["nowhere: there is no such file or directory"]
    run.add(
        Finding(
            "error",
            Kind.CHECKSUM_MISMATCH,
            "d/hurt-0/0.log",
            position=5,
            offset=6,
            message="the checksum \x1b[31m differs",
        )
    )
    run.add(Finding("error", Kind.ZERO_TAIL, "d/hurt-0/0.log", position=9, message="zeros"))
    run.add(Finding("warning", Kind.TRUNCATED_BATCH, "d/odd\x00\ud800<&-0/0.log", position=5, offset=6, message="cut"))
    (suite,) = list(JUnitXml.fromstring(junit(run)))
    assert (suite.tests, suite.failures, suite.errors, suite.time) == (4, 1, 1, 0.25)
    cases = {each.classname: each for each in suite}
    assert cases["sound"].is_passed
    (failure,) = cases["hurt"].result
    assert isinstance(failure, Failure)
    assert (failure.type, failure.message) == ("checksum-mismatch", "the checksum \\x1b[31m differs and 1 more")
    assert "position 5" in (failure.text or "")
    assert "zeros" in (failure.text or "")
    (odd,) = [each for name, each in cases.items() if name.startswith("odd")]
    assert odd.is_passed
    assert "cut" in (odd.system_out or "")
    (error,) = cases["paths"].result
    assert isinstance(error, Error)
    assert "there is no such file" in (error.message or "")
