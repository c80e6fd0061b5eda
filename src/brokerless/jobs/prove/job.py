"""Checks a manifest: its signature, and that the logs before and after are what it claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, Literal

from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Finding, Kind
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.jobs.erase.blanking import Blanking
from brokerless.jobs.erase.job import Erasure
from brokerless.jobs.erase.selection import Selection
from brokerless.jobs.erase.signed_manifest import (
    SignedManifest,
    is_selection,
    load_manifest,
    recorded_schemas,
)
from brokerless.jobs.prove.claims import (
    DirectoryClaim,
    PartitionClaim,
    parse_claims,
    parse_directories,
    parse_unwritten,
)
from brokerless.jobs.prove.partition import Check, ProveTask, ProveTaskResult, check_directory, run_task
from brokerless.jobs.prove.scope import ProofScope, check_scope, find_sources
from brokerless.jobs.prove.search import PatternSearch
from brokerless.jobs.run.job import in_order, run, started
from brokerless.jobs.run.types import ALONE, RunOptions, RunPlace
from brokerless.jobs.signatures import SIGNATURE_BYTES, fingerprint, is_signed_by, load_public_key, public_bytes
from brokerless.log import names
from brokerless.log.storage.location import Location
from brokerless.log.storage.paths import directory_name, parent_directory
from brokerless.log.tiered.decryption import KeyPairs
from brokerless.progress import Report, ignore
from brokerless.text import short_html, short_repr
from brokerless.typed.blanking.paths import path_text
from brokerless.values import LenientValue, WrongJsonError, from_members

_NAME = "brokerless prove"
SignatureState = Literal["valid", "none", "wrong"]


@dataclass(slots=True)
class Proof:
    """The result of proving the manifest in the file ``path``."""

    path: str
    manifest: Mapping[str, Any]
    """Its content."""
    claims: tuple[PartitionClaim, ...]
    """What it claims of each partition."""
    signature: SignatureState = "none"
    signer: str | None = None
    """The public key of the signature, in base64."""
    is_known_key: bool = False
    """Whether the signature is that of the requested key, and not only of the one that the manifest names."""
    has_source: bool = False
    """Whether the logs were compared with those before the erasure."""
    scope: ProofScope | None = None
    """The part of these logs that the proof is about."""
    copied: dict[str, int] = field(default_factory=dict[str, int])
    """Selected records in each partition of Kafka's own topics, which are copied unchanged; 0 where not known."""
    searched: int = 0
    """How many byte strings were searched for."""
    unsearched: int = 0
    """How many were not, as they are too short or too many."""
    findings: list[Finding] = field(default_factory=list[Finding])

    __repr__ = short_repr
    _repr_html_ = short_html

    @property
    def holds(self) -> bool:
        """Whether no finding is an error."""
        return not any(each.severity == "error" for each in self.findings)

    @property
    def selected(self) -> int:
        """How many records were erased."""
        return sum(each.selected for each in self.claims)

    def add(self, report: Report, finding: Finding) -> None:
        """Take a finding, and report it.

        Parameters
        ----------
        report : callable
            Called with the finding.
        finding : Finding
            What is wrong, or to be known.
        """
        self.findings.append(finding)
        report(finding)

    def as_dict(self) -> dict[str, Any]:
        """Return the object that ``prove --json`` writes."""
        return {
            "manifest": self.path,
            "holds": self.holds,
            "signature": self.signature,
            "signer": self.signer,
            "isKnownKey": self.is_known_key,
            "hasSource": self.has_source,
            "partitions": len(self.claims),
            "selected": self.selected,
            "scope": None if self.scope is None else self.scope.as_dict(),
            "copied": self.copied,
            "searched": self.searched,
            "unsearched": self.unsearched,
            "errors": sum(each.severity == "error" for each in self.findings),
            "warnings": sum(each.severity == "warning" for each in self.findings),
        }


@dataclass(frozen=True, slots=True)
class Proving:
    """The request of a proof: the manifest, and what it is compared with."""

    manifest: Location
    erased: Location | None = None
    """The directory that ``erase`` wrote, where it was moved since."""
    source: Location | None = None
    """The directory that ``erase`` read, if that is still at hand. Then what stayed is compared with it, and erased
    values are searched for."""
    public_key: str | None = None
    """A PEM file with the public key that has to have signed."""
    selection: Selection | None = None
    """What was erased. Then no record may be selected, and keys are searched for."""
    only: Sequence[str] = ()
    """Topics and partitions (``orders``, ``orders-0``) of the source that the proof is to be about. Without it, a
    selected record in any other partition of the source is an error."""
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    keys: KeyPairs | None = None
    """Private keys of an encrypted backup."""


