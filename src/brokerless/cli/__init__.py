"""The command line. Each command is one small module, which parses, calls and prints.

Only the module of the command at hand is imported, and argparse reads its options: what else could takes longer to
import than ``ls`` takes for its work.
"""

from __future__ import annotations

import shlex
import signal
import sys
from argparse import Namespace
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any, TextIO

from brokerless.cli.commands import COMMANDS, GROUPS
from brokerless.cli.help_pages import print_help
from brokerless.cli.output import (
    BY_SIGNAL,
    CLEAN,
    INTERRUPTED,
    UNUSABLE,
    NothingDoneError,
    Output,
    abandon_stdout,
    complain,
    known_exit_code,
    output_of_command,
    screen,
)
from brokerless.cli.pager import ends_with_reader, no_pager, paged
from brokerless.cli.parser import load_command, parse
from brokerless.cli.progress import shown
from brokerless.cli.selection import paths_below
from brokerless.cli.suggestions import did_you_mean
from brokerless.errors import BrokerlessError
from brokerless.ordered_threads import limit_processors
from brokerless.text import named_for_commands

_LIST = "\n\n".join(
    f"{title}:\n" + "\n".join(f"  {name:12}{COMMANDS[name]}" for name in names) for title, names in GROUPS.items()
)
HELP = f"""\
usage: brokerless COMMAND [OPTIONS] PATH...

Read, prove, repair and write Apache Kafka's log files without a broker.

{_LIST}

brokerless help COMMAND says more, brokerless help KIND what a kind of finding means, brokerless help WORD where help
has a word, such as exit. brokerless help runbook leads from a dead disk to a broker that serves it. brokerless help
--man COMMAND prints that as a page for man: brokerless help --man verify | man -l -

A PATH is a log directory, a partition's directory, or a .log file; local, or a URL such as s3://bucket/orders-0.

examples:
  brokerless ls /var/lib/kafka
  brokerless cat /var/lib/kafka/orders-0 --tail 10
  brokerless verify /var/lib/kafka

questions:
  a topic was deleted by accident: how long its files stay
    brokerless ls /var/lib/kafka --include delete
  the records of a time range and a key, as CSV
    brokerless cat /var/lib/kafka -t orders --key o-17 --from "yesterday 14:00" --until "yesterday 16:00" --csv
  the lag of each consumer group
    brokerless internals /var/lib/kafka --table lag
  why a consumer is stuck
    brokerless internals /var/lib/kafka --table openTransactions

--json of any command prints JSON Lines for programs. NO_COLOR=1 turns colours and escape codes off. What is longer than
the terminal goes through BROKERLESS_PAGER, PAGER or less; not with --no-pager. The path - is a log from stdin: zcat
x.log.gz | brokerless cat -. brokerless --version -v prints what a bug report needs.

exit codes:
  0  clean
  1  findings: damage, a log that ends within a batch, a file within a path that cannot be opened. Each is a line on
     stderr, and everything readable was read and written. (verify: only what Kafka's own reader would throw at, which
     a cut-off end is not. audit: warnings and errors. restart: anything that a broker's start would change.
     diff: any difference)
  2  a wrong command line, or a path, topic or partition that does not exist or cannot be opened
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line (``sys.argv`` by default) and returns the exit code. Never raises for bad input."""
    with named_for_commands():
        return _exit_code(arguments)


def _exit_code(arguments: Sequence[str] | None) -> int:
    is_own_process = arguments is None
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    stdout: TextIO | None = sys.stdout
    if stdout is None:  # closed before: there is nowhere to write to
        return UNUSABLE
    try:
        with _ending_in_order(is_own_process), shown():
            exit_code = _run(arguments, is_own_process)
            stdout.flush()
            _report_unkept_kernels()
        return exit_code
    except BrokerlessError as error:
        complain(f"brokerless: {error}")
    except KeyboardInterrupt:
        abandon_stdout()  # the reader was interrupted as well, and may be gone
        return INTERRUPTED
    except _TerminatedError as error:
        abandon_stdout()
        return BY_SIGNAL + error.number
    except BrokenPipeError:
        abandon_stdout()
        return known_exit_code()
    except OSError as error:  # a full disk, say
        from brokerless.log.storage.write_errors import refused_write

        complain(f"brokerless: {refused_write(error)}")
        abandon_stdout()
    return UNUSABLE


def _report_unkept_kernels() -> None:
    unkept = getattr(sys.modules.get("brokerless.format.compiler"), "unkept", "")
    if unkept:
        text = "compiled code could not be kept, so that each start takes seconds longer"
        complain(f"brokerless: {text} ({unkept}); set NUMBA_CACHE_DIR to a directory that can be written to")


