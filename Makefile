# Everything runs inside .venv, which the first target that needs it creates; other environments are .venv-*.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OUT := out
FLOORS := .venv-floors
OTHER := .venv-$(notdir $(PYTHON))
WHEEL := .venv-wheel
# A fast part of the tests that calls every dependency: for the oldest versions, and for other interpreters.
QUICK := tests/data tests/blocks tests/certificate tests/kernels tests/learning/test_learners.py tests/plotting \
	tests/tables/test_frames.py tests/tables/test_files.py tests/tables/test_dask.py tests/estimate/test_mean.py \
	tests/estimate/test_columns.py tests/estimate/test_bad_input.py tests/cli/test_demo.py tests/cli/test_quantiles_and_rates.py \
	tests/test_import.py tests/test_metrics.py tests/test_datasets.py tests/test_release.py
# Of make fuzz.
CALLS ?= 20000
SEED ?= 100

.DEFAULT_GOAL := help

# Groups of pyproject.toml are known to pip from 25.1 on; that of Python 3.11 is older.
$(VENV)/.pip:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@touch $@

$(VENV)/.demo: pyproject.toml $(VENV)/.pip
	$(BIN)/python -m pip install --quiet --editable '.[plot,cli]'
	@touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.pip
	$(BIN)/python -m pip install --quiet --editable '.[all]' --group dev
	@touch $@

$(VENV)/.bench: pyproject.toml $(VENV)/.pip
	$(BIN)/python -m pip install --quiet --editable '.[all]' --group dev --group bench
	@touch $@

$(VENV)/.torch: pyproject.toml $(VENV)/.pip
	$(BIN)/python -m pip install --quiet --editable '.[all,torch]' --group dev --group torch
	@touch $@

$(VENV)/.spark: pyproject.toml $(VENV)/.pip
	$(BIN)/python -m pip install --quiet --editable '.[all,spark]' --group dev
	@touch $@

$(VENV)/.docs: pyproject.toml $(VENV)/.pip
	$(BIN)/python -m pip install --quiet --editable '.[tables,plot,torch]' --group docs --group torch
	@touch $@

$(FLOORS)/.ready: pyproject.toml .ci/floors.py
	$(PYTHON) -m venv --clear $(FLOORS)
	$(FLOORS)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(FLOORS)/bin/python .ci/floors.py > $(FLOORS)/constraints.txt
	$(FLOORS)/bin/python -m pip install --quiet --constraint $(FLOORS)/constraints.txt --editable '.[all]' --group test
	@touch $@

$(OTHER)/.ready: pyproject.toml
	$(PYTHON) -m venv --clear $(OTHER)
	$(OTHER)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(OTHER)/bin/python -m pip install --quiet --editable '.[all]' --group test
	@touch $@

.PHONY: help
help: ## List the targets.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

.PHONY: demo
demo: $(VENV)/.demo ## Corrupt a data set and compare mean, median, trimmed mean and outvote with the truth.
	@$(BIN)/python -m outvote.cli.demo --figure $(OUT)/demo.png

.PHONY: test
test: $(VENV)/.dev ## Run the tests but the slow ones, with coverage (line and branch, at least 98 %).
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest --cov --cov-report= --cov-fail-under=0 tests/compiled
	$(BIN)/python -m pytest -n 2 --cov --cov-append --cov-report=term --ignore=tests/torch --ignore=tests/spark --ignore=src/outvote/torch

.PHONY: test-torch
test-torch: $(VENV)/.torch ## Run the tests of outvote.torch with coverage (at least 98 %); installs torch.
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --cov --cov-config=tests/torch/coverage.toml --cov-report=term tests/torch src/outvote/torch

.PHONY: test-spark
test-spark: $(VENV)/.spark ## Run the tests of Spark on this machine with coverage (at least 95 %); installs pyspark, needs Java.
	$(BIN)/python -m pytest --cov --cov-config=tests/spark/coverage.toml --cov-report=term tests/spark

.PHONY: test-floors
test-floors: $(FLOORS)/.ready ## Run a fast part of the tests with the oldest versions that pyproject.toml allows (Python 3.11 or 3.12).
	OMP_NUM_THREADS=1 $(FLOORS)/bin/python -m pytest -q $(QUICK)

