"""Verify finds its first error where Kafka's reader first throws, and none where Kafka's reader throws nowhere."""

from __future__ import annotations

import pytest
from tests.golden import Case, cases, of_type

from brokerless.jobs.verify import verify_file
from brokerless.log.storage import open_file

CATEGORIES = ["formats", "articles", "specials", "framing", "damaged"]


def first_error(case: Case, name: str) -> tuple[int, int] | None:
    lines = [line for line in of_type(case.expected(), "error", name) if line["phase"] != "recordsNonStreaming"]
    return min((line["position"] for line in lines), default=None)


@pytest.mark.parametrize("category", CATEGORIES)
def test_the_first_error_is_where_kafkas_reader_first_throws(category: str) -> None:
    for case in cases(category):
        for log in case.logs:
            with open_file(str(log)) as file:
                findings = list(verify_file(file))
            errors = [finding for finding in findings if finding.severity == "error"]
            found = errors[0].position if errors else None
            assert found == first_error(case, log.name), (log, findings)
            assert all(finding.file == str(log) for finding in findings)
