"""The power fails while commands write: the next run ends what was begun, and what was said to be written is there.

The judges are those of the programs that kill (``killed*.py``); what is left on the disk is in :mod:`tests.power`. Each
example is a moment and a choice of what was not synced; ``make fuzz`` tries others.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable
from hypothesis import example, given, settings
from hypothesis import strategies as st

import brokerless
from brokerless.cli import main
from brokerless.jobs.restore.live.offset_map import open_map
from brokerless.log import names
from brokerless.table_formats.catalog import TableFormat
from tests.examples import examples
from tests.golden import broker_data
from tests.jobs import killed_commands
from tests.jobs.backup.disks import batches_of
from tests.jobs.erase import killed as killed_erase
from tests.jobs.killed_commands import JOURNAL, TOPIC, commands, contents, visible
from tests.jobs.pipeline.works import table_offsets
from tests.jobs.rebuild import killed as killed_rebuild
from tests.jobs.restore.disks import killed_restore
from tests.jobs.tables import FORMATS, log_of
from tests.jobs.trim import test_job as test_trim
from tests.power import FailingDisk

pytestmark = pytest.mark.xdist_group("power")
FEW = settings(max_examples=5)
"""Of what takes half a second and more."""
CHOICES = st.integers(0, 2**32 - 1)
COMMANDS = tuple(killed_commands.EVERY)
DAY = 86_400_000
Check = Callable[[], list[Any]]


@dataclass
class Recorded:
    """A directory in which something was written; ``check``: what is wrong there after a failure and another run."""

    root: Path
    disk: FailingDisk
    check: Check
    numbered: tuple[str, ...] = ()
    """Files of JSON with inodes, which are others in a copy."""

    def fail(self, choice: int) -> None:
        random = Random(choice)
        inodes = self.disk.after_failure(self.root, random.choice(self.disk.moments), random)
        try:
            self._renumber(inodes)
            wrong = self.check()
            assert not wrong, wrong
        finally:
            shutil.rmtree(self.root)

    def end(self, ignored: Callable[[Path], bool] = lambda _: False, *, is_all: bool = True) -> None:
        """Checks that all is durable in the end; without ``is_all``, what was removed may be there again."""
        self.disk.after_failure(self.root, self.disk.moments[-1], share=1.0)
        whole = files_of(self.root, ignored)
        shutil.rmtree(self.root)
        self.disk.after_failure(self.root, self.disk.moments[-1], share=0.0)
        found = files_of(self.root, ignored)
        shutil.rmtree(self.root)
        assert sorted(found if is_all else found.keys() & whole.keys()) == sorted(whole)
        assert {name: found[name] for name in whole} == whole

    def _renumber(self, inodes: dict[int, int]) -> None:
        def numbered(value: Any) -> Any:
            if isinstance(value, dict):
                return {name: numbered(each) for name, each in value.items()}
            if isinstance(value, list):
                return [numbered(each) for each in value]
            return inodes.get(value, value) if type(value) is int else value

        for path in (path for name in self.numbered for path in list(self.root.rglob(name))):
            with contextlib.suppress(ValueError):
                path.write_text(json.dumps(numbered(json.loads(path.read_bytes()))))


def files_of(root: Path, ignored: Callable[[Path], bool]) -> dict[str, bytes | None]:
    paths = [path for path in root.rglob("*") if not ignored(path)]
    return {str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in paths}


def record(
    root: Path, write: Callable[[], object], check: Check, numbered: tuple[str, ...] = (), synced: str = "/"
) -> Recorded:
    disk = FailingDisk(root, synced)
    with disk.watched():
        write()
    root.rename(root.with_name(f"{root.name}-as-recorded"))  # no inode comes again: those without a name are open
    disk.release()
    return Recorded(root, disk, check, numbered)


def while_open(recorded: Recorded) -> Iterator[Recorded]:
    with contextlib.closing(recorded.disk):
        yield recorded


@pytest.fixture(scope="module", params=COMMANDS)
def recorded_command(request: pytest.FixtureRequest) -> Iterator[Recorded]:
    yield from while_open(record_command(request.param))


@pytest.fixture(scope="module", params=killed_rebuild.MODES)
def recorded_rebuild(request: pytest.FixtureRequest) -> Iterator[Recorded]:
    yield from while_open(record_rebuild(request.param))


@pytest.fixture(scope="module")
def recorded_restore() -> Iterator[Recorded]:
    yield from while_open(record_restore())


@pytest.fixture(scope="module")
def recorded_erase() -> Iterator[Recorded]:
    yield from while_open(record_erase())


@pytest.fixture(scope="module")
def recorded_trim() -> Iterator[Recorded]:
    yield from while_open(record_trim())


@pytest.fixture(scope="module")
def recorded_backup() -> Iterator[Recorded]:
    yield from while_open(record_backup())


@pytest.fixture(scope="module")
def recorded_pipeline() -> Iterator[Recorded]:
    yield from while_open(record_pipeline())


@pytest.fixture(scope="module", autouse=True)
def workspace() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory:
        base.cache_clear()
        base().append(Path(directory))
        yield Path(directory)
        sources.cache_clear()


@cache
def base() -> list[Path]:
    return []


def attempt(arguments: list[Any], to: Path) -> tuple[int, str]:
    """The exit code, and what is printed on stderr."""
    code, _, said = attempted(arguments, to)
    return code, said


def attempted(arguments: list[Any], to: Path) -> tuple[int, str, str]:
    """The same with what is printed on stdout before."""
    out, said = io.BytesIO(), io.StringIO()
    with contextlib.redirect_stdout(io.TextIOWrapper(out, write_through=True)) as stream:
        with contextlib.redirect_stderr(said):
            code = main([str(to) if each == "TO" else str(each) for each in arguments])
        stream.flush()
        printed = out.getvalue().decode()
    return code, printed, said.getvalue()


@cache
def sources() -> Path:
    """What all commands read: three partitions, and a copy of them."""
    root = base()[0]
    rows = ({"key": f"k{n}", "value": "v" * 50, "timestamp": n // 70 * DAY + n} for n in range(200))
    (root / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for topic, partitions in (("a", 2), ("b", 1)):
        load = ["load", root / "rows.jsonl", "--to", "TO", "--topic", topic, "--partitions", partitions]
        for each in ("source", "copy"):
            own_id = TOPIC[:-2] + topic.upper() + TOPIC[-1]
            assert attempt([*load, "--topic-id", own_id], root / each) == (0, "")
    return root


def record_command(name: str) -> Recorded:
    arguments, work = commands(sources())[name], base()[0] / name
    work.mkdir()
    to, whole = work / "to", base()[0] / f"{name}-whole"
    code, said = attempt(arguments, whole)
    assert code == 0, said
    expected = contents(whole)
    partitions = {each for each in expected if "/" not in each and names.parse_partition_directory(each)}
    is_all_or_nothing = "parquet" not in arguments and "export" not in arguments

    def check() -> list[Any]:
        wrong: list[Any] = []
        there = {path.name for path in to.iterdir()} if to.exists() else set[str]()
        if is_all_or_nothing and JOURNAL not in there and there & partitions not in (set(), partitions):
            wrong.append(f"there is {sorted(there & partitions)}")
        if "export" in arguments and to.exists() and (seen := visible(to, expected)):
            wrong.append(f"readers see {seen}")
        again, said = attempt(arguments, to)
        found = contents(to)
        differ = [each for each in {**expected, **found} if expected.get(each, 0) != found.get(each, 0)]
        return [*wrong, again, said, differ] if differ else wrong

    return record(work, lambda: attempt(arguments, to), check)


@given(CHOICES)
@examples(12)
def test_commands_that_write_directories(recorded_command: Recorded, choice: int) -> None:
    recorded_command.fail(choice)


def test_what_they_have_written_in_the_end_is_durable(recorded_command: Recorded) -> None:
    recorded_command.end(lambda path: path.name == "_unfinished")


def record_rebuild(mode: str) -> Recorded:
    whole = killed_rebuild.Place(base()[0] / f"{mode}-whole")
    own = killed_rebuild.Place(base()[0] / f"rebuild-{mode}")
    for place in (whole, own):
        place.root.mkdir()
        place.make()
    done = "in-place" if mode == "undo" else mode
    assert whole.run(done) == 1  # it warns of partitions without an ID that can be read
    result, before = whole.result(done), own.contents()
    if mode == "undo":
        own.run("in-place")

    def check() -> list[Any]:
        own.to.mkdir(exist_ok=True)
        return list(killed_rebuild.wrong_after(own, mode, before, result))

    numbered = (killed_rebuild.JOURNAL, Path(killed_rebuild.NAMED).name)
    return record(own.root, lambda: own.run(mode), check, numbered)


@given(CHOICES)
@FEW
def test_rebuild(recorded_rebuild: Recorded, choice: int) -> None:
    recorded_rebuild.fail(choice)


def test_what_rebuild_has_written_in_the_end_is_durable(recorded_rebuild: Recorded) -> None:
    is_undo = recorded_rebuild.root.name == "rebuild-undo"
    recorded_rebuild.end(lambda path: is_undo and "rebuild-saved" in path.parts)


def record_restore() -> Recorded:
    root = base()[0] / "restores"
    root.mkdir()
    shutil.copytree(broker_data("clean"), root / "source")
    whole = killed_restore.prepare(root, "whole")
    assert killed_restore.run(root, whole)[0] <= 1
    expected, before = killed_restore.contents(whole), killed_restore.contents(killed_restore.prepare(root, "before"))
    target = killed_restore.prepare(root, "own")

    def check() -> list[Any]:
        left = {name: data for name, data in killed_restore.contents(target).items() if "-delete/" not in name}
        is_begun = any(left.get(name) != data for name, data in before.items() if name.endswith(".log"))
        wrong: list[Any] = []
        if is_begun and names.COMMIT_JOURNAL not in left and left != expected:
            wrong.append("changed without a journal")
        code, said = killed_restore.run(root, target)
        found = killed_restore.contents(target)
        differ = [name for name in {**found, **expected} if found.get(name) != expected.get(name)]
        return [*wrong, code, said, differ] if code > 1 or differ else wrong

    return record(target.parent, lambda: killed_restore.run(root, target), check)


@given(CHOICES)
@FEW
def test_restore_into_the_directory_of_a_broker(recorded_restore: Recorded, choice: int) -> None:
    recorded_restore.fail(choice)


def test_what_restore_has_put_aside_is_durable(recorded_restore: Recorded) -> None:
    recorded_restore.end()


def record_erase() -> Recorded:
    root = base()[0] / "erases"
    own, whole = root / "own", root / "whole"
    whole.mkdir(parents=True)
    own.mkdir()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(killed_erase, "PLACES", killed_erase.PLACES[:2])
        patched.setattr(killed_erase, "COPIES", 1)
        killed_erase.make_source(root)
    assert killed_erase.erase(root, whole / "to") == 0
    expected, source = killed_erase.hashes(whole / "to"), killed_erase.hashes(root / "source")
    to = own / "to"
    return record(
        own,
        lambda: killed_erase.erase(root, to),
        lambda: list(killed_erase.wrong_after(root, to, expected, source)),
    )


@given(CHOICES)
@FEW
def test_erase(recorded_erase: Recorded, choice: int) -> None:
    recorded_erase.fail(choice)


def test_what_erase_has_written_in_the_end_is_durable(recorded_erase: Recorded) -> None:
    recorded_erase.end()


def record_trim() -> Recorded:
    root = base()[0] / "trims"
    root.mkdir()
    for topic, hour in (("early", 0), ("late", 2)):
        test_trim.write_topic(root, topic, hour)

    def trim() -> None:
        until = test_trim.START + 2 * test_trim.HOUR + 1
        brokerless.open(root).trim(before=until, topics=test_trim.TOPICS, apply=True)

    def check() -> list[Any]:
        log, wrong = brokerless.open(root), list[Any]()
        if test_trim.bases(root, "early") not in ([0, 15, 30, 45], [15, 30, 45], [30, 45]):
            wrong.append(f"segments begin at {test_trim.bases(root, 'early')}")
        wrong += [each for each in log.verify() if each.severity == "error"]
        wrong += [each for each in log.restart().partitions if each.lost_bytes or each.refused]
        trim()
        return wrong if test_trim.bases(root, "early") == [30, 45] else [*wrong, test_trim.bases(root, "early")]

    return record(root, trim, check)


@given(CHOICES)
@example(613)  # a later segment was gone, and an earlier one was not
@examples(10)
def test_trim_deletes_the_oldest_segments_first(recorded_trim: Recorded, choice: int) -> None:
    recorded_trim.fail(choice)


def record_backup() -> Recorded:
    place, source = base()[0] / "backups", sources() / "source"
    place.mkdir()

    def check() -> list[Any]:
        wrong = list[Any]()
        if (place / ".brokerless" / "config.json").exists():
            wrong += brokerless.Backup(place).check("all").findings
        brokerless.backup(source, place)
        wrong += brokerless.Backup(place).check("all").findings
        return wrong if batches_of(place) == batches_of(source) else [*wrong, "the next run reads otherwise"]

    return record(place, lambda: brokerless.backup(source, place), check)


@given(CHOICES)
@examples(10)
def test_a_snapshot_is_there_when_all_that_it_names_is(recorded_backup: Recorded, choice: int) -> None:
    recorded_backup.fail(choice)


def test_a_backup_is_durable_when_it_has_ended(recorded_backup: Recorded) -> None:
    recorded_backup.end()


def record_pipeline() -> Recorded:
    root = base()[0] / "pipelines"
    root.mkdir()
    arguments = ["pipeline", sources() / "source", "--to", "TO", "--as", "parquet", "--no-report"]

    def rows(to: Path) -> dict[str, Any]:
        found = contents(to)
        return {name: data for name, data in found.items() if name.startswith("topic=") and name.endswith(".parquet")}

    with tempfile.TemporaryDirectory() as directory:
        attempt(arguments, Path(directory) / "to")
        expected = rows(Path(directory) / "to")

    def check() -> list[Any]:
        code, said = attempt(arguments, root / "to")
        found = rows(root / "to")
        return [] if found == expected and not code else [code, said, sorted(found), sorted(expected)]

    return record(root, lambda: attempt(arguments, root / "to"), check)


@given(CHOICES)
@examples(10)
def test_pipeline(recorded_pipeline: Recorded, choice: int) -> None:
    recorded_pipeline.fail(choice)


@pytest.fixture(scope="module", params=FORMATS)
def recorded_tables(request: pytest.FixtureRequest) -> Iterator[Recorded]:
    yield from while_open(record_tables(request.param))


def record_tables(form: TableFormat) -> Recorded:
    """Of a pipeline, a run that makes a table and one that adds to another, and merges files."""
    root, logs = base()[0] / f"pipelines-{form}", base()[0] / f"logs-{form}"
    root.mkdir()
    to, runs, hours = root / "to", 5, 5 if form == "iceberg" else 1
    arguments = ["pipeline", logs, "--to", "TO", "--as", form, "--no-report"]
    for number in range(runs - 1):
        log_of(logs / "t-0", [b"v"], first=number, start_ms=1_700_000_000_000 - hours * number * HOUR)
        assert attempt(arguments, to) == (0, "")
    log_of(logs / "t-0", [b"v"], first=runs - 1, start_ms=1_700_000_000_000 - hours * runs * HOUR)
    log_of(logs / "a-0", [b"v", b"w"])
    wanted = {"a": [0, 1], "t": [*range(runs)]}

    def found(topics: Iterable[str]) -> dict[str, list[int]]:
        return {topic: sorted(table_offsets(to, topic, 0, form).tolist()) for topic in topics}

    def check() -> list[Any]:
        wrong: list[Any] = []
        if form == "iceberg" and found("t")["t"] not in (wanted["t"][:-1], wanted["t"]):
            wrong.append(f"readers see {found('t')}")
        code, printed, said = attempted(arguments, to)
        for _ in wanted:
            lost = set(re.findall(r"(/\S+/_delta_log/[0-9]+\.json): the newest entry", printed + said))
            for each in lost:  # the remedy that is printed
                Path(each).unlink()
            code, printed, said = attempted(arguments, to) if lost else (code, printed, said)
        if form == "delta":
            for each in to.glob("_brokerless-pipeline/*/_delta_log"):
                wrong += [] if DeltaTable(each.parent).to_pyarrow_table() is not None else [str(each)]
        return wrong if not code and found(wanted) == wanted else [*wrong, code, said, found(wanted)]

    return record(root, lambda: attempt(arguments, to), check, synced="catalog.db")


HOUR = 3_600_000


@given(CHOICES)
@examples(12)
def test_tables(recorded_tables: Recorded, choice: int) -> None:
    recorded_tables.fail(choice)


def test_what_is_committed_to_tables_is_durable_in_the_end(recorded_tables: Recorded) -> None:
    """But for the pipeline's own tables of Delta, whose rows deltalake writes."""
    own = "_brokerless-pipeline"
    recorded_tables.end(lambda path: path.name == "_unfinished" or own in path.parts, is_all=False)


START = {"source": "s", "topics": {"t": {"topicId": "a", "starts": {"0": 0}}}}


def test_the_map_of_a_restore_has_all_that_was_written(tmp_path: Path) -> None:
    root = tmp_path / "disk"
    root.mkdir()
    disk, written = FailingDisk(root), [(0, 0)]
    with disk.watched(), open_map(root / "above" / "map", START) as map_:
        for offset in range(40):
            map_.add(("t", 0), offset, offset + offset // 7)
            if offset % 5 == 0:
                map_.write()
                written.append((len(disk.moments), offset + 1))
    for number, moment in enumerate(disk.moments):
        left, least = tmp_path / str(number), max(end for at, end in written if at <= number)
        disk.after_failure(left, moment, Random(number))
        with open_map(left / "above" / "map", START) as map_:
            assert map_.positions["t", 0].source >= least
    disk.close()
