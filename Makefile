# Everything runs in .venv; a target makes it first where it is missing or out of date. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

PYTHON ?= python3
VENV := .venv
OLDEST := .venv-oldest
S3 := .venv-s3
STORES := .venv-stores
DUCKDB := .venv-duckdb
LIVE_JARS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/cdcwb/live-jars
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
CHECK := $(BIN)/ruff check --no-cache && $(BIN)/ruff format --check && $(BIN)/mypy
# Tests with Spark run in two processes, a file in one of them, each with a JVM of its own. Those with reports come
# first and run in the same one (tests/conftest.py): they take longest, and share a process for their reports.
IN_TWO := --numprocesses 2 --dist loadfile
# What functions of Arrow do wherever Spark calls them, and what compiles.
ON_OLDEST := assembly assembly_columns delivered kernels
SPARK_TESTS := SPARK_DRIVER_MEMORY=$(or $(SPARK_DRIVER_MEMORY),3g)

.PHONY: help env report test face smoke test-full test-oldest test-live test-cluster lint lab bench bench-live bench-remote \
  bench-scale bench-questions bench-alternatives clean java browser live s3 stores

help: ## print this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

env: $(VENV)/.ready ## make the Python environment in .venv

report: env java ## run every notebook over every capture in data/ and write reports/, with an index page
	@$(BIN)/python -m cdcwb.report

# What is checked of the code keeps one core busy; meanwhile the kernels are compiled once for all processes. Minutes are
# those of two quiet cores.
test: env java browser s3 stores ## check the code, then run every test at its normal size
	@echo "1 of 4: the checks of the code, while the decoders' loops are compiled; 1 minute …"
	@$(BIN)/python -m cdcwb.cli.kernels & $(CHECK) && wait $$!
	@echo "2 of 4: tests without Spark; 7 minutes …"
	$(PYTEST) --numprocesses logical --maxprocesses 4 --dist worksteal -m "not spark" tests/unit tests/hostile tests/answers tests/face
	@echo "3 of 4: reports in a browser, notebooks and Spark; 11 minutes …"
	$(SPARK_TESTS) $(PYTEST) $(IN_TWO) --no-loadscope-reorder tests/browser tests/notebooks tests/spark
	@echo "4 of 4: what users see, asked of Spark; 3 minutes …"
	$(SPARK_TESTS) $(PYTEST) $(IN_TWO) -m spark tests/hostile tests/answers tests/face

face: env java ## write what users see now to tests/face/expected; ONLY="gbase8s gbase8s-reports" writes these alone
	@$(BIN)/python -m tests.face $(ONLY)

# The last step asks all questions about 100 million changes, which takes hours and 50 GB of disk.
test-full: env java browser s3 stores ## run the tests that are left out above for their time or size; takes long
	$(SPARK_TESTS) $(PYTEST) $(IN_TWO) --no-loadscope-reorder --slow -m slow
	$(PYTEST) --full -m full
	$(MAKE) test-oldest test-cluster
	$(MAKE) test-live ONLY="--full"
	$(MAKE) bench-questions ARGS="--sizes 1,4,16,500 --check"

# Marked are tests of what asks Spark most: loading, questions, replay, export. Readers say the same on both.
test-oldest: $(OLDEST)/.ready ## run the tests that tell most of Spark on the oldest supported PySpark
	@scripts/ensure.sh $(OLDEST)/bin/python java
	$(SPARK_TESTS) $(OLDEST)/bin/python -m pytest $(IN_TWO) -m "oldest or not spark" tests/spark \
		$(ON_OLDEST:%=tests/unit/test_%.py)

LIVE_TESTS := CDCWB_LIVE_JARS=$(LIVE_JARS) $(SPARK_TESTS) $(OLDEST)/bin/python -m pytest $(IN_TWO)

# What tests/smoke.txt lists. Those of tests/live have a session of their own, with connectors.
smoke: env live ## run a few of the tests on the oldest PySpark, against a broker and a database, and on a cluster
	@echo "the oldest PySpark; 1 minute …"
	$(LIVE_TESTS) -m smoke tests/spark
	@echo "a broker and a database; 1 minute …"
	$(LIVE_TESTS) -m smoke tests/live
	@echo "a cluster and Spark Connect; 2 minutes …"
	$(PYTEST) --cluster -m smoke tests/cluster