.PHONY: test-python
test-python: $(OTHER)/.ready ## Run the same part with another interpreter: make test-python PYTHON=python3.13.
	OMP_NUM_THREADS=1 $(OTHER)/bin/python -m pytest -q $(QUICK)

.PHONY: test-wheel
test-wheel: $(VENV)/.pip ## Build sdist and wheel into dist, install the wheel in an empty environment, and try it there.
	rm -rf dist $(WHEEL)
	$(BIN)/python -m pip install --quiet --group release
	$(BIN)/python -m build --outdir dist > /dev/null
	$(PYTHON) -m venv $(WHEEL)
	$(WHEEL)/bin/python -m pip install --quiet "$$(echo dist/*.whl)[cli,tables]"
	.ci/try-wheel $(WHEEL)/bin dist

.PHONY: studies
studies: $(VENV)/.dev ## Run the slow tests and the simulations of certificates at full length, and write the pages that show them (hours).
	OUTVOTE_THEORY=long OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 tests/theory
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m slow --ignore=tests/torch --ignore=tests/spark tests
	$(BIN)/python -m benchmarks.compare
	$(BIN)/python -m benchmarks.premise

.PHONY: mutants
mutants: $(VENV)/.dev ## Break the code in a hundred places, and say which breaks no test sees (an hour; what is tried is kept).
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.mutants --output $(OUT)/mutants.json

.PHONY: fuzz
fuzz: $(VENV)/.dev ## Call the public interface at random, and go on where the last run with this SEED stopped (minutes).
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --calls $(CALLS) --seed $(SEED) --output $(OUT)/fuzz

.PHONY: lint
lint: $(VENV)/.dev ## Check style (ruff) and types (mypy, strict).
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.PHONY: format
format: $(VENV)/.dev ## Let ruff rewrite what it can.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: bench
bench: $(VENV)/.bench ## Measure speed and memory beside the plain counterparts and other libraries (minutes).
	$(BIN)/python -m benchmarks.run --output $(OUT)/bench.json

.PHONY: bench-quick
bench-quick: $(VENV)/.bench ## The same on fewer rows (under two minutes).
	$(BIN)/python -m benchmarks.run --quick --output $(OUT)/bench-quick.json

.PHONY: bench-gpu
bench-gpu: $(VENV)/.torch ## Measure tensors and descents on a CUDA GPU against its ceilings (two minutes).
	$(BIN)/python -m benchmarks.gpu --output $(OUT)

.PHONY: bench-page
bench-page: $(VENV)/.bench ## Write the tables of docs/performance.md from the last make bench.
	$(BIN)/python -m benchmarks.run --page --output $(OUT)/bench.json

.PHONY: learning
learning: $(VENV)/.bench ## Measure learners on ten data sets under eight kinds of corruption, for docs/learning.md (what is measured is kept).
	$(BIN)/python -m benchmarks.learning_table

.PHONY: figure
figure: $(VENV)/.dev ## Draw the figure of the README (docs/images).
	$(BIN)/python -m benchmarks.distance

.PHONY: reproduction
reproduction: $(VENV)/.dev ## Run the paper again and write docs/reproduction.md (minutes; what is finished is kept).
	$(BIN)/outvote reproduce --jobs -1 --output $(OUT)/reproduction
	$(BIN)/python -m benchmarks.reproduction $(OUT)/reproduction

.PHONY: scale
scale: $(VENV)/.dev ## Measure every engine up to 1e8 rows and write the table of docs/scale.md (minutes, 3 GB of disk).
	$(BIN)/python -m benchmarks.scale

.PHONY: docs
docs: $(VENV)/.docs ## Build the documentation into out/docs; a warning is an error, and nothing is fetched.
	$(BIN)/python -m sphinx -W --keep-going -q -E -a -b html docs $(OUT)/docs
	@echo "open $(OUT)/docs/index.html"

.PHONY: clean
clean: ## Remove the environments and everything generated.
	rm -rf $(VENV) .venv-* $(OUT) docs/gallery docs/generated dist build .coverage .coverage.* .hypothesis .mypy_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
