# Two commands do everything, their own set-up included:
#   make demo    runs the digits model on every platform usable here and writes digits.png
#   make test    lint, types, import contracts, tests
# and one measures:
#   make bench   what rung costs, beside its peers, into docs/benchmarks.md (some minutes)
# PYTHON picks the interpreter the virtual environment is made with.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
READY_TO_BENCH := $(VENV)/.ready-to-bench
PIP := $(BIN)/python -m pip
QUIET := --quiet --disable-pip-version-check -c constraints.txt
LANGUAGE_SERVER := 2.0.0

.PHONY: demo test lint types contracts unit bench generated train clean

demo: $(READY)
	$(BIN)/python examples/digits/demo.py

test: lint types contracts unit

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

contracts: $(READY)
	$(BIN)/lint-imports

unit: $(READY)
	$(BIN)/rung check --strict
	$(BIN)/pytest -n auto

bench: $(READY_TO_BENCH)
	$(BIN)/python -m benchmarks

# Rewrites the files that are generated and committed; tests fail when one is stale.
generated: $(READY)
	$(BIN)/rung schema
	$(BIN)/rung compile
	$(BIN)/rung rule --all --output docs/rules.md

# Trains the example's weights anew (a few minutes).
train: $(READY)
	$(BIN)/python examples/digits/train.py

# Installing goes through constraints.txt, so that every machine gets the same versions (and the CPU build of torch
# where the index offers one under that version). The tests also need the language server of editors, which Node from
# PyPI installs and runs (trusting what this system trusts, as pip does), and wheels of what rung itself depends on, so
# that installing rung needs no network.
$(READY): pyproject.toml constraints.txt Makefile
	$(PYTHON) -m venv $(VENV)
	$(PIP) install $(QUIET) hatchling editables
	$(PIP) install $(QUIET) --no-build-isolation -e '.[torch,triton,digits,dev]'
	PATH="$(CURDIR)/$(BIN):$$PATH" NODE_USE_SYSTEM_CA=1 npm install --prefix $(VENV)/language-server --no-save \
		--no-package-lock --ignore-scripts --no-audit --no-fund --loglevel=error yaml-language-server@$(LANGUAGE_SERVER)
	rm -rf $(VENV)/wheelhouse
	$(PIP) wheel $(QUIET) --no-build-isolation --wheel-dir $(VENV)/wheelhouse . hatchling
	rm $(VENV)/wheelhouse/rung-*.whl
	touch $(READY)

# Nothing but the benchmarks needs the peers that rung is compared with.
$(READY_TO_BENCH): $(READY)
	$(PIP) install $(QUIET) --no-build-isolation -e '.[torch,triton,digits,dev,bench]'
	touch $(READY_TO_BENCH)

clean:
	rm -rf $(VENV) digits.png
