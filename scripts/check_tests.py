"""Checks that each module has its test file: ``a/b.py`` has ``tests/a/test_b.py``, or TESTED_IN names another one.

``make lint`` runs it. ``b_kernels.py`` may be tested in ``test_b.py``. A file in TESTED_IN has to exist and to
import what it tests, be it through other modules; an entry that no module needs is an error as well.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__:
    from scripts.check_rooms import Module, find_imports, load_modules
else:
    from check_rooms import Module, find_imports, load_modules

TESTED_IN = {
    "schemas": "api/test_log.py",
    "writing": "log/write/test_leader_append.py",
    "typed/avro/json_encoding": "typed/test_framing.py",
    "dataset/table_dataset": "dataset/test_tables.py",
    "cli/sql_shell": "cli/commands/test_sql.py",
    "interchange/result_text": "cli/commands/test_sql.py",
    "sql/files": "cli/commands/test_sql.py",
    "sql/session": "cli/commands/test_sql.py",
    "sql/topics": "cli/commands/test_sql.py",
    "views/sql": "cli/commands/test_sql.py",
    "cli/output": "cli/test_exit_codes.py",
    "explanation": "explanation/test_files.py",
    "format/arrays": "format/test_filter.py",
    "format/columns": "format/read/test_decoder.py",
    "format/messages/checks": "format/messages/test_writer.py",
    "format/intrinsics": "test_bounds.py",
    "format/kernel": "format/test_kernel_library.py",
    "format/layouts": "test_docs.py",
    "format/append": "format/append/test_leader.py",
    "format/codecs": "format/codecs/test_decompression.py",
    "format/crc": "format/crc/test_kernels.py",
    "format/read": "format/read/test_decoder.py",
    "format/read/batch_candidate_kernels": "format/read/test_resync.py",
    "format/read/wrappers": "format/read/test_decoder.py",
    "format/read/partial_record_kernels": "format/append/test_leader.py",
    "format/write": "format/write/test_builder.py",
    "interchange": "interchange/test_hive_paths.py",
    "log/offsets_once/findings": "log/offsets_once/test_in_file.py",
    "log/storage/paths": "log/storage/test_location.py",
    "table_formats/export_directory": "jobs/export/test_job.py",
    "table_formats/export_state": "jobs/export/test_job.py",
    "interchange/json_string_kernels": "interchange/test_jsonl_writer.py",
    "table_formats/parquet_files": "jobs/export/test_job.py",
    "table_formats": "jobs/export/test_tables.py",
    "table_formats/iceberg/schemas": "table_formats/delta/test_schemas.py",
    "jobs/export/targets": "jobs/export/test_tables.py",
    "internals": "internals/test_tables.py",
    "internals/messages": "internals/test_records.py",
    "api/erasing": "jobs/erase/test_blanking.py",
    "jobs/erase/field_counts": "jobs/erase/test_blanking.py",
    "typed/blanking/connect": "jobs/erase/test_blanking.py",
    "typed/blanking/edits": "typed/blanking/test_json_text.py",
    "requests/backups": "requests/test_options.py",
    "requests/checking": "requests/test_options.py",
    "requests/comparing": "requests/test_options.py",
    "requests/option_types": "requests/test_options.py",
    "requests/reading": "requests/test_options.py",
    "requests/recovery": "requests/test_options.py",
    "requests/serving": "requests/test_options.py",
    "requests/shared": "requests/test_options.py",
    "requests/writing": "requests/test_options.py",
    "typed/blanking/json_schema": "jobs/erase/test_blanking.py",
    "typed/blanking/schemas": "jobs/erase/test_blanking.py",
    "typed/blanking/values": "jobs/erase/test_blanking.py",
    "jobs/diff/alignment/blocks": "jobs/diff/test_job.py",
    "jobs/diff/causes": "jobs/diff/test_job.py",
    "jobs/diff/alignment/offsets": "jobs/diff/test_job.py",
    "jobs/diff/mirrors": "jobs/diff/alignment/test_sequence.py",
    "jobs/diff/pairs": "jobs/diff/test_job.py",
    "jobs/diff/copied_partition": "jobs/diff/exported/test_rows.py",
    "jobs/diff/copies": "jobs/diff/exported/test_rows.py",
    "jobs/diff/exported/listing": "jobs/diff/exported/test_rows.py",
    "jobs/diff/pairing": "jobs/diff/alignment/test_erased_records.py",
    "jobs/diff/alignment/removed_keys": "jobs/diff/test_job.py",
    "jobs/diff/results": "jobs/diff/test_job.py",
    "jobs/diff/partition_diff": "jobs/diff/test_job.py",
    "jobs/diff/alignment/same_batches": "jobs/diff/test_job.py",
    "jobs/diff/alignment/sides": "jobs/diff/test_job.py",
    "jobs/diff/alignment/tally": "jobs/diff/test_job.py",
    "views/jobs/diff": "cli/commands/test_diff.py",
    "api/comparing": "cli/commands/test_diff.py",
    "jobs/erase/digests": "cli/commands/test_erase.py",
    "jobs/erase/eraser": "jobs/erase/test_job.py",
    "jobs/erase/replicas": "cli/commands/test_erase.py",
    "jobs/erase/recording": "cli/commands/test_erase.py",
    "jobs/erase/signed_manifest": "cli/commands/test_erase.py",
    "jobs/prove/claims": "jobs/prove/test_job.py",
    "jobs/prove/partition": "jobs/prove/test_job.py",
    "views/proof_page": "jobs/prove/test_job.py",
    "clusters/disk": "clusters/test_description.py",
    "clusters/start/effects": "clusters/start/test_directories.py",
    "clusters/start/directory_files": "clusters/start/test_directories.py",
    "clusters/metadata_replicas": "clusters/test_description.py",
    "api/restore": "kafka/test_restored_live.py",
    "api/cluster": "clusters/test_description.py",
    "views/internals/cluster": "cli/commands/test_cluster.py",
    "jobs/rebuild": "jobs/rebuild/test_job.py",
    "jobs/rebuild/adopted_topics": "jobs/rebuild/test_job.py",
    "jobs/rebuild/node_directories": "jobs/rebuild/test_job.py",
    "jobs/rebuild/partition_states": "jobs/rebuild/test_job.py",
    "jobs/rebuild/plan": "jobs/rebuild/test_job.py",
    "jobs/rebuild/registrations": "jobs/rebuild/test_nodes.py",
    "jobs/rebuild/table_rows": "jobs/rebuild/test_job.py",
    "views/internals/rebuild": "cli/commands/test_rebuild.py",
    "clusters/directory_state": "jobs/audit/test_damage.py",
    "jobs/backup": "jobs/backup/test_job.py",
    "jobs/check": "jobs/check/test_job.py",
    "cli/commands/snapshots": "cli/commands/test_backup.py",
    "cli/commands/check": "cli/commands/test_backup.py",
    "cli/commands/keys": "cli/commands/test_backup.py",
    "cli/commands/forget": "cli/commands/test_backup.py",
    "cli/commands/prune": "cli/commands/test_backup.py",
    "jobs/forget": "jobs/forget/test_job.py",
    "jobs/drill": "jobs/drill/test_job.py",
    "views/jobs/drill": "cli/commands/test_drill.py",
    "views/jobs/drill_page": "cli/commands/test_drill.py",
    "views/jobs/plain_page": "cli/commands/test_drill.py",
    "jobs/diff/live": "kafka/test_compared_live.py",
    "jobs/diff/alignment/keys": "jobs/diff/test_topics.py",
    "jobs/backup/cut": "jobs/backup/test_running.py",
    "jobs/backup/closing": "jobs/backup/test_running.py",
    "jobs/backup/second_look": "jobs/backup/test_running.py",
    "jobs/backup/keys": "jobs/backup/test_encrypted.py",
    "views/jobs/backup": "cli/commands/test_backup.py",
    "views/jobs/backup_erasure": "cli/commands/test_backup_erasure.py",
    "jobs/backup_erasure/record": "jobs/backup_erasure/test_job.py",
    "jobs/backup_erasure/segment": "jobs/backup_erasure/test_job.py",
    "log/upload/rewritten_segment": "jobs/backup_erasure/test_job.py",
    "log/backups": "jobs/check/test_job.py",
    "jobs/signatures": "jobs/prove/test_job.py",
    "log/tiered/listing": "jobs/check/test_job.py",
    "jobs/manifest": "cli/test_manifest.py",
    "jobs/named_partitions": "jobs/convert/test_job.py",
    "jobs/audit": "jobs/audit/test_job.py",
    "jobs/compact": "jobs/compact/test_job.py",
    "jobs/rewrite/copy": "kafka/test_rewritten.py",
    "jobs/rewrite/reading": "jobs/convert/test_job.py",
    "jobs/rewrite/run": "cli/test_several_directories.py",
    "jobs/export": "jobs/export/test_job.py",
    "jobs/load": "jobs/load/test_loader.py",
    "jobs/load/job": "spark/test_load.py",
    "jobs/merge": "jobs/merge/test_job.py",
    "jobs/pipeline": "jobs/pipeline/test_job.py",
    "api/pipeline": "cli/commands/test_pipeline.py",
    "views/jobs/export": "cli/commands/test_export.py",
    "views/jobs/pipeline": "cli/commands/test_pipeline.py",
    "jobs/recovered": "jobs/recovered/test_losses.py",
    "jobs/report": "jobs/report/test_page.py",
    "clusters/start": "clusters/start/test_job.py",
    "jobs/restore": "kafka/test_restored_live.py",
    "jobs/restore/disks": "jobs/restore/disks/test_job.py",
    "views/restore": "cli/commands/test_restore.py",
    "jobs/run": "jobs/run/test_job.py",
    "jobs/run/encoders": "jobs/load/test_loader.py",
    "jobs/trim": "jobs/trim/test_job.py",
    "jobs/verify": "jobs/verify/test_job.py",
    "log": "log/test_log_machine.py",
    "log/ranges": "log/test_seek.py",
    "tables/read_progress": "cli/test_progress.py",
    "log/segment_end": "log/test_segment.py",
    "log/checkpoint": "api/test_log.py",
    "log/commit": "log/commit/test_commit.py",
    "log/commit/node_files": "jobs/convert/test_job.py",
    "log/commit/partition_copy": "jobs/convert/test_job.py",
    "log/producer/transactions": "log/test_partition.py",
    "log/recovery": "log/recovery/test_plan.py",
    "log/storage": "log/storage/test_destination.py",
    "log/write": "log/write/test_log_writer.py",
    "log/write/records": "jobs/rebuild/test_group_positions.py",
    "tables/segment_summary": "api/test_log.py",
    "api": "api/test_log.py",
    "api/exporting": "jobs/export/test_tables.py",
    "spark": "spark/test_plan.py",
    "spark/row_order": "spark/test_sink.py",
    "spark/stream": "spark/stream/test_log_tracker.py",
    "tables": "api/test_log.py",
    "typed": "typed/test_decode.py",
    "typed/protobuf/kernels": "typed/protobuf/test_columns.py",
    "typed/protobuf/program": "typed/protobuf/test_columns.py",
    "typed/protobuf/values": "typed/protobuf/test_decoder.py",
    "typed/records": "cli/commands/test_schema.py",
    "typed/usage": "cli/commands/test_schema.py",
    "views": "cli/commands/test_ls.py",
    "views/audit": "cli/commands/test_audit.py",
    "views/headers": "cli/commands/test_batches.py",
    "views/internals/state": "cli/commands/test_internals.py",
    "views/jobs/merge": "cli/commands/test_merge.py",
    "views/restart": "cli/commands/test_restart.py",
    "views/schemas": "cli/commands/test_schema.py",
    "views/size": "cli/commands/test_size.py",
    "views/jobs/trim": "cli/commands/test_trim.py",
    "views/jobs/salvage": "cli/commands/test_salvage.py",
    "serving/answers/api_versions": "serving/test_connection.py",
    "serving/answers/authorization": "serving/test_differential.py",
    "serving/answers/configs": "serving/test_differential.py",
    "serving/answers/consumer_groups": "serving/test_clients.py",
    "serving/answers/descriptions": "serving/test_differential.py",
    "serving/answers/dispatch": "serving/test_differential.py",
    "serving/answers/fetch": "serving/test_differential.py",
    "serving/answers/group_members": "serving/test_differential.py",
    "serving/answers/group_offsets": "serving/test_differential.py",
    "serving/answers/leader_epochs": "serving/test_differential.py",
    "serving/answers/list_offsets": "serving/test_differential.py",
    "serving/answers/logins": "serving/test_login.py",
    "serving/answers/metadata": "serving/test_differential.py",
    "serving/answers/refusals": "serving/test_differential.py",
    "serving/context": "serving/test_server.py",
    "serving/tls": "serving/test_certificates.py",
    "serving/groups/errors": "serving/groups/test_classic.py",
}
"""Where modules without a file of their own are tested, or all such modules of a package."""

EXEMPT = ("__init__", "__main__")


def entry_of(module: str, table: dict[str, str]) -> str | None:
    """The longest entry that holds a module (``log/write/active_segment``)."""
    at = module
    while at:
        if at in table:
            return at
        at = at.rpartition("/")[0]
    return None


def load_imports(tests: Path, modules: dict[str, Module]) -> dict[str, set[str]]:
    """What each module and each test file imports."""
    helpers = {f"tests.{name}" if name else "tests": each for name, each in load_modules(tests).items()}
    names = {*modules, *helpers}
    found = {name: {imported.module for imported in each.imports} for name, each in modules.items()}
    for name, each in helpers.items():
        found[name] = {imported.module for imported in find_imports(each.nodes, name.rpartition(".")[0], names)}
        if name.startswith("tests.cli.commands.test_"):  # the command line imports a command by its name
            found[name].add(name.replace("tests.cli.commands.test_", "brokerless.cli.commands."))
    return found


def imported_by(test: str, imports: dict[str, set[str]]) -> set[str]:
    """All modules that a test file imports, also through other modules and through the tests' own."""
    found, queue = set[str](), ["tests." + test.removesuffix(".py").replace("/", ".")]
    while queue:
        name = queue.pop()
        if name not in found:
            found.add(name)
            queue += imports.get(name, ())
    return found


