# Two commands do everything, their own set-up included:
#   make demo    runs the digits model on every platform usable here and writes digits.png
#   make test    lint, types, import contracts, tests
# PYTHON picks the interpreter the virtual environment is made with.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test lint types contracts unit schemas train clean

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
	$(BIN)/pytest

# Rewrites the generated JSON Schemas; a test fails when they are stale.
schemas: $(READY)
	$(BIN)/python tests/write_schemas.py

# Trains the example's weights anew (a few minutes).
train: $(READY)
	$(BIN)/python examples/digits/train.py

# Installing goes through constraints.txt, so that every machine gets the same versions (and the CPU build of torch
# where the index offers one under that version).
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) hatchling editables
	$(PIP) --no-build-isolation -e '.[torch,digits,dev]'
	touch $(READY)

clean:
	rm -rf $(VENV) digits.png
