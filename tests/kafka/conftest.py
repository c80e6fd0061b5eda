"""What several modules of tests with real brokers share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka.described import Known, described


@pytest.fixture(scope="session")
def known(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Known:
    """A crashed cluster; its tests are of one xdist group, so that it is started once. Its disks are not changed."""
    return described(tmp_path_factory.mktemp("described"))
