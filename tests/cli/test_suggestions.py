"""What a mistyped command or option was meant to be."""

from __future__ import annotations

from brokerless.cli.suggestions import did_you_mean


def test_the_nearest_name_is_suggested_and_an_abbreviation_before_it() -> None:
    names = ("ls", "verify", "cat", "carve", "convert", "export")
    assert did_you_mean("verfy", names) == "did you mean verify?"
    assert did_you_mean("CAT", names) == "did you mean cat?"
    assert did_you_mean("conv", names) == "did you mean convert?"
    assert did_you_mean("ca", names) == "did you mean cat or carve?"
    assert did_you_mean("something", names) == ""
