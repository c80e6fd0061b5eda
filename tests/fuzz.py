"""Looks for new faults: runs Hypothesis's tests with random examples, round after round, each with another seed.

``make fuzz`` runs this, ``python -m tests.fuzz MINUTES [PATH...]`` a part of it. The first failure ends it; it prints
the seed with which the round is repeated, and the failing example, which belongs into the test as an ``@example``.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time


def main(minutes: float, paths: list[str]) -> int:
    """Run rounds until the minutes are over; return 1 if one has failed. A round that has begun is finished."""
    end, rounds = time.monotonic() + minutes * 60, 0
    while time.monotonic() < end:
        seed = random.randrange(2**32)
        command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--fuzz", f"--hypothesis-seed={seed}", *paths]
        if (code := subprocess.run(command, check=False).returncode) != 0:
            print(f"round {rounds + 1} failed (pytest ended with {code}); again: {' '.join(command)}", flush=True)
            return 1
        rounds += 1
        print(f"round {rounds} passed with seed {seed}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
