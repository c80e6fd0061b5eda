"""Commits staged partitions in several log directories at once: in all of them, or in none.

Each directory has a journal of its own part, which names them all. That of the first one decides: it is written last
and removed last. While it is there, the next run completes everything; where only others have one, nothing was changed
yet, and it is undone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from brokerless.errors import UsageError
from brokerless.log import names
from brokerless.log.checkpoint.commit_journal import Journal, Renaming, load_journal, remove_journal, write_journal
from brokerless.log.commit.commit import aside_of, complete, recover_commit_locked
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.directory_lock import DirectoryLock
from brokerless.log.storage.guarded_files import is_own_directory


def commit_together(parts: Mapping[Path, Sequence[Renaming]]) -> None:
    """Gives partitions their names in log directories that the caller holds, and the commits of them. Raises
    UsageError for what is not there any more, and OSError."""
    first, *others = paths = sorted(parts)
    journals = {path: Journal.of_several(parts[path], paths) for path in paths}
    for path in others:
        write_journal(path, journals[path])
    write_journal(first, replace(journals[first], is_decided=True))
    _complete_all(paths)


def recover_together(directories: Mapping[Path, DirectoryLock]) -> bool:
    """Completes or undoes what a stop cut short in log directories that the caller holds, and the commits of them;
    says whether a commit of several directories was completed. Raises UsageError where others take part that are not
    among them, or something is gone; UnreadableError for a journal that is not ours; OSError."""
    journals = {
        path: load_journal(Destination.of(path).location / names.COMMIT_JOURNAL)
        for path in directories
        if Destination.of(path).exists(names.COMMIT_JOURNAL)
    }
    is_completed = False
    for path, journal in journals.items():
        paths = [Path(each) for each in journal.together]
        missing = [each for each in paths if each not in directories]
        if paths and path not in paths:
            raise UsageError(f"{path / names.COMMIT_JOURNAL}: {_moved(path, journal)}")
        if missing:
            text = (
                f"a restore was cut short that changes {', '.join(map(str, missing))}, too; give all of its directories"
            )
            raise UsageError(f"{path}: {text}")
    for path, journal in journals.items():
        paths = [Path(each) for each in journal.together]
        if not paths:
            recover_commit_locked(path, directories[path])
        elif paths[0] not in journals or journals[paths[0]].together != journal.together:
            _undo(Destination.of(path), journal)
        elif path == paths[0]:
            _complete_all(paths)
            is_completed = True
    return is_completed


def _complete_all(paths: Sequence[Path]) -> None:
    """Completes the first one's part last, once all others are. What is gone is said at the end: the rest is whole."""
    first, *others = [Destination.of(path) for path in paths]
    errors: list[UsageError] = []
    for at in (*others, first):
        if at is first and any(each.exists(names.COMMIT_JOURNAL) for each in others):
            break
        if at.exists(names.COMMIT_JOURNAL):
            try:
                complete(at, load_journal(at.location / names.COMMIT_JOURNAL))
            except UsageError as error:
                errors.append(error)
    if errors:
        raise errors[0]


def _moved(path: Path, journal: Journal) -> str:
    """Return what to do where the log directories of a commit are not where it was begun."""
    text = f"this is of a commit that was cut short in {', '.join(journal.together)}; have them there again"
    lacking = [each for each in journal.new if is_own_directory(path / each.staged) and not (path / each.name).exists()]
    if not lacking:
        return f"{text}, or move this file away to leave these directories as they are"
    named = ", ".join(f"{each.staged} becomes {each.name}" for each in lacking)
    text += f". Else rename what has not its name yet ({named}) before you move this file away"
    replaced = any(each.aside is not None for each in lacking)
    return f"{text}; what it replaces is in {aside_of(path)}" if replaced else text


def _undo(directory: Destination, journal: Journal) -> None:
    for each in journal.new:
        directory.remove_directory(each.staged)
    remove_journal(directory)
