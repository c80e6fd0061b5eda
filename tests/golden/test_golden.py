from __future__ import annotations

import hashlib

from tests.golden import BROKERS, all_cases, broker_data, broker_expected, cases, golden
from tests.golden.pack import check_sums


def test_the_archive_holds_exactly_what_its_sums_say() -> None:
    assert len(check_sums(golden())) > 4000


def test_every_case_of_the_index_is_there() -> None:
    assert len(all_cases()) == 1022
    assert all((case.path / "case.json").is_file() for case in all_cases())


def test_every_reading_case_has_one_log_and_what_kafka_read_in_it() -> None:
    for case in cases("formats", "articles", "specials", "framing", "damaged"):
        (end,) = (line for line in case.expected() if line["type"] == "end")
        assert end["file"] == case.log.name
        assert end["fileSize"] == case.log.stat().st_size


def test_the_brokers_files_are_as_the_brokers_left_them() -> None:
    for broker in BROKERS:
        assert any(broker_data(broker).glob("*-0/*.log"))
        assert (broker_expected(broker) / "files.json").is_file()


def test_the_damaged_files_are_those_that_kafka_judged() -> None:
    for case in cases("damaged", "framing"):
        assert hashlib.sha256(case.log.read_bytes()).hexdigest() == case.case_json()["sha256"]
