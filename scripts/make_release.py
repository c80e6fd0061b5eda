"""Puts a release together: ``python scripts/make_release.py VERSION [--key KEY] [--url URL]``.

``make release VERSION=1.2.0`` has built the wheel and the bundle before. This adds the source, an SBOM (CycloneDX, of
what is in the bundle), release notes out of ``changes/`` and the changelog, SHA256SUMS, a signature of these by KEY (a
private key of minisign's or SSH's, or the name of a key of GnuPG's), and with URL, from which all files can be fetched,
a formula for Homebrew and a recipe for conda.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from collect_changes import CHANGELOG, CHANGES, collect, load_notes

ROOT = Path(__file__).parents[1]
SBOM_TOOL = "cyclonedx-bom>=7.1,<8"
SUMS = "SHA256SUMS"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("version")
    parser.add_argument("--check", action="store_true", help="only look whether it can be released")
    parser.add_argument("--uv", default="uv")
    parser.add_argument("--directory", type=Path, default=ROOT / "dist")
    parser.add_argument("--key", default="")
    parser.add_argument("--url", default="")
    options = parser.parse_args()
    check_version(options.version)
    if options.check:
        return
    target: Path = options.directory / options.version
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for each in find_built(options.directory, options.version):
        shutil.copy2(each, target / each.name)
    run([options.uv, "build", "--quiet", "--sdist", "--no-create-gitignore", "--out-dir", str(target)])
    venv = ROOT / ".cache" / "bundle" / "venv" / "bin" / "python"
    if venv.exists():
        write_sbom(options.uv, venv, target / f"brokerless-{options.version}.cdx.json")
    (target / "NOTES.md").write_text(release_notes(options.version))
    if options.url:
        write_recipes(target, options.version, options.url)
    else:
        print("no formula for Homebrew and no recipe for conda: give URL=, from which the files can be fetched")
    write_sums(target)
    print(sign(target / SUMS, options.key))
    for each in sorted(target.iterdir()):
        print(f"  {each.stat().st_size:>12,}  {each.relative_to(ROOT) if each.is_relative_to(ROOT) else each}")


def check_version(version: str) -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    if version != declared:
        sys.exit(f"pyproject.toml has version {declared}, and not {version!r}: change it there first")


def find_built(directory: Path, version: str) -> list[Path]:
    """Return the wheels of a version and its bundles."""
    wheels, bundles = directory.glob(f"brokerless-{version}-*.whl"), directory.glob(f"brokerless-{version}-linux-*")
    found = sorted([*wheels, *bundles])
    if not found:
        sys.exit(f"{directory}: there is no wheel of version {version}; make wheel builds one")
    return found


def release_notes(version: str) -> str:
    """Return the changelog's part of a version, with the notes that are not collected yet."""
    text = CHANGELOG.read_text()
    title = f"{version} - {datetime.date.today().isoformat()}"
    if f"\n## {version} " not in text:
        text = collect(text, load_notes(CHANGES), title)
    begin = text.index(f"\n## {version} ") + 1
    end = text.find("\n## ", begin)
    return text[begin:] if end < 0 else text[begin:end]


def write_sbom(uv: str, python: Path, target: Path) -> None:
    """Writes what is installed for a Python, with versions and licences, in CycloneDX's form."""
    tool = [uv, "tool", "run", "--quiet", "--from", SBOM_TOOL, "cyclonedx-py", "environment"]
    project = ["--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible"]
    run([*tool, *project, "--of", "JSON", "-o", str(target), str(python)])


def write_recipes(target: Path, version: str, url: str) -> None:
    """Writes the formula and the recipe, which name the source by its address and hash."""
    (source,) = target.glob("*.tar.gz")
    values = {
        "@VERSION@": version,
        "@URL@": f"{url.rstrip('/')}/{source.name}",
        "@HOME@": url.rstrip("/"),
        "@SHA256@": hashlib.sha256(source.read_bytes()).hexdigest(),
    }
    for each in (ROOT / "packaging" / "homebrew" / "brokerless.rb", ROOT / "packaging" / "conda" / "recipe.yaml"):
        text = each.read_text()
        for name, value in values.items():
            text = text.replace(name, value)
        (target / each.name).write_text(text)


def write_sums(directory: Path) -> None:
    lines = []
    for each in sorted(directory.iterdir()):
        with each.open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {each.name}\n")
    (directory / SUMS).write_text("".join(lines))


def sign(sums: Path, key: str) -> str:
    """Signs the sums with what the key is for; returns what was done."""
    if not key:
        return f"{SUMS} is not signed: give KEY=, a private key of minisign's or SSH's, or the name of one of GnuPG's"
    path = Path(key).expanduser()
    begin = path.read_bytes()[:200] if path.is_file() else b""
    if b"OPENSSH PRIVATE KEY" in begin:
        run(["ssh-keygen", "-q", "-Y", "sign", "-n", "file", "-f", str(path), str(sums)])
        return f"signed by ssh-keygen: {sums.name}.sig"
    if begin.startswith(b"untrusted comment: minisign"):
        run(["minisign", "-S", "-s", str(path), "-m", str(sums)])
        return f"signed by minisign: {sums.name}.minisig"
    run(["gpg", "--batch", "--yes", "--armor", "--local-user", key, "--detach-sign", str(sums)])
    return f"signed by gpg: {sums.name}.asc"


def run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        sys.exit(f"{command[0]} is not installed")
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
