# Every target sets up its own environment in $(VENV) first, if that is missing or out of date.
# Needs python3 (3.11 or later, with venv) and make; nothing else.

PYTHON ?= python3
PYTEST_ARGS ?=
BENCH_ARGS ?=
EXPERIMENTS ?=
# Not taken from the shell's variables: one that means something else there would be installed into.
VENV := .venv

PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test soak check docs peers bench experiments clean

help: ## Show this list
	@echo "Targets:"
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1	\2/p' $(firstword $(MAKEFILE_LIST))

# Run again over a half-made environment, `venv` completes it.
$(STAMP): pyproject.toml constraints.txt
	@$(PY) -m pip --version >/dev/null 2>&1 || { echo "Creating $(VENV)"; $(PYTHON) -m venv "$(VENV)"; }
	@echo "Installing into $(VENV) (once; a few minutes at most)"
	@$(PY) -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(STAMP) ## Train on the embedded sample, evaluate, stream, draw: into demo/
	@$(PY) -m ssnt quickstart --out demo --overwrite
	@echo "For a shell to find ssnt:  . $(VENV)/bin/activate"

# One process a core and one thread a process: two thread pools on the same cores slow each other down. Tests that need a
# Ray cluster are one group, so that there is one cluster.
test: $(STAMP) ## Run all tests, the slow ones too (PYTEST_ARGS="-k name" narrows)
	@OMP_NUM_THREADS=1 $(PY) -m pytest -q -n auto --dist loadgroup -m "" $(PYTEST_ARGS)

# Ten minutes, which all other tests together do not take: so it is not among them.
soak: $(STAMP) ## Use the service for ten minutes: its memory must stay flat
	@SSNT_SOAK=10 $(PY) -m pytest -q -n 0 -m slow tests/serve/test_soak.py $(PYTEST_ARGS)

check: $(STAMP) ## Lint, check the format and the types
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy

docs: $(STAMP) ## Build the documentation into site/
	@$(PY) docs/generate.py
	@$(PY) -m mkdocs build --strict --quiet

peers: $(STAMP) ## Install what the benchmarks compare with, into environments of its own
	@$(PY) benchmarks/peers/install.py

# The quick ones first. One that fails does not keep the others from being measured, and is named at the end.
BENCHMARKS := import_time lattice loss step denormals stream export decode serve cost prepare large_file per_tag \
	summarisation rnnt_loss prediction training

bench: $(STAMP) ## Measure everything and write docs/benchmarks.md (leave the machine idle; BENCH_ARGS=--quick tries it)
	@$(MAKE) -s peers || echo "the peers could not be installed: what compares with them is left out"
	@failed=; for name in $(BENCHMARKS); do \
		$(PY) benchmarks/$$name.py $(BENCH_ARGS) || failed="$$failed $$name"; \
	done; \
	$(PY) benchmarks/report.py $(filter --quick,$(BENCH_ARGS)) && \
	{ test -z "$$failed" || { echo "failed:$$failed"; exit 1; }; }

experiments: $(STAMP) ## Go on with the paper's tables, one training a core, and write experiments/REPORT.md (days; Ctrl-C saves)
	@$(PY) -m experiments run $(EXPERIMENTS)
	@$(PY) -m experiments report

clean: ## Remove caches and build products (the environment stays: delete .venv for a new one)
	@rm -rf build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