def prove(
    proving: Proving,
    report: Report = ignore,
    running: RunOptions = ALONE,
) -> Proof:
    """Checks a manifest, and the logs that it is about.

    ``report`` is called with each finding. A task is a partition. Raises :class:`UnreadableError` for what is no
    manifest, and :class:`UsageError`.
    """
    _check_places(proving)
    selection, source = proving.selection, proving.source
    manifest = load_manifest(proving.manifest.path)
    proof = Proof(proving.manifest.path, manifest.value, parse_claims(manifest))
    add = partial(proof.add, report)
    _check_whole(manifest, proof, add)
    check_signature(manifest, proving.public_key, proof, add)
    if selection is not None:
        check_selection(manifest, selection)
    proof.has_source, blanking = source is not None, _blanking(manifest)
    base = Check(True, blanking, max_batch_bytes=proving.max_batch_bytes)
    before = _tasks(proof.claims, base, proving) if source is not None else []
    after = _tasks(proof.claims, replace(base, is_source=False), proving)
    if len({each.location for each in after}) < len(after):
        text = "two partitions of the manifest are one here; give the directory that has them all"
        raise UsageError(f"{proving.erased}: {text}")

    def run_all(tasks: list[ProveTask], place: RunPlace) -> list[ProveTaskResult]:
        with closing(run(run_task, tasks, replace(running, spark=place), name=_NAME)) as results:
            found = list(in_order(results))
        for finding in chain.from_iterable(each.findings for each in found):
            add(finding)
        return found

    if source is not None:
        sources, claimed = find_sources(source), {each.location.path for each in before}
        erasure = None if selection is None else Erasure(selection, max_batch_bytes=base.max_batch_bytes)
        proof.scope = check_scope(sources, claimed, proving.only, erasure=erasure, report=add)
    with started(running, [*before, *after], _NAME) as place:
        of_source = run_all(before, place)
        keys = selection.keys if selection is not None and blanking is None else None
        fields = {name.encode() for path in (blanking.paths if blanking is not None else ()) for name in path}
        places = {value: at for each in of_source for value, at in each.values.items() if value not in fields}
        search = PatternSearch(chain(keys or (), places), places)
        proof.searched, proof.unsearched = len(search.patterns), search.left_out
        checked = run_all(_searching(after, search, of_source), place)
    proof.copied = {
        claim.name: each.selected
        for claim, each in zip(proof.claims, checked, strict=True)
        if claim.is_copied and names.is_internal(claim.topic)
    }
    _check_directories(manifest, proof, replace(base, is_source=False, search=search), proving=proving, report=add)
    return proof


def _check_places(proving: Proving) -> None:
    for name, each in (("source", proving.source), ("erased", proving.erased)):
        if each is not None and not each.is_directory():
            raise UsageError(f"{each}: there is no such directory; give the one of the logs as --{name}")
    if proving.manifest.is_directory():
        text = "this is a directory; give the manifest that erase wrote, a file such as erased.erasure.json"
        raise UsageError(f"{proving.manifest}: {text}")
    if proving.only and proving.source is None:
        raise UsageError("only names what of the source the proof is about; give the source as well")


def _check_whole(manifest: SignedManifest, proof: Proof, report: Report) -> None:
    unwritten = parse_unwritten(manifest)
    if not proof.claims and not unwritten:
        text = "the manifest has no partition, so that it proves nothing"
        report(Kind.NO_PARTITIONS.at(proof.path, text))
    for each in unwritten:
        report(not_written(each.source, f"{each.topic}-{each.partition} was not written: {each.reason}"))


def not_written(path: str, text: str, offset: int | None = None) -> Finding:
    """Return the finding about what was not written, and why."""
    return Kind.NOT_WRITTEN.at(path, f"{text}; it is not erased", offset=offset)


def not_finished(path: str, text: str) -> Finding:
    """Return the finding about an erasure that lacks its last step."""
    return Kind.NOT_FINISHED.at(path, f"{text}; run the same command again")


def _tasks(claims: Iterable[PartitionClaim], check: Check, proving: Proving) -> list[ProveTask]:
    """A task for each partition, in the directory where they are now."""
    tasks: list[ProveTask] = []
    directory = proving.source if check.is_source else proving.erased
    for claim in claims:
        recorded = claim.source if check.is_source else claim.target
        location = proving.manifest.at(recorded) if directory is None else _place(recorded, directory)
        tasks.append(ProveTask(claim, location, replace(check, selection=proving.selection)))
    return tasks


