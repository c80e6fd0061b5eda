"""Subjects of commits: what scripts/check_subjects.py finds."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts import check_subjects


@pytest.mark.parametrize(
    "subject",
    ["Rename whole_batch_kernels to intact_batch_kernels", "verify: report a tail of zeros", "Feed rows to the sink"],
)
def test_the_imperative_is_right(subject: str) -> None:
    assert list(check_subjects.problems(subject)) == []


@pytest.mark.parametrize(
    ("subject", "problem"),
    [
        ("Renamed a module", "'renamed' is not the imperative"),
        ("sql: starts without pandas", "'starts' is not the imperative"),
        ("Planning of 20,000 partitions", "'planning' is not the imperative"),
        ("Rename a module.", "ends with a full stop"),
        ("Rename " + "x" * 66, "73 characters; expected at most 72"),
    ],
)
def test_what_is_wrong_is_named(subject: str, problem: str) -> None:
    assert list(check_subjects.problems(subject)) == [problem]


def test_a_message_is_judged_by_its_first_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = tmp_path / "COMMIT_EDITMSG"
    message.write_text("Rename a module\n\nWhat was renamed.\n")
    assert check_subjects.main(["--message", str(message)]) == 0
    message.write_text("Renames a module\n")
    assert check_subjects.main(["--message", str(message)]) == 1
    assert capsys.readouterr().out == "'Renames a module': 'renames' is not the imperative\n"


def test_commits_have_such_subjects(capsys: pytest.CaptureFixture[str]) -> None:
    assert check_subjects.main([]) == 0, capsys.readouterr().out
