"""Takes settled disagreements out of ``known.json``: ``python -m tests.states.known``.

It only shrinks; ``--add`` is for new states, and for new assertions. ``--only``: states whose name has this in it.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path

from tests.states import placed, placements
from tests.states.bases import VERSIONS
from tests.states.outcomes import NEWEST, judged_otherwise, load
from tests.states.parity import disagreements, known, write_known
from tests.states.states import SHARES, shares


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--add", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--version", choices=VERSIONS, action="append")
    arguments = parser.parse_args()
    before, found, judged = known(), set(), set()
    for version in arguments.version or VERSIONS:
        all_of_it = load(version).states if version == NEWEST else judged_otherwise(version)
        names = [name for name in all_of_it if arguments.only in name]
        judged |= {f"{version} {name}" for name in names}
        for share in shares(names, SHARES):
            with tempfile.TemporaryDirectory() as scratch:
                found |= set(disagreements(version, share, Path(scratch)))
        replicas = [name for name in placements.chosen(version) if arguments.only in name]
        judged |= {f"{version} {name}" for name in replicas}
        with tempfile.TemporaryDirectory() as scratch:
            found |= set(placed.disagreements(version, replicas, Path(scratch)))
    others = {each for each in before if each.state not in judged}
    write_known(others | (found if arguments.add else found & before))
    new = Counter(f"{each.face}: {each.what}" for each in found - before)
    print(f"{len(found)} disagreements, {len(found - before)} new, {len(before - found - others)} settled")
    for text, count in sorted(new.items()):
        print(f"{count:5} {text}")


if __name__ == "__main__":
    main()
