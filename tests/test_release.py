"""What a release is made of: its files, their sums and signature, and what package managers and the forge get."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from scripts import make_release

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOW = (ROOT / ".github" / "workflows" / "release.yml").read_text()
CONDA_NAMES = {"isal": "python-isal", "xxhash": "python-xxhash"}


def test_a_version_that_is_not_the_project_s_is_refused() -> None:
    make_release.check_version(PROJECT["version"])
    with pytest.raises(SystemExit, match="change it there first"):
        make_release.check_version("99.0")


def test_what_is_built_of_a_version_is_found_and_nothing_else(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no wheel"):
        make_release.find_built(tmp_path, "1.2")
    own = ["brokerless-1.2-linux-x86_64", "brokerless-1.2-py3-none-any.whl"]
    for each in [*own, "brokerless-1.1-py3-none-any.whl", "other-1.2-py3-none-any.whl"]:
        (tmp_path / each).touch()
    assert [each.name for each in make_release.find_built(tmp_path, "1.2")] == own


def test_release_notes_have_what_is_collected_and_what_is_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    changelog, changes = tmp_path / "CHANGELOG.md", tmp_path / "changes"
    changelog.write_text("# C\n\n## Unreleased\n\n### Fixed\n\n- Old.\n\n## 1.1 - 2026-01-01\n\n- Older.\n")
    changes.mkdir()
    (changes / "a.added.md").write_text("A new\nthing.\n")
    monkeypatch.setattr(make_release, "CHANGELOG", changelog)
    monkeypatch.setattr(make_release, "CHANGES", changes)
    title, _, text = make_release.release_notes("1.2").partition("\n")
    assert re.fullmatch(r"## 1\.2 - \d{4}-\d\d-\d\d", title)
    assert text.strip() == "### Added\n\n- A new\n  thing.\n\n### Fixed\n\n- Old."
    assert make_release.release_notes("1.1") == "## 1.1 - 2026-01-01\n\n- Older.\n"


def test_sums_are_those_of_the_files_and_are_signed_by_a_key_of_ssh(tmp_path: Path) -> None:
    files, key = tmp_path / "files", tmp_path / "key"
    files.mkdir()
    (files / "a.whl").write_bytes(b"wheel")
    make_release.write_sums(files)
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=files, capture_output=True, check=True)
    assert "not signed" in make_release.sign(files / "SHA256SUMS", "")
    if shutil.which("ssh-keygen") is None:
        return
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    assert "SHA256SUMS.sig" in make_release.sign(files / "SHA256SUMS", str(key))
    (tmp_path / "signers").write_text(f"us {key.with_suffix('.pub').read_text()}")
    verify = ["ssh-keygen", "-Y", "verify", "-f", str(tmp_path / "signers"), "-I", "us", "-n", "file"]
    signature = ["-s", str(files / "SHA256SUMS.sig")]
    sums = (files / "SHA256SUMS").read_bytes()
    assert subprocess.run([*verify, *signature], input=sums, capture_output=True, check=False).returncode == 0
    assert subprocess.run([*verify, *signature], input=sums + b"x", capture_output=True, check=False).returncode != 0


def test_recipes_name_the_source_by_its_address_and_hash(tmp_path: Path) -> None:
    (tmp_path / "brokerless-1.2.tar.gz").write_bytes(b"source")
    make_release.write_recipes(tmp_path, "1.2", "https://example.org/1.2/")
    recipe = yaml.safe_load((tmp_path / "recipe.yaml").read_text())
    formula = (tmp_path / "brokerless.rb").read_text()
    digest = "41cf6794ba4200b839c53531555f0f3998df4cbb01a4d5cb0b94e3ca5e23947d"
    assert recipe["source"] == {"url": "https://example.org/1.2/brokerless-1.2.tar.gz", "sha256": digest}
    assert f'sha256 "{digest}"' in formula
    assert "@" not in formula.replace("python@3.13", "").partition("\n")[2]
    needed = {each.split()[0] for each in recipe["requirements"]["run"]} - {"python"}
    assert needed == {
        CONDA_NAMES.get(name, name) for name in (Requirement(each).name for each in PROJECT["dependencies"])
    }
    (python,) = re.findall(r'depends_on "python@([\d.]+)"', formula)
    assert f"Programming Language :: Python :: {python}" in PROJECT["classifiers"]


def test_the_workflow_tries_every_version_of_python_on_both_processors() -> None:
    jobs = yaml.safe_load(WORKFLOW)["jobs"]
    versions = {each.rpartition(" :: ")[2] for each in PROJECT["classifiers"] if ":: Python :: 3." in each}
    assert {*jobs["try"]["strategy"]["matrix"]["python"]} == versions
    runners = {"ubuntu-24.04", "ubuntu-24.04-arm"}
    assert {*jobs["try"]["strategy"]["matrix"]["runner"]} == {*jobs["build"]["strategy"]["matrix"]["runner"]} == runners
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    made = {each for line in re.findall(r"run: make ([a-z -]+)", WORKFLOW) for each in line.split()}
    assert made == {"check-wheel", "check-bundle", "release"} <= {*targets}


def test_windows_is_refused_in_a_sentence() -> None:
    code = "import sys; sys.platform = 'win32'; import brokerless"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].endswith("and not on Windows itself: use it in WSL")
    assert "Operating System :: POSIX" in PROJECT["classifiers"]
