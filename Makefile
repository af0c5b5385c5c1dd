.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.ready
# TensorFlow and its log lines are quiet, JAX looks for no accelerator: a run's output is tenure's.
export TF_CPP_MIN_LOG_LEVEL = 3
export JAX_PLATFORMS ?= cpu

.PHONY: help setup browser demo test soak faults foreign lint bench docs clean

help: ## Show what can be made
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

setup: $(STAMP) browser ## Make .venv with tenure and everything the tests need

$(STAMP): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group dev
	@touch $(STAMP)

# The page is tested in a real browser. Where it cannot be installed those tests skip, unless TENURE_TEST_BROWSER is set.
ROOT := $(if $(filter 0,$(shell id -u)),,sudo -n)
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { command -v apt-get >/dev/null && $(ROOT) true 2>/dev/null \
	&& $(ROOT) apt-get update -qq && $(ROOT) apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null; } \
	|| echo "no Chromium, and none could be installed"

demo: $(STAMP) ## What remains after dispose, in three frameworks; what leaks in a training loop, run and unrun
	@$(BIN)/python examples/what_remains.py
	@echo; echo '$$ tenure run examples/leaking_training.py'
	@rm -rf .demo; $(BIN)/tenure run -o .demo examples/leaking_training.py
	@echo; echo '$$ tenure report .demo'
	@$(BIN)/tenure report .demo || test $$? -eq 1 # which says that there are findings
	@echo; echo '$$ tenure check examples/leaking_training.py'
	@$(BIN)/tenure check --exit-zero examples/leaking_training.py

# What the tests of a file share is made once, and the files come in the order of tests/conftest.py.
PYTEST := TENURE_TEST_FRAMEWORKS=torch,jax,tensorflow,numpy $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
# Of these, something is otherwise without the native parts.
TWINS := tests/soak tests/lifetime tests/trace/test_torch_recording.py $(addprefix tests/frameworks/test_,conformance.py cuda.py exchange.py exchange_cuda.py)
# Of these, many search the heap: by themselves, they have less of it.
HEAPS := tests/analysis/test_holders.py $(TWINS)
test: $(STAMP) browser ## Run the tests, with the native parts and without
	$(PYTEST) -m "not long" $(HEAPS)
	$(PYTEST) -m "not long" tests $(addprefix --ignore=,$(HEAPS))
	TENURE_NATIVE=0 $(PYTEST) -m "not long" $(TWINS)

soak: $(STAMP) ## Run the long random programs (about an hour)
	$(PYTEST) -m long --timeout 7200

faults: $(STAMP) ## Make every call to the operating system fail, one run each (about an hour); writes benchmarks/failing_calls.md
	$(BIN)/python tests/failing_calls/injecting.py --write benchmarks/failing_calls.md

foreign: $(STAMP) ## Run other projects' test suites, plain and under tenure; writes benchmarks/foreign.md
	$(BIN)/python tests/foreign/compare.py

sanitize: $(STAMP) ## Run the tests of the native extensions with sanitizers in them; writes benchmarks/sanitizers.md
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

docs: $(STAMP) ## Build the documentation into site/; what is broken in it fails
	$(BIN)/mkdocs build --strict # with --quiet, warnings would not be counted

clean: ## Remove what was made
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis .demo site
