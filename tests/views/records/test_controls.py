from __future__ import annotations

from tests.views.rows import batch_of, record

from brokerless.views.records.controls import describe_controls


def test_rows_say_what_they_control() -> None:
    rows = [
        record(key=b"\0\0\0\1", value=b"\0\0\0\0\0\7"),
        record(key=b"\0\0\0\1", value=b"\0\0\0\0\0\7", isControl=True),
        record(key=b"\0\0\0\5", value=b"\0\0\0\1\0", isControl=True),
        record(key=b"\0\0\0\2", value=b"\0", isControl=True),
        record(key=b"\0\0\xff\xff", value=None, isControl=True),
        record(key=b"\0\0\0", value=None, isControl=True),
    ]
    assert describe_controls(batch_of(rows)) == [
        None,
        {"typeId": 1, "type": "COMMIT", "coordinatorEpoch": 7},
        {"typeId": 5, "type": "KRAFT_VERSION", "data": {"version": 0, "kRaftVersion": 1}},
        {"typeId": 2, "type": "LEADER_CHANGE"},
        {"typeId": -1, "type": "UNKNOWN"},
        {"typeId": None, "type": "UNKNOWN"},
    ]
    assert describe_controls(batch_of(rows[:1])) == [None]


def test_what_krafts_records_hold_may_be_left_out() -> None:
    rows = [
        record(key=b"\0\0\0\5", value=b"\0\0\0\1\0", isControl=True),
        record(key=b"\0\0\0\1", value=b"\0\0\0\0\0\7", isControl=True),
    ]
    assert describe_controls(batch_of(rows), data=False) == [
        {"typeId": 5, "type": "KRAFT_VERSION"},
        {"typeId": 1, "type": "COMMIT", "coordinatorEpoch": 7},
    ]
