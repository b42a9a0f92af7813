# Two commands set everything up: `make demo` and `make test`. The rest is for those who change the code.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: help setup demo test bench check lint format types contracts jaeger clean
help: ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | sort

setup: $(STAMP) ## make .venv with everything in it

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11 $(MAKECMDGOALS)")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@echo "installing (a minute or so, torch is large) ..."
	@$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

demo: $(STAMP) ## run the main job: cut a PD deployment apart, abort requests, print the verdict
	$(BIN)/severance run chaos/scenarios/pd-partition.yaml --out runs/demo-$$(date +%Y%m%d-%H%M%S)

test: $(STAMP) ## pass the tests
	$(BIN)/severance doctor --fix
	$(BIN)/python -m pytest -q

bench: $(STAMP) ## measure every speed target and write docs/performance.md (about 15 minutes, on a quiet machine)
	$(BIN)/python -m bench --page docs/performance.md

check: lint types contracts ## everything but the tests

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(STAMP)
	$(BIN)/mypy

contracts: $(STAMP)
	$(BIN)/lint-imports

jaeger: $(STAMP) ## build the Jaeger that the tests marked `jaeger` need (about 3 minutes)
	$(BIN)/python scripts/build_jaeger.py

clean: ## remove what setup made, not the runs
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis *.egg-info
