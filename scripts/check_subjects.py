"""Checks the subjects of commits: at most 72 characters, in the imperative, without a full stop.

    python scripts/check_subjects.py                  # commits since FIRST
    python scripts/check_subjects.py --message FILE   # the message in a file, as git's hook commit-msg has it

The imperative says what a commit does when it is applied: "Rename ...", "verify: report ...", not "Renamed" or "Adds".
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FIRST = "5b1dff7"
"""The last commit before the subjects were checked."""
MOST = 72
AREA = re.compile(r"[\w/., -]+: ")
"""What a subject may begin with: the command or room that it is about."""
NOT_IMPERATIVE = re.compile(r"\w+(ed|ing)|\w*[^s\W]s")
IMPERATIVE = {"need", "feed", "exceed", "proceed", "embed", "bring", "string", "alias", "focus", "bias"}
"""Verbs that look like another form."""


def problems(subject: str) -> Iterator[str]:
    if len(subject) > MOST:
        yield f"{len(subject)} characters; expected at most {MOST}"
    if subject.endswith("."):
        yield "ends with a full stop"
    text = AREA.sub("", subject, count=1) if AREA.match(subject) else subject
    verb = text.partition(" ")[0].lower()
    if NOT_IMPERATIVE.fullmatch(verb) and verb not in IMPERATIVE:
        yield f"{verb!r} is not the imperative"


def subjects() -> list[str]:
    """Return the subjects of commits since FIRST; of the newest one alone in a clone that does not have it."""
    for revisions in ([f"{FIRST}..HEAD"], ["-1", "HEAD"]):
        log = ["git", "-C", str(ROOT), "log", "--no-merges", "--format=%s", *revisions]
        done = subprocess.run(log, capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout.splitlines()
    return []  # not a clone


def main(arguments: list[str]) -> int:
    checked = [Path(arguments[1]).read_text().partition("\n")[0]] if arguments[:1] == ["--message"] else subjects()
    found = [f"{subject!r}: {problem}" for subject in checked for problem in problems(subject)]
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
