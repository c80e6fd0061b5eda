"""Names of the codes of ACLs and share groups are those of Kafka's own classes."""

from __future__ import annotations

from pathlib import Path

from brokerless.kafka_names import ACL_NAMES, DELIVERY_STATES
from tests.kafka.jars import HELPERS_OF_4, check, run


def test_the_names_of_codes_in_acls_are_kafkas(kafka_jars: Path) -> None:
    lines = check(run("AclNames", helper=True)).decode().splitlines()
    ours = [f"{field} {code} {name}" for field, names in ACL_NAMES.items() for code, name in enumerate(names)]
    assert ours == lines


def test_the_names_of_delivery_states_are_kafkas(kafka_jars: Path) -> None:
    lines = check(run("DeliveryStates", helper=True, sources=HELPERS_OF_4)).decode().splitlines()
    assert [f"{code} {name}" for code, name in enumerate(DELIVERY_STATES)] == lines
