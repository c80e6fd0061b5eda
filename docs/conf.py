"""The documentation site: `make docs` builds it with Sphinx from this directory, and a warning fails the build."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.util.docutils import SphinxDirective

import brokerless
from brokerless import schemas

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx

project = "brokerless"
author = "the brokerless contributors"
version = release = brokerless.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
napoleon_google_docstring = False
strip_signature_backslash = True  # or as_, a parameter, would be a reference
exclude_patterns = ["_build"]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}

html_theme = "furo"
html_title = f"brokerless {version}"
html_copy_source = False
html_show_sourcelink = False

myst_heading_anchors = 3
highlight_language = "text"
suppress_warnings = ["misc.highlighting_failure"]  # a table of bytes, a template: shown, not coloured

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
add_module_names = False

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))
from scripts.collect_changes import CHANGES, UNRELEASED, collect, load_notes  # noqa: E402

PAGES = {
    "README.md": "index",
    "CHANGELOG.md": "changelog",
    "CONTRIBUTING.md": "contributing",
    "DEVELOPERS.md": "developers",
    "SECURITY.md": "security",
}
"""Files of the repository's root that are pages of the site, too: what their own source has comes after them."""
SEARCHED = {
    ("checking", "# Checking"): (
        "retention does not delete",
        "disk usage grows",
        "is my log damaged",
        "corrupt record",
    ),
    ("checking", "## Before a restart"): ("broker does not start", "broker will not start", "broker fails at start"),
    ("cookbook", "## A topic that was deleted by accident"): (
        *(
            "deleted topic",
            "a deleted topic",
            "topic deleted by accident",
            "undelete a topic",
            "restore a deleted topic",
        ),
        *("recover a deleted topic", "a topic was deleted", "accidentally deleted topic"),
    ),
    ("cookbook", "## Records of a time range and a key as CSV"): (
        *("records of a time range", "records of a time range and key as csv", "records as csv", "export to csv"),
        *("time range", "records between two times", "csv of a key"),
    ),
    ("erasing", "# Erasing records"): ("erase a user", "gdpr", "right to be forgotten", "delete personal data"),
    ("explain", "# Byte by byte"): ("what does this byte mean", "hex dump of a batch"),
    ("cookbook", "## How far had each group read?"): (
        *("lag", "lag of each group", "lag of each consumer group", "consumer lag", "consumer group lag"),
        *("how far behind is a group", "consumer group offsets"),
    ),
    ("internal-topics", "## Why a consumer is stuck"): (
        *("consumer stuck", "why is my consumer stuck", "consumer is stuck", "last stable offset does not move"),
        *("hanging transaction", "open transactions"),
    ),
    ("reading", "## Find records"): ("find a message", "find a record", "search messages", "find a key"),
    ("recovering", "## A disk that is full"): ("disk is full", "disk full", "no space left on device", "free space"),
    ("restoring", "# Restoring topics"): ("to another cluster", "copy a topic to another cluster", "migrate topics"),
    ("runbook", "# Runbook: from a dead disk to a broker that serves what was on it"): (
        *("lost a disk", "i lost a disk", "disk died", "disk failure", "data loss"),
    ),
    ("size", "# Sizes"): (
        *("size with zstd", "how big with zstd", "compression ratio", "who writes most", "largest producers"),
        *("largest keys", "how large is a topic"),
    ),
    ("tables", "# Tables: Iceberg and Delta"): ("iceberg table", "delta table", "data lake", "kafka to iceberg"),
}
"""What people search for in their own words, by the page and the heading that answer it."""
LINK = re.compile(r"\]\((?!\w+:|#)([^)]+)\)")


def read_root_page(app: Sphinx, docname: str, content: list[str]) -> None:
    for name, page in PAGES.items():
        if page == docname:
            text = (ROOT / name).read_text()
            if page == "changelog":
                text = collect(text, load_notes(CHANGES), UNRELEASED)
            content[0] = LINK.sub(_moved, text) + "\n" + content[0]


def leave_out_of_search(app: Sphinx, docname: str, content: list[str]) -> None:
    """How it was decided and built is not what a user searches for, and would come before the guides."""
    if docname.startswith("decisions/") or docname in ("architecture", "modules"):
        content[0] = f"---\nnosearch: true\n---\n\n{content[0]}"


def add_searched_words(app: Sphinx, docname: str, content: list[str]) -> None:
    """Put words of people into the index below the headings, where the search finds them first."""
    for (page, heading), words in SEARCHED.items():
        if page == docname:
            above, found, below = content[0].partition(f"{heading}\n")
            if not found:
                raise SystemExit(f"docs/{page}.md has no heading {heading!r}, which SEARCHED of docs/conf.py names")
            entries = "".join(f"\n```{{index}} ! {each}\n```\n" for each in words)
            content[0] = f"{above}{found}{entries}{below}"


def list_modules(app: Sphinx, docname: str, content: list[str]) -> None:
    if docname == "modules":
        listed = subprocess.run([sys.executable, ROOT / "scripts/list_modules.py"], capture_output=True, text=True)
        if listed.returncode:
            raise SystemExit(listed.stderr)
        content[0] += listed.stdout


def _moved(link: re.Match[str]) -> str:
    """A link of a file in the root, as it is from docs/."""
    path, hash, anchor = link[1].partition("#")
    if path in PAGES:
        target = f"{PAGES[path]}.md"
    else:
        target = path.removeprefix("docs/") if path.startswith("docs/") else f"../{path}"
    return f"]({target}{hash}{anchor})"


class SchemaTable(SphinxDirective):
    """``.. schema:: RECORDS``: the columns of an Arrow schema of :mod:`brokerless.schemas`, as a table."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        rows = [(f"``{field.name}``", f"``{field.type}``") for field in getattr(schemas, self.arguments[0])]
        lines = ["", ".. list-table::", "   :header-rows: 1", ""]
        lines += [f"   * - {name}\n     - {type_}" for name, type_ in [("column", "type"), *rows]]
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app: Sphinx) -> None:
    app.add_directive("schema", SchemaTable)
    app.connect("source-read", read_root_page)
    app.connect("source-read", list_modules)
    app.connect("source-read", leave_out_of_search)
    app.connect("source-read", add_searched_words)
