"""What audit and report say beside a finding."""

from __future__ import annotations

from brokerless.findings import Finding, Kind, advice_of
from brokerless.jobs.audit.advice import abort_command, advice_for


def finding(kind: Kind, file: str, offset: int | None = 1420) -> Finding:
    return Finding("warning", kind, file, None, offset, "text")


def test_the_advice_about_a_transaction_that_nobody_ends_has_the_command() -> None:
    place = "/data/my.topic-3/00000000000000000000.log"
    for kind in (Kind.TRANSACTION_HANGING, Kind.TRANSACTION_ORPHANED):
        advice = advice_for(finding(kind, place))
        assert advice is not None
        assert advice.startswith(f"{advice_of(kind)}: kafka-transactions.sh ")
        assert advice.endswith("abort --topic my.topic --partition 3 --start-offset 1420")


def test_no_command_where_the_place_does_not_say_enough() -> None:
    for each in (
        finding(Kind.TRANSACTION_ORPHANED, "00000000000000000000.log"),
        finding(Kind.TRANSACTION_ORPHANED, "/data/orders-0/00000000000000000000.log", None),
        finding(Kind.TRANSACTION_OPEN, "/data/orders-0/00000000000000000000.log"),
    ):
        assert abort_command(each) is None
        assert advice_for(each) == advice_of(each.kind)
