"""What the texts of a topic's settings mean: as ``ConfigDef.parseType`` and ``LogConfig`` take them."""

from __future__ import annotations

import pytest

from brokerless.log.settings.topic import cleanup_policies, has_remote_storage, is_compacted, is_true, retention_config


@pytest.mark.parametrize(
    ("text", "expected"),
    [("true", True), (" TRUE ", True), ("false", False), ("yes", False), ("", False), (None, False)],
)
def test_booleans_are_words_of_any_case(text: str | None, expected: bool) -> None:
    assert is_true(text) is expected
    assert has_remote_storage({} if text is None else {"remote.storage.enable": text}) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, ("delete",)),
        ("", ()),
        (" ", ()),
        ("compact", ("compact",)),
        (" compact , delete", ("compact", "delete")),
        ("delete,,compact", ("delete", "", "compact")),
        ("compaction", ("compaction",)),
    ],
)
def test_a_policy_is_a_list_of_words(text: str | None, expected: tuple[str, ...]) -> None:
    settings = {} if text is None else {"cleanup.policy": text}
    assert cleanup_policies(text) == expected
    assert is_compacted(settings) is ("compact" in expected)


def test_what_is_not_set_for_retention_is_kafkas_default() -> None:
    config = retention_config({"segment.bytes": "1"})
    assert config is not None
    assert (config.retention_ms, config.retention_bytes, config.cleanup_policy) == (604_800_000, -1, "delete")


def test_an_empty_policy_is_one_by_which_nothing_goes() -> None:
    """Since 4.2 (KIP-1161)."""
    config = retention_config({"cleanup.policy": "", "retention.ms": "1", "retention.bytes": "1"})
    assert config is not None
    assert not config.deletes


@pytest.mark.parametrize(
    "settings",
    [
        {"cleanup.policy": "garbage"},
        {"cleanup.policy": "delete,,compact"},
        {"retention.ms": "soon"},
        {"retention.ms": "-2"},
    ],
)
def test_nothing_is_known_of_settings_that_kafka_refuses(settings: dict[str, str]) -> None:
    assert retention_config(settings) is None
