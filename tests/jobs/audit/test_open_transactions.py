"""Open transactions are those of the table of transactions, in the order of their age."""

from __future__ import annotations

from tests.golden import broker_data

import brokerless
from brokerless.jobs.audit.open_transactions import open_transactions


def test_the_oldest_open_transaction_is_first_and_ended_ones_are_none() -> None:
    log = brokerless.open(broker_data("clean"))
    rows = open_transactions(log.paths, log.paths, lambda _: None)
    times = [row["firstTimestamp"] for row in rows]
    assert times == sorted(times)
    ended = [row for row in log.transactions().to_pylist() if row["state"] != "open"]
    assert ended
    assert not {(each["topic"], each["partition"], each["firstOffset"]) for each in ended} & {
        (each["topic"], each["partition"], each["firstOffset"]) for each in rows
    }


def test_without_the_transaction_state_there_are_no_names() -> None:
    log = brokerless.open(broker_data("clean") / "txn-0")
    rows = open_transactions(log.paths, [], lambda _: None)
    assert rows
    assert {row["transactionalId"] for row in rows} == {None}
