"""What salvage makes of damage: by Kafka's own verdict on damaged files, and by what a broker wrote before."""

from __future__ import annotations

import random
import re
import shutil
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from tests.golden import broker_data, cases, of_type
from tests.kafka.oracle import dump_everything, read_logs
from tests.log import whole_batches
from tests.sources import sources_of

import brokerless
from brokerless.cli import main
from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Finding
from brokerless.jobs.salvage.job import Salvage, SalvageResult, plan, salvage
from brokerless.log.names import Include

DEMO = Path(__file__).parents[3] / "demo" / "data"

pytestmark = pytest.mark.xdist_group("salvaged")
CLEAN = broker_data("clean")
DAMAGED = [each for each in cases("damaged") if each.logs]


def run(
    source: Path, to: Path, how: Salvage | None = None, include: tuple[Include, ...] = ()
) -> tuple[list[SalvageResult], list[Finding]]:
    findings: list[Finding] = []
    tasks = plan(sources_of(source, include=include), to, how or Salvage(), include)
    return list(salvage(tasks, findings.append)), findings


def records(path: Path) -> dict[int, tuple[Any, ...]]:
    """Key, value, timestamp and headers of a partition's records, control records too, by offset."""
    columns = ["offset", "key", "value", "timestamp", "headers"]
    (partition,) = brokerless.open(path, include="deleted").partitions
    found: dict[int, tuple[Any, ...]] = {}
    for batch in partition.records(columns, control=True, on_damage=lambda _: None):
        at = batch.column_names.index("timestamp")
        batch = batch.set_column(at, "timestamp", batch.column(at).cast(pa.int64()))
        for row in batch.to_pylist():
            offset, *rest = row.values()
            found.setdefault(offset, tuple(map(repr, rest)))
    return found


def positions(path: Path) -> list[tuple[Path, int, int, int, int]]:
    """Of all batches of a partition: file, position, size, first and last offset."""
    (partition,) = brokerless.open(path).partitions
    names = ["file", "position", "sizeInBytes", "baseOffset", "lastOffset"]
    rows = [row for batch in partition.batches(names) for row in batch.to_pylist()]
    return [(Path(row["file"]), *(row[name] for name in names[1:])) for row in rows]


@pytest.fixture(scope="module")
def of_golden(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[SalvageResult], list[Finding]]:
    """Every damaged file of the archive as a partition of its own, saved."""
    directory = tmp_path_factory.mktemp("damaged")
    for number, each in enumerate(DAMAGED):
        partition = directory / "source" / f"case-{number}"
        partition.mkdir(parents=True)
        for log in each.logs:
            name = log.name if re.fullmatch(r"\d{20}\.log", log.name) else f"{0:020}.log"
            shutil.copyfile(log, partition / name)
    return directory / "saved", *run(directory / "source", directory / "saved")


@pytest.mark.slow(reason="all damaged files")
def test_every_batch_that_kafka_reads_is_saved_or_told(
    of_golden: tuple[Path, list[SalvageResult], list[Finding]],
) -> None:
    saved, results, findings = of_golden
    by_partition = {result.task.partition: result for result in results}
    told = Counter((Path(each.file).parent.name, each.position) for each in findings)
    kept = 0
    for number, each in enumerate(DAMAGED):
        lines = each.expected()
        broken = {line.get("position", line.get("batchPosition")) for line in of_type(lines, "error")}
        accepted = [b for b in of_type(lines, "batch") if b["isValid"] and b["position"] not in broken]
        regions = [region for loss in by_partition[number].losses for region in loss.regions]
        saved_records = records(saved / f"case-{number}")
        for batch in accepted:
            wanted = {r["offset"] for r in of_type(lines, "record") if r["batchPosition"] == batch["position"]}
            if wanted <= saved_records.keys():
                kept += 1
                continue
            lost = {
                r.position
                for r in regions
                if r.kind in ("offset-misplaced", "limit-exceeded", "message-checksum-mismatch")
            }
            is_impossible = batch["baseOffset"] < 0 or batch["lastOffset"] < batch["baseOffset"]
            assert is_impossible or told[f"case-{number}", batch["position"]] or batch["position"] in lost, each
    assert kept > 1500


