"""Command lines, and the options that all commands share."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from typing import Protocol

_MAY_BEGIN_WITH_DASH = ("--from", "--until")


class Command(Protocol):
    """A module of a command. ``DESCRIPTION`` and ``EXAMPLES`` are for its help."""

    DESCRIPTION: str
    EXAMPLES: str

    def add_options(self, parser: ArgumentParser) -> None: ...

    def run(self, options: Namespace) -> int: ...


def parse(name: str, command: Command, arguments: Sequence[str]) -> Namespace:
    """Reads a command's arguments; exits through argparse for ``--help`` and for what is wrong."""
    parser = ArgumentParser(
        prog=f"brokerless {name}",
        description=command.DESCRIPTION,
        epilog=f"examples:\n{command.EXAMPLES}",
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    help_of_path = (
        "a log directory, a partition's directory, or a .log file; local, or a URL such as s3://bucket/orders-0"
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help=help_of_path)
    parser.add_argument(
        "-t", "--topic", action="append", default=[], metavar="NAME", help="only this topic; may be given again"
    )
    parser.add_argument(
        "-p",
        "--partition",
        action="append",
        type=int,
        default=[],
        metavar="N",
        help="only partitions of this number; may be given again",
    )
    parser.add_argument("--json", action="store_true", help="JSON Lines, one object a line, for programs")
    command.add_options(parser)
    return parser.parse_intermixed_args(list(_joined(arguments)))


def _joined(arguments: Sequence[str]) -> list[str]:
    """argparse takes ``--from -1h`` for two options, but not ``--from=-1h``."""
    joined: list[str] = []
    for argument in arguments:
        if joined and joined[-1] in _MAY_BEGIN_WITH_DASH:
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    return joined


def count(text: str) -> int:
    """A whole number from 0 on, as an option's ``type``."""
    number = int(text)
    if number < 0:
        raise ValueError
    return number
