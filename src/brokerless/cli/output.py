"""Where a command's output goes: data to stdout, damage to stderr a line each, and what the exit code says."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from brokerless.cli.pager import to_pager
from brokerless.cli.progress import above_bar, progress
from brokerless.cli.selection import select
from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.log.storage.paths import TIERED, hide_credentials
from brokerless.text import readable, show_name

if TYPE_CHECKING:
    from argparse import Namespace

    from brokerless.api.log import Log
    from brokerless.jobs.rewrite.plan import Source
    from brokerless.log.directory import LogDirectory, PartitionPath
    from brokerless.views.screen import Screen

CLEAN, FINDINGS, UNUSABLE, INTERRUPTED, BY_SIGNAL = 0, 1, 2, 130, 128
"""Exit codes: all is well; damage was met; a wrong command line or a path that cannot be opened; Ctrl-C; what another
signal's number is added to."""

_OF_MANY_FILES = (Kind.REMOTE_KEY_MISSING,)
"""Kinds that are said once for all files that have the reason in common."""
_latest: Output | None = None
_ends_with_reader = True


@contextmanager
def output_of_command(*, ends_with_reader: bool) -> Generator[None]:
    """Direct what a command writes meanwhile. ``ends_with_reader``: nothing is left to do for it once nobody reads on
    (``| head``); else the rest of its output is lost, and its exit code is the same as with a reader."""
    global _latest, _ends_with_reader
    before, _latest, _ends_with_reader = _ends_with_reader, None, ends_with_reader
    try:
        yield
    finally:
        _ends_with_reader = before


def known_exit_code() -> int:
    """Return the exit code of the command that wrote last, by what it has found so far."""
    return CLEAN if _latest is None else _latest.exit_code


class NothingDoneError(Exception):
    """A path of the command line cannot be opened, so that a command does nothing; the message says that."""


