"""Change notes: what scripts/collect_changes.py makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts import collect_changes
from scripts.collect_changes import Note, collect

HEAD = "# Changelog\n\nWhat users notice.\n\n"
OLDER = "## 0.1.0 - 2026-01-02\n\n### Added\n\n- `ls`.\n"
NOTES = [Note("fixed", "`cat` ends.\n\n| old | new |\n|---|---|"), Note("added", "`head`, and\nits options.")]


def test_notes_come_first_in_their_sections_of_what_is_unreleased() -> None:
    unreleased = "## Unreleased\n\n### Added\n\n#### Reading\n\n- `tail`.\n\n### Fixed\n\n- `ls` ends.\n\n"
    assert collect(HEAD + unreleased + OLDER, NOTES, "0.2.0 - 2026-03-04") == (
        HEAD + "## 0.2.0 - 2026-03-04\n\n### Added\n\n- `head`, and\n  its options.\n\n#### Reading\n\n- `tail`.\n\n"
        "### Fixed\n\n- `cat` ends.\n\n  | old | new |\n  |---|---|\n- `ls` ends.\n\n" + OLDER
    )


def test_a_version_is_added_where_none_is_unreleased() -> None:
    assert collect(HEAD + OLDER, NOTES[1:], "0.2.0 - 2026-03-04") == (
        HEAD + "## 0.2.0 - 2026-03-04\n\n### Added\n\n- `head`, and\n  its options.\n\n" + OLDER
    )


def test_nothing_of_the_changelog_is_lost() -> None:
    changelog = collect_changes.CHANGELOG.read_text()
    assert collect(changelog, [], collect_changes.UNRELEASED) == changelog


def test_a_release_removes_the_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect_changes, "CHANGES", tmp_path)
    monkeypatch.setattr(collect_changes, "CHANGELOG", tmp_path / "CHANGELOG")
    (tmp_path / "CHANGELOG").write_text(HEAD + OLDER)
    (tmp_path / "README.md").write_text("# Change notes\n")
    (tmp_path / "head.added.md").write_text("`head`.\n")
    assert collect_changes.main(["0.2.0"]) == 0
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["CHANGELOG", "README.md"]
    assert "## 0.2.0 - 20" in (tmp_path / "CHANGELOG").read_text()
    assert "### Added\n\n- `head`.\n\n## 0.1.0" in (tmp_path / "CHANGELOG").read_text()


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("head.new.md", "x", "head.new.md: expected NAME.SECTION.md, with a section out of added"),
        ("head.added.md", "\n", "head.added.md: is empty"),
        ("head.added.md", "- x", "head.added.md: begins with '-'; expected the text alone"),
        ("head.added.md", "x\n" + "y" * 141, "head.added.md:2: 141 characters; expected at most 140"),
    ],
)
def test_a_note_that_cannot_be_collected_is_named(tmp_path: Path, name: str, text: str, problem: str) -> None:
    (tmp_path / name).write_text(text)
    (found,) = collect_changes.problems(tmp_path)
    assert found.startswith(problem)


def test_all_notes_can_be_collected() -> None:
    assert list(collect_changes.problems(collect_changes.CHANGES)) == []
