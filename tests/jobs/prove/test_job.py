"""Proofs of erasures hold, and neither they nor the second verifier miss a changed byte."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripts import verify_erasure
from tests.examples import examples, some_quick
from tests.golden import broker_data

import brokerless
from brokerless.cli import main
from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Finding, Kind
from brokerless.jobs.erase.selection import Selection
from brokerless.views.proof_page import headline, proof_page

pytestmark = pytest.mark.xdist_group("proved")
DEMO = Path(__file__).parents[3] / "demo" / "data"
WHERE = '"offset" % 7 < 3'
# aiokafka does not read lz4 in v0, which upgraded-0 has
PLACES = {
    "clean": [
        "txn-0",
        "codec-zstd-1",
        "codec-snappy-0",
        "segments-0",
        "compacted-lz4-0",
        "append-time-0",
        "head-deleted-0",
    ],
    "old-formats": ["v0-gzip-0", "v0-none-0", "v1-lz4-0", "v1-none-0", "v1-append-gzip-0"],
}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A private and a public key."""
    private, public = (tmp_path_factory.mktemp("keys") / name for name in ("private.pem", "public.pem"))
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", private], check=True)
    subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True)
    return private, public


def log_directory(tmp_path: Path, broker: str, names: list[str]) -> Path:
    source = tmp_path / f"from-{broker}"
    for name in names:
        shutil.copytree(broker_data(broker) / name, source / name)
    checkpoint = broker_data(broker) / "log-start-offset-checkpoint"
    if checkpoint.exists():
        shutil.copy(checkpoint, source)
    return source


@pytest.mark.parametrize("how", [{}, {"blank": True}], ids=["removed", "blanked"])
@pytest.mark.parametrize("broker", some_quick(sorted(PLACES, reverse=True)))
def test_both_verifiers_find_that_the_proof_holds(
    broker: str, how: dict[str, bool], keys: tuple[Path, Path], tmp_path: Path
) -> None:
    source, path = log_directory(tmp_path, broker, PLACES[broker]), tmp_path / "proof.json"
    results = brokerless.open(source).erase(tmp_path / "to", where=WHERE, manifest=path, sign_key=keys[0], **how)
    proof = brokerless.prove(path, source=source, public_key=keys[1], selection=Selection(where=WHERE))
    assert not [each for each in proof.findings if each.severity == "error"]
    assert (proof.holds, proof.signature, proof.is_known_key) == (True, "valid", True)
    assert sum(each.selected for each in proof.claims) == sum(each.totals.selected for each in results) > 100
    assert brokerless.prove(path).holds
    assert verify_erasure.main([str(path), "--key", str(keys[1])]) == 0
    assert verify_erasure.main([str(path), "--source", str(source)]) == 0


@pytest.fixture(scope="module")
def proved(tmp_path_factory: pytest.TempPathFactory, keys: tuple[Path, Path]) -> Path:
    to = tmp_path_factory.mktemp("proved")
    source = log_directory(to, "clean", ["txn-0", "codec-zstd-1", "segments-0"])
    brokerless.open(source).erase(to / "to", where=WHERE, manifest=to / "proof.json", sign_key=keys[0])
    return to


def test_what_was_erased_is_given_as_to_erase(tmp_path: Path) -> None:
    source = tmp_path / "from" / "users-0"
    shutil.copytree(DEMO / "users-0", source)
    brokerless.open(source).erase(tmp_path / "to", keys=["u-0048"], manifest=tmp_path / "proof.json")
    proof = brokerless.prove(tmp_path / "proof.json", keys=["u-0048"])
    assert (proof.holds, proof.searched) == (True, 1)
    for wrong in ({"keys": ["u-0049"]}, {"where": "true"}, {"header": ("a", b"b")}):
        with pytest.raises(UsageError, match="not the keys, condition or header"):
            brokerless.prove(tmp_path / "proof.json", **wrong)
    with pytest.raises(UsageError, match="selection excludes"):
        brokerless.prove(tmp_path / "proof.json", keys=["u-0048"], selection=Selection(where="true"))


