"""Kafka's jars, fetched once through the Ivy that PySpark ships, and Java programs that run with them."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from tests.archive import QUICK, archive, quick
from tests.kafka import programs
from tests.once import made_once

NEWEST = "4.4.0"
OLD_FORMATS = "3.9.1"
"""The last minor version whose broker still writes message formats v0 and v1."""

CACHE = Path(os.environ.get("BROKERLESS_KAFKA_CACHE", Path(__file__).parents[2] / ".cache" / "kafka"))
"""Holds a directory of jars for each version; set ``BROKERLESS_KAFKA_CACHE`` to share it between clones."""

HELPERS = Path(__file__).parent / "java"
HELPERS_OF_4 = Path(__file__).parent / "java-4"
"""Programs that only the newest version can run: they use what it has in other ways than others."""
CONNECT_RECORDS = Path(__file__).parent / "java-connect" / "ConnectRecords.java"
CONNECT_VALUES = Path(__file__).parent / "java-connect" / "ConnectValues.java"
MIRROR = Path(__file__).parent / "java-connect" / "Mirror.java"
"""Run from their sources, by :func:`run_with_connect`."""
HELPERS_OF_3 = Path(__file__).parent / "java-3"
"""Programs that only 3.9 can run: what they call was in Scala then."""
TOOLS_SINCE = (4, 3)
"""The first version whose dump tool is in a module of its own, which the broker's does not depend on."""
DUMP_TOOLS = ("org.apache.kafka.tools.DumpLogSegments", "kafka.tools.DumpLogSegments")
MODULES = """\
<ivy-module version="2.0">
  <info organisation="brokerless" module="kafka-for-tests"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{version}" conf="default->default"/>
{tools}    <dependency org="org.slf4j" name="slf4j-simple" rev="1.7.36" conf="default->default"/>
  </dependencies>
</ivy-module>
"""
CONNECT = "4.3.0"
"""The newest version of which MirrorMaker's jars are published."""
CONNECT_MODULES = """\
<ivy-module version="2.0">
  <info organisation="brokerless" module="connect-for-tests"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="connect-json" rev="{version}" conf="default->default"/>
    <dependency org="org.apache.kafka" name="connect-mirror" rev="{version}" conf="default->master"/>
    <dependency org="org.apache.kafka" name="connect-mirror-client" rev="{version}" conf="default->master"/>
    <dependency org="org.apache.kafka" name="connect-runtime" rev="{version}" conf="default->master"/>
    <dependency org="org.apache.maven" name="maven-artifact" rev="3.9.9" conf="default->master"/>
    <dependency org="org.slf4j" name="slf4j-simple" rev="1.7.36" conf="default->default"/>
  </dependencies>
</ivy-module>
"""
TOOLS_MODULE = """\
    <dependency org="org.apache.kafka" name="kafka-tools" rev="{version}" conf="default->master"/>
"""


class KafkaUnavailableError(Exception):
    """There is no Java, or Kafka's jars cannot be fetched; the message says what is missing."""


@functools.cache
def java() -> str:
    """The path of a Java 17 or newer, from ``JAVA_HOME`` or ``PATH``. Raises :class:`KafkaUnavailableError`."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(str(Path(home) / "bin" / "java")) if home else shutil.which("java")
    if found is None:
        raise KafkaUnavailableError("no java in JAVA_HOME or PATH; Java 17 or newer is needed")
    text = subprocess.run([found, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', text)
    if version is None or int(version[1]) < 17:
        raise KafkaUnavailableError(f"Java 17 or newer is needed; {found} says {text.splitlines()[:1]}")
    return found


@functools.cache
def jars(version: str = NEWEST) -> Path:
    """The directory with the jars of a Kafka broker and its clients, fetched if it is not there yet.

    Safe to call from many processes at once. Raises :class:`KafkaUnavailableError`.
    """
    name = f"{version}-tools" if has_tools_module(version) else version
    return made_once(CACHE / name, lambda target: fetch(version, target))


def has_tools_module(version: str) -> bool:
    """Whether the dump tool is in a module of its own."""
    return tuple(map(int, version.split(".")[:2])) >= TOOLS_SINCE


def connect_jars() -> Path:
    """The directory with the jars of MirrorMaker and Kafka Connect, as :func:`jars`."""
    modules = CONNECT_MODULES.format(version=CONNECT)
    return made_once(CACHE / f"connect-{CONNECT}-with-mirror", lambda target: retrieve(modules, CONNECT, target))


def run_with_connect(program: Path, *arguments: str) -> bytes:
    """What one of our programs prints that runs from its source, with :func:`connect_jars`."""
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    line = [java(), *QUICK, quiet, "-cp", str(connect_jars() / "*"), str(program), *arguments]
    return check(subprocess.run(line, capture_output=True, timeout=120, check=False))


def fetch(version: str, target: Path) -> None:
    tools = TOOLS_MODULE.format(version=version) if has_tools_module(version) else ""
    retrieve(MODULES.format(version=version, tools=tools), version, target)


def retrieve(dependencies: str, version: str, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=CACHE) as directory:
        scratch = Path(directory)
        modules = scratch / "ivy.xml"
        modules.write_text(dependencies)
        command = [java(), *QUICK, "-cp", str(ivy()), "org.apache.ivy.Main", "-warn", "-cache", str(scratch / "cache")]
        command += ["-ivy", str(modules), "-confs", "default"]
        command += ["-retrieve", str(target / "[artifact]-[revision](-[classifier]).[ext]")]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        except subprocess.TimeoutExpired:
            raise KafkaUnavailableError(f"fetching the jars of Kafka {version} took more than 10 minutes") from None
        if done.returncode != 0 or not list(target.glob(f"kafka-clients-{version}.jar")):
            raise KafkaUnavailableError(
                f"the jars of Kafka {version} cannot be fetched: {(done.stdout + done.stderr)[-2000:]}"
            )


def ivy() -> Path:
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise KafkaUnavailableError("PySpark, whose Ivy fetches Kafka's jars, is not installed")
    return next((Path(pyspark.origin).parent / "jars").glob("ivy-*.jar"))


def classpath(version: str = NEWEST) -> str:
    return str(jars(version) / "*")


def command(
    main: str, *arguments: str, version: str = NEWEST, heap: str = "512m", classes: Path | None = None
) -> list[str]:
    """The command line of one Java program with Kafka's jars; ``classes`` comes behind them on the class path."""
    path = classpath(version) if classes is None else f"{classpath(version)}{os.pathsep}{classes}"
    tuning = [f"-Xmx{heap}", *quick(archive_of(version))]
    quiet = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    return [java(), *tuning, *quiet, "-cp", path, main, *arguments]


