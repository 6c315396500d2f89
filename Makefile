# Every target makes the environment it needs; Python 3.11 or newer is all that has to be there.
# `make help` lists the targets. PYTHON=... names the interpreter, VENV=... an environment of your own.

VENV ?= .venv
PYTHON ?=
RUN := $(VENV)/bin/python
PYTEST := $(RUN) -m pytest
PLAIN := -q -m "not soak and not distributed and not browser"
PARALLEL := -n auto --dist loadfile
ARGS ?=
ROUNDS ?= 200
# What the tests' processes sent and what the stand-in accepted, for test-grammar.
STATEMENTS := $(CURDIR)/.statements
COLLECTING := mkdir -p "$(STATEMENTS)" && MSSQL_CDC_TEST_STATEMENTS="$(STATEMENTS)"
GRAMMAR_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help environment demo test lint types test-unit test-properties test-contract test-scenarios \
	test-dags browser pictures test-grammar fresh-statements test-oldest soak mutants scenarios distributed bench load ui docs dist clean

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

environment: $(VENV)/.made ## what the others run in: the package, its extras, the tools

$(VENV)/.made: pyproject.toml .ci/environment .ci/system_libraries.py
	PYTHON="$(PYTHON)" .ci/environment $(VENV)
	@touch $@

demo: $(VENV)/.made ## load a real table from the embedded server into Delta Lake, and show it
	$(RUN) -m demo $(ARGS)

test: GRAMMAR_ARGS := --collected
test: lint types fresh-statements test-unit test-properties test-contract test-scenarios test-dags test-grammar ## everything CI runs

lint: $(VENV)/.made ## ruff
	$(RUN) -m ruff check .

types: $(VENV)/.made ## mypy, strict
	$(RUN) -m mypy

test-unit: $(VENV)/.made ## one layer at a time
	$(COLLECTING) $(PYTEST) $(PLAIN) $(PARALLEL) tests/unit tests/embedded $(ARGS)

test-properties: $(VENV)/.made ## statements about all values, tried on many
	$(COLLECTING) $(PYTEST) $(PLAIN) $(PARALLEL) tests/properties $(ARGS)

test-contract: $(VENV)/.made ## what is asked of the server; MSSQL_CDC_TEST_CONN adds another server
	$(COLLECTING) $(PYTEST) $(PLAIN) tests/contract $(ARGS)

test-scenarios: $(VENV)/.made ## faults on a running Airflow: a chosen part of them
	$(COLLECTING) $(PYTEST) $(PLAIN) $(PARALLEL) tests/scenarios $(ARGS)

scenarios: $(VENV)/.made ## all of them; Airflow on PostgreSQL where it is installed
	MSSQL_CDC_AIRFLOW_DB=$${MSSQL_CDC_AIRFLOW_DB:-auto} $(PYTEST) -q -m "not distributed" -o faulthandler_timeout=0 \
		tests/scenarios $(ARGS)
	$(MAKE) --no-print-directory distributed ARGS=

distributed: .venv-distributed/.made ## a database of 40 tables by Celery workers that share no disk; needs PostgreSQL
	MSSQL_CDC_AIRFLOW_DB=postgres .venv-distributed/bin/python -m pytest -q -m distributed -o faulthandler_timeout=0 \
		tests/scenarios/distributed $(ARGS)

.venv-distributed/.made: pyproject.toml .ci/environment .ci/system_libraries.py
	PYTHON="$(PYTHON)" .ci/environment .venv-distributed --distributed
	@touch $@

browser: $(VENV)/.made $(VENV)/.browser .axe/axe.min.js ## the page in Chromium (Debian's package chromium), in a running Airflow
	AXE="$(CURDIR)/.axe" $(PYTEST) -q -m browser -o faulthandler_timeout=0 tests/browser $(ARGS)

pictures: ## the pictures of the page in the documentation, made again
	MSSQL_CDC_PICTURES="$(CURDIR)/docs/pictures" $(MAKE) --no-print-directory browser

