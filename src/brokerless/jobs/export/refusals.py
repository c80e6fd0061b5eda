"""Findings about topics that cannot be exported, each with a remedy; all other topics are exported."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field

from brokerless.errors import BrokerlessError, UnreadableError, UnwritableError
from brokerless.findings import Finding, Kind
from brokerless.log.directory import PartitionPath
from brokerless.log.storage.write_errors import AGAIN, RIGHTS
from brokerless.progress import Report
from brokerless.table_formats.export_state import RefusedTopicError

Refuse = Callable[[str, str], None]
"""What is called for a topic that cannot be exported, with the reason."""

_REMEDIES: dict[int | None, str] = {**AGAIN, **dict.fromkeys(RIGHTS, "let this user write there")}
_GOES_ON = "; the next run goes on where the last commit ended"

OF_TOPIC = (RefusedTopicError, UnreadableError, UnwritableError, OSError)
"""What concerns one topic while an export is planned; another error is one of the options."""


@dataclass(slots=True)
class Refusals:
    """The topics that an export goes on without."""

    refuse: Refuse | None = None
    """Called for each refused topic; without it, the first one ends the export."""
    topics: dict[str, Exception] = field(default_factory=dict[str, Exception])
    """The error of each refused topic."""

    def add(self, topic: str, error: Exception, reason: str) -> None:
        """Goes on without a topic, for a reason; raises the error where an export goes on without none."""
        if self.refuse is None:
            raise error
        self.topics[topic] = error
        self.refuse(topic, reason)

    @contextmanager
    def refusing(self, topic: str, kinds: tuple[type[Exception], ...] = (BrokerlessError, OSError)) -> Generator[None]:
        """Refuses the topic for what is raised within; ``kinds``: for these errors alone."""
        try:
            yield
        except kinds as error:
            self.add(topic, error, reason_of(error))


def reason_of(error: BaseException) -> str:
    """Return what an error says, with what to do about a full disk or a missing right."""
    text = str(error) or type(error).__name__
    if isinstance(error, RefusedTopicError):
        return text
    if isinstance(error, UnwritableError) and error.has_remedy:
        return f"{text}{_GOES_ON}"
    remedy = _REMEDIES.get(_number(error))
    return text if remedy is None else f"{text}; {remedy}{_GOES_ON}"


def have_one_cause(errors: Iterable[BaseException]) -> bool:
    """Return whether topics are refused for one reason, which is of the storage that they share: a full disk, or a
    directory that this user may not read."""
    causes = {_cause(each) for each in errors}
    return len(causes) == 1 and None not in causes


def _cause(error: BaseException | None) -> tuple[type[BaseException], str | int | None] | None:
    """Return what tells an error of a storage from others; None for an error of one topic alone."""
    match error:
        case RefusedTopicError():
            return _cause(error.__cause__)
        case UnreadableError():
            return UnreadableError, error.reason
        case UnwritableError() | OSError():
            return type(error), _number(error)
        case _:
            return None


def _number(error: BaseException) -> int | None:
    """The system's ``errno`` of an error, or of what it was raised for."""
    if isinstance(error, UnwritableError):
        return error.number
    cause = error.__cause__ if isinstance(error, UnreadableError) else error
    return cause.errno if isinstance(cause, OSError) else None


def as_findings(partitions: Iterable[PartitionPath], report: Report) -> Refuse:
    """Return what reports refused topics as findings."""
    firsts: dict[str, str] = {}
    for each in partitions:
        firsts.setdefault(each.topic or "", each.path)

    def refuse(topic: str, reason: str) -> None:
        report(topic_refused(firsts[topic], topic, reason))

    return refuse


def topic_refused(path: str, topic: str, reason: str) -> Finding:
    """Return the finding about a topic that an export goes on without. ``path``: of its first partition."""
    return Kind.TOPIC_REFUSED.at(path, f"the topic {topic} was left out: {reason}")


def files_missing(place: str, text: str, elsewhere: str, *, is_table: bool) -> Finding:
    """Return the finding about data files that an export wrote and that are gone. ``elsewhere``: where to export again
    what the log still has."""
    how = (
        "take them out of the table with its own tools and export"
        if is_table
        else "if they were removed on purpose, export"
    )
    text += f": put them back, or {how} with --allow-removed; to write again what the log still has, {elsewhere}"
    return Kind.EXPORTED_FILES_MISSING.at(place, text)


@contextmanager
def for_topic(topic: str) -> Generator[None]:
    """Makes what cannot be read or written the topic's own error."""
    try:
        yield
    except (UnreadableError, UnwritableError, OSError) as error:
        raise RefusedTopicError(topic, reason_of(error)) from error
