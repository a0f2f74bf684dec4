# Every target builds what it needs in .venv, from Python 3.11 and pip alone.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed

# Small matrices gain nothing from a threaded linear algebra library, and two test workers would fight over the cores.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export MKL_NUM_THREADS := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

WORKERS ?= 2
# A file's tests stay together, so that what one of them compiles the next ones have at hand.
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations 30
SUITE := --doctest-modules src tests

.PHONY: help run test test-all lint format bench bench-quick examples arrival experiments clean

help: ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 22

# Most modules of the libraries are never imported: without compiling all of them setting up takes half of the time.
# Those that are leave their bytecode behind, even where the machine's owner says otherwise: else every start would
# compile them again, which takes 5 s.
unexport PYTHONDONTWRITEBYTECODE
$(STAMP): pyproject.toml
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[dev]'
	touch $@

run: $(STAMP) ## fit real data sets and write pictures and tables to out/demo
	$(BIN)/pgfa demo --out out/demo

test: $(STAMP) ## the tests that take minutes
	$(PYTEST) -m "not slow" $(SUITE)

test-all: $(STAMP) ## every test, and the fast ones once more with array bounds checked
	$(PYTEST) $(SUITE)
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(abspath $(VENV))/boundscheck $(PYTEST) -m "not slow" tests

lint: $(STAMP) ## style, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP) ## put the sources into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP) ## time the samplers against plain NumPy
	$(BIN)/python -m benchmarks

bench-quick: $(STAMP) ## sweeps beside plain NumPy, their floors and their growth with few repeats, in less than two minutes
	$(BIN)/python -m benchmarks --quick

examples: $(STAMP) ## run the examples
	$(BIN)/python examples/toy.py
	$(BIN)/python examples/poisson_counts.py --check

ARRIVAL := out/arrival
SAMPLERS := Gibbs,PG,DPF,pgfa default
arrival: $(STAMP) ## rerun what the first page of the docs shows, about an hour
	for name in lg-5 lfrm-5 pyclone-4; do \
		$(BIN)/pgfa experiment run $$name --out $(ARRIVAL) --samplers "RG,$(SAMPLERS)" || exit 1; done
	for name in lg-20 lg-ibp lfrm-20 lfrm-ibp pyclone-8 pyclone-12; do \
		$(BIN)/pgfa experiment run $$name --out $(ARRIVAL) --samplers "$(SAMPLERS)" || exit 1; done
	$(BIN)/pgfa experiment report --out $(ARRIVAL)
	$(BIN)/python -m benchmarks.first_page $(ARRIVAL) docs/arrival
	cp $(ARRIVAL)/arrivals.png $(ARRIVAL)/tables/arrivals.csv docs/arrival

experiments: $(STAMP) ## rerun the experiments of the paper, about two hours, and put reports into docs
	$(BIN)/pgfa experiment run-all --scale laptop --out out/experiments/laptop
	mkdir -p docs/experiments-laptop
	cd out/experiments/laptop && find . -name report.md -o -name '*.png' -o -name chains.csv -o -path '*/tables/*.csv' \
		| tar -cf - -T - | tar -xf - -C $(CURDIR)/docs/experiments-laptop

clean: ## remove everything that was built
	rm -rf $(VENV) out bench-out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
