from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.golden import broker_data

DATA = broker_data("clean")


@pytest.fixture
def manifest(run: Run, tmp_path: Path) -> Path:
    assert run("erase", DATA / "txn-0", "--to", tmp_path / "to", "--where", '"offset" % 5 = 0').exit_code == 0
    return tmp_path / "to.erasure.json"


def test_a_proof_that_holds_in_text_and_json(run: Run, manifest: Path) -> None:
    result = run("prove", manifest)
    assert result.exit_code == 0
    assert result.lines[0].startswith("warning ")
    assert result.lines[-1].startswith("the proof holds: 1 partition, ")
    where = ["--where", '"offset" % 5 = 0', "--only", "txn-0"]
    *findings, summary = run("prove", manifest, "--json", "--source", DATA, *where).json
    assert (summary["holds"], summary["signature"], summary["hasSource"]) == (True, "none", True)
    assert all(each["severity"] != "error" for each in findings)


def test_one_that_does_not_hold_exits_with_1_and_the_page_says_so(run: Run, manifest: Path, tmp_path: Path) -> None:
    next((tmp_path / "to" / "txn-0").glob("*.index")).unlink()
    result = run("prove", manifest, "--html", tmp_path / "page.html")
    assert (result.exit_code, result.lines[-1].startswith("the proof does NOT hold")) == (1, True)
    assert "The proof does not hold" in (tmp_path / "page.html").read_text()
    assert "this file was there after the erasure, and is gone" in (tmp_path / "page.html").read_text()


def test_logs_that_were_moved_are_found(run: Run, manifest: Path, tmp_path: Path) -> None:
    (tmp_path / "to").rename(tmp_path / "moved")
    assert run("prove", manifest).exit_code == 1
    assert run("prove", manifest, "--erased", tmp_path / "moved").exit_code == 0


def test_what_is_no_manifest_and_wrong_options_exit_with_2(run: Run, manifest: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no manifest")
    for arguments in (
        [tmp_path / "none"],
        [tmp_path / "text"],
        [manifest, "--public-key", tmp_path / "text"],
        [manifest, "--where", "true"],
        [manifest, "--source", tmp_path / "nowhere"],
        [manifest, "--erased", tmp_path / "nowhere"],
        [manifest, "--where", "true", "--header", "a=b"],
    ):
        result = run("prove", *arguments)
        assert (result.exit_code, result.out, len(result.err.splitlines())) == (2, b"", 1), arguments


def test_a_page_takes_the_place_of_nothing_but_a_page(run: Run, manifest: Path, tmp_path: Path) -> None:
    (tmp_path / "other.html").write_text("<!doctype html><p>Somebody else's</p>")
    (tmp_path / "link.html").symlink_to(tmp_path / "nothing")
    segment = next((tmp_path / "to" / "txn-0").glob("*.log"))
    wrong = [manifest, tmp_path / "other.html", tmp_path / "link.html", segment, tmp_path / "to" / "new.html"]
    before = [each.read_bytes() for each in wrong if each.is_file()]
    for path in (*wrong, DATA / "txn-0" / "new.html", tmp_path / "to" / "txn-0" / "new.html"):
        result = run("prove", manifest, "--html", path)
        assert (result.exit_code, result.out, len(result.err.splitlines())) == (2, b"", 1), path
    assert [each.read_bytes() for each in wrong if each.is_file()] == before
    assert not (tmp_path / "nothing").exists()
    for _ in range(2):
        assert run("prove", manifest, "--html", tmp_path / "page.html").exit_code == 0
