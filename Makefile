# Everything a newcomer or CI runs. `make` prints this help.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.needlefish-installed

.DEFAULT_GOAL := help
.PHONY: help setup demo check format test long spark schedules bench soak docs clean

help: ## print this help
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## make the virtual environment and install everything, pinned

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "needlefish needs Python 3.11 or later: set PYTHON=/path/to/python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: setup ## build a table with Spark, read it back, look at what it cost
	$(BIN)/needlefish demo

check: setup ## ruff, mypy, the rooms' layers, spec against code
	$(BIN)/ruff check src tests tools benchmarks examples
	$(BIN)/ruff format --check src tests tools benchmarks examples
	$(BIN)/mypy
	$(BIN)/python tools/layers.py
	$(BIN)/python -m pytest -q tests/spec tests/tools

format: setup ## let ruff write the code's shape
	$(BIN)/ruff check --fix src tests tools benchmarks examples
	$(BIN)/ruff format src tests tools benchmarks examples

test: setup ## all tests, with a real Spark and a real S3 protocol
	$(BIN)/python -m pytest -q -n 2 --dist loadfile

long: setup ## all tests, those too that take minutes
	NEEDLEFISH_LONG=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile

spark: setup ## all of Spark: local, a cluster of two workers, Spark Connect, executors that die
	SUITE=all NEEDLEFISH_LONG=1 $(BIN)/python -m pytest -q tests/spark tests/interop tests/cluster

bench: setup ## measure, beside the peers, in one run; results go to benchmarks/results
	$(BIN)/python -m benchmarks

schedules: setup ## two workers in every order of their store calls with up to three changes of the floor; tests run a part
	NEEDLEFISH_LONG=1 NEEDLEFISH_ALL_SCHEDULES=1 $(BIN)/python -m pytest -q -s tests/services/test_schedules_services.py tests/services/test_schedules_upserts.py tests/services/test_clean_schedules.py

soak: setup ## writers, services and finders on one table for minutes, on disk and on an S3 that fails; every answer checked
	$(BIN)/python -m benchmarks.soak --on local
	$(BIN)/python -m benchmarks.soak --on s3

docs: setup ## check that every link between the documents leads somewhere
	$(BIN)/python tools/links.py

clean: ## remove what make made
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
