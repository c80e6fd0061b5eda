"""Oracle: the ``quorum-state`` that a controller wrote, and Kafka's fields of both versions."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.golden import broker_data

from brokerless.log.checkpoint.quorum_state import load_quorum_state
from brokerless.log.storage.location import Location


def test_the_quorum_state_says_who_leads_the_metadata_log() -> None:
    state = load_quorum_state(Location(str(broker_data("clean") / "__cluster_metadata-0" / "quorum-state")))
    assert (state.version, state.leader_id, state.leader_epoch, state.voted_id) == (0, 1, 2, -1)
    assert (state.voters, state.findings) == ((1,), ())


def test_a_quorum_state_of_version_1_has_a_directory_instead_of_voters(tmp_path: Path) -> None:
    path = tmp_path / "quorum-state"
    path.write_text(
        '{"leaderId":-1,"leaderEpoch":7,"votedId":3,"votedDirectoryId":"JnctyTyXiAUoM7EFNU1m3g","data_version":1}'
    )
    state = load_quorum_state(Location(str(path)))
    assert (state.leader_id, state.leader_epoch, state.voted_id) == (-1, 7, 3)
    assert (state.voted_directory_id, state.voters, state.findings) == ("JnctyTyXiAUoM7EFNU1m3g", (), ())


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"data_version":9}', '{"data_version":0,"leaderId":"1"}', "[" * 5000]
)
def test_a_quorum_state_that_kafka_refuses_is_a_finding(tmp_path: Path, text: str) -> None:
    path = tmp_path / "quorum-state"
    path.write_text(text)
    assert [each.kind for each in load_quorum_state(Location(str(path))).findings] == ["quorum-state-corrupt"]
