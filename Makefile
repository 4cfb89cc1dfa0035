# Everything a developer needs: `make serve` and `make test` set themselves up in .venv on first use.

PYTHON ?= python3
BIN := .venv/bin
RUNS := .venv/.runs
READY := .venv/.ready

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

serve: $(RUNS)
	@exec $(BIN)/amemdb serve $(ARGS)

test: $(READY)
	$(BIN)/pytest -n auto --dist worksteal $(ARGS)

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

soak: $(READY)
	SOAK_SEQUENCES=$(SOAK_SEQUENCES) $(BIN)/pytest -n auto --dist worksteal -m soak --soak $(SOAK_SECONDS) $(ARGS)

bench: $(READY)
	@$(BIN)/python -m benchmarks $(ARGS)

demo: $(RUNS)
	@$(BIN)/python -m demo

docs: $(READY)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet $(ARGS)
	@echo 'open build/site/index.html in a browser'

# What the server needs, and what developers need besides (type checker, test runner, documentation: six times as much).
$(RUNS): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("amemdb needs Python 3.11 or newer; \
	give one with PYTHON=python3.11")'
	@echo 'installing into .venv, this once: some seconds to a minute'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $(RUNS)

$(READY): $(RUNS)
	@echo 'installing what developers need, this once: half a minute to a few minutes'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(READY)

clean:
	rm -rf .venv .venv-bench benchmarks/results build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
