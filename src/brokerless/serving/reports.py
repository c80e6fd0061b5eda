"""What is reported of files while they are served: each finding once, and no more lines than people can read.

Clients choose what is read, and how often: what they could have reported again and again is a line a minute.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from brokerless.errors import OutOfFilesError
from brokerless.findings import Finding, Kind
from brokerless.progress import Report

AGAIN_S = 60.0
"""How long after one finding the next of the same kind and file is reported, where there are many."""
AT_ONCE = 50
"""So many of one kind and file are reported as they come."""
_MOST_KNOWN = 10_000

_Place = tuple[str, str]


@dataclass(slots=True)
class Reports:
    """The reports of an endpoint: passes findings on, in any thread."""

    report: Report
    now: Callable[[], float] = time.monotonic
    """A clock in seconds."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _known: dict[Finding, None] = field(default_factory=dict[Finding, None])
    _counts: dict[_Place, int] = field(default_factory=dict[_Place, int])
    _last: dict[_Place, float] = field(default_factory=dict[_Place, float])
    _silent: dict[_Place, int] = field(default_factory=dict[_Place, int])

    def __call__(self, finding: Finding) -> None:
        passes = finding.kind == Kind.OUT_OF_FILES  # and may come back
        with self._lock:
            if not passes and finding in self._known:
                return
            if len(self._known) < _MOST_KNOWN:
                self._known[finding] = None
            place, now = (finding.kind, finding.file), self.now()
            count = self._counts[place] = self._counts.get(place, 0) + 1
            is_rare = count <= (1 if passes else AT_ONCE)
            if not is_rare and now - self._last[place] < AGAIN_S:
                self._silent[place] = self._silent.get(place, 0) + 1
                return
            self._last[place] = now
            silent = self._silent.pop(place, 0)
        if silent:
            finding = replace(finding, message=f"{finding.message} ({silent} more like this since the last)")
        self.report(finding)

    def out_of_files(self, error: OutOfFilesError) -> None:
        """Report that files could not be opened, which says nothing about them."""
        self(no_files_left("serve", f"files could not be opened for clients, who ask again: {error.reason}"))


def no_files_left(path: str, text: str) -> Finding:
    """Return the finding about files that could not be opened now, which says nothing about them."""
    return Kind.OUT_OF_FILES.at(path, text)
