"""Writes docs/findings.md from src/brokerless/findings.toml: every kind of finding, with what to do about it.

python scripts/update_findings.py            # rewrites the page
python scripts/update_findings.py --check    # fails if the page is stale, and changes nothing
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "src" / "brokerless" / "findings.toml"
PAGE = ROOT / "docs" / "findings.md"
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
            lines.append(f"| `{match['kind']}` | {' or '.join(each['severity'])} | {said} | {advice} |\n")
    return "".join(lines)


def main() -> int:
    written = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(written)
    elif not PAGE.exists() or PAGE.read_text() != written:
        print("docs/findings.md is stale: run `make format`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