class Output:
    """One command's output. ``exit_code`` only rises, with damage and unreadable paths. ``is_terminal``: whether stdout
    is one. ``as_json``: whether results are for programs. ``unread``: why paths of the command line were not read."""

    def __init__(self, *, as_json: bool = False) -> None:
        global _latest
        _latest = self
        self.as_json = as_json
        self.exit_code = CLEAN
        self.unread = 0
        self._in_common: dict[str, list[str]] = {}
        self._stdout: BinaryIO = sys.stdout.buffer
        self.is_terminal = sys.stdout.isatty()

    @contextmanager
    def to_file(self, path: str | None) -> Generator[None]:
        """Write to a file, which appears when all is written; without one, to stdout."""
        if path is None:
            yield
            return
        from brokerless.log.storage.atomic import open_output
        from brokerless.log.storage.write_errors import unwritable

        before, is_terminal = self._stdout, self.is_terminal
        try:
            with unwritable(path), open_output(path) as file:
                self._stdout, self.is_terminal = file, False
                yield
        finally:
            self._stdout, self.is_terminal = before, is_terminal

    def write(self, pieces: Iterable[bytes | memoryview]) -> None:
        for piece in pieces:
            with above_bar(piece, to_terminal=self.is_terminal), _reader_may_leave():
                self._stdout.write(piece)
                if self.is_terminal:
                    self._stdout.flush()

    def line(self, text: str) -> None:
        """A line of data, unchanged."""
        self.write([readable(text).encode() + b"\n"])

    def prose(self, *texts: str) -> None:
        """Lines for people, wrapped to the terminal."""
        from brokerless.views.screen import hang

        for each in "\n".join(texts).split("\n") if texts else ():
            for line in hang(each):
                self.line(line)

    def objects(self, values: Iterable[Any]) -> None:
        """JSON Lines."""
        from brokerless.interchange.jsonl_writer import dumps

        for value in values:
            self.line(dumps(value))

    def found(self, finding: Finding, show: bool) -> None:
        """A finding as the result of a command. With JSON, warnings and errors go to stderr for people as well."""
        self.note_findings(finding.severity == "error" or (finding.is_unread and finding.severity == "warning"))
        if show:
            self.objects([finding.as_dict()])
            self._report(finding)

    def damage(self, finding: Finding) -> None:
        """A damaged place, reported after what was read before it. The exit code says whether something that was
        requested is missing."""
        self.note_findings(finding.leaves_out)
        self._report(finding)

    def replica_damage(self, finding: Finding) -> None:
        """A damaged place of a replica; what no other replica makes good is in the result, which decides on errors."""
        self.note_findings(finding.leaves_out and finding.severity != "error")
        self.say(str(finding))

    def _report(self, finding: Finding) -> None:
        if finding.severity != "info":
            self._say_of_file(finding.file, finding.message, str(finding), finding.kind)

    def _say_of_file(self, file: str, reason: str, text: str, kind: Kind) -> None:
        """A line on stderr, ``text``; a reason that many files have in common, such as a key pair that is missing, is a
        line at the end."""
        if kind in _OF_MANY_FILES:
            self._in_common.setdefault(reason, []).append(file)
        else:
            self.say(text)

    def shown(self, findings: Iterable[Finding]) -> None:
        """Findings that the result itself shows: warnings and errors change the exit code."""
        self.note_findings(any(each.severity != "info" for each in findings))

    def note_findings(self, has_any: bool) -> None:
        """Let the exit code say that something was found, or that something that was requested is missing."""
        self.exit_code = max(self.exit_code, FINDINGS if has_any else CLEAN)

    def result(self, rows: Iterable[Any], lines: Iterable[str]) -> None:
        """The result of a command, as JSON Lines or for people."""
        if self.as_json:
            self.objects(rows)
            return
        for each in lines:
            self.prose(each)

    def problems(self, texts: Iterable[object]) -> None:
        """Report what a command passed over, a line on stderr each."""
        for text in texts:
            self.say(str(text))
            self.note_findings(True)

    def unreadable(self, error: UnreadableError) -> None:
        """A path of the command line that cannot be opened."""
        self.exit_code = UNUSABLE
        self.unread += 1
        self.say(str(error))

    def unreadable_within(self, error: UnreadableError) -> None:
        """Report a file or directory within such a path: the rest of it is read."""
        self.note_findings(True)
        self._say_of_file(error.path, error.reason, str(error), error.kind)

    def say(self, text: str) -> None:
        """A line on stderr, after all that was written before."""
        self.flush()
        complain(text)

    def flush(self) -> None:
        with _reader_may_leave():
            self._stdout.flush()

    def end(self) -> int:
        """Return the exit code, when all is written."""
        for reason, files in self._in_common.items():
            more = f" ({len(set(files))} files; the last: {files[-1]})" if len(set(files)) > 1 else ""
            self.say(f"{files[0]}: {reason}{more}")
        self._in_common.clear()
        self.flush()
        return self.exit_code

    def open(self, options: Namespace, keys: Iterable[tuple[str, str]] = ()) -> Iterator[Log]:
        """Opens each path; one that cannot be opened is reported, and the others are read. ``keys``: files of private
        keys by the names of key pairs, of commands that take them by their request."""
        import brokerless

        key_pairs = dict(keys or getattr(options, "key_pair", ()))
        layout, remote = getattr(options, "layout", None), getattr(options, "remote", None)
        as_it_lies = getattr(options, "as_it_lies", False)
        for path in options.paths:
            if path == "-":
                spool_stdin()
            try:
                with progress(f"listing {show_name(path)}"):
                    log = brokerless.open(
                        path,
                        include=options.include,
                        key_pairs=key_pairs,
                        layout=layout,
                        remote=remote,
                        as_it_lies=as_it_lies,
                    )
            except UnreadableError as error:
                self.unreadable(error)
            else:
                self._say_snapshot(log, path)
                yield log

    def _say_snapshot(self, log: Log, path: str) -> None:
        """Says which snapshot of a backup is read, where the path does not."""
        if log.path.startswith(TIERED) and ("@" not in path or path.endswith("@latest")):
            from brokerless.jobs.check.snapshots import describe_latest

            if (text := describe_latest(log.directory.location)) is not None:
                self.say(f"{path}: {text}")

    def log_directories(self, options: Namespace) -> list[Log]:
        """Opens each path; those of a broker's log directories at which nothing is are reported, and have no
        partitions."""
        from brokerless.api.log import Log
        from brokerless.clusters.start.start import bare_directories

        logs = list(self.open(options))
        bare = bare_directories([each.directory for each in logs], options.paths)
        return [*logs, *map(Log, bare)]

    def partitions(self, options: Namespace) -> list[PartitionPath]:
        """Return the selected partitions of all paths."""
        return [each for log in self.open(options) for each in self.chosen(log, options)]

    def sources(self, options: Namespace, otherwise: str = "nothing was written") -> list[Source]:
        """Return the selected partitions as sources of a job; as :meth:`refuse_unusable`."""
        from brokerless.jobs.rewrite.plan import Source

        found = [Source(directory, partitions) for directory, partitions in self.directories(options)]
        self.refuse_unusable(otherwise)
        return found

    def refuse_unusable(self, otherwise: str) -> None:
        """Raise :class:`NothingDoneError`, which says what is ``otherwise``, if a path cannot be opened."""
        if self.exit_code == UNUSABLE:
            raise NothingDoneError(otherwise)

    def directories(self, options: Namespace) -> list[tuple[LogDirectory, list[PartitionPath]]]:
        """All paths, each with its selected partitions; a topic or number that is in none of them is reported."""
        logs = list(self.open(options))
        found, missing = select([each for log in logs for each in log.paths], options)
        if missing is not None:
            self.unreadable(UnreadableError(logs[0].path if len(logs) == 1 else "", missing))
        for log in logs:
            self._report_uncommitted(log)
        chosen = {id(each) for each in found}
        return [(log.directory, [each for each in log.paths if id(each) in chosen]) for log in logs]

    def chosen(self, log: Log, options: Namespace, *, shows_others: bool = False) -> list[PartitionPath]:
        """Return the selected partitions of a log; a topic or number that none of them has is reported. So is what a
        commit that was cut short hides, unless the result ``shows_others``, which are not read."""
        found, missing = select(log.paths, options)
        if missing is not None:
            self.unreadable(UnreadableError(log.path, missing))
        if not shows_others:
            self._report_uncommitted(log)
        return found

    def _report_uncommitted(self, log: Log) -> None:
        """Report whole partitions that a commit hides which was cut short; of others, their readers do."""
        for each in log.directory.others:
            for finding in each.findings if each.is_unfinished else ():
                self.damage(finding)


