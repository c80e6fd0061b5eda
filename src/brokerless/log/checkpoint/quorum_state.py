"""``quorum-state`` (KIP-595): the vote and the leader that a KRaft node knows.

Sources: ``FileQuorumStateStore`` and its message ``QuorumStateData`` (3.9.1).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast

from brokerless.findings import Kind
from brokerless.log.checkpoint.text_files import FileFindings, MalformedFileError, read_lines, shorten
from brokerless.log.storage.location import Location


@dataclass(frozen=True, slots=True)
class QuorumState:
    """The content of ``quorum-state`` (KIP-595): the vote of a KRaft node; -1 where there is no leader or vote."""

    file: str
    version: int | None = None
    leader_id: int | None = None
    leader_epoch: int | None = None
    voted_id: int | None = None
    voted_directory_id: str | None = None
    """In version 1 only (KIP-853)."""
    voters: tuple[int, ...] = ()
    """In version 0 only."""
    findings: FileFindings = ()


def load_quorum_state(location: Location) -> QuorumState:
    """Reads a ``quorum-state``."""
    state, findings = read_lines(location, _parse, {}, Kind.QUORUM_STATE_CORRUPT)
    return QuorumState(location.path, findings=findings, **state)


def _parse(lines: list[str]) -> dict[str, Any]:
    line = lines[0] if lines else ""
    try:
        parsed: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise MalformedFileError("this is not JSON", "an object in one line", shorten(line)) from error
    state = cast(dict[str, Any], parsed if isinstance(parsed, dict) else {})
    version, voters = state.get("data_version"), cast(Any, state.get("currentVoters") or [])
    numbers = [state.get(name, -1) for name in ("leaderId", "leaderEpoch", "votedId")]
    listed = cast(list[Any], voters if isinstance(voters, list) else [voters])
    voter_ids = [cast(Any, each).get("voterId") if isinstance(each, dict) else None for each in listed]
    directory = state.get("votedDirectoryId")
    is_typed = all(type(each) is int for each in [version, *numbers, *voter_ids])
    if not is_typed or not isinstance(directory, str | None):
        text = "the quorum state lacks fields or has them in other types"
        raise MalformedFileError(text, "data_version, leaderId, leaderEpoch, votedId", shorten(line))
    if version not in (0, 1):
        raise MalformedFileError("a quorum state of an unknown version", "version 0 or 1", str(version))
    names = ("leader_id", "leader_epoch", "voted_id")
    found: dict[str, Any] = dict(zip(names, numbers, strict=True))
    return {"version": version, "voted_directory_id": directory, "voters": tuple(voter_ids), **found}
