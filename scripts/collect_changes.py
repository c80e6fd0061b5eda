"""Collects the change notes in ``changes/`` into the changelog.

    python scripts/collect_changes.py VERSION   # a release: into CHANGELOG.md, and removes the notes
    python scripts/collect_changes.py --check   # whether all notes can be collected

A note is a file ``NAME.SECTION.md`` with what one change means for users, where SECTION is a name of SECTIONS. Its text
becomes an entry of that section of the changelog.
"""

from __future__ import annotations

import datetime
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHANGES = ROOT / "changes"
CHANGELOG = ROOT / "CHANGELOG.md"
SECTIONS = ("added", "changed", "removed", "fixed", "security")
UNRELEASED = "Unreleased"
NAME = re.compile(rf"[a-z0-9-]+\.({'|'.join(SECTIONS)})\.md")
MOST = 140
"""Characters of a line, as in the changelog; a table may have longer ones."""


@dataclass(frozen=True)
class Note:
    section: str
    text: str

    def entry(self) -> str:
        """Return the note as an entry of a list, with later lines indented."""
        return "- " + "\n".join(f"  {line}" if line else "" for line in self.text.splitlines())[2:] + "\n"


def find_notes(directory: Path) -> list[Path]:
    return sorted(path for path in directory.glob("*.md") if path.name != "README.md")


def load_notes(directory: Path) -> list[Note]:
    paths = find_notes(directory)
    return [Note(path.suffixes[-2].removeprefix("."), path.read_text().strip()) for path in paths]


def problems(directory: Path) -> Iterator[str]:
    """Yield what keeps a note from being collected."""
    for path in find_notes(directory):
        lines = path.read_text().strip().splitlines()
        if not NAME.fullmatch(path.name):
            yield f"{path.name}: expected NAME.SECTION.md, with a section out of {', '.join(SECTIONS)}"
        if not lines:
            yield f"{path.name}: is empty"
        elif lines[0].startswith(("- ", "* ", "#")):
            yield f"{path.name}: begins with {lines[0][:2].strip()!r}; expected the text alone"
        for number, line in enumerate(lines, 1):
            if len(line) > MOST and not line.startswith("|"):
                yield f"{path.name}:{number}: {len(line)} characters; expected at most {MOST}"


def collect(changelog: str, notes: Sequence[Note], title: str) -> str:
    """Return the changelog with these notes at the beginnings of sections of its first version, which gets ``title``;
    where no version is unreleased, a new one comes first."""
    at = changelog.index("\n## ") + 1
    head, rest = changelog[:at], changelog[at:]
    if not rest.startswith(f"## {UNRELEASED}\n"):
        return f"{head}## {title}\n\n{write_sections({}, notes)}\n{rest}"
    end = rest.find("\n## ")
    version, older = (rest, "") if end < 0 else (rest[: end + 1], rest[end + 1 :])
    _, *parts = re.split(r"^### (.+)\n\n", version, flags=re.MULTILINE)
    sections = {name.lower(): text.strip("\n") + "\n" for name, text in zip(parts[::2], parts[1::2], strict=True)}
    return f"{head}## {title}\n\n{write_sections(sections, notes)}" + (older and f"\n{older}")


def write_sections(sections: Mapping[str, str], notes: Sequence[Note]) -> str:
    texts: list[str] = []
    for name in SECTIONS:
        entries = "".join(note.entry() for note in notes if note.section == name)
        text = sections.get(name, "")
        if entries and text and not text.startswith("- "):  # subsections or paragraphs come first in it
            entries += "\n"
        if entries or text:
            texts.append(f"### {name.capitalize()}\n\n{entries}{text}")
    return "\n".join(texts)


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1 or (arguments[0].startswith("-") and arguments[0] != "--check"):
        print(__doc__)
        return 2
    found = list(problems(CHANGES))
    for line in found:
        print(f"changes/{line}")
    if found or arguments[0] == "--check":
        return 1 if found else 0
    title = f"{arguments[0]} - {datetime.date.today().isoformat()}"
    CHANGELOG.write_text(collect(CHANGELOG.read_text(), load_notes(CHANGES), title))
    for path in find_notes(CHANGES):
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
