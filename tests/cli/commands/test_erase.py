from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from tests.cli.conftest import Run
from tests.golden import broker_data, broker_expected, json_lines, of_type

import brokerless

DATA = broker_data("clean")
WHERE = ("--where", '"offset" % 5 = 0')


def test_json_has_an_object_for_each_partition_and_the_manifest_lists_offsets_and_hashes(
    run: Run, tmp_path: Path
) -> None:
    result = run("erase", DATA / "txn-0", DATA / "segments-0", "--to", tmp_path / "to", *WHERE, "--json")
    assert result.exit_code == 0
    manifest = json.loads((tmp_path / "to.erasure.json").read_bytes())
    entries = {each["topic"]: each for each in manifest["partitions"]}
    for line in result.json:
        entry = entries[line["topic"]]
        name = f"{line['topic']}-{line['partition']}"
        lines = json_lines(broker_expected("clean") / name / "expected.jsonl")
        data_records = [each["offset"] for each in of_type(lines, "record") if "control" not in each]
        offsets = [offset for offset in data_records if offset % 5 == 0]
        assert line["selected"] == len(offsets)
        assert [offset for batch in entry["touched"] for offset in batch["offsets"]] == offsets
        for when, directory in (("before", DATA), ("after", tmp_path / "to")):
            for file in entry[when]:
                data = (directory / name / file["name"]).read_bytes()
                assert (file["sizeInBytes"], file["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
            assert {file["name"] for file in entry[when]} == {path.name for path in (directory / name).iterdir()}


def test_the_manifest_is_signed_and_says_nothing_of_what_was_erased(run: Run, tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True)
    public = subprocess.run(["openssl", "pkey", "-in", key, "-pubout"], check=True, capture_output=True).stdout
    keys = {row["key"] for row in brokerless.open(DATA / "txn-0").records(["key"]).read_all().to_pylist() if row["key"]}
    chosen = sorted(each for each in keys if len(each) > 8)[:4]
    (tmp_path / "keys").write_bytes(b"\n".join(chosen))
    path = tmp_path / "proof.json"
    arguments = ("--to", tmp_path / "to", "--keys", tmp_path / "keys", "--manifest", path, "--sign-key", key)
    assert run("erase", DATA / "txn-0", *arguments).lines[-1] == f"manifest: {path}, signed in {path}.sig"
    load_pem_public_key(public).verify((tmp_path / "proof.json.sig").read_bytes(), path.read_bytes())  # type: ignore
    assert not any(each in path.read_bytes() for each in chosen)
    again = run("erase", DATA / "txn-0", *arguments)
    assert again.exit_code == 0
    assert "1 partition done before" in again.err
    (tmp_path / "keys").write_bytes(b"another")
    other = run("erase", DATA / "txn-0", *arguments)
    assert (other.exit_code, "is of another erasure" in other.err) == (2, True)


def test_keys_may_be_in_values_and_the_command_that_looks_is_said(run: Run, tmp_path: Path) -> None:
    options = ("demo/data", "-t", "users", "--to", tmp_path / "to", "--key", "u-0048")
    assert "values may hold" not in run("erase", *options, "--dry-run").err
    said = run("erase", *options).err
    assert f"brokerless prove {tmp_path / 'to'}.erasure.json --source demo/data --keys FILE" in said
    (tmp_path / "keys").write_text("u-0048\n")
    proof = ("prove", f"{tmp_path / 'to'}.erasure.json", "--source", "demo/data", "--keys", tmp_path / "keys")
    assert run(*proof, "--only", "users").exit_code == 0


def test_that_nothing_was_selected_is_said(run: Run, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("nobody")
    for selected, text in (
        (("--keys", tmp_path / "keys"), "no record has any of these keys"),
        (("--header", "no=body"), "no record was selected"),
    ):
        result = run("erase", DATA / "txn-0", "--to", tmp_path / "to", "--dry-run", *selected)
        assert (result.exit_code, text in result.err.splitlines()) == (0, True)
    assert "no record" not in run("erase", DATA / "txn-0", "--to", tmp_path / "to", "--dry-run", *WHERE).err


def test_a_dry_run_writes_nothing(run: Run, tmp_path: Path) -> None:
    dry = run("erase", DATA / "txn-0", "--to", tmp_path / "to", *WHERE, "--dry-run")
    assert dry.lines[-1].endswith("nothing was written, as in a dry run")
    assert not list(tmp_path.iterdir())
    done = run("erase", DATA / "txn-0", "--to", tmp_path / "to", *WHERE)
    assert done.lines[1] == dry.lines[1]


def test_where_copies_may_still_be(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "data"
    for name in ("segments-0", "txn-0"):
        shutil.copytree(DATA / name, source / name)
    shutil.copytree(DATA / "txn-0", source / f"txn-1.{'0' * 32}-delete")
    first = min((source / "segments-0").glob("*.log"))
    shutil.copy(first, first.with_suffix(".log.deleted"))
    arguments = ("--to", tmp_path / "to", "-t", "segments", *WHERE, "--json", "--dry-run")
    copies = [line["copy"] for line in run("erase", source, *arguments).json if "copy" in line]
    offsets = brokerless.open(DATA / "txn-0").records(["offset"]).read_all()["offset"].to_pylist()
    in_txn = sum(offset % 5 == 0 for offset in offsets)
    found = {(Path(each["path"]).name, each["what"]): each["selected"] for each in copies}
    assert found[f"txn-1.{'0' * 32}-delete", "a partition's directory that waits for its deletion"] == in_txn
    assert found["txn-0", "another topic"] == in_txn
    assert found[f"{first.name}.deleted", "a segment that waits for its deletion"] > 10
    assert len(found) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "select the records by one of"),
        (("--keys", "k", "--where", "true"), "select the records by one of"),
        (("--where", "true", "--blank", "value", "--blank-fields", "a"), "exclude each other"),
        (("--where", "nothing"), "--where: "),
        (("--header", "nothing"), "name=value"),
        (("--where", "true", "--manifest", "no/such/directory/m.json"), "there is no directory"),
        (("--where", "true", "--sign-key", "KEY"), "this is no private key in PEM"),
        (("--where", "true", "--manifest", "KEY"), "is not overwritten"),
    ],
)
def test_a_wrong_command_line_is_one_line(arguments: tuple[str, ...], message: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("no key")
    given = [str(tmp_path / "key") if each == "KEY" else each for each in arguments]
    result = run("erase", DATA / "txn-0", "--to", tmp_path / "to", *given)
    assert (result.exit_code, result.out) == (2, b"")
    assert message in result.err
    assert not (tmp_path / "to").exists()


def test_the_same_command_with_a_relative_path_has_nothing_left_to_do(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = shutil.copytree(DATA / "txn-0", tmp_path / "from" / "txn-0")
    monkeypatch.chdir(tmp_path)
    command = ("erase", source, "--to", "to", *WHERE)
    assert run(*command).exit_code == 0
    again = run(*command)
    assert again.exit_code == 0, again.err
    assert "1 partition done before" in again.err
    assert run("prove", "to.erasure.json").exit_code == 0


def test_the_manifest_is_not_written_among_the_logs_that_are_read(run: Run, tmp_path: Path) -> None:
    shutil.copytree(DATA / "txn-0", tmp_path / "data" / "txn-0")
    for path in (tmp_path / "data" / "m.json", tmp_path / "data" / "txn-0" / "m.json"):
        result = run("erase", tmp_path / "data", "--to", tmp_path / "to", *WHERE, "--manifest", path)
        assert (result.exit_code, "which is read" in result.err, path.exists()) == (2, True, False)
    assert not (tmp_path / "to").exists()


def test_a_value_that_is_no_json_keeps_a_partition_from_being_written(run: Run, tmp_path: Path) -> None:
    result = run("erase", DATA / "txn-0", "--to", tmp_path / "to", *WHERE, "--blank-fields", "a")
    assert result.exit_code == 1
    (line,) = (line for line in result.err.splitlines() if "was not written: " in line)
    assert "the value of offset " in line
    assert "is not JSON, so its fields cannot be blanked; blank the whole value" in line
    assert "verify" not in line
    assert not (tmp_path / "to" / "txn-0").exists()


def test_replicas_are_identical_again_or_it_says_where_not(run: Run, tmp_path: Path) -> None:
    """The second replica has other segments, the third ends earlier, and the fourth has other batches."""
    for number in range(1, 5):
        for name in ("segments-0", "txn-0"):
            shutil.copytree(DATA / name, tmp_path / f"b{number}" / name)
    second = brokerless.open(DATA / "segments-0")
    shutil.rmtree(tmp_path / "b2" / "segments-0")
    second.convert(tmp_path / "b2", message_format=2, segment_bytes=10_000)
    last = max((tmp_path / "b3" / "segments-0").glob("*.log"))
    for path in last.parent.glob(f"{last.stem}.*"):
        path.unlink()
    shutil.rmtree(tmp_path / "b4" / "segments-0")
    second.convert(tmp_path / "b4", codec="gzip")
    sources = [tmp_path / f"b{number}" for number in range(1, 5)]
    result = run("erase", *sources, "--to", tmp_path / "to", *WHERE, "--json")
    assert result.exit_code == 0
    found = {
        (Path(each["replicas"][1]).parent.name, each["partition"]): (each["isSame"], each["text"])
        for each in (line["replica"] for line in result.json if "replica" in line)
    }
    assert [found[f"b{number}", "txn-0"] for number in (2, 3, 4)] == [(True, "")] * 3
    assert found["b2", "segments-0"] == (True, "")
    assert found["b3", "segments-0"] == (True, f"end at offset 700 and {int(last.stem)}")
    assert found["b4", "segments-0"][0] is False
    for name in (path.name for path in (tmp_path / "to" / "b1" / "txn-0").iterdir()):
        if name != "partition.metadata":
            data = [(tmp_path / "to" / f"b{number}" / "txn-0" / name).read_bytes() for number in range(1, 5)]
            assert data == data[:1] * 4
    assert run("prove", tmp_path / "to.erasure.json").exit_code == 0
