# Needs python3 (3.11 or newer) and, for Spark and the tests with a real Kafka, Java 17 or newer. All else goes into
# .venv and .cache, from locks/newest.txt; what only tests, checks and documents need is left out of locks/run.txt.

PYTHON ?= python3
UV_VERSION := 0.13.8
BIN := .venv/bin
SOURCES := src tests benchmarks demo scripts docs/conf.py
KERNELS := $(shell grep -rlE '^@kernel' src --include=*.py | sed 's|^src/||; s|/|.|g; s|\.py$$||')
WITH_OLDEST := tests/format tests/interchange tests/table_formats tests/tables tests/dataset tests/jobs/export tests/jobs/pipeline tests/views tests/api tests/jobs/report \
    tests/spark/stream/test_log_tracker.py $(addprefix tests/spark/test_, $(addsuffix .py, \
    source plan options golden export sink sink_options stream_sink load jobs s3))
# An environment may forbid Python to write byte code; without it, each start takes twice as long.
COMPILING := env -u PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo demo-data screenshot test quick examples recorded fuzz oldest bounds native wheel check-wheel bundle check-bundle release lint types format docs bench lock clean

help:  ## What can be made
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

install: $(BIN)/.installed  ## Build .venv from locks/newest.txt

# Before anything else is made, without the tools of tests.
demo: $(if $(wildcard $(BIN)/.installed),install,$(BIN)/.runnable)  ## List, verify and query a small log directory that real Kafka wrote
	@$(BIN)/python demo/demo.py

demo-data: install  ## Write demo/data again, with a real Kafka
	$(BIN)/python -m demo.make_data

screenshot: install  ## Write docs/images/report.png again: the report of demo/data in Chromium
	$(BIN)/python -m scripts.make_screenshot

# Three at a time, on two cores: those with Spark or Kafka wait for a third of their time.
test: install  ## All tests; some start a real Kafka. TESTS=tests/log runs a part
	$(COMPILING) $(BIN)/python -m pytest -n 3 $(TESTS)

quick: install  ## Tests in two minutes: no Spark, no Kafka, not the slowest
	$(COMPILING) $(BIN)/python -m pytest -n 2 --quick $(TESTS)

examples: install  ## Nightly: Hypothesis's tests with all their examples, of which other runs try a fourth
	$(COMPILING) $(BIN)/python -m pytest -n 2 --all-examples $(TESTS)

recorded: install  ## Nightly: brokers start also where it is recorded what they do (tests/kafka/recorded_starts.py)
	BROKERLESS_ASK_KAFKA=1 $(COMPILING) $(BIN)/python -m pytest -n 2 tests/internals/test_live.py tests/log/settings/test_definitions.py $(addprefix tests/kafka/test_, \
	    $(addsuffix .py, consumed_cases coordinators directory_restart gone_markers leader_epochs metadata_start restart versions))

fuzz: install  ## Look for new faults with random examples: MINUTES=10 (the default) of rounds; TESTS=tests/log runs a part
	$(COMPILING) $(BIN)/python -m tests.fuzz $(or $(MINUTES),10) $(TESTS)

# Wheels, and the library in them, are built with the newest versions.
oldest: .cache/oldest/.installed  ## Tests of what libraries do for us, with the oldest versions of them that we take
	$(COMPILING) NUMBA_CACHE_DIR=$(CURDIR)/.cache/oldest/kernels .cache/oldest/bin/python -m pytest -n 2 $(or $(TESTS),$(WITH_OLDEST) \
	    --ignore tests/format/test_kernel_library.py)

# What compiled code does outside its arrays shows nowhere else. The tests are those whose arrays end where the data ends.
BOUNDS := BROKERLESS_CHECK_BOUNDS=1 NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(CURDIR)/.cache/checked-kernels
bounds: install  ## All kernels with every access checked: golden files, 10,000 damaged ones, their tests. SEED=2 tries others
	rm -rf .cache/checked-kernels
	$(BOUNDS) $(BIN)/python -m tests.bounds 10000 $(or $(SEED),1)
	$(BOUNDS) $(BIN)/python -m pytest -n 2 tests/format tests/views tests/log/test_segment.py tests/tables/test_partitioner.py \
	    tests/log/write/test_segment_roll_kernels.py tests/interchange/test_jsonl_reader.py tests/test_mutations.py \
	    tests/typed/avro tests/typed/json

# What is made of kernels, in a directory of their own; again when a source has changed.
KERNEL_TESTS := tests.format.varint_kernels tests.format.crc.test_kernels
.cache/native/%/kernels.json: $(shell find src -name '*.py') scripts/build_kernels.py tests/format/varint_kernels.py | install
	env -u BROKERLESS_KERNELS $(BIN)/python scripts/build_kernels.py $(@D) $(ARGUMENTS_OF_$*)
ARGUMENTS_OF_plain := $(addprefix --and , $(KERNEL_TESTS))
ARGUMENTS_OF_checked := --check-bounds $(ARGUMENTS_OF_plain)

WITH_NATIVE := tests/format tests/interchange tests/tables/test_partitioner.py tests/log/test_segment.py \
    tests/log/write/test_segment_roll_kernels.py tests/typed/avro tests/typed/json tests/jobs/compact/test_key_offsets.py \
    tests/jobs/prove/test_search.py tests/jobs/erase/test_key_set.py tests/test_mutations.py
native: .cache/native/plain/kernels.json .cache/native/checked/kernels.json  ## The kernels' tests with those of a library, as wheels have it
	BROKERLESS_KERNELS=$(CURDIR)/.cache/native/plain $(BIN)/python -m pytest -n 2 $(or $(TESTS),$(WITH_NATIVE) \
	    --ignore tests/format/test_compiler.py --ignore tests/format/test_kernel_library.py)
	BROKERLESS_KERNELS=$(CURDIR)/.cache/native/checked BROKERLESS_CHECK_BOUNDS=1 $(BIN)/python -m tests.bounds 1000 $(or $(SEED),1)

