# Everything a person or a machine does here: make demo, test, test-all, bench, clean.
PYTHON ?= python3
BIN := .venv/bin
# Tests start Python hundreds of times: each would compile all that it loads where this is set.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-all test-versions docs release bench experiments lint system audit clean help
.DEFAULT_GOAL := help

help:
	@echo "make demo      install into .venv and run a real study from annotations/"
	@echo "make test      the gate: ruff, mypy, import-linter, pytest"
	@echo "make test-all  the gate with the slow tests, and which lines no test reaches"
	@echo "make test-versions  a study and quick tests on each Python here, with lowest and newest dependencies"
	@echo "make docs      the site of the pages in docs/, below build/site"
	@echo "make release   build sdist and wheel, and try each in an empty environment; uploads nothing"
	@echo "make system    install the system packages that the tests use (Debian, Fedora)"
	@echo "make audit     look for known faults of the dependencies"
	@echo "make bench     every benchmark, with its peers"
	@echo "make experiments  the studies of the papers, whole: their tables and pictures"
	@echo "make mutants   change the code of a package in small ways, and see which tests notice"
	@echo "make clean     remove what the other targets made"

# The environment comes from the lock file alone; uv itself is the one thing that pip brings.
.venv/uv: .ci/uv.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "zenturio needs Python 3.11 or newer: make PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv || \
	  { rm -rf .venv; echo "Python's venv module is needed (Debian: apt install python3-venv)"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r .ci/uv.txt
	@touch $@

.venv/run: .venv/uv pyproject.toml uv.lock
	@$(BIN)/uv sync --quiet --frozen --inexact --no-dev --extra portal --extra schedule
	@touch $@

.venv/dev: .venv/uv pyproject.toml uv.lock
	@$(BIN)/uv sync --quiet --frozen --inexact --all-groups
	@touch $@ .venv/run

demo: .venv/run
	@$(BIN)/python annotations/demo.py

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# A part of the time of tests is waiting for servers, queues and leases: three workers more than cores.
WORKERS ?= 5

# Types and imports are checked while the tests run; what that says comes last. In a new environment,
# another process compiles the kernels: what needs them comes late (tests/conftest.py), so the tests
# begin without waiting for it.
define lint_and_test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@said=$$(mktemp); trap 'rm -f $$said' EXIT; trap 'exit 130' INT; \
	test -e .venv/compiled || { new=yes; $(BIN)/python .ci/caches.py take; }; \
	{ nice -n 10 $(BIN)/mypy && nice -n 10 $(BIN)/lint-imports --no-cache; } >$$said 2>&1 & lint=$$!; \
	test -z "$$new" || { nice -n 5 $(BIN)/zen warm >/dev/null 2>&1 & kernels=$$!; touch .venv/compiled; }; \
	$(BIN)/pytest -n $(WORKERS) --dist worksteal $(1); tests=$$?; \
	wait $$lint; lint=$$?; cat $$said; \
	test -z "$$new" || { wait $$kernels; $(BIN)/python .ci/caches.py keep; }; \
	exit $$((tests || lint))
endef

test: .venv/dev
	$(call lint_and_test,-m "not slow")

test-all: export ZENTURIO_TEST_SHOTS = 1
test-all: .venv/dev
	$(call lint_and_test,--hypothesis-profile=whole --cov --cov-report=term:skip-covered)

# Each Python that is here, with its newest and with the lowest dependencies; needs pip alone.
test-versions:
	@$(PYTHON) .ci/versions.py

docs: .venv/dev
	$(BIN)/sphinx-build -W --keep-going -q -b html docs build/site
	@echo "the site: build/site/index.html"

release: .venv/dev
	@bash .ci/release.sh

bench: .venv/dev
	@failed=; for each in benchmarks/*.py; do \
	  echo "== $$each"; $(BIN)/python $$each || failed="$$failed $$each"; \
	done; test -z "$$failed" || { echo "failed:$$failed"; exit 1; }

experiments: .venv/dev
	$(BIN)/python experiments/claims.py

# The packages of the system that tests use; without them these tests are skipped.
system:
	@bash .ci/system

# Known faults of what the lock file names; wants PyPI's data, and says so where it cannot be had.
audit: .venv/dev
	@$(BIN)/uv export --quiet --frozen --all-groups --all-extras --no-emit-project -o .venv/locked.txt
	@$(BIN)/python .ci/audit.py $(BIN)/uv .venv/locked.txt

clean:
	rm -rf .venv .zenturio .mypy_cache .ruff_cache .pytest_cache .hypothesis htmlcov .coverage dist build demo-output test-output

# A seeded sample of mutants of one package: make mutants PACKAGE=record COUNT=100 SEED=1 MAP=/tmp/map.json
PACKAGE ?= record
COUNT ?= 60
SEED ?= 0
.PHONY: mutants
mutants: .venv/dev
	nice -n 10 $(BIN)/python .ci/mutants.py $(PACKAGE) --count $(COUNT) --seed $(SEED) \
	  $(if $(MAP),--map $(MAP)) $(if $(SELECT),--select "$(SELECT)")