def _searching(tasks: Sequence[ProveTask], search: PatternSearch, erased: Sequence[ProveTaskResult]) -> list[ProveTask]:
    """Return the tasks with what is to be searched for, and what was erased of each partition, if that is known."""
    used = search if search.patterns else None
    blanked = [each.blanked for each in erased] or [None] * len(tasks)
    return [
        replace(task, check=replace(task.check, search=used, blanked=each))
        for task, each in zip(tasks, blanked, strict=True)
    ]


def _check_directories(manifest: SignedManifest, proof: Proof, check: Check, proving: Proving, report: Report) -> None:
    erased, at = proving.erased, proving.manifest.at
    directories = parse_directories(manifest)
    if check.search is not None:
        check.search.counts.clear()
    if not directories and (proof.claims or not parse_unwritten(manifest)):
        report(not_finished(manifest.path, "the erasure was stopped before its end, so the manifest lacks checkpoints"))
    own, to, roots = (manifest.path, f"{manifest.path}.sig"), manifest.value.get("to"), set[str]()
    for each in directories:
        target = at(each.target) if erased is None else _directory_place(each.target, erased)
        known = {claim.name for claim in proof.claims if parent_directory(claim.target) == each.target}
        check_directory(each, target, known, own, check, report)
        root = parent_directory(each.target) if erased is None else erased.path
        if root is not None and parent_directory(each.target) == to and target.path != root:
            roots.add(root)
    for root in roots:  # of several log directories, each is in one of its own
        known = {directory_name(each.target) for each in directories}
        check_directory(DirectoryClaim(root, ()), (erased or proving.manifest).at(root), known, own, check, report)


def check_signature(manifest: SignedManifest, key: str | None, proof: Proof, report: Report) -> None:
    """Reports what is wrong with the signature of a manifest, and notes in the proof whose it is. ``key``: the file of
    the public key that has to have signed. Raises :class:`UsageError`, UnreadableError."""
    own = manifest.value.get("publicKey")
    if key is None and own is None and manifest.signature is None:
        text = "this manifest is not signed: whoever can write it can change what it claims"
        report(Kind.NOT_SIGNED.at(manifest.path, text))
        return
    public = None
    if key is not None:
        public, proof.is_known_key = public_bytes(load_public_key(key)), True
    elif isinstance(own, str):
        try:
            public = bytes.fromhex(own)
        except ValueError:
            public = b""
        text = "the key that signed is known from the manifest alone; compare it, or use --public-key"
        report(Kind.KEY_UNCONFIRMED.at(manifest.path, text))
    proof.signer = None if public is None else fingerprint(public)
    is_whole = manifest.signature is not None and len(manifest.signature) == SIGNATURE_BYTES
    if public is not None and is_whole and is_signed_by(public, manifest.data, manifest.signature):
        proof.signature = "valid"
        return
    proof.signature = "wrong"
    text = "the signature is missing" if manifest.signature is None else "the signature is not of this manifest and key"
    report(Kind.SIGNATURE_WRONG.at(f"{manifest.path}.sig", text))


def check_selection(manifest: SignedManifest, selection: Selection) -> None:
    """Raises :class:`UsageError` for another selection than that of a manifest."""
    try:
        is_same = is_selection(manifest.value["selection"], selection)
    except WrongJsonError as error:
        raise UnreadableError(manifest.path, f"selection: {error}") from error
    if not is_same:
        text = "these are not the keys, condition or header of this erasure"
        raise UsageError(f"{manifest.path}: {text}; give the same, or none")


class _Action(LenientValue, frozen=True):
    fields: tuple[tuple[str, ...], ...] = ()
    value_format: str = "auto"


def _blanking(manifest: SignedManifest) -> Blanking | None:
    """Return how values were blanked; None where records were removed."""
    action = manifest.value["action"]
    if action.get("kind") == "remove":
        return None
    if action.get("kind") != "blank":
        raise UnreadableError(manifest.path, "an unknown action; this brokerless knows remove and blank")
    try:
        found = from_members(action, _Action)
        return Blanking(tuple(map(path_text, found.fields)), found.value_format, recorded_schemas(manifest))
    except (WrongJsonError, UsageError) as error:
        raise UnreadableError(manifest.path, f"action: {error}") from error


def _place(recorded: str, directory: Location) -> Location:
    """Return where a partition is now, of whose directories one is somewhere else: in it, in a directory of the name of
    its former one, or that very directory."""
    name, above = directory_name(recorded), parent_directory(recorded)
    within = directory / name
    nested = directory / directory_name(above) / name if above is not None else within
    for location in (within, nested):
        if location.exists():
            return location
    return directory if directory.name == name else within


def _directory_place(recorded: str, directory: Location) -> Location:
    """Return the place of a log directory: one of several has its name within ``directory``."""
    nested = directory / directory_name(recorded)
    return nested if nested.exists() else directory
