"""The screen: how wide it is, and which colours it has."""

from __future__ import annotations

from brokerless.views import screen
from brokerless.views.screen import Screen, colored, hang, shown_on


def test_without_a_terminal_there_is_neither_a_width_nor_a_colour() -> None:
    assert screen.width() is None
    assert colored("error", 7) == "error  "


def test_a_screen_is_that_of_what_is_formatted_meanwhile() -> None:
    with shown_on(Screen(80, has_colors=True)):
        assert screen.width() == 80
        with shown_on(Screen(60)):
            assert screen.width() == 60
            assert colored("warning") == "warning"
        assert colored("error", 7) == "\x1b[1;31merror\x1b[0m  "
    assert screen.width() is None


def test_only_severities_have_colours() -> None:
    with shown_on(Screen(80, has_colors=True)):
        assert colored("fine") == "fine"


def test_prose_hangs_below_its_first_line_and_rows_and_commands_stay() -> None:
    prose = "  the end of a log is accepted without recovery, as the stop was clean"
    assert hang(prose) == [prose]
    with shown_on(Screen(40)):
        assert hang(prose) == [
            "  the end of a log is accepted without",
            "    recovery, as the stop was clean",
        ]
        for line in ("orders-0   1,265  " * 4, f"  brokerless cat {'a' * 40}", f"kafka-topics.sh {'a' * 40}", "short"):
            assert hang(line) == [line]
        colours = "\x1b[1;31merror\x1b[0m of 34 visible characters all"
        assert hang(colours) == [colours]
