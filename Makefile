.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.ready
# Without log lines of TensorFlow, and without JAX's search for an accelerator, the output is tenure's.
export TF_CPP_MIN_LOG_LEVEL = 3
export JAX_PLATFORMS ?= cpu

.PHONY: help setup browser demo test soak faults foreign lint bench docs clean

help: ## Show the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

setup: $(STAMP) browser ## Create .venv with tenure and everything the tests need

PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check
$(STAMP): pyproject.toml
	@echo 'Installing tenure into .venv, which takes some minutes'
	@$(PYTHON) -m venv .venv
	@$(PIP) --upgrade "pip>=25.1"
	@$(PIP) --editable . --group dev
	@touch $(STAMP)

# The page is tested in a real browser. If none can be installed, these tests are skipped unless TENURE_TEST_BROWSER is set.
ROOT := $(if $(filter 0,$(shell id -u)),,sudo -n)
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { command -v apt-get >/dev/null && $(ROOT) true 2>/dev/null \
	&& $(ROOT) apt-get update -qq && $(ROOT) apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null; } \
	|| echo "Chromium is missing and could not be installed"

# At most sixty lines, see tests/test_demo.py.
demo: $(STAMP) ## Run tenure on examples: a leak, the check that finds it, and what dispose() frees
	@rm -rf .demo; echo '$$ tenure run examples/leaking_training.py'
	@$(BIN)/tenure run -o .demo examples/leaking_training.py
	@echo; echo '$$ tenure check --format concise examples/leaking_training.py    # without running it'
	@$(BIN)/tenure check --exit-zero --format concise examples/leaking_training.py
	@echo; echo '$$ python examples/what_remains.py    # what tenure.dispose(x) frees, and what keeps the rest'
	@$(BIN)/python examples/what_remains.py
	@echo; echo 'Type next, in this folder:'
	@echo '  $(BIN)/tenure run YOUR_SCRIPT.py    find what your own program keeps in memory'
	@echo '  $(BIN)/tenure report .demo          show the peak of the run above, and how to lower it'
	@echo '  $(BIN)/tenure view .demo            show that run as a page'

# The tests of one file run in one process; files run in the order of tests/conftest.py.
PYTEST := TENURE_TEST_FRAMEWORKS=torch,jax,tensorflow,numpy $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
# These tests behave differently without the native extensions.
TWINS := tests/soak tests/lifetime tests/trace/test_torch_recording.py $(addprefix tests/frameworks/test_,conformance.py cuda.py exchange.py exchange_cuda.py)
# Many of these search the heap, which is smaller when they run alone.
HEAPS := tests/analysis/test_holders.py $(TWINS)
test: $(STAMP) browser ## Run the tests, with the native extensions and without
	$(PYTEST) -m "not long" $(HEAPS)
	$(PYTEST) -m "not long" tests $(addprefix --ignore=,$(HEAPS))
	TENURE_NATIVE=0 $(PYTEST) -m "not long" $(TWINS)

soak: $(STAMP) ## Run the long random programs (about an hour)
	$(PYTEST) -m long --timeout 7200

faults: $(STAMP) ## Make each call to the operating system fail, one per run (about an hour); writes benchmarks/failing_calls.md
	$(BIN)/python tests/failing_calls/injecting.py --write benchmarks/failing_calls.md

foreign: $(STAMP) ## Run other projects' test suites, plain and under tenure; writes benchmarks/foreign.md
	$(BIN)/python tests/foreign/compare.py

sanitize: $(STAMP) ## Run the tests of the native extensions under sanitizers; writes benchmarks/sanitizers.md
	$(BIN)/python tests/sanitizers/sanitize.py --write benchmarks/sanitizers.md

lint: $(STAMP) ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP) ## Measure what a scope and a trace cost; writes benchmarks/*.md
	$(BIN)/python benchmarks/scope_cost.py
	$(BIN)/python benchmarks/trace_cost.py
	$(BIN)/python benchmarks/trace_cost_jax_tensorflow.py
	$(BIN)/python benchmarks/torch_switches.py

docs: $(STAMP) ## Build the documentation into site/; broken links are errors
	$(BIN)/mkdocs build --strict # with --quiet, warnings would not be counted

clean: ## Remove generated files
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis .demo site
