"""What a group refuses."""

from __future__ import annotations

from brokerless.serving.protocol.errors import Error


class GroupError(Exception):
    """A request that a group refuses. ``member_id``: what the client is to use next, if that is known."""

    def __init__(self, error: Error, member_id: str | None = None) -> None:
        super().__init__(error.name)
        self.error = error
        self.member_id = member_id
