"""A page of facts and tables, as one HTML file without scripts that needs no network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from brokerless.text import readable

_STYLE = """
:root { color-scheme: light dark; --page: #f6f7f9; --card: #fff; --text: #1b2330; --soft: #586274; --line: #e1e5eb;
  --error: #b3261e; --warning: #8a5300; --ok: #1d7a4c; }
@media screen and (prefers-color-scheme: dark) { :root { --page: #11151b; --card: #191f28; --text: #e5e9ef;
  --soft: #a3adbd; --line: #2c3542; --error: #ff9389; --warning: #f0b860; --ok: #6fd19f; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: var(--text);
  background: var(--page); }
div { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 12px; margin: 1rem 0; }
table { border-collapse: collapse; width: 100%; } th, td { border-bottom: 1px solid var(--line); padding: .25rem .75rem;
  text-align: left; vertical-align: top; overflow-wrap: anywhere; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; } tr:last-child td { border-bottom: 0; }
th { overflow-wrap: normal; } td.error { color: var(--error); } td.warning { color: var(--warning); }
.brand { margin: 0; color: var(--soft); font-weight: 600; } h1 { margin-top: 0; }
.holds { color: var(--ok); } .warned { color: var(--warning); } .fails { color: var(--error); }
"""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
HEAD = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
)
"""How each page begins, by which an earlier one is known."""


def plain_page(title: str, body: Iterable[str]) -> str:
    """Return a page. ``body``: its parts, as HTML."""
    viewport = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    head = f"{viewport}<title>{escape(readable(title))}</title><style>{_STYLE}</style>"
    page = "\n".join(body)
    return f"{HEAD}{head}</head>\n<body><main>\n{page}\n</main></body></html>\n"


def html_table(names: Sequence[str], rows: Iterable[Sequence[Any]], numbers: Sequence[int] = ()) -> str:
    """Return a table. ``numbers``: columns that are aligned as such; ``names`` may all be empty."""

    def cell(tag: str, at: int, value: Any) -> str:
        kind = " class=n" if at in numbers else f" class={value}" if value in ("error", "warning") else ""
        return f"<{tag}{kind}>{escape(readable('-' if value is None else str(value)))}</{tag}>"

    def cells(tag: str, row: Sequence[Any]) -> str:
        return "".join(cell(tag, at, each) for at, each in enumerate(row))

    head = f"<thead><tr>{cells('th', names)}</tr></thead>" if any(names) else ""
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<div><table>{head}<tbody>{body}</tbody></table></div>"