def test_what_is_saved_is_intact_for_us_and_for_kafka(
    of_golden: tuple[Path, list[SalvageResult], list[Finding]], kafka_jars: Path
) -> None:
    saved, results, _ = of_golden
    assert not [each for each in brokerless.open(saved).verify() if each.severity == "error"]
    logs = sorted(path for path in saved.rglob("*.log") if path.stat().st_size)
    assert len(logs) > 400
    counts, ends_with_nothing = Counter[str](), dict[str, bool]()
    for path, lines in read_logs(logs).items():
        assert not list(of_type(lines, "error")), path
        name = path.parent.name
        batches = list(of_type(lines, "batch"))
        counts[name] += len(batches)
        ends_with_nothing[name] = batches[-1]["count"] == 0
        original = list(of_type(DAMAGED[int(name[5:])].expected(), "record"))
        for line in of_type(lines, "record"):
            # Kafka's reader does not come to what is behind a broken chain.
            before = [contents(each) for each in original if each["offset"] == line["offset"]]
            assert not before or contents(line) in before, (name, line["offset"])
    for result in results:
        if result.batches:
            name = f"case-{result.task.partition}"
            # Where the last records are lost, an empty batch leads to the end; a part of a wrapper is single messages.
            more = counts.pop(name) - (result.batches + ends_with_nothing[name])
            assert more == 0 or (more > 0 and result.partial)
    assert not counts


def contents(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in ("file", "batchPosition", "recordInvalid")}


def flip(chance: random.Random, data: bytearray) -> None:
    for _ in range(chance.randint(1, 4)):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def cut_off(chance: random.Random, data: bytearray) -> None:
    del data[chance.randrange(len(data)) :]


def zero_a_page(chance: random.Random, data: bytearray) -> None:
    size = chance.choice([512, 4096])
    at = chance.randrange(0, len(data), size)
    data[at : at + size] = bytes(len(data[at : at + size]))


