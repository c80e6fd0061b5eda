"""Java starts in half of the time where the classes of a program lie in an archive, loaded and proven once (class data
sharing). An archive is of one Java and one set of jars; for others, Java passes it over."""

from __future__ import annotations

import functools
import hashlib
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.once import made_once

QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xlog:disable")
"""For programs that do not run for long: little compilation; and nothing is said of archives that do not fit."""


@functools.cache
def archive(cache: Path, name: str, java: str, jars: Path) -> Path:
    """Where the archive of the programs that have all of ``jars`` on their class path is, made or not."""
    version = subprocess.run([java, "-version"], capture_output=True, check=False).stderr
    files = [f"{jar} {jar.stat().st_size} {jar.stat().st_mtime_ns}".encode() for jar in sorted(jars.glob("*.jar"))]
    digest = hashlib.sha256(b"\0".join([version, *files])).hexdigest()[:16]
    return cache / "loaded" / f"{name}-{digest}" / "classes.jsa"


def make_archive(path: Path, run: Callable[[str], None]) -> None:
    """Makes it once: ``run`` runs a program that loads classes, with an option for Java, and comes back at its end."""
    made_once(path.parent, lambda target: run(f"-XX:ArchiveClassesAtExit={target / path.name}"))


def quick(path: Path) -> list[str]:
    """Options for Java, with the archive if it was made."""
    return [*QUICK, *([f"-XX:SharedArchiveFile={path}"] if path.exists() else [])]