$(VENV)/.browser: pyproject.toml $(VENV)/.made
	$(VENV)/bin/uv pip install --quiet --python $(RUN) --group browser
	@touch $@

# For the test alone; it is not part of the package and not committed.
.axe/axe.min.js:
	mkdir -p .axe
	cd .axe && npm pack --silent axe-core@4.14.1 && tar -xzf axe-core-4.14.1.tgz --strip-components=1 package/axe.min.js

test-dags: $(VENV)/.made ## the example DAGs, run by Airflow
	$(COLLECTING) $(PYTEST) $(PLAIN) $(PARALLEL) tests/dags $(ARGS)

test-grammar: $(VENV)/.made .venv-grammar/.made ## what was sent and accepted, parsed by Microsoft's T-SQL grammar
	MSSQL_CDC_TEST_STATEMENTS="$(STATEMENTS)" $(RUN) -m tests.grammar.check --parser .venv-grammar/bin/python $(GRAMMAR_ARGS)

fresh-statements:
	rm -rf "$(STATEMENTS)"

.venv-grammar/.made: .ci/grammar
	PYTHON="$(PYTHON)" .ci/grammar .venv-grammar
	@touch $@

test-oldest: .venv-oldest/.made ## unit tests and one DAG on the oldest versions that pyproject.toml allows
	.venv-oldest/bin/python -m pytest -q tests/unit tests/embedded $(ARGS)
	.venv-oldest/bin/python -m pytest -q tests/dags/test_whole_snapshot.py $(ARGS) \
		-k "one_commit_and_one_facts_row or second_run or dropped_connection"

.venv-oldest/.made: pyproject.toml .ci/environment .ci/oldest.txt .ci/system_libraries.py
	PYTHON="$(PYTHON)" .ci/environment .venv-oldest --oldest
	@touch $@

soak: $(VENV)/.made ## the random rounds, for minutes
	MSSQL_CDC_ROUNDS=$(ROUNDS) MSSQL_CDC_EXAMPLES=$(ROUNDS) $(PYTEST) -q -o faulthandler_timeout=0 \
		tests/properties tests/unit/lake/test_waves.py tests/unit/lake/silver/test_wide_rows.py $(ARGS)

mutants: $(VENV)/.made ## take each guard out, and see its test turn red
	$(RUN) -m tests.mutants.run $(ARGS)

bench: $(VENV)/.made ## rows/s, CPU and memory, side by side with the bare driver
	$(RUN) -m benchmarks $(ARGS)

load: $(VENV)/.made ## 50 tables in 1,000 mapped tasks under a running Airflow (ARGS='--tables 5 --ranges 8' is short)
	$(RUN) -m benchmarks.load $(ARGS)

ui: $(VENV)/.made ## the example DAGs in Airflow's own UI, on 127.0.0.1:8080 (ARGS='--port N')
	$(RUN) -m demo.ui $(ARGS)

docs: .venv-docs/.made ## the documentation as a site in docs/_build; every warning is an error
	.venv-docs/bin/python -m sphinx -q -W --keep-going -E -b html docs docs/_build

.venv-docs/.made: pyproject.toml
	$(or $(PYTHON),python3) -m venv .venv-docs
	.venv-docs/bin/pip install --quiet --disable-pip-version-check 'uv>=0.5'
	.venv-docs/bin/uv pip install --quiet --python .venv-docs/bin/python --group docs --editable .
	@touch $@

dist: ## the wheel and the sdist, checked and tried as a user gets them
	PYTHON="$(PYTHON)" .ci/distribution dist

clean: ## environments, caches and what the demo left
	rm -rf .axe .venv .venv-docs .venv-oldest .venv-grammar .venv-distributed .statements .mypy_cache .ruff_cache .pytest_cache .hypothesis .demo .bench .ui build dist docs/_build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
