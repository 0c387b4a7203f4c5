# muster: `make demo` and `make test` are the two doors. Each sets up what it needs on a machine with Python 3.11,
# venv and make. `make help` lists the rest.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
UV     := uv==0.13.7
ARGS   ?=
TESTS  ?= tests --ignore tests/e2e
# Seeds of the deep run of the property tests.
EXAMPLES ?= 20000

# How long `make tenants` plays, and which world.
MINUTES ?= 2
SEED ?= 1

# What `make bench-versus` compares with.
BASE ?= HEAD

# How many seeds `make sim` plays, and the first of them.
SEEDS ?= 500
FIRST ?= 0

.DEFAULT_GOAL := help
.PHONY: help setup demo test check lint deep tenants mutants mutants-of-reasons e2e chromium control-plane pictures sim bench bench-live \
  bench-versus seams frozen fix lock crds clean

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'
	@echo
	@echo "  example: make demo ARGS=--once"

$(READY): requirements.lock pyproject.toml Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "muster needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Set PYTHON=python3.11." >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV) from requirements.lock ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check '$(UV)'
	@$(BIN)/uv pip sync --quiet --python $(BIN)/python requirements.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $(READY)

setup: $(READY) ## make .venv with muster in it
	@echo "ready: $(BIN)/muster --help"

demo: $(READY) ## a cluster in one process and a story on it, every claim checked (ARGS=--once ends after it)
	@$(BIN)/muster demo $(ARGS)

test: $(READY) ## all fast tests
	@$(BIN)/python -m pytest -n 2 $(TESTS) $(ARGS)
	@command -v go > /dev/null || \
	  echo "note: Go is not installed, so make e2e leaves out the tests on a real control plane; see docs/e2e.md"

lint: $(READY)
	@$(BIN)/ruff format --check --quiet . || { echo "not formatted: make fix" >&2; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@PYTHONPATH=src $(BIN)/lint-imports --no-cache

check: lint test ## what CI runs: format, lint, types, layers, tests

deep: $(READY) ## the property tests with many more examples (EXAMPLES=n)
	@MUSTER_TEST_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -n 2 tests/property $(ARGS)

e2e: $(READY) ## muster as a process, the page in Chromium (installed), and a real control plane (built once; needs Go)
	@test -z "$${MUSTER_TEST_PAGE-1}" || $(MAKE) --no-print-directory chromium
	@MUSTER_TEST_PAGE=$${MUSTER_TEST_PAGE-1} MUSTER_TEST_PLANE=$${MUSTER_TEST_PLANE-1} \
	  $(BIN)/python -m pytest -rs tests/e2e $(ARGS)

chromium: ## Debian's Chromium, for the tests of the page and the pictures; does nothing where there is one
	@command -v "$${MUSTER_TEST_CHROMIUM:-chromium}" > /dev/null && exit 0; \
	leave="or leave the tests of the page out: MUSTER_TEST_PAGE= make e2e"; \
	command -v apt-get > /dev/null || \
	  { echo "no Chromium: install it and say where it is with MUSTER_TEST_CHROMIUM=FILE, $$leave" >&2; exit 2; }; \
	test "$$(id -u)" = 0 || { echo "no Chromium: sudo apt-get install chromium, $$leave" >&2; exit 2; }; \
	echo "installing Chromium ..."; \
	{ apt-get update --quiet --quiet && \
	  DEBIAN_FRONTEND=noninteractive apt-get install --quiet --quiet --yes chromium > /dev/null && \
	  command -v chromium > /dev/null; } || \
	  { echo "Chromium can't be installed: see above, $$leave" >&2; exit 2; }

pictures: $(READY) chromium ## docs/pictures again: the page with the demo on it, in Chromium
	@PYTHONPATH=tests $(BIN)/python tests/e2e/page/pictures.py $(ARGS)

control-plane: $(READY) ## build etcd, Kubernetes and kubectl for the end-to-end tests (needs Go), and say where they are
	@$(BIN)/python tests/e2e/plane/build.py

sim: $(READY) ## search stories for broken promises, with faults, in virtual time (SEEDS=n, FIRST=k)
	@$(BIN)/muster simulate --seeds $(FIRST)..$$(($(FIRST) + $(SEEDS) - 1)) $(ARGS)

tenants: $(READY) ## rivals that share a cluster make every edit they may, in real time (MINUTES=n, SEED=k)
	@PYTHONPATH=tests $(BIN)/python -m tenants --minutes $(MINUTES) --seed $(SEED) $(ARGS)

mutants: $(READY) ## seeded bugs: does the suite notice each of them? (ARGS='lost-bind' for some)
	@PYTHONPATH=tests $(BIN)/python -m mutants $(ARGS)

mutants-of-reasons: $(READY) ## each cell of the table of reasons changed: does a test notice? (ARGS='over-quota' for some)
	@PYTHONPATH=tests $(BIN)/python -m mutants.rows $(ARGS)

bench: $(READY) ## the benchmark table
	@$(BIN)/python -m bench $(ARGS)

bench-versus: $(READY) ## this tree against an earlier commit, in turns (BASE=commit)
	@$(BIN)/python -m bench.versus $(BASE) $(ARGS)

seams: $(READY) ## measures of the structure: which files know what, cycles, flags, lines
	@PYTHONPATH=tests $(BIN)/python -m seams $(ARGS)

frozen: $(READY) ## compare plans, page documents and traces with what was recorded before the structure changed
	@PYTHONPATH=tests $(BIN)/python -m seams check $(ARGS)

bench-live: $(READY) ## muster and kube-scheduler on a real API server, side by side (needs Go; ARGS=--quick: a minute)
	@$(BIN)/python -m bench.live $(ARGS)

fix: $(READY) ## format, and mend what the linter can mend
	@$(BIN)/ruff check --quiet --fix . ; $(BIN)/ruff format --quiet .

crds: $(READY) ## write deploy/crds.yaml and the chart again from the structs
	@$(BIN)/muster crds > deploy/crds.yaml
	@$(BIN)/python deploy/chart.py

lock: ## write requirements.lock again: newest versions, no hosts
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check '$(UV)'
	@$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --extra dev --generate-hashes \
	  --no-header --no-emit-index-url --no-emit-find-links pyproject.toml -o requirements.lock

clean: ## remove what make made
	@rm -rf $(VENV) dist .hypothesis .mypy_cache .ruff_cache .import_linter_cache
