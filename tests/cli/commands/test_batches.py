from __future__ import annotations

from tests.cli.conftest import Run
from tests.golden import broker_data, case


def test_people_get_a_line_for_each_batch_below_the_file_and_the_names(run: Run) -> None:
    log = next((broker_data("clean") / "txn-0").glob("*.log"))
    result = run("batches", log)
    file, head, *rows = result.lines
    listed = run("batches", "--json", log).json
    assert result.exit_code == 0
    assert file == f"{log}:"
    assert head.split()[:4] == ["position", "size", "offsets", "count"]
    assert [int(row.split()[0]) for row in rows] == [batch["position"] for batch in listed]
    assert sum("control" in row for row in rows) == sum(batch["isControl"] for batch in listed)


def test_old_formats_and_lone_files_have_lines_as_well(run: Run) -> None:
    result = run("batches", case("formats/v0-gzip").log, case("specials/mixed-magic").log)
    assert result.exit_code == 0
    assert {row.split()[4] for row in result.lines if row.startswith("  ")} >= {"v0", "v1", "v2"}


def test_a_wrong_checksum_is_listed_and_reported(run: Run) -> None:
    result = run("batches", case("damaged/all-crcs-wrong").log)
    assert result.exit_code == 1
    assert all("CHECKSUM WRONG" in row for row in result.lines[2:])
    assert result.err.count("checksum") == len(result.lines) - 2


def test_a_file_that_is_given_twice_has_its_name_above_twice(run: Run) -> None:
    log = case("formats/v1-gzip-create").log
    assert run("batches", log, log).out == run("batches", log).out * 2