class _TerminatedError(BaseException):
    """SIGTERM or SIGHUP, by ``number``: what is half done is removed, as after Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def _ending_in_order(is_own_process: bool) -> Generator[None]:
    """Have signals end what runs meanwhile in order, whatever they did before, as far as nobody else takes them."""

    def end(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)  # the next one ends it at once
        raise _TerminatedError(number)

    # A terminal that is closed, or its connection, sends SIGHUP; nohup has it ignored, and then it stays so.
    handlers: dict[signal.Signals, Any] = {signal.SIGTERM: end, signal.SIGHUP: end}
    if is_own_process:
        handlers[signal.SIGINT] = signal.default_int_handler
    is_main = current_thread() is main_thread()
    own = {each: do for each, do in handlers.items() if is_main and signal.getsignal(each) == signal.SIG_DFL}
    for each, do in own.items():
        signal.signal(each, do)
    try:
        yield
    finally:
        for each in own:
            signal.signal(each, signal.SIG_DFL)


def _run(arguments: list[str], is_own_process: bool) -> int:
    if arguments[:1] == ["--no-pager"]:
        with no_pager():
            return _run(arguments[1:], is_own_process)
    name = arguments[0] if arguments else "--help"
    if name == "help" and "--man" in arguments:
        return _print_man_page([each for each in arguments[1:] if each != "--man"])
    if name == "help" and len(arguments) > 1:  # as git does
        if arguments[1] not in COMMANDS:
            return _explain_word(" ".join(arguments[1:]))
        name, arguments = arguments[1], [arguments[1], "--help"]
    if name in ("--help", "-h", "help"):
        print_help(HELP)
        return CLEAN
    if name in ("--version", "-V"):
        import brokerless

        print(f"brokerless {brokerless.__version__}")
        if {"-v", "--verbose"} & {*arguments[1:]}:
            from brokerless.cli.versions import version_lines

            for line in version_lines():
                print(line)
        return CLEAN
    if name not in COMMANDS:
        complain(f"brokerless: {_unknown(name)}")
        return UNUSABLE
    command = load_command(name)
    try:
        options = parse(name, command, arguments[1:])
    except SystemExit as exit:  # argparse
        return exit.code if isinstance(exit.code, int) else UNUSABLE
    if is_own_process and name == "sql":
        from brokerless.cli.quick_imports import import_for_queries

        import_for_queries()
    from brokerless.views.screen import shown_on

    with shown_on(screen(is_wide=getattr(options, "wide", True))):
        if getattr(options, "all_below", False):
            options.paths = paths_below(options.paths)
        with output_of_command(ends_with_reader=ends_with_reader(name, options)), _working_at_once(options):
            with paged(name, options):
                output = Output(as_json=getattr(options, "json", False))
                try:
                    command.run(options, output)
                except NothingDoneError as error:
                    output.say(str(error))
                return output.end()
            return known_exit_code()  # of a pager that was quit before the end


def _print_man_page(names: Sequence[str]) -> int:
    """Prints the page of a command, or of all together, for ``man``."""
    if len(names) > 1 or not {*names} <= {*COMMANDS}:
        complain(f"brokerless help --man: {_unknown(names[0]) if len(names) == 1 else 'give one command, or none'}")
        return UNUSABLE
    with paged("help"):
        sys.stdout.write(man_page_of(*names))
    return CLEAN


def man_page_of(name: str | None = None) -> str:
    """Return the page for ``man`` of a command, or of ``brokerless`` itself; the text is that of ``--help``."""
    import brokerless
    from brokerless.cli.help_pages import man_page
    from brokerless.cli.parser import help_of

    if name is None:
        summary = "read, prove, repair and write Apache Kafka's log files without a broker"
        return man_page("brokerless", summary, HELP, brokerless.__version__)
    return man_page(f"brokerless-{name}", COMMANDS[name], help_of(name), brokerless.__version__)


@contextmanager
def _working_at_once(options: Namespace) -> Generator[None]:
    """Let as many threads or processes work as ``--jobs`` says, and not Spark, which would be taken where there is very
    much."""
    jobs = getattr(options, "jobs", None)
    if jobs is None:
        yield
        return
    options.spark = "none"
    limit_processors(jobs)
    try:
        yield
    finally:
        limit_processors(None)


def _explain_word(name: str) -> int:
    """Prints what help has of a word that is no command: a page, a kind of finding, or all places that name it."""
    from brokerless.cli.help_topics import PAGES, about, page
    from brokerless.findings import describe_kinds
    from brokerless.views.findings import explain_kind
    from brokerless.views.screen import hang, shown_on

    kinds = describe_kinds()
    if (text := page(name)) is not None:
        print_help(text)
        return CLEAN
    lines = [] if name in kinds else about(name, HELP)
    if name not in kinds and not lines:
        hint = did_you_mean(name, [*COMMANDS, *kinds, *PAGES])
        complain(
            f"brokerless: no help has {name!r}, as a command, a finding, an option or a page" + f"; {hint}" * bool(hint)
        )
        return UNUSABLE
    if lines:
        print_help("\n".join(lines) + "\n")
        return CLEAN
    with shown_on(screen(is_wide=False)), paged("help"):
        for line in explain_kind(name):
            print("\n".join(hang(line)))
    return CLEAN


def _unknown(name: str) -> str:
    """Return what to do about a first argument that is no command."""
    if name.startswith("-"):
        hint = did_you_mean(name, ["--help", "--version"]) if name[:4] in ("--he", "--ve") else ""
        more = hint or "write it after (brokerless --help lists commands)"
        return f"there is no option {name} before the command; {more}"
    hint = did_you_mean(name, [*COMMANDS, "help"])
    if not hint and ("/" in name or Path(name).exists()):
        return f"{name} is not a command; to list what is there, use: {shlex.join(['brokerless', 'ls', name])}"
    return f"there is no command {name!r}{'; ' + hint if hint else ''} (brokerless --help lists all)"
