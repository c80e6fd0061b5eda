"""Command lines, and the options that all commands share."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from brokerless.log.names import INCLUDE

if TYPE_CHECKING:
    from brokerless.log.config import LogConfig

_SIZE = re.compile(r"(\d{1,15}) ?([KMGT]?|[KMGT]I?B|B)", re.IGNORECASE)
_UNITS = {"": 1, "B": 1} | {
    letter + ending: base**power
    for power, letter in enumerate("KMGT", 1)
    for ending, base in (("", 1024), ("IB", 1024), ("B", 1000))
}
_LARGEST = 2**31 - 1
_MOST = 2**63 - 1
_MAY_BEGIN_WITH_DASH = ("--from", "--until")


class Command(Protocol):
    """A module of a command. ``DESCRIPTION`` and ``EXAMPLES`` are for its help. One that reads something else than logs
    has a function ``add_paths(parser)`` that says what."""

    DESCRIPTION: str
    EXAMPLES: str

    def add_options(self, parser: ArgumentParser) -> None: ...

    def run(self, options: Namespace) -> int: ...


def parse(name: str, command: Command, arguments: Sequence[str]) -> Namespace:
    """Reads a command's arguments; exits through argparse for ``--help`` and for what is wrong."""
    parser = _Parser(
        prog=f"brokerless {name}",
        description=command.DESCRIPTION,
        epilog=f"examples:\n{command.EXAMPLES}",
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    getattr(command, "add_paths", _add_paths)(parser)
    parser.add_argument("--json", action="store_true", help="JSON Lines, one object a line, for programs")
    command.add_options(parser)
    return parser.parse_intermixed_args(list(_joined(_without_end_of_options(arguments))))


def _without_end_of_options(arguments: Sequence[str]) -> list[str]:
    """What stands behind ``--`` are paths, which argparse does not see where options and paths are mixed."""
    if "--" not in arguments:
        return list(arguments)
    end = arguments.index("--")
    paths = (f"./{each}" if each.startswith("-") and each != "-" else each for each in arguments[end + 1 :])
    return [*arguments[:end], *paths]


def _add_paths(parser: ArgumentParser) -> None:
    """What is read: logs, and which of their partitions."""
    help_of_path = (
        "a log directory, a partition's directory, or a .log file; local, or a URL such as s3://bucket/orders-0"
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help=help_of_path)
    parser.add_argument(
        "-t",
        "--topic",
        action="append",
        default=[],
        metavar="NAME",
        help="only this topic, or topics, as 'click*' (with * ? [...]); may be given again",
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
    parser.add_argument(
        "--exclude-internal", action="store_true", help="no topics of Kafka's own, such as __consumer_offsets"
    )
    parser.add_argument(
        "--include",
        type=states,
        default=(),
        metavar="WHAT",
        help="what a broker does not serve as well: deleted (records before the log start offset that files still "
        "hold), partitions whose directories are future, delete or stray; or several of them with commas between",
    )


class _Parser(ArgumentParser):
    def print_help(self, file: Any = None) -> None:
        """argparse would pass over what keeps the help from being written."""
        (file or sys.stdout).write(self.format_help())


def add_max_batch_bytes(parser: ArgumentParser) -> None:
    """The option of those commands that inflate batches."""
    parser.add_argument(
        "--max-batch-bytes",
        type=size,
        metavar="SIZE",
        help="what one batch may inflate to, as 500MB or 1GiB (128MiB; a quarter of it after eight such batches); a "
        "larger one is damage, so that a small file cannot fill the memory, or keep a processor busy",
    )


def add_severity(parser: ArgumentParser) -> None:
    """The options of those commands that give findings."""
    parser.add_argument(
        "--min-severity",
        choices=("info", "warning", "error"),
        default="info",
        help="show what is as bad as this, or worse (info); the exit code and the summary count all",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="only the summary; with --json only the exit code")


def add_segment_bytes(parser: ArgumentParser, *, kept: bool = False) -> None:
    """The option of those commands that write logs. ``kept``: without it, segments begin where those of the source
    do."""
    default = "segments begin where those of the source do" if kept else "1GiB"
    parser.add_argument("--segment-bytes", type=size, metavar="SIZE", help=f"segment.bytes ({default})")


def log_config(options: Namespace) -> LogConfig:
    """The topic settings of a command with :func:`add_segment_bytes`."""
    from brokerless.log.config import LogConfig

    return LogConfig() if options.segment_bytes is None else LogConfig(segment_bytes=options.segment_bytes)


def add_spark(parser: ArgumentParser) -> None:
    """The option of those commands whose work can be done on Spark."""
    parser.add_argument(
        "--spark",
        metavar="MASTER",
        help="do the work on Spark: local[4] for four processors of this machine, spark://HOST:7077 for a cluster "
        "whose machines have the same paths; none for this machine without Spark, with a process for each processor "
        "where it pays (none below 32 GiB, or without PySpark and Java; else local[*])",
    )


def add_manifest(parser: ArgumentParser) -> None:
    """The option of those commands that write."""
    help_of_manifest = (
        "note in FILE what was read and written, with sizes and hashes (JSON Lines), and leave out what is done by it"
    )
    parser.add_argument("--manifest", metavar="FILE", help=help_of_manifest)


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
    """A whole number from 0 on, as an option's ``type``; more than 2^63 - 1 is no more than that."""
    number = int(text)
    if number < 0:
        raise ValueError
    return min(number, _MOST)


def size(text: str) -> int:
    """A number of bytes above 0, as an option's ``type``: ``1000``, ``500MB``, ``1GiB``."""
    return size_or_0(text) or _no_size(text)


def size_or_0(text: str) -> int:
    """The same for settings of which Kafka takes 0 as well."""
    match = _SIZE.fullmatch(text)
    if match is None:
        _no_size(text)
    number = int(match[1]) * _UNITS[match[2].upper()]
    if number > _LARGEST:
        raise ArgumentTypeError(f"{text!r} is more than the {_LARGEST} bytes that Kafka itself could hold")
    return number


def _no_size(text: str) -> NoReturn:
    raise ArgumentTypeError(f"{text!r} is no number of bytes; give one as 1000000, 500MB or 1GiB")


def states(text: str) -> tuple[str, ...]:
    """What is to be included, with commas between, as an option's ``type``."""
    names = tuple(text.split(","))
    unknown = [name for name in names if name not in INCLUDE]
    if unknown:
        raise ArgumentTypeError(f"there is no {unknown[0]!r}; there are {', '.join(INCLUDE)}")
    return names
