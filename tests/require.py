"""What a test needs from its surroundings: where it is missing, a developer's run skips, and CI fails."""

from __future__ import annotations

import os
import socket

import pytest

IN_CI = os.environ.get("CI", "").lower() in ("1", "true", "yes")


def require(condition: object, reason: str) -> None:
    """Skip this test unless ``condition`` holds; with ``CI=true``, where everything has to be there, fail it."""
    if condition:
        return
    if IN_CI:
        pytest.fail(f"needed in CI: {reason}", pytrace=False)
    pytest.skip(reason)


def require_ipv6() -> None:
    """Need an address of IPv6 on the loopback."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        require(False, "an IPv6 address of the loopback")
