"""The architecture: what scripts/check_rooms.py finds, and that the code passes it."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts import check_rooms, check_tests

REPOSITORY = Path(__file__).parent.parent


def violations(tmp_path: Path, **modules: str) -> list[str]:
    """The keys of what is found in a tree of modules; ``log__names`` or ``log/names`` is ``log/names.py``."""
    for name, text in modules.items():
        path = tmp_path / "brokerless" / f"{name if '/' in name else name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return [each.key for each in check_rooms.find_violations(tmp_path)]


def test_the_code_has_no_violation_but_the_known_ones(capsys: pytest.CaptureFixture[str]):
    assert check_rooms.main() == 0, capsys.readouterr().out


def test_every_room_exists():
    package = REPOSITORY / "src/brokerless"
    rooms = [package / room.replace(".", "/") for room in check_rooms.ROOMS]
    assert [str(room) for room in rooms if not room.is_dir() and not room.with_suffix(".py").exists()] == []


def test_a_room_may_import_those_before_it_and_itself(tmp_path: Path):
    found = violations(
        tmp_path,
        log__names="from brokerless.errors import Finding",
        log__storage__files="import brokerless.log.names\nfrom brokerless.log.storage import paths",
        log__storage__paths="",
        errors="",
    )
    assert found == []


def test_a_class_has_a_name_of_its_own(tmp_path: Path):
    found = violations(tmp_path, errors="class A: ...\nclass A: ...", text="class A: ...", clock="class B: ...")
    assert found == ["class brokerless.text.A"]


def test_pages_name_each_room(tmp_path: Path):
    for room in ("log", "log/storage", "jobs", "jobs/verify"):
        (tmp_path / "src/brokerless" / room).mkdir(parents=True)
        (tmp_path / "src/brokerless" / room / "__init__.py").touch()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/architecture.md").write_text("`jobs/` and the catalog")
    (tmp_path / "DEVELOPERS.md").write_text("`log/`, `jobs/`: verify")
    found = [each.key for each in check_rooms.find_violations(tmp_path / "src") if ".md" in each.key]
    assert found == ["docs/architecture.md brokerless.log"]


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("open('x')", "open"),
        ("import os\nos.open('x', os.O_RDONLY)", "os.open"),
        ("from pathlib import Path\ndef read(path):\n    return Path(path).read_bytes()", "Path(path).read_bytes"),
        ("def read(path):\n    return path.read_text()", "path.read_text"),
        ("def read(path):\n    with path.open('rb') as file:\n        return file", "path.open"),
        ("def read(path):\n    return path.open(mode='r+b')", "path.open"),
        ("import numpy as np\nnp.fromfile('x')", "np.fromfile"),
        ("import numpy as np\nnp.memmap('x')", "np.memmap"),
        ("import mmap\nmmap.mmap(0, 0)", "mmap.mmap"),
    ],
)
def test_only_storage_opens_files(tmp_path: Path, text: str, call: str):
    assert violations(tmp_path, log__names=text, log__storage__paths=text) == [f"open brokerless.log.names.{call}"]


@pytest.mark.parametrize(
    "text",
    [
        "from brokerless.api import open\nopen('x')",
        "def open(path): ...\nopen('x')",
        "log.open('convert')",
        "log.open()",
    ],
)
def test_other_functions_of_that_name_are_no_opening(tmp_path: Path, text: str):
    assert violations(tmp_path, views__text=text, api="") == []


def test_every_opener_opens_files():
    modules = check_rooms.load_modules(REPOSITORY / "src")
    for name in check_rooms.OPENERS:
        own = [each for key, each in modules.items() if f"{key}.".startswith(f"brokerless.{name}.")]
        calls = [node for each in own for node in each.nodes]
        assert any(check_rooms.is_opening(node) for node in calls if isinstance(node, check_rooms.ast.Call)), name


@pytest.mark.parametrize(
    "text",
    [
        "from brokerless.jobs.verify import job",
        "import brokerless.jobs.verify.job",
        "from ..jobs.verify.job import verify",
        "def late():\n    from brokerless.jobs.verify.job import verify",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from brokerless.jobs.verify.job import verify",
    ],
)
def test_an_import_of_a_later_room_is_found_wherever_it_stands(tmp_path: Path, text: str):
    found = violations(tmp_path, log__names=text, jobs__verify__job="")
    assert found == ["arrow brokerless.log.names -> brokerless.jobs.verify.job"]


def test_a_circle_is_found_at_each_module_in_it(tmp_path: Path):
    found = violations(
        tmp_path,
        spark__options="import brokerless.spark.plan",
        spark__plan="import brokerless.spark.split",
        spark__split="def late():\n    import brokerless.spark.options",
        spark__reader="import brokerless.spark.options",
    )
    assert found == [f"circle brokerless.spark.{each}" for each in ("options", "plan", "split")]


def test_parts_of_a_package_that_import_each_other_are_found_although_no_module_does(tmp_path: Path):
    found = violations(
        tmp_path,
        views__text="import brokerless.views.tables.cells",
        views__tables__cells="",
        views__tables__rows="import brokerless.views.text",
        **{"views/__init__": ""},
    )
    assert found == ["circle of brokerless.views: tables -> text -> tables"]


def test_a_module_without_a_room_is_found(tmp_path: Path):
    assert violations(tmp_path, log__attic="", log__names="") == ["room brokerless.log.attic"]


def test_sizes_are_checked(tmp_path: Path):
    long = "def f():\n" + "    x = 1\n" * 70
    assert violations(tmp_path, text=long) == ["function brokerless.text.f"]
    (tmp_path / "brokerless/text.py").write_text('def f():\n    """' + "\n" * 80 + '    """\n' + "    x = 1\n" * 69)
    assert violations(tmp_path) == []
    kernel = f"@kernel\n{long}"
    assert violations(tmp_path, text=kernel, format__crc__kernels=long) == []
    assert violations(tmp_path, text="\n" * 501) == ["module brokerless.text"]
    many = {f"views__{chr(97 + each)}": "" for each in range(15)}
    assert violations(tmp_path, text="", **{"views/__init__": ""}, **many) == ["package brokerless.views"]


def test_a_known_violation_that_is_gone_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(check_rooms, "find_violations", lambda path: [])
    monkeypatch.setattr(check_rooms, "KNOWN", "circle brokerless.nothing\n")
    assert check_rooms.main() == 1
    assert "circle brokerless.nothing" in capsys.readouterr().out


def test_a_module_without_a_test_file_is_found_and_so_is_a_dead_entry(tmp_path: Path):
    for name in ("log/names.py", "log/config.py", "log/seek_kernels.py", "log/storage/paths.py"):
        path = tmp_path / "src/brokerless" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    tests = tmp_path / "tests"
    (tests / "log").mkdir(parents=True)
    (tests / "log/test_names.py").write_text("import brokerless.log.config")
    (tests / "log/test_seek.py").write_text("")
    (tests / "log/test_paths.py").write_text("")

    def check(table: dict[str, str]) -> list[str]:
        return [each.rpartition(": ")[2] for each in check_tests.find_violations(tmp_path / "src", tests, table)]

    assert len(check({})) == 2
    assert check({"log": "log/test_names.py"}) == [
        "tests/log/test_names.py does not import brokerless.log.storage.paths"
    ]
    assert "which does not exist" in check({"log": "log/test_attic.py"})[0]
    (tests / "log/test_paths.py").write_text("from brokerless.log.storage import paths")
    good = {"log/config": "log/test_names.py", "log/storage": "log/test_paths.py"}
    assert check(good) == []
    assert check({**good, "format": "log/test_names.py"}) == ["remove it"]


def test_storage_options_are_a_parameter_of_no_more_functions_than_they_were(tmp_path: Path):
    taken = "def open(path, *, storage_options=None):\n    pass\n"
    assert violations(tmp_path, format__layouts=taken) == ["storage_options brokerless.format.layouts.open"]
    modules = check_rooms.load_modules(REPOSITORY / "src")
    assert check_rooms.count_storage_options(modules, "brokerless") == check_rooms.STORAGE_OPTIONS


def test_no_more_functions_than_before_have_many_parameters(tmp_path: Path):
    many = "class Reader:\n    def read(self, a, b, c, d, *, e, f, g{}):\n        pass\n"
    assert violations(tmp_path, format__layouts=many.format(", h")) == ["parameters brokerless.format.layouts.read"]
    assert violations(tmp_path, format__layouts=many.format("")) == []
    modules = check_rooms.load_modules(REPOSITORY / "src")
    assert check_rooms.count_long_signatures(modules, "brokerless") == check_rooms.PARAMETERS


def test_no_more_calls_than_before_hand_over_many_values_by_position(tmp_path: Path):
    many = "from brokerless.format.layouts import read\n\n\ndef run(a):\n    read(a, 1, 2, 3{})\n"
    assert violations(tmp_path, internals__rows=many.format(", 4")) == ["positional brokerless.internals.rows:5"]
    assert violations(tmp_path, internals__rows=many.format(", e=4")) == []
    assert violations(tmp_path, internals__rows=many.format(", *a")) == []
    modules = check_rooms.load_modules(REPOSITORY / "src")
    assert check_rooms.count_long_calls(modules, "brokerless") == check_rooms.POSITIONAL


def test_a_kind_of_finding_that_two_modules_make_is_found(tmp_path: Path):
    text = "def damage(path):\n    return Kind.NO_BATCHES.at(path, 'nothing here')"
    found = violations(tmp_path, log__names=text, log__config=f"{text}\n\n\ndef again(path):\n    return damage(path)")
    assert found == ["kind brokerless.log.names.NO_BATCHES"]
    assert violations(tmp_path, log__names="def f(kind):\n    return kind == Kind.NO_BATCHES") == []