def find_violations(source: Path, tests: Path, table: dict[str, str]) -> list[str]:
    modules = {name: each for name, each in load_modules(source).items() if name.split(".")[0] == "brokerless"}
    used: dict[str, set[str]] = {}
    problems: list[str] = []
    for name, each in modules.items():
        path = each.path.relative_to(source / "brokerless").with_suffix("")
        own = tests / path.parent
        if path.name in EXEMPT:
            continue
        if any((own / f"test_{stem}.py").exists() for stem in (path.name, path.name.removesuffix("_kernels"))):
            continue
        entry = entry_of(path.as_posix(), table)
        if entry is None:
            problems.append(
                f"{each.path}:1: no tests/{path.parent}/test_{path.name}.py, and TESTED_IN has no other file"
            )
        else:
            used.setdefault(entry, set()).add(name)
    imports = load_imports(tests, modules)
    for entry, file in table.items():
        if entry not in used:
            problems.append(f"scripts/check_tests.py: no module needs the entry {entry!r}: remove it")
        elif not (tests / file).exists():
            problems.append(f"scripts/check_tests.py: {entry!r} is tested in tests/{file}, which does not exist")
        else:
            missing = sorted(used[entry] - imported_by(file, imports))
            problems += (f"scripts/check_tests.py: tests/{file} does not import {name}" for name in missing)
    return problems


def main() -> int:
    repository = Path(__file__).resolve().parent.parent
    problems = find_violations(repository / "src", repository / "tests", TESTED_IN)
    for problem in problems:
        print(problem.removeprefix(f"{repository}/"))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
