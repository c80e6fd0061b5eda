from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator

import pytest

from brokerless.serving.descriptors import MOST_CONNECTIONS, most_connections, raise_limit


@pytest.fixture
def limits() -> Iterator[tuple[int, int]]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_soft_limit_becomes_the_hard_one(limits: tuple[int, int]) -> None:
    _, hard = limits
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    raise_limit()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)


@pytest.mark.parametrize(("limit", "least", "most"), [(100_000, MOST_CONNECTIONS, MOST_CONNECTIONS), (1024, 300, 448)])
def test_clients_leave_descriptors_for_files(limits: tuple[int, int], limit: int, least: int, most: int) -> None:
    _, hard = limits
    if hard != resource.RLIM_INFINITY and hard < limit:
        pytest.skip(f"no process may open {limit} files here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    assert least <= most_connections() <= most


def test_one_client_has_a_place_in_any_case() -> None:
    code = "import resource as r; from brokerless.serving.descriptors import most_connections as most; "
    code += "r.setrlimit(r.RLIMIT_NOFILE, (4, 4)); print(most())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
