"""Java programs that run as fast as they can: Kafka's jars from the tests, but an optimizing compiler."""

from __future__ import annotations

import os
from pathlib import Path

from tests.kafka.jars import classpath, compile_helpers, java

SOURCES = Path(__file__).parent / "java"


def command(main: str, *arguments: str, heap: str = "1g", sources: Path = SOURCES) -> list[str]:
    """The command line of a program in ``sources`` or of a class of Kafka.

    The tests' own command lines stop at the first compiler's tier, for short starts; here all tiers work.
    """
    path = f"{compile_helpers(sources=sources)}{os.pathsep}{classpath()}"
    tuning = [f"-Xmx{heap}", f"-Xms{heap}", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    return [java(), *tuning, "-cp", path, main, *arguments]
