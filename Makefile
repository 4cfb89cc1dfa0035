# Everything a developer needs: `make serve` and `make test` set themselves up in .venv on first use.

PYTHON ?= python3
BIN := .venv/bin
RUNS := .venv/.runs
READY := .venv/.ready
BUILT := .venv/.built

# What the compiled twins are made of.
NATIVE := setup.py $(shell find amemdb -name '*.pyx' -o -name '*.pxd' -o -name '*.pxi')
SAY_WHY = $(BIN)/python -c 'import sys; from amemdb import native; native.ENABLED or sys.exit(f"$(1): {native.MISSING}")'

.PHONY: help serve test lint format generate soak bench demo docs clean

help:
	@echo 'make serve      run the server        (ARGS="--port 7000" for more options)'
	@echo 'make test       run the tests         (ARGS="tests/stores -k expiry" for some of them)'
	@echo 'make lint       ruff and mypy'
	@echo 'make format     ruff format and the fixes ruff is sure of'
	@echo 'make generate   write the generated files again after a change of a declaration or setting'
	@echo 'make soak       the long tests        (SOAK_SECONDS=600 SOAK_SEQUENCES=10000)'
	@echo 'make bench      measure against Redis (ARGS="--only set,get --rounds 3"; ARGS=--help)'
	@echo 'make demo       watch a conversation on a server of its own'
	@echo 'make docs       make the site of the documentation in build/site'
	@echo 'make clean      remove .venv and what tools left'

serve: $(BUILT)
	@exec $(BIN)/amemdb serve $(ARGS)

PYTEST := $(BIN)/pytest -n auto --dist worksteal

# Twice: on native code, and what has to do with it once more on the plain-Python reference.
test: $(READY) $(BUILT)
	$(PYTEST) $(ARGS)
	@if $(call SAY_WHY,tested on the plain-Python reference only); then \
	  echo 'and once more on the plain-Python reference'; \
	  AMEMDB_NATIVE=0 $(PYTEST) --reference $(ARGS) || [ $$? -eq 5 ]; \
	fi  # 5: of what ARGS names nothing has to do with it

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

generate: $(READY)
	$(BIN)/python -m amemdb.commands.generate
	$(BIN)/python -m amemdb.client.generate
	$(BIN)/python -m amemdb.config_page
	$(BIN)/python -m amemdb.commands_page

SOAK_SECONDS ?= 600
SOAK_SEQUENCES ?= 10000

soak: $(READY) $(BUILT)
	SOAK_SEQUENCES=$(SOAK_SEQUENCES) $(BIN)/pytest -n auto --dist worksteal -m soak --soak $(SOAK_SECONDS) $(ARGS)

bench: $(READY) $(BUILT)
	@$(BIN)/python -m benchmarks $(ARGS)

demo: $(BUILT)
	@$(BIN)/python -m demo

docs: $(READY)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet $(ARGS)
	@echo 'open build/site/index.html in a browser'

# What the server needs, and what developers need besides (type checker, test runner, documentation: six times as much).
$(RUNS): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("amemdb needs Python 3.11 or newer; \
	give one with PYTHON=python3.11")'
	@echo 'installing into .venv, this once: up to a minute, on a small machine two'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $(RUNS) $(BUILT)
	@$(call SAY_WHY,warning: the server will be several times slower than with native code) || true

# Native code that has changed since. pip builds it as well, but all of it and with tools that it fetches again.
$(BUILT): $(RUNS) $(NATIVE)
	@if [ -n "$$(find $(RUNS) $(NATIVE) -newer $(BUILT) 2>&1)" ]; then \
	  echo 'building native code again'; \
	  if $(BIN)/python -c 'import Cython, setuptools' 2>/dev/null; \
	  then $(BIN)/python setup.py --quiet build_ext --inplace; \
	  else $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .; fi; \
	fi
	@touch $(BUILT)

# The list is taken from pyproject.toml, as an install of '.[dev]' would build the package again.
$(READY): $(RUNS)
	@echo 'installing what developers need, this once: half a minute to a few minutes'
	@$(BIN)/python -c 'import tomllib; \
	print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["dev"], sep="\n")' > .venv/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement .venv/dev.txt
	@touch $(READY)

clean:
	rm -rf .venv .venv-bench benchmarks/results build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find amemdb \( -name '*.so' -o -name '_built_from.txt' \) -delete
