"""A broker, and ``serve`` on a copy of its directory, that all tests of this room share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.golden import broker_data
from tests.serving.differential import Pair, pair


@pytest.fixture(scope="session")
def both(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with pair(tmp_path_factory.mktemp("serving"), broker_data("clean")) as found:
        yield found