# On the oldest PySpark, whose Kafka connector resolves wherever its jars do.
test-live: live ## run the tests against a Kafka broker and database servers, which they start
	$(LIVE_TESTS) $(ONLY) tests/live

test-cluster: env java ## run the tests on a standalone cluster and a Spark Connect server, which they start
	$(PYTEST) --cluster tests/cluster

lint: env ## check style, formatting and types
	$(CHECK)

# The first notebook is the welcome page; without it, the file browser shows all of them.
lab: env java ## open JupyterLab with the notebooks at hand
	$(BIN)/jupyter lab --ServerApp.root_dir=. --LabApp.default_url=/lab/tree/$(firstword $(wildcard notebooks/00_*.ipynb) notebooks)

# RATE is in messages a second.
bench: env java ## measure the speed of the decoders and of the whole way
	$(BIN)/python -m benchmarks

# Spark's Avro package, like its Kafka connector, resolves for the oldest PySpark wherever its jars do.
bench-live: $(OLDEST)/.ready ## measure the reading of topics beside Spark's from_avro and from_json
	@scripts/ensure.sh $(OLDEST)/bin/python java
	@scripts/live_jars.sh $(LIVE_JARS)
	CDCWB_LIVE_JARS=$(LIVE_JARS) $(OLDEST)/bin/python -m benchmarks.live

bench-remote: env s3 ## measure what is transferred of captures in an object store
	$(BIN)/python -m benchmarks.remote

# What is generated is kept in benchmarks/.cache. ARGS are options, such as ARGS="--only gbase8s --sizes 1,4".
bench-scale: env java ## measure whether the cost per event stays the same up to 20 million events; takes an hour
	$(BIN)/python -m benchmarks.scale $(ARGS)

bench-questions: env java ## measure every question about 1, 4 and 16 times 200,000 changes with a driver of 4 GB
	$(BIN)/python -m benchmarks.questions $(ARGS)

# On the oldest PySpark, like bench-live. DuckDB is in a folder of its own, because cdcwb does not need it.
bench-alternatives: $(OLDEST)/.ready $(DUCKDB)/.ready ## measure cdcwb beside Spark, fastavro, pandas, DuckDB and awk
	@scripts/ensure.sh $(OLDEST)/bin/python java
	PYTHONPATH=$(DUCKDB) $(OLDEST)/bin/python -m benchmarks.alternatives

$(DUCKDB)/.ready: $(OLDEST)/.ready
	@$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --target $(DUCKDB) duckdb polars
	@touch $@

clean: ## remove reports and caches; the environments stay
	rm -rf reports build dist spark-warehouse .hypothesis .mypy_cache .pytest_cache .ruff_cache *.egg-info
	find cdcwb cdcwb_synth tests benchmarks -name __pycache__ -type d -exec rm -rf {} +

# What pip cannot install: found, installed where that needs no question, or asked for in one line.
java browser: env
	@scripts/ensure.sh $(BIN)/python $@

$(VENV)/.ready: pyproject.toml constraints.txt scripts/make_env.sh
	@PYTHON=$(PYTHON) scripts/make_env.sh $(VENV) dev constraints.txt

$(OLDEST)/.ready: pyproject.toml constraints.txt constraints-oldest.txt scripts/make_env.sh
	@PYTHON=$(PYTHON) scripts/make_env.sh $(OLDEST) test constraints.txt constraints-oldest.txt

# What the live tests start; the broker's jars come from Maven.
live: $(OLDEST)/.ready
	@scripts/ensure.sh $(OLDEST)/bin/python java
	@scripts/ensure.sh $(OLDEST)/bin/python databases
	@scripts/live_jars.sh $(LIVE_JARS)

s3: $(S3)/.ready

$(S3)/.ready: tests/s3_server.txt
	@$(PYTHON) -m venv $(S3)
	@$(S3)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

stores: $(STORES)/.ready

# Google's store comes from PyPI, Azure's from npm; without npm the tests of Azure's are left out.
$(STORES)/.ready: tests/store_servers.txt
	@$(PYTHON) -m venv $(STORES)
	@$(STORES)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@if command -v npm >/dev/null; then npm install --silent --no-audit --no-fund --prefix $(STORES) azurite@3.37.0; fi
	@touch $@
