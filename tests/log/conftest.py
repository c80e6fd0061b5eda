from __future__ import annotations

import pytest


@pytest.fixture
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for the disk: for tests to which it makes no difference but the time that it takes."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