def verdicts(path: Path, public: Path) -> tuple[bool, bool]:
    """Whether the proof holds, by each verifier."""
    try:
        ours = brokerless.prove(path, public_key=public).holds
    except UnreadableError:
        ours = False
    try:
        theirs = verify_erasure.main([str(path), "--key", str(public)]) == 0
    except (OSError, ValueError, KeyError, TypeError):  # exit code 2
        theirs = False
    return ours, theirs


def test_nothing_is_wrong_with_what_was_not_changed(proved: Path, keys: tuple[Path, Path]) -> None:
    assert verdicts(proved / "proof.json", keys[1]) == (True, True)


@examples(60)
@given(st.data())
def test_a_changed_byte_anywhere_is_found_by_both(proved: Path, keys: tuple[Path, Path], data: st.DataObject) -> None:
    """In each kind of file of the output, the log directory's own among them, in the manifest, and its signature."""
    path = proved / "proof.json"
    by_kind = {each.suffix or each.name: each for each in sorted((proved / "to").rglob("*")) if each.is_file()}
    locks = (".lock", ".brokerless-lock")
    files = [each for each in by_kind.values() if each.stat().st_size and each.name not in locks]
    assert {".log", ".index", ".timeindex", ".snapshot", ".metadata", "replication-offset-checkpoint"} <= by_kind.keys()
    file = data.draw(st.sampled_from([*files, path, Path(f"{path}.sig")]), "file")
    before = file.read_bytes()
    at, bit = data.draw(st.integers(0, len(before) - 1), "at"), 1 << data.draw(st.integers(0, 7), "bit")
    file.write_bytes(before[:at] + bytes([before[at] ^ bit]) + before[at + 1 :])
    try:
        assert verdicts(path, keys[1]) == (False, False)
    finally:
        file.write_bytes(before)


def _add_a_file(to: Path) -> None:
    (to / "to" / "txn-0" / "00000000000000000999.log").write_bytes(b"")


def _add_a_checkpoint(to: Path) -> None:
    (to / "to" / "cleaner-offset-checkpoint").write_text("0\n0\n")


def _take_a_checkpoint(to: Path) -> None:
    (to / "to" / "recovery-point-offset-checkpoint").unlink()


def _take_a_file(to: Path) -> None:
    min((to / "to" / "txn-0").glob("*.index")).unlink()


def _put_the_source_back(to: Path) -> None:
    log = min((to / "from-clean" / "txn-0").glob("*.log"))
    shutil.copy(log, to / "to" / "txn-0" / log.name)


def _take_the_signature(to: Path) -> None:
    (to / "proof.json.sig").unlink()


def _claim_less(to: Path) -> None:
    """As somebody would who has another key: everything agrees but what is claimed of the source."""
    manifest = json.loads((to / "proof.json").read_bytes())
    manifest["partitions"][0]["touched"].pop()
    (to / "proof.json").write_text(json.dumps(manifest))


def _copy_a_partition(to: Path) -> None:
    shutil.copytree(to / "from-clean" / "txn-0", to / "to" / "txn-5")


def _leave_a_deleted_partition(to: Path) -> None:
    shutil.copytree(to / "from-clean" / "txn-0", to / "to" / f"txn-0.{'0' * 32}-delete")


def _leave_a_file(to: Path) -> None:
    shutil.copy(min((to / "from-clean" / "txn-0").glob("*.log")), to / "to" / "copy.log")


def _hide_a_file_as_a_lock(to: Path) -> None:
    shutil.copy(min((to / "from-clean" / "txn-0").glob("*.log")), to / "to" / ".brokerless-lock")


