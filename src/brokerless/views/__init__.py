"""Output for people: text, tables, templates.

A *row* is a value for programs: an object of ``--json``. A *line* is text for people. Both are of the same thing, and a
command shows one of them. A *cell* is the text of one column in a table. The *screen* is what text is shown on: how
wide it is and whether it has colours; a pipe has no width and no colour. Columns that a narrow terminal does without
are *left out*. Findings are *grouped* by severity and kind, those that say the same as one; their paths are shown from
the *root* on, which all paths of the command line have in common.
"""
