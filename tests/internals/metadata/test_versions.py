"""Oracle: brokers of each version that were started on metadata with each level (``tests/states/levels.py``)."""

from __future__ import annotations

import pytest
from tests.states.bases import VERSIONS
from tests.states.levels import cases, recorded

from brokerless.internals.metadata.versions import METADATA_VERSION, has_feature, starts_with


@pytest.mark.parametrize("version", VERSIONS)
def test_a_kafka_starts_with_the_levels_that_it_knows(version: str) -> None:
    answers = recorded()[version]
    for name, level in cases():
        known = starts_with(version, level) if name == METADATA_VERSION else has_feature(version, name, level)
        assert known == answers[name][str(level)], (name, level)
