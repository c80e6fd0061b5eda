"""The image, systemd's units, and the manifests of ``docs/kubernetes.md``: valid, careful with disks, and with commands
that there are."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from brokerless.cli.parser import load_command, parse
from brokerless.jobs.pipeline.settings import load_settings, make_settings

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "kubernetes.md").read_text()
MANIFESTS = {
    f"{each['kind']}/{each['metadata']['name']}": each
    for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    for each in yaml.safe_load_all(block)
}
VERSIONS = ["1.27", kubernetes_validate.latest_version()]
LOGS = "data-"
"""Claims of brokers begin so."""


def pods() -> dict[str, Any]:
    def spec(manifest: Any) -> Any:
        while "containers" not in manifest:
            manifest = next(manifest[key] for key in ("jobTemplate", "template", "spec") if key in manifest)
        return manifest

    return {name: spec(each) for name, each in MANIFESTS.items() if each["kind"] in ("Pod", "Job", "CronJob")}


def commands() -> Iterator[list[str]]:
    """What runs in pods, by their manifests or by ``kubectl exec``, without ``brokerless``."""
    for pod in pods().values():
        for container in pod["containers"]:
            if "args" in container:
                yield container["args"]
            yield from map(shlex.split, re.findall(r"brokerless (.*?) \|\|", container.get("command", [""])[-1]))
    yield from map(shlex.split, re.findall(r"^kubectl .* exec .*? -- brokerless (.*)$", PAGE, re.MULTILINE))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_is_valid(name: str, version: str) -> None:
    kubernetes_validate.validate(MANIFESTS[name], version, strict=True)


def test_a_manifest_with_a_mistake_is_not() -> None:
    wrong = {**MANIFESTS["Pod/brokerless"], "spec": {**pods()["Pod/brokerless"], "restartPolcy": "Never"}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[0], strict=True)


@pytest.mark.parametrize("name", pods())
def test_a_pod_has_no_rights_and_does_not_write_to_a_broker_s_disk(name: str) -> None:
    pod = pods()[name]
    assert pod["securityContext"]["runAsNonRoot"]
    assert not pod["automountServiceAccountToken"]
    claims = {each["name"]: each["persistentVolumeClaim"] for each in pod["volumes"] if "persistentVolumeClaim" in each}
    for container in pod["containers"]:
        own = container["securityContext"]
        assert own["readOnlyRootFilesystem"] is True
        assert own["allowPrivilegeEscalation"] is False
        assert own["capabilities"] == {"drop": ["ALL"]}
        for mount in container["volumeMounts"]:
            claim = claims.get(mount["name"])
            if claim is not None and claim["claimName"].startswith(LOGS):
                assert mount["readOnly"] is claim["readOnly"] is True


def test_commands_are_those_that_there_are() -> None:
    names = [command[0] for command in commands()]
    assert {"cluster", "audit", "restart", "serve", "salvage", "pipeline", "backup"} <= {*names}
    for name, *arguments in commands():
        options = parse(name, load_command(name), arguments)
        assert options is not None


def test_settings_are_those_of_a_pipeline(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text(MANIFESTS["ConfigMap/brokerless-pipeline"]["data"]["pipeline.yaml"])
    settings = make_settings(load_settings(str(path)))
    assert (settings.form, settings.to) == ("delta", "s3://lake/kafka")


def test_the_service_of_systemd_has_commands_that_there_are() -> None:
    unit = (ROOT / "packaging" / "systemd" / "brokerless-backup.service").read_text().replace("\\\n", " ")
    lines = re.findall(r"^ExecStart(?:Post)?=/usr/bin/env brokerless (.*)$", unit, re.MULTILINE)
    assert [line.split()[0] for line in lines] == ["backup", "snapshots"]
    for name, *arguments in map(shlex.split, lines):
        assert parse(name, load_command(name), arguments) is not None
    timer = (ROOT / "packaging" / "systemd" / "brokerless-backup.timer").read_text()
    assert "OnCalendar=" in timer


def test_the_image_has_all_but_spark_and_no_rights() -> None:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", "")
    steps = dict(line.split(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (extras,) = re.findall(r"\.whl\)\[(.*?)\]", steps["RUN"])
    of_programs = {"notebook", "polars"}  # which no command needs
    assert {*extras.split(","), "spark", "all"} | of_programs == project["optional-dependencies"].keys()
    version = re.fullmatch(r"python:(3\.\d+)-slim", steps["FROM"])
    assert version is not None
    assert f"Programming Language :: Python :: {version[1]}" in project["classifiers"]
    assert json.loads(steps["ENTRYPOINT"]) == ["brokerless"]
    user, group = steps["USER"].split(":")
    for pod in pods().values():
        assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsGroup"]) == (int(user), int(group))
    ignored = (ROOT / ".dockerignore").read_text().splitlines()[1:]
    assert ignored == ["*", "!dist/*.whl", "!dist/brokerless-*-linux-*"]


def test_the_image_of_the_bundle_is_that_file_and_nothing_else() -> None:
    text = (ROOT / "packaging" / "image" / "Dockerfile").read_text()
    steps = dict(line.split(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
    assert steps == {
        "FROM": "scratch",
        "COPY": "dist/brokerless-*-linux-* /brokerless",
        "ENV": "HOME=/tmp",
        "USER": "1001:0",
        "ENTRYPOINT": '["/brokerless"]',
    }