wheel: .cache/uv  ## A wheel for this system, in dist/: it has compiled kernels and needs no Numba
	"$$(cat .cache/uv)" build --quiet --wheel --no-create-gitignore --build-constraint locks/newest.txt --out-dir dist

check-wheel: wheel  ## The wheel, installed into an environment of its own, used and uninstalled
	$(BIN)/python scripts/check_wheel.py "$$(cat .cache/uv)" dist/*.whl

bundle: wheel  ## One file for a host without anything, in dist/: all but Spark, with Python and the C library
	$(BIN)/python scripts/build_bundle.py "$$(cat .cache/uv)" dist/*.whl .cache/bundle dist

# Another root directory, such as debootstrap makes, is tried beside an empty one: ROOTS=/srv/bookworm
check-bundle: bundle  ## That file, used in an empty root directory: read-only, no network, no user, 256 MiB of memory
	$(BIN)/python scripts/check_bundle.py dist/brokerless-*-linux-$$(uname -m) $(ROOTS)

release:  ## All files of a release, in dist/VERSION: VERSION=1.2.0, KEY= signs them, URL= is where they will be
	@test -n "$(VERSION)" || { echo "which one? make release VERSION=1.2.0" >&2; exit 2; }
	$(PYTHON) scripts/make_release.py --check "$(VERSION)"
	$(MAKE) wheel $(if $(filter Linux,$(shell uname)),bundle)
	$(BIN)/python scripts/make_release.py "$(VERSION)" --uv "$$(cat .cache/uv)" --key "$(KEY)" --url "$(URL)"

lint: install  ## Style, the order and sizes of the rooms, words, and that all modules say what they do
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/python scripts/list_modules.py > /dev/null
	$(BIN)/python scripts/update_findings.py --check
	$(BIN)/python scripts/check_rooms.py
	$(BIN)/python scripts/check_tests.py
	$(BIN)/python scripts/check_words.py
	$(BIN)/python scripts/check_subjects.py
	$(BIN)/python scripts/collect_changes.py --check

types: install  ## Types, strictly
	$(BIN)/pyright

format: install  ## Put the style right where ruff can, and write docs/findings.md
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/python scripts/update_findings.py

docs: install  ## The documentation as a site, in .cache/docs/html; a broken link or reference fails
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -d .cache/docs/trees docs .cache/docs/html

bench: install  ## Speed beside Kafka's Java reader, aiokafka and spark-sql-kafka. ONLY=deep-read runs a part
	@$(BIN)/python -m benchmarks $(if $(ONLY),--only $(ONLY)) $(ARGS)

# Only names, versions and hashes: the locks say nothing of where a package is downloaded from.
LOCK := pip compile pyproject.toml --upgrade --universal --python-version 3.11 \
    --extra all --generate-hashes --no-header --no-annotate --quiet
lock: .cache/uv  ## Newest versions that pyproject.toml allows, into locks/newest.txt; and the oldest
	"$$(cat .cache/uv)" $(LOCK) --group dev -o locks/newest.txt
	"$$(cat .cache/uv)" $(LOCK) --constraint locks/newest.txt -o locks/run.txt
	"$$(cat .cache/uv)" $(LOCK) --group test --resolution lowest-direct -o locks/oldest.txt

$(BIN)/.installed: LOCKED := locks/newest.txt
$(BIN)/.installed: locks/newest.txt
$(BIN)/.runnable: LOCKED := locks/run.txt
$(BIN)/.runnable: locks/run.txt
$(BIN)/.installed $(BIN)/.runnable: pyproject.toml | .cache/uv
	@uv="$$(cat .cache/uv)" && export UV_COMPILE_BYTECODE_TIMEOUT=0 && set -x && \
	"$$uv" venv --quiet --allow-existing --no-python-downloads --python "$$(command -v $(PYTHON))" .venv && \
	"$$uv" pip sync --quiet --python $(BIN)/python --compile-bytecode --require-hashes $(LOCKED) && \
	"$$uv" pip install --quiet --python $(BIN)/python --no-deps --editable .
	@$(COMPILING) $(BIN)/python -m compileall -q src
	@echo "compiling kernels for this machine, once" && $(BIN)/python -c "from brokerless.format.compiler import load_all; load_all('$(KERNELS)'.split())"
	@touch $@

.cache/oldest/.installed: locks/oldest.txt | .cache/uv
	@uv="$$(cat .cache/uv)" && set -x && \
	"$$uv" venv --quiet --clear --no-python-downloads --python "$$(command -v $(PYTHON))" .cache/oldest && \
	"$$uv" pip sync --quiet --python .cache/oldest/bin/python --require-hashes locks/oldest.txt && \
	"$$uv" pip install --quiet --python .cache/oldest/bin/python --no-deps --editable .
	@touch $@

# Which uv: the one that is installed, or our own.
.cache/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"brokerless needs Python 3.11 or newer; $(PYTHON) is {sys.version}")'
	@mkdir -p .cache
	@if uv --version > /dev/null 2>&1; then echo uv > $@.tmp; else \
	    $(PYTHON) -m venv .cache/uv-$(UV_VERSION) && \
	    .cache/uv-$(UV_VERSION)/bin/python -m pip install --quiet uv==$(UV_VERSION) && \
	    echo ".cache/uv-$(UV_VERSION)/bin/uv" > $@.tmp; \
	fi
	@mv $@.tmp $@

clean:  ## Remove .venv and .cache
	rm -rf .venv .cache .pytest_cache .ruff_cache .hypothesis
