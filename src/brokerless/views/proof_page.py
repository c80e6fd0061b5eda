"""A page for an auditor: what an erasure did, and what was found of its proof. One HTML file without scripts."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from brokerless import clock
from brokerless.errors import UnreadableError, UsageError
from brokerless.jobs.erase.signed_manifest import LIMIT, load_manifest
from brokerless.jobs.prove.claims import parse_claims
from brokerless.jobs.prove.job import Proof
from brokerless.log.storage.atomic import write_output
from brokerless.log.storage.guarded_files import read_own
from brokerless.log.storage.location import Location
from brokerless.log.storage.paths import is_local_within, local, parent_directory
from brokerless.log.storage.write_errors import unwritable
from brokerless.text import count_of
from brokerless.typed.blanking.paths import path_text
from brokerless.views.jobs.plain_page import HEAD, html_table, plain_page
from brokerless.views.text import format_times

_PARTITIONS = ("partition", "erased records", "touched batches", "SHA-256 of all other batches", "files")


def check_page_path(path: str, manifest: str, directories: Iterable[str | None] = ()) -> None:
    """Raises :class:`UsageError` where a page would take the place of anything but an earlier page, or be among the
    logs that the ``manifest`` (its path) is about, or in ``directories``; UnreadableError for what is no manifest."""
    loaded, own = load_manifest(manifest), Path(local(path))
    recorded = [each for claim in parse_claims(loaded) for each in (claim.source, claim.target)]
    above = (parent_directory(claim.target) for claim in parse_claims(loaded))
    listed = [*loaded.value["sources"], loaded.value.get("to")]
    for each in (*recorded, *above, *directories, *(one for one in listed if isinstance(one, str))):
        if each is not None and is_local_within(str(own), each):
            raise UsageError(f"{path}: the page cannot be among the logs in {each}; give a file somewhere else")
    if not os.path.lexists(own):
        return
    try:
        is_page = read_own(Location(str(own)), LIMIT).startswith(HEAD.encode())
    except UnreadableError:
        is_page = False
    if not is_page:
        raise UsageError(f"{path}: this is no page of brokerless prove and is not overwritten; give another file")


def write_proof_page(proof: Proof, path: str | os.PathLike[str]) -> None:
    """Writes the page to a file, in place of another one. Raises UnwritableError."""
    with unwritable(Path(path)):
        write_output(Path(path), proof_page(proof).encode())


def proof_page(proof: Proof) -> str:
    """Return the page as HTML."""
    manifest, claims = proof.manifest, proof.claims
    verdict, colour = headline(proof)
    action: dict[str, Any] = manifest["action"]
    fields = ", ".join(path_text(map(str, each)) for each in action.get("fields", ()))
    what = "removed" if action["kind"] == "remove" else f"fields blanked: {fields}" if fields else "values blanked"
    facts = [
        ("Proved", f"{format_times([clock.now()], 's')[0]} by brokerless {version('brokerless')}"),
        ("Manifest", proof.path),
        ("SHA-256 of the manifest", hashlib.sha256(read_own(Location(proof.path), LIMIT)).hexdigest()),
        ("Source", ", ".join(dict.fromkeys(str(each.source) for each in claims)) or "none"),
        ("Output", ", ".join(dict.fromkeys(str(each.target) for each in claims)) or "none"),
        ("Written", f"{manifest.get('created')} by {manifest.get('tool')} {manifest.get('version')}"),
        ("Signature", proof.signature + ("" if proof.signer is None else f", key {proof.signer}")),
        ("Key", _key_text(proof)),
        ("Selected by", f"{manifest['selection'].get('kind')}, commitment {manifest['selection'].get('commitment')}"),
        ("Records", f"{sum(each.selected for each in claims):,} {what}"),
        ("Scope", scope_text(proof)),
        ("Kafka's own topics, copied unchanged", copied_text(proof) or "none"),
        ("Searched for", f"{proof.searched:,} byte strings ({proof.unsearched:,} too short or too many)"),
    ]
    rows = [
        (each.name, f"{each.selected:,}", f"{len(each.touched):,}", _untouched(each.untouched), f"{len(each.after):,}")
        for each in claims
    ]
    findings = [(each.severity, each.kind, str(each)) for each in proof.findings]
    copies = [(each.get("path"), each.get("what"), each.get("selected")) for each in manifest["copies"]]
    body = [
        '<p class="brand">brokerless prove</p>',
        f'<h1 class="{colour}">{verdict}</h1>',
        html_table(("", ""), facts),
        "<h2>Partitions</h2>",
        html_table(_PARTITIONS, rows, (1, 2, 4)),
        "<h2>Findings</h2>",
        html_table(("severity", "kind", "what"), findings) if findings else "<p>None.</p>",
        "<h2>Where copies may still be</h2>",
        html_table(("path", "what", "selected records"), copies, (2,)) if copies else "<p>None was found.</p>",
    ]
    return plain_page(verdict, body)


def headline(proof: Proof) -> tuple[str, str]:
    """Return what the page says first, and its class: green where the proof holds, is signed, and has no warning."""
    if not proof.holds:
        return "The proof does not hold", "fails"
    warnings = sum(each.severity == "warning" for each in proof.findings)
    but = [f"{count_of(warnings, 'warning')}"] * bool(warnings) + ["no signature"] * (proof.signature != "valid")
    return (f"The proof holds, with {' and '.join(but)}", "warned") if but else ("The proof holds", "holds")


def scope_text(proof: Proof) -> str:
    """Say what a proof is about: whether the source was compared, and how much of it is left out."""
    if proof.scope is None:
        return "without the source"
    if proof.scope.only:
        return f"compared with the source, of which only {', '.join(proof.scope.only)} were checked"
    if proof.scope.left_out:
        count = f"{proof.scope.left_out:,} of {proof.scope.partitions:,} partitions"
        return f"compared with the source, of which {count} are outside of the proof"
    return "compared with the source"


def copied_text(proof: Proof) -> str:
    """Name the partitions of Kafka's own topics that were copied, with the selected records that were left in them."""
    return ", ".join(f"{name} ({left:,} selected)" if left else name for name, left in proof.copied.items())


def _key_text(proof: Proof) -> str:
    if proof.is_known_key:
        return "the one of --public-key"
    return "known from the manifest alone" if proof.signature != "none" else "none"


def _untouched(sha256: str | None) -> str:
    return "copied as a whole" if sha256 is None else sha256
