# `make demo` and `make test` each do everything on a fresh machine that has Python 3.11+ and make.
PYTHON ?= python3
BIN := .venv/bin
HOLDFAST_DATA ?= ../shared/data
PYTEST := $(BIN)/python -m pytest
PARALLEL := -n logical --maxprocesses 4 --dist worksteal
export HOLDFAST_DATA

.PHONY: help setup demo test lint types imports tests tests-in-process tests-on-spark test-bounds test-long test-data test-tools test-connectors mutants bench docs examples schema reference picture wheel lock clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup:  ## create .venv, install the locked packages, find Java, compile the kernels
	@$(PYTHON) scripts/setup.py

demo: setup  ## set up, then show the main job on generated data
	@$(BIN)/holdfast demo

test: setup lint types imports tests  ## set up, then lint, types, import contract, doctests and tests

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types:
	$(BIN)/mypy

imports:
	$(BIN)/lint-imports

tests:  # two runs side by side: tests on Spark share one session, and so one process
	@$(MAKE) --no-print-directory -j2 --output-sync=target tests-in-process tests-on-spark

tests-in-process:
	$(PYTEST) $(PARALLEL) -m "not spark and not long and not tools and not connectors"

tests-on-spark:
	$(PYTEST) -m "spark and not long and not tools and not connectors" tests

test-bounds: setup  ## tests of the kernels with every array index checked
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=.bounds-numba-cache $(PYTEST) -k "not data" \
		$(addprefix tests/,test_kernels.py test_kernels_values.py test_indexes.py test_agree.py test_hitting_sets.py test_encode.py test_inclusion.py)

test-long: test-bounds  ## 10,000-case laws, kills, clusters, browser
	HOLDFAST_CASES=10000 $(PYTEST) -m "not tools and not connectors" --ignore tests/test_landing.py --ignore tests/test_masks.py
	HOLDFAST_CASES=1000 $(PYTEST) tests/test_landing.py
	HOLDFAST_CASES=12 $(PYTEST) tests/test_masks.py
	HOLDFAST_SPARK=connect $(PYTEST) -m "spark and not long" tests
	$(BIN)/python -m tests.kills --kills 100
	$(BIN)/python -m tests.kills --kills 100 --spark
	$(BIN)/python -m tests.spark_kills --kills 100
	$(BIN)/python -m tests.cluster --kills 100
	$(BIN)/python -m tests.lone_worker
	$(BIN)/python -m tests.mutants

test-data: setup  ## tests on the real tables under HOLDFAST_DATA; fails when they are absent
	HOLDFAST_DATA_REQUIRED=1 $(PYTEST) -m "data and not tools"

test-tools: setup  ## other tools in their own environments under .tools/
	$(PYTEST) -m tools

test-connectors: setup  ## Kafka, Delta, PostgreSQL and S3 for real; needs Maven Central and PostgreSQL
	$(PYTHON) scripts/connectors.py

mutants: setup  ## every listed mutation of the code is killed by a test
	$(BIN)/python -m tests.mutants

bench: setup  ## every benchmark, one after the other
	$(BIN)/python -m benchmarks

schema: setup  ## rewrite the published JSON Schemas under docs/schema
	$(BIN)/python -c "import json; from holdfast.rules.rulefile import json_schema; print(json.dumps(json_schema(), indent=2))" \
		> docs/schema/rules.schema.json
	$(BIN)/python -c "import json; from holdfast.pipeline.config import json_schema; print(json.dumps(json_schema(), indent=2))" \
		> docs/schema/pipeline.schema.json

docs:  ## build the documentation site into site/, with tools of its own under .tools/docs
	$(PYTHON) scripts/docs.py

examples: setup  ## run the notebooks under examples/ and write their outputs into them
	$(BIN)/python scripts/examples.py

picture: setup  ## make the picture of the tutorial; needs Chromium
	$(BIN)/python scripts/picture.py

reference: setup  ## rewrite docs/reference.md from the program's own help, and the outputs in docs/index.md and docs/tutorial.md
	$(BIN)/python scripts/reference.py > docs/reference.md
	$(BIN)/python scripts/transcripts.py

wheel:  ## build the wheel and the source archive into dist/, then try the wheel in an environment of its own
	$(PYTHON) scripts/wheel.py

lock:  ## rewrite requirements.lock and requirements-docs.lock (needs uv)
	scripts/lock.sh

clean:  ## remove what set-up and tests made
	rm -rf .venv .tools .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks build dist site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
