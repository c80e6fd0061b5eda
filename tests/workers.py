"""Which tests a process of a run (pytest-xdist's) takes together, and in what order.

Tests with one of the fixtures ``SHARED``, or of one ``xdist_group``, are one unit. All others of a file are one as
well: what they share is made once, and xdist's controller, which takes its part of the cores, counts hundreds of units
and not 15,000.
"""

from __future__ import annotations

from functools import cached_property

import pytest
from xdist.scheduler import LoadGroupScheduling

SHARED = ("spark", "kafka", "spark_cluster", "browser")
"""Session fixtures that start a JVM or a browser: all tests with one of them run in one xdist worker, so that it starts
once. A test with two of them is with those that have the first."""
LONG = (
    "spark", "test_parity.py", "exported", "s3", "kafka", "serving", "erased", "power", "tiered", "leader_epochs",
    "test_docs.py", "restart", "spark_cluster", "runbook", "merged", "internals", "directory_restart", "coordinators",
    "test_tiered.py", "test_commit.py", "test_destination.py", "browser", "test_progress.py",
)  # fmt: skip
"""Groups and files that take longest come first, so that no worker is left alone with one of them in the end."""
APART = ("test_docs.py", "test_parity.py", "test_progress.py")
"""Files whose tests share nothing and take long: each of them is a unit."""
FEW_FILES = 30
"""In a run of fewer, each test without a group is a unit."""


class Units(LoadGroupScheduling):
    """xdist's ``loadgroup``, with files for units where tests have no group."""

    def _split_scope(self, nodeid: str) -> str:
        group = super()._split_scope(nodeid)
        if group != nodeid or self._has_few_files:
            return group
        file = _file(nodeid)
        return nodeid if file.rpartition("/")[2] in APART else file

    @cached_property
    def _has_few_files(self) -> bool:
        return len({_file(nodeid) for nodeid in self.collection or ()}) < FEW_FILES


def group_and_sort(items: list[pytest.Item]) -> None:
    """Give tests that share a fixture their group, and put those first that take longest."""
    for item in items:
        shared = [name for name in SHARED if name in getattr(item, "fixturenames", ())]
        if shared:
            item.add_marker(pytest.mark.xdist_group(shared[0]))
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    group = item.get_closest_marker("xdist_group")
    if group is None:
        return LONG.index(item.path.name) if item.path.name in LONG else len(LONG) + 1
    return LONG.index(group.args[0]) if group.args[0] in LONG else len(LONG)


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]
