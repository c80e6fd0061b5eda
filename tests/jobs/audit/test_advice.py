"""What audit and report say beside a finding."""

from __future__ import annotations

from brokerless.findings import Finding, Kind, describe_kinds
from brokerless.jobs.audit.advice import abort_command, advice_at, advice_for


def finding(kind: Kind, file: str, offset: int | None = 1420) -> Finding:
    return Finding("warning", kind, file, offset=offset, message="text")


def test_the_advice_about_a_transaction_that_nobody_ends_has_the_command() -> None:
    place = "/data/my.topic-3/00000000000000000000.log"
    for kind in (Kind.TRANSACTION_HANGING, Kind.TRANSACTION_ORPHANED):
        advice = advice_for(finding(kind, place))
        assert advice is not None
        assert advice.startswith(f"{describe_kinds()[kind].advice}: kafka-transactions.sh ")
        assert advice.endswith("abort --topic my.topic --partition 3 --start-offset 1420")


def test_no_command_where_the_place_does_not_say_enough() -> None:
    for each in (
        finding(Kind.TRANSACTION_ORPHANED, "00000000000000000000.log"),
        finding(Kind.TRANSACTION_ORPHANED, "/data/orders-0/00000000000000000000.log", None),
        finding(Kind.TRANSACTION_OPEN, "/data/orders-0/00000000000000000000.log"),
    ):
        assert abort_command(each) is None
        assert advice_for(each) == describe_kinds()[each.kind].advice


def test_in_remote_storage_nothing_is_said_that_is_for_a_brokers_disk() -> None:
    name = "killed-0/00000000000000004071"
    for kind in Kind:
        disk, remote = (advice_at(finding(kind, f"{root}{name}.index")) for root in ("/data/", "tiered://"))
        assert disk == describe_kinds()[kind].advice
        assert remote is not None
        for text in ("replicated again", "on another replica", "stop the broker and"):
            assert text not in remote, kind
    assert "earlier version" in str(advice_for(finding(Kind.MISSING_SEGMENT, f"tiered://{name}.log")))
    assert "consumers may not get it" in str(advice_for(finding(Kind.INDEX_CORRUPT, f"tiered://{name}.index")))


def test_a_replica_of_a_tiered_topic_is_never_to_be_deleted() -> None:
    """A start without it deletes its remote segments; a segment that is missing in the bucket is named at the local one
    after it."""
    for kind in (Kind.MISSING_SEGMENT, Kind.MISSING_LOG, Kind.MISSING_LOG_END):
        assert "its topic is not tiered" in str(advice_at(finding(kind, "/data/killed-0/00000000000000008093.log")))