def spool_stdin() -> None:
    """Reads stdin to its end, as the file that the path ``-`` names."""
    from brokerless.log.storage.location import spool

    if sys.stdin is None:
        raise UnreadableError("-", "stdin is closed")
    with progress("reading stdin"):
        spool(sys.stdin.buffer)


def screen(*, is_wide: bool) -> Screen:
    """Describes what stdout is shown on. ``is_wide``: its width does not matter."""
    from brokerless.views.screen import Screen

    is_terminal = sys.stdout.isatty()
    has_colors = is_terminal and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")
    width = shutil.get_terminal_size().columns if is_terminal and not is_wide else None
    return Screen(width, has_colors)


def complain(text: str) -> None:
    """A line on stderr, if there is one (``2>&-``)."""
    stderr: TextIO | None = sys.stderr
    if stderr is None:
        return
    text = show_name(hide_credentials(text))
    if not to_pager(text):
        with above_bar():
            print(text, file=stderr, flush=True)


@contextmanager
def _reader_may_leave() -> Generator[None]:
    try:
        yield
    except BrokenPipeError:
        if _ends_with_reader:
            raise
        abandon_stdout()


def abandon_stdout() -> None:
    """Drop what is still buffered after a broken pipe, so that Python does not complain of it at its end."""
    with suppress(OSError):  # not even that can be opened, as in a container without devices
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        os.close(devnull)