CHANGES = [
    _copy_a_partition,
    _leave_a_deleted_partition,
    _leave_a_file,
    _hide_a_file_as_a_lock,
    _add_a_file,
    _take_a_file,
    _add_a_checkpoint,
    _take_a_checkpoint,
    _put_the_source_back,
    _take_the_signature,
    _claim_less,
]


@pytest.mark.parametrize("change", CHANGES)
def test_what_else_is_changed_is_found_by_both(
    change: Callable[[Path], None], proved: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    shutil.copytree(proved, tmp_path / "copy")
    path = tmp_path / "copy" / "proof.json"
    manifest = json.loads(path.read_bytes())
    assert verdicts(path, keys[1]) == (True, True)
    change(tmp_path / "copy")
    output = ["--output", str(tmp_path / "copy" / "to")]
    assert not brokerless.prove(path, public_key=keys[1], erased=tmp_path / "copy" / "to").holds
    assert verify_erasure.main([str(path), "--key", str(keys[1]), *output]) == 1
    assert manifest["partitions"]


def test_each_of_several_log_directories_and_what_is_beside_them(tmp_path: Path) -> None:
    for name in ("b1", "b2"):
        shutil.copytree(DEMO / "users-0", tmp_path / name / "users-0")
    arguments = [str(tmp_path / "b1"), str(tmp_path / "b2"), "--to", str(tmp_path / "to"), "--where", "true"]
    path = tmp_path / "to" / "proof.json"
    (tmp_path / "to").mkdir()
    assert main(["erase", *arguments, "--manifest", str(path)]) == 0
    assert brokerless.prove(path).holds
    assert verify_erasure.main([str(path)]) == 0
    (tmp_path / "to" / "copy.log").write_bytes(b"u-0048")
    assert {each.kind for each in brokerless.prove(path).findings if each.severity == "error"} == {"file-unknown"}
    assert verify_erasure.main([str(path)]) == 1


def test_a_partition_that_could_not_be_written_is_one_that_is_not_proved_until_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also after runs of other topics, whose manifest it stays in."""
    source, path = log_directory(tmp_path, "clean", ["txn-0", "codec-zstd-1", "append-time-0"]), tmp_path / "m.json"
    log = min((source / "txn-0").glob("*.log"))
    whole = log.read_bytes()
    log.write_bytes(whole[:80] + bytes([whole[80] ^ 1]) + whole[81:])
    arguments = ["erase", str(source), "--to", str(tmp_path / "to"), "--where", WHERE, "--manifest", str(path)]
    for topics, exit_code in ((["-t", "txn", "-t", "codec-zstd"], 1), (["-t", "append-time"], 0)):
        assert main([*arguments, *topics]) == exit_code
        (one,) = json.loads(path.read_bytes())["notWritten"]
        assert (one["topic"], one["partition"], "checksum" in one["reason"]) == ("txn", 0, True)
        (error,) = (each for each in brokerless.prove(path).findings if each.severity == "error")
        assert (error.kind, "txn-0 was not written" in error.message, one["reason"] in error.message) == (
            "not-written", True, True,
        )  # fmt: skip
        capsys.readouterr()
        assert verify_erasure.main([str(path)]) == 1
        assert f"was not written: {one['reason']}" in capsys.readouterr().out
    log.write_bytes(whole)
    assert main(arguments) == 0
    assert brokerless.prove(path).holds
    assert verify_erasure.main([str(path)]) == 0


def test_an_erasure_of_which_nothing_could_be_written_was_not_stopped(tmp_path: Path) -> None:
    source, path = log_directory(tmp_path, "clean", ["txn-0"]), tmp_path / "m.json"
    log = min((source / "txn-0").glob("*.log"))
    log.write_bytes(bytes(len(log.read_bytes())))
    assert main(["erase", str(source), "--to", str(tmp_path / "to"), "--where", WHERE, "--manifest", str(path)]) == 1
    kinds = [each.kind for each in brokerless.prove(path).findings if each.severity == "error"]
    assert kinds == ["not-written"]
    with pytest.raises(UsageError, match="give the manifest that erase wrote"):
        brokerless.prove(source)


def test_the_same_partition_twice_is_refused_by_both(proved: Path, tmp_path: Path) -> None:
    manifest = json.loads((proved / "proof.json").read_bytes())
    manifest["partitions"].append(manifest["partitions"][0])
    (tmp_path / "m.json").write_text(json.dumps(manifest | {"publicKey": None}))
    with pytest.raises(UnreadableError, match="comes twice"):
        brokerless.prove(tmp_path / "m.json")
    with pytest.raises(ValueError, match="are one here"):
        verify_erasure.main([str(tmp_path / "m.json")])


def test_the_second_verifier_takes_deep_json_for_none(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text("[" * 1_000_000)
    script = [sys.executable, verify_erasure.__file__, tmp_path / "m.json"]
    result = subprocess.run(script, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr.startswith("cannot be checked: "), "Traceback" in result.stderr) == (
        2, True, False,
    )  # fmt: skip


def test_segments_that_were_only_copied_have_the_hash_that_they_had(tmp_path: Path) -> None:
    source = log_directory(tmp_path, "clean", ["segments-0", "head-deleted-0"])
    path = tmp_path / "m.json"
    first = brokerless.open(source / "segments-0").partitions[0].paths[0].segments[1].base_offset
    brokerless.open(source).erase(tmp_path / "to", where=f'"offset" = {first}', manifest=path)
    (one,) = (each for each in json.loads(path.read_bytes())["partitions"] if each["topic"] == "segments")
    before, after = ({file["name"]: file for file in one[when]} for when in ("before", "after"))
    logs = [name for name in after if name.endswith(".log")]
    assert [name for name in logs if before[name] != after[name]] == [f"{first:020}.log"]
    assert len(logs) > 2
    assert brokerless.prove(path, source=source).holds
    assert verify_erasure.main([str(path), "--source", str(source)]) == 0


def test_another_key_or_selection_is_not_taken(proved: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", other], check=True)
    assert brokerless.prove(proved / "proof.json", public_key=other).signature == "wrong"
    with pytest.raises(UsageError, match="not the keys, condition or header"):
        brokerless.prove(proved / "proof.json", selection=Selection(where="true"))


def test_a_record_that_should_have_been_erased_is_found_with_the_selection(tmp_path: Path, proved: Path) -> None:
    """A manifest that is right in itself, of an erasure that missed some: only the source and the condition show it."""
    source = proved / "from-clean"
    brokerless.open(source).erase(tmp_path / "to", where=WHERE + ' AND "offset" > 50', manifest=tmp_path / "m.json")
    described = json.loads((proved / "proof.json").read_bytes())["selection"]
    manifest = json.loads((tmp_path / "m.json").read_bytes()) | {"selection": described}
    (tmp_path / "m.json").write_text(json.dumps(manifest))
    assert brokerless.prove(tmp_path / "m.json").holds
    proof = brokerless.prove(tmp_path / "m.json", source=source, selection=Selection(where=WHERE))
    assert {each.kind for each in proof.findings if each.severity == "error"} == {"record-present", "selection-differs"}


def test_bytes_of_erased_values_are_found_where_they_are_left(proved: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(proved, tmp_path / "copy")
    rows = brokerless.open(proved / "from-clean" / "codec-zstd-1").records().read_all().to_pylist()
    value = next(row["value"] for row in rows if row["offset"] % 7 < 3 and row["value"] and len(row["value"]) > 8)
    index = copy / "to" / "txn-0" / "leader-epoch-checkpoint"
    index.write_bytes(index.read_bytes() + value)
    proof = brokerless.prove(copy / "proof.json", erased=copy / "to", source=proved / "from-clean")
    assert {"bytes-found", "file-changed"} <= {each.kind for each in proof.findings if each.severity == "error"}


def test_fields_that_were_blanked_are_searched_for_by_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "from" / "orders-0"
    shutil.copytree(DEMO / "orders-0", source)
    path, where = tmp_path / "proof.json", "value_json->>'$.order' = 'o-101230'"
    brokerless.open(source).erase(tmp_path / "to", where=where, blank_fields=["customer", "items.name"], manifest=path)
    proof = brokerless.prove(path, source=tmp_path / "from")
    assert proof.holds
    assert proof.searched >= 2  # a customer, and names of items
    others = [each for each in proof.findings if each.kind == "bytes-found"]
    assert others, "other orders have them, too"
    named = re.match(r"the bytes of what was erased of orders-0, offset (\d+), position (\d+) of", others[0].message)
    assert named
    at = int(named[1])
    (row,) = brokerless.open(source).records(["value"], start_offset=at, end_offset=at + 1).read_all().to_pylist()
    order = json.loads(row["value"])
    erased = [order["customer"], *(each["name"] for each in order["items"])]
    assert row["value"][int(named[2]) :].startswith(tuple(each.encode() for each in erased))
    assert verify_erasure.main([str(path), "--source", str(tmp_path / "from")]) == 0
    assert "are in another record" in capsys.readouterr().out
    checkpoint = tmp_path / "to" / "recovery-point-offset-checkpoint"
    checkpoint.write_bytes(checkpoint.read_bytes() + b"u-0167")
    kinds = {
        each.kind for each in brokerless.prove(path, source=tmp_path / "from").findings if each.severity == "error"
    }
    assert kinds == {"bytes-found", "file-changed"}
    assert verify_erasure.main([str(path), "--source", str(tmp_path / "from")]) == 1
    assert "the bytes of an erased value" in capsys.readouterr().out


def test_more_that_was_changed_of_a_value_with_blanked_fields_is_found(tmp_path: Path) -> None:
    """By somebody with the key: all hashes of files are right."""
    source = tmp_path / "from" / "orders-0"
    shutil.copytree(DEMO / "orders-0", source)
    where = "value_json->>'$.order' = 'o-101230'"
    for name, fields in (("claimed", ["customer"]), ("more", ["customer", "total"])):
        brokerless.open(source).erase(
            tmp_path / name, where=where, blank_fields=fields, manifest=tmp_path / f"{name}.json"
        )
    manifest = json.loads((tmp_path / "more.json").read_bytes())
    manifest["action"]["fields"] = [["customer"]]
    (tmp_path / "more.json").write_text(json.dumps(manifest))
    assert brokerless.prove(tmp_path / "more.json").holds
    proof = brokerless.prove(tmp_path / "more.json", source=tmp_path / "from")
    assert {each.kind for each in proof.findings if each.severity == "error"} == {"edits-differ", "records-differ"}


def test_keys_that_are_not_text_in_base64(tmp_path: Path) -> None:
    rows = brokerless.open(broker_data("clean") / "txn-0").records(["key"]).read_all().column("key").to_pylist()
    keys = [base64.b64encode(each) for each in dict.fromkeys(rows) if each][:3]
    (tmp_path / "keys").write_bytes(b"\n".join(keys))
    options = ["--keys", str(tmp_path / "keys"), "--keys-format", "base64"]
    source = log_directory(tmp_path, "clean", ["txn-0"])
    path = tmp_path / "to.erasure.json"
    assert main(["erase", str(source), "--to", str(tmp_path / "to"), *options]) == 0
    assert main(["prove", str(path), "--source", str(source), *options]) == 0
    assert verify_erasure.main([str(path), "--keys", str(tmp_path / "keys"), "--base64"]) == 0
    other = next(each for each in rows if base64.b64encode(each) not in keys)
    (tmp_path / "others").write_bytes(base64.b64encode(other))
    assert verify_erasure.main([str(path), "--keys", str(tmp_path / "others"), "--base64"]) == 1


def test_the_manifest_of_a_run_that_was_stopped_does_not_hold(proved: Path, tmp_path: Path) -> None:
    manifest = json.loads((proved / "proof.json").read_bytes()) | {"directories": []}
    (tmp_path / "m.json").write_text(json.dumps(manifest))
    assert "not-finished" in {each.kind for each in brokerless.prove(tmp_path / "m.json").findings}
    assert verify_erasure.main([str(tmp_path / "m.json")]) == 1


def test_the_page_says_it_all_and_runs_nothing(proved: Path) -> None:
    page = proof_page(brokerless.prove(proved / "proof.json"))
    assert "The proof holds" in page
    assert all(name in page for name in ("txn-0", "segments-0", "codec-zstd-1"))
    assert "<script" not in page
    assert "default-src 'none'" in page
    assert hashlib.sha256((proved / "proof.json").read_bytes()).hexdigest() in page
    assert '<meta name="viewport"' in page
    assert "prefers-color-scheme: dark" in page


@pytest.mark.parametrize(
    ("signature", "severities", "expected"),
    [
        ("valid", [], ("The proof holds", "holds")),
        ("valid", ["info"], ("The proof holds", "holds")),
        ("none", [], ("The proof holds, with no signature", "warned")),
        ("valid", ["warning"], ("The proof holds, with 1 warning", "warned")),
        ("none", ["warning", "warning"], ("The proof holds, with 2 warnings and no signature", "warned")),
        ("wrong", ["error"], ("The proof does not hold", "fails")),
    ],
)
def test_a_headline_is_green_only_where_nothing_is_to_be_said(
    proved: Path, signature: Any, severities: list[Any], expected: tuple[str, str]
) -> None:
    proof = brokerless.prove(proved / "proof.json")
    proof.signature = signature
    proof.findings[:] = [Finding(each, Kind.NOT_SIGNED, "f", message="text") for each in severities]
    assert headline(proof) == expected
    assert f'<h1 class="{expected[1]}">{expected[0]}</h1>' in proof_page(proof)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"erasure": 1}', "[" * 100_000, '{"erasure": 2, "partitions": [1]}'])
def test_what_is_no_manifest_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(text)
    with pytest.raises(UnreadableError, match=r"not the manifest of an erasure|version 1"):
        brokerless.prove(tmp_path / "m.json")


@pytest.mark.parametrize("name", ["../x.log", "/etc/passwd", "notes.txt", ""])
def test_names_in_a_manifest_are_only_those_of_partitions(name: str, proved: Path, tmp_path: Path) -> None:
    manifest = json.loads((proved / "proof.json").read_bytes())
    manifest["partitions"][0]["after"][0]["name"] = name
    (tmp_path / "m.json").write_text(json.dumps(manifest))
    with pytest.raises(UnreadableError, match="not a file of a partition"):
        brokerless.prove(tmp_path / "m.json")


def test_numbers_of_eight_bytes_that_an_index_has_too_are_no_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    time_ms = 1_700_000_000_000
    rows = [{"key": b"k%d" % number, "value": time_ms.to_bytes(8, "big"), "timestamp": time_ms} for number in range(9)]
    table = pa.Table.from_pylist(rows, pa.schema({"key": pa.binary(), "value": pa.binary(), "timestamp": pa.int64()}))
    brokerless.load(table.to_batches(), str(tmp_path / "logs"), brokerless.Routing(topic="t", partition=0))
    path = tmp_path / "proof.json"
    brokerless.open(tmp_path / "logs").erase(tmp_path / "to", keys=["k3"], manifest=path)
    proof = brokerless.prove(path, source=tmp_path / "logs", keys=["k3"])
    assert proof.holds
    texts = [each.message for each in proof.findings if each.kind == Kind.BYTES_FOUND]
    assert any("by chance: they are entry[0].timestamp, which Kafka writes" in each for each in texts)
    assert verify_erasure.main([str(path), "--source", str(tmp_path / "logs")]) == 0
    assert "the bytes of an erased value, by chance" in capsys.readouterr().out
