"""Writes docs/findings.md from src/brokerless/findings.toml: every kind of finding, with what to do about it; and the
severities in the tables of docs/start.md.

python scripts/update_findings.py            # rewrites the pages
python scripts/update_findings.py --check    # fails if one is stale, and changes nothing
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "src" / "brokerless" / "findings.toml"
PAGE = ROOT / "docs" / "findings.md"
START = ROOT / "docs" / "start.md"
HEAD = """\
# Findings

A finding is one observation at one place: a severity, a kind, a file, and where they are known a position in bytes,
an offset, what was expected and what was found. The kinds are identifiers that stay, for programs that read `--json`.
`brokerless help KIND` prints what is said here of one of them:

```console
$ brokerless help high-watermark-before-start
high-watermark-before-start (warning or info)
The log begins after its high watermark.
what to do: check that nobody moved files here, and that all of the partition was copied
more: docs/checking.md
```

Commands exit with 1 where there are findings, but for those of severity info, and with the exceptions that
`brokerless --help` lists.
"""
TABLE_HEAD = "| kind | severity | what it says | what to do |\n|---|---|---|---|\n"
ROW = re.compile(r"^(?P<cells>\|.*\| `(?P<kind>[a-z-]+)` \|)[^|]*\|$", re.MULTILINE)
"""A row of a table whose last cells are a kind and its severities."""
GROUP_OR_KIND = re.compile(r"^## (?P<group>.+)$|^\[(?P<kind>[a-z-]+)\]$", re.MULTILINE)


def page() -> str:
    """Return the page: for each group of kinds a table."""
    text = TABLE.read_text()
    kinds = tomllib.loads(text)
    lines = [HEAD]
    for match in GROUP_OR_KIND.finditer(text):
        if match["group"]:
            lines.append(f"\n## {match['group']}\n\n{TABLE_HEAD}")
        else:
            each = kinds[match["kind"]]
            said = f"{each['sentence']} ([{each['page']}]({each['page']}.md))".replace("|", "\\|")
            advice = each["advice"].replace("|", "\\|")
            if "remedy" in each:
                advice += f". Before a start: {each['remedy']}"
            lines.append(f"| `{match['kind']}` | {severities(each['severity'])} | {said} | {advice} |\n")
    return "".join(lines)


def start_page() -> str:
    """Return the page of what a start does, with each kind's severities."""
    kinds = tomllib.loads(TABLE.read_text())

    def with_severity(row: re.Match[str]) -> str:
        return f"{row['cells']} {severities(kinds[row['kind']]['severity'])} |"

    return ROW.sub(with_severity, START.read_text())


def severities(severity: str | list[str] | dict[str, str]) -> str:
    """Return the cell of a kind's severities."""
    if isinstance(severity, str):
        return severity
    return (
        ", ".join(f"{scope}: {each}" for scope, each in severity.items())
        if isinstance(severity, dict)
        else " or ".join(severity)
    )


def main() -> int:
    stale = 0
    for path, written in ((PAGE, page()), (START, start_page())):
        if "--check" not in sys.argv[1:]:
            path.write_text(written)
        elif not path.exists() or path.read_text() != written:
            print(f"{path.relative_to(ROOT)} is stale: run `make format`")
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