def archive_of(version: str) -> Path:
    """The archive of a broker's classes, which ``tests.kafka.broker`` makes."""
    return archive(CACHE, f"kafka-{version}", java(), jars(version))


def compile_helpers(version: str = NEWEST, sources: Path = HELPERS) -> Path:
    """The classes of the Java programs in ``sources``, compiled once for each of their texts and each version."""
    files = sorted(sources.glob("*.java"))
    digest = hashlib.sha256(b"\0".join([version.encode(), *(file.read_bytes() for file in files)])).hexdigest()[:16]

    def compile_them(target: Path) -> None:
        path = os.pathsep.join(map(str, jars(version).glob("*.jar")))  # only the launcher of java expands a *
        compiler = [java(), *QUICK, "-m", "jdk.compiler/com.sun.tools.javac.Main", "-nowarn", "-cp", path]
        with tempfile.TemporaryDirectory(dir=CACHE) as directory:
            copies = [Path(directory) / file.name for file in files]
            for file, copy in zip(files, copies, strict=True):
                copy.write_text(with_imports_of(version, file.read_text()))
            done = subprocess.run(
                [*compiler, "-d", str(target), *map(str, copies)], capture_output=True, text=True, check=False
            )
        if "jdk.compiler not found" in done.stdout + done.stderr:
            raise KafkaUnavailableError(f"{java()} has no compiler; a JDK is needed, not only a runtime")
        if done.returncode != 0:
            raise RuntimeError(f"{sources} does not compile: {done.stderr}")

    return made_once(CACHE / "classes" / digest, compile_them)


INTERNAL_IMPORT = re.compile(r"(import (?:static )?)(org\.apache\.kafka(?:\.[a-z]+)*)\.(internals?)\.([A-Z]\w*)")


def with_imports_of(version: str, program: str) -> str:
    """A program for the newest Kafka, with the imports of another version: classes that are in a package ``internal``
    or ``internals`` by now used to be in the one around it (``common.record.MemoryRecords`` of 4.1)."""
    known = class_files(version)

    def place(match: re.Match[str]) -> str:
        before, package, internal, name = match.groups()
        moved = f"{package}.{internal}.{name}".replace(".", "/") + ".class" not in known
        return f"{before}{package}.{name}" if moved else match[0]

    return INTERNAL_IMPORT.sub(place, program)


@functools.cache
def class_files(version: str) -> frozenset[str]:
    names: set[str] = set()
    for jar in jars(version).glob("kafka*.jar"):
        with zipfile.ZipFile(jar) as archive:
            names.update(archive.namelist())
    return frozenset(names)


def dump_tool(version: str = NEWEST) -> str:
    """The main class of Kafka's dump tool."""
    return next(main for main in DUMP_TOOLS if main.replace(".", "/") + ".class" in class_files(version))


def run(
    main: str,
    *arguments: str,
    version: str = NEWEST,
    heap: str = "512m",
    stdin: bytes = b"",
    helper: bool = False,
    sources: Path = HELPERS,
    alone: bool = False,
) -> subprocess.CompletedProcess[bytes]:
    """Runs a class of Kafka, or with ``helper`` one of ours in ``sources``; checks nothing.

    They share a JVM, which this process keeps; one that is to be ``alone``, or is given options in the environment, has
    its own.
    """
    classes = compile_helpers(version, sources)
    if not alone and "JAVA_TOOL_OPTIONS" not in os.environ:
        java = command("Programs", version=version, heap=heap, classes=compile_helpers(version))
        return programs.run(java, [str(classes), main, *arguments], stdin)
    line = command(main, *arguments, version=version, heap=heap, classes=classes if helper else None)
    return subprocess.run(line, input=stdin, capture_output=True, timeout=300, check=False)


def check(done: subprocess.CompletedProcess[bytes]) -> bytes:
    """The standard output of a program that must have succeeded."""
    if done.returncode != 0:
        text = (done.stdout[-2000:] + done.stderr[-4000:]).decode(errors="replace")
        raise RuntimeError(f"{shorten(done.args)} exited with {done.returncode}: {text}")
    return done.stdout


def shorten(command: Sequence[str]) -> str:
    return " ".join(command[command.index("-cp") + 2 :])