def swap_blocks(chance: random.Random, data: bytearray) -> None:
    if len(data) < 1024:
        return flip(chance, data)
    first, second = (512 * chance.randrange(len(data) // 512) for _ in range(2))
    a, b = data[first : first + 512], data[second : second + 512]
    data[first : first + 512], data[second : second + 512] = b, a
    return None


def cut_out(chance: random.Random, data: bytearray) -> None:
    at = chance.randrange(len(data))
    del data[at : at + chance.randint(1, 700)]


def put_in(chance: random.Random, data: bytearray) -> None:
    at = chance.randrange(len(data))
    data[at:at] = chance.randbytes(chance.randint(1, 300))


DAMAGES: list[Callable[[random.Random, bytearray], None]] = [flip, cut_off, zero_a_page, swap_blocks, cut_out, put_in]
SEEDS = 120
OLD = broker_data("old-formats")
PARTITIONS = [
    path
    for broker in (CLEAN, OLD)
    for path in sorted(broker.glob("*-*"))
    if path.is_dir() and sum(log.stat().st_size for log in path.glob("*.log"))
]


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[SalvageResult]]:
    """Partitions of a real broker, each damaged in another way; the seed is the partition's number."""
    directory = tmp_path_factory.mktemp("seeded")
    source = directory / "source"
    for seed in range(SEEDS):
        chance = random.Random(seed)
        target = source / f"seed-{seed}"
        shutil.copytree(PARTITIONS[seed % len(PARTITIONS)], target)
        logs = [log for log in sorted(target.glob("*.log")) if log.stat().st_size]
        if len(logs) > 1 and chance.random() < 0.3:
            chance.choice(logs).unlink()
            continue
        for _ in range(chance.choice([1, 1, 2])):
            log = chance.choice(logs)
            data = bytearray(log.read_bytes())
            if data:
                chance.choice(DAMAGES)(chance, data)
            log.write_bytes(data)
    results, _ = run(source, directory / "saved")
    return source, directory / "saved", results


def test_nothing_is_made_up_and_every_intact_batch_is_saved(seeded: tuple[Path, Path, list[SalvageResult]]) -> None:
    source, saved, results = seeded
    originals = {path: records(path) for path in PARTITIONS}
    batches = {path: positions(path) for path in PARTITIONS}
    assert len(results) == SEEDS
    lost = 0
    for result in results:
        seed = result.task.partition
        name = PARTITIONS[seed % len(PARTITIONS)]
        found = records(saved / f"seed-{seed}")
        assert found.items() <= originals[name].items(), seed
        for log, position, size, first, last in batches[name]:
            damaged = source / f"seed-{seed}" / log.name
            batch, data = (
                log.read_bytes()[position : position + size],
                damaged.read_bytes() if damaged.exists() else b"",
            )
            if len(data) == log.stat().st_size:  # what was moved into another batch may be part of its records
                data = data[position : position + size]
            if batch in data:
                wanted = {offset for offset in originals[name] if first <= offset <= last}
                assert wanted <= found.keys(), (seed, first, last)
        missing = originals[name].keys() - found.keys()
        told = (
            {o for loss in result.losses for o in range(loss.first_offset, (loss.last_offset or 1 << 20) + 1)}
            if (missing)
            else set[int]()
        )
        if "compact" not in name.name:
            assert missing <= told | set(range(result.start_offset)), (seed, sorted(missing - told)[:5])
        lost += bool(missing)
    assert lost > SEEDS // 3


def test_what_was_saved_is_accepted_by_verify_and_kafkas_dump_tool(
    seeded: tuple[Path, Path, list[SalvageResult]], kafka_jars: Path
) -> None:
    _, saved, _ = seeded
    assert not [each for each in brokerless.open(saved).verify() if each.severity != "info"]
    text = dump_everything(saved.rglob("*-*/*"), "--deep-iteration")
    assert text.count("isvalid: true") > 500
    assert not re.search(r"mismatch|do not have|out of order|isvalid: false|invalid|corrupt", text, re.IGNORECASE)


def test_records_before_a_break_inside_a_batch_are_saved_when_asked(tmp_path: Path, kafka_jars: Path) -> None:
    broken: dict[int, set[int]] = {}
    for number, each in enumerate(DAMAGED):
        lines = each.expected()
        positions = {x.get("batchPosition", x["position"]) for x in of_type(lines, "error") if x["phase"] == "records"}
        for batch in of_type(lines, "batch"):
            plain = batch["magic"] == 2 and batch["compression"] == "none" and not batch["isControl"]
            if batch["position"] in positions and plain:
                told = {r["offset"] for r in of_type(lines, "record") if r["batchPosition"] == batch["position"]}
                broken[number] = broken.get(number, set()) | told
        if number in broken:
            partition = tmp_path / "source" / f"case-{number}"
            partition.mkdir(parents=True)
            shutil.copyfile(each.log, partition / f"{0:020}.log")
    assert sum(map(bool, broken.values())) > 10
    without, _ = run(tmp_path / "source", tmp_path / "without")
    results, _ = run(tmp_path / "source", tmp_path / "with", Salvage(partial=True))
    assert not any(result.partial for result in without)
    for result in results:
        name, number = result.task.name, result.task.partition
        added = records(tmp_path / "with" / name).keys() - records(tmp_path / "without" / name).keys()
        assert added == broken[number], DAMAGED[number]
        assert result.partial == bool(added)
    logs = [path for path in sorted((tmp_path / "with").rglob("*.log")) if path.stat().st_size]
    for path, lines in read_logs(logs).items():
        assert not list(of_type(lines, "error")), path
        original = [contents(line) for line in of_type(DAMAGED[int(path.parent.name[5:])].expected(), "record")]
        for line in of_type(lines, "record"):
            if line["offset"] in broken[int(path.parent.name[5:])]:
                assert contents(line) in original, DAMAGED[int(path.parent.name[5:])]
    assert not [each for each in brokerless.open(tmp_path / "with").verify() if each.severity != "info"]


def test_what_is_deleted_but_still_there_is_read_when_asked(tmp_path: Path) -> None:
    source, name = tmp_path / "source", "segments-0"
    shutil.copytree(CLEAN / name, source / name)
    logs = sorted((source / name).glob("*.log"))
    assert len(logs) > 2
    logs[0].rename(f"{logs[0]}.deleted")
    shutil.copytree(CLEAN / "txn-0", source / "txn-0.0123456789abcdef0123456789abcdef-delete")
    (without,), _ = run(source, tmp_path / "without")
    assert records(tmp_path / "without" / name).keys() < records(CLEAN / name).keys()
    assert without.start_offset == int(logs[1].stem)
    results, findings = run(source, tmp_path / "with", include=("delete",))
    assert [result.task.name for result in results] == [name, "txn-0"]
    for result in results:
        assert records(tmp_path / "with" / result.task.name) == records(CLEAN / result.task.name)
        assert not result.losses
    assert not findings


def test_what_is_there_twice_is_taken_once(tmp_path: Path) -> None:
    source, name = tmp_path / "source", "segments-0"
    shutil.copytree(CLEAN / name, source / name)
    log = min((source / name).glob("*.log"))
    shutil.copyfile(log, f"{log}.deleted")
    (result,), findings = run(source, tmp_path / "to", include=("delete",))
    first_segment = [each for each in positions(CLEAN / name) if each[0].name == log.name]
    assert (result.repeated, result.overlapping, result.losses) == (len(first_segment), 0, ())
    assert records(tmp_path / "to" / name) == records(CLEAN / name)
    assert not findings


def test_a_wrong_offset_is_reported_by_its_neighbours(tmp_path: Path) -> None:
    name = "segments-0"
    batches = positions(CLEAN / name)
    log, position, _, first, last = batches[1]
    assert batches[2][0] == log
    for bit in range(63):
        source = tmp_path / f"bit-{bit}" / name
        shutil.copytree(CLEAN / name, source)
        data = bytearray(log.read_bytes())
        data[position + 7 - bit // 8] ^= 1 << bit % 8
        (source / log.name).write_bytes(data)
        (result,), _ = run(source, tmp_path / f"to-{bit}", Salvage(dry_run=True))
        (loss,) = result.losses
        assert (loss.first_offset, loss.last_offset) == (first, last)
        assert loss.causes == ("offset-misplaced",)


def test_a_loss_says_where_when_and_why(tmp_path: Path) -> None:
    source, name = tmp_path / "source", "segments-0"
    shutil.copytree(CLEAN / name, source / name)
    before, damaged, behind = positions(CLEAN / name)[:3]
    log = source / name / damaged[0].name
    data = bytearray(log.read_bytes())
    data[damaged[1] + 100] ^= 1
    log.write_bytes(data)
    (result,), _ = run(source, tmp_path / "to")
    (loss,) = result.losses
    assert (loss.first_offset, loss.last_offset, loss.bytes) == (damaged[3], damaged[4], damaged[2])
    assert loss.causes == ("checksum-mismatch",)
    assert [(Path(r.file), r.position, r.end) for r in loss.regions] == [(log, damaged[1], damaged[1] + damaged[2])]
    rows = records(CLEAN / name)
    times = {offset: int(rows[offset][2]) for offset in rows}
    assert loss.after == max(times[offset] for offset in range(before[3], before[4] + 1))
    assert loss.before == times[behind[3]]


def test_a_lost_end_is_known_by_checkpoints_and_a_lost_segment_by_its_neighbours(tmp_path: Path) -> None:
    source, name = tmp_path / "source", "segments-0"
    shutil.copytree(CLEAN, source)
    logs = sorted((source / name).glob("*.log"))
    logs[1].unlink()
    logs[-1].write_bytes(b"")
    (source / name / f"{logs[-1].stem}.index").unlink()
    tasks = plan(sources_of(source, topic="segments"), tmp_path / "to", Salvage(dry_run=True))
    (result,) = salvage(tasks, lambda _: None)
    ends = [(loss.first_offset, loss.last_offset, loss.causes) for loss in result.losses]
    end = max(records(CLEAN / name))
    assert ends == [
        (int(logs[1].stem), int(logs[2].stem) - 1, ("no-such-offsets",)),
        (int(logs[-1].stem), end, ("no-such-offsets",)),
    ]
    assert result.end_offset == end + 1


def test_nothing_is_begun_that_cannot_be_written(tmp_path: Path) -> None:
    copy = shutil.copytree(CLEAN / "txn-0", tmp_path / "copy" / "txn-0")
    for sources, to, text in (
        ([copy], tmp_path / "copy", "exists already"),
        ([copy], copy / "inside", "is within"),
        ([copy, CLEAN / "txn-0"], tmp_path / "to", "is both in"),
        ([copy / "00000000000000000000.log"], tmp_path / "to", "give its directory"),
    ):
        with pytest.raises(UsageError, match=text):
            plan(sources_of(*sources), to, Salvage())
    assert not (tmp_path / "to").exists()


def test_a_dry_run_says_the_same_and_writes_nothing(
    seeded: tuple[Path, Path, list[SalvageResult]], tmp_path: Path
) -> None:
    source, _, wet = seeded
    dry, _ = run(source, tmp_path / "to", Salvage(dry_run=True))
    assert not (tmp_path / "to").exists()
    assert [(r.batches, r.start_offset, r.end_offset, r.losses) for r in dry] == [
        (r.batches, r.start_offset, r.end_offset, r.losses) for r in wet
    ]


def test_an_index_that_leaps_is_no_sign_of_a_lost_end(tmp_path: Path) -> None:
    source = tmp_path / "source" / "segments-0"
    shutil.copytree(CLEAN / "segments-0", source)
    index = max(path for path in source.glob("*.index") if path.stat().st_size)
    data = bytearray(index.read_bytes())
    data[-8] ^= 1 << 6
    index.write_bytes(data)
    (result,), _ = run(source, tmp_path / "to", Salvage(dry_run=True))
    assert not result.losses


@pytest.mark.parametrize("form", ["segments", "parquet"])
def test_a_target_url_has_storage_options_of_its_own(form: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Locked(MemoryFileSystem):
        cachable = False

        def __init__(self, key: str | None = None, **options: Any) -> None:
            if key != "right":
                raise PermissionError("no key")
            super().__init__(**options)

    monkeypatch.setattr(import_module("fsspec.registry"), "get_filesystem_class", lambda _: Locked)
    to, key = f"memory://salvaged-{form}", {"key": "right"}
    with pytest.raises(UnreadableError, match="no permission: no key; use credentials"):
        brokerless.open(CLEAN / "segments-0").salvage(to, as_=form)
    (result,) = brokerless.open(CLEAN / "segments-0").salvage(to, as_=form, storage_options=key)
    written = [path for path in Locked(**key).find("/") if form in path]
    assert (result.losses, len(written) > 0) == ((), True)


@pytest.mark.parametrize("state", ["delete", "stray"])
@pytest.mark.parametrize("command", ["salvage", "compact", "convert", "erase", "export", "merge"])
def test_two_topics_of_one_name_are_never_one_partition(
    command: str, state: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A topic was deleted and made again: the broker's directories have other topic IDs."""
    for name, topic_id in (("ev-1", "sT8tjnE0RTycdQSGC5x__g"), (f"ev-1.{'b' * 32}-{state}", "yPjNkh68RpC5VmRiulNUsQ")):
        (tmp_path / "logs" / name).mkdir(parents=True)
        (tmp_path / "logs" / name / f"{0:020d}.log").write_bytes(whole_batches.batch(0, 12).tobytes())
        (tmp_path / "logs" / name / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
    more = {"erase": ["--where", "true"], "convert": ["--codec", "zstd"], "compact": ["-t", "ev"]}.get(command, [])
    to = tmp_path / "to"
    assert main([command, str(tmp_path / "logs"), "--include", state, "--to", str(to), *more]) == 2
    assert f"ev-1.{'b' * 32}-{state}" in capsys.readouterr().err
    assert not to.exists() or not any(to.iterdir())


@pytest.mark.parametrize("command", ["salvage", "compact", "convert", "erase", "merge"])
def test_a_topic_id_that_a_power_cut_took_is_the_one_that_the_metadata_has(command: str, tmp_path: Path) -> None:
    """With any other, a broker takes the partition for a stray one. The broker itself had written the ID."""
    shutil.copytree(DEMO, tmp_path / "logs")
    expected = (DEMO / "payments-0" / "partition.metadata").read_text()
    (tmp_path / "logs" / "payments-0" / "partition.metadata").unlink()
    more = {"erase": ["--where", "false"], "convert": ["--codec", "zstd"]}.get(command, [])
    arguments = [command, str(tmp_path / "logs"), "-t", "payments", "--to", str(tmp_path / "to"), *more]
    assert main(arguments) in (0, 1)
    assert (tmp_path / "to" / "payments-0" / "partition.metadata").read_text().split() == expected.split()


@pytest.mark.parametrize(
    ("topic", "lost"),
    [("__consumer_offsets", 0), ("__transaction_state", 0), ("__share_group_state", 0), ("orders", 500)],
)
def test_a_topic_that_kafka_itself_compacts_may_be_empty(topic: str, lost: int, tmp_path: Path) -> None:
    """KAFKA-9065: the cleaner left two segments without a record; a copied partition has no cleaner's checkpoint."""
    directory = tmp_path / "source" / f"{topic}-0"
    directory.mkdir(parents=True)
    for base in (0, 500):
        (directory / f"{base:020}.log").touch()
    results, _ = run(tmp_path / "source", tmp_path / "to")
    assert sum(each.offsets or 0 for result in results for each in result.losses) == lost
    (audit,) = brokerless.open(tmp_path / "source").audit().partitions
    told = [each.kind for each in audit.findings if each.kind == "offset-gap"]
    assert told == (["offset-gap"] if lost else [])
