# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ALONE := .venv-alone
OLDEST := .venv-oldest
RELEASE := .venv-release
$(OLDEST)/.ready: PYTHON := $(or $(shell command -v python3.11),$(PYTHON))
DOCS_READY := $(VENV)/.docs-ready
TUTORIALS := $(wildcard examples/tutorials/*.py)
OUT ?= out

.PHONY: demo test test-paper test-journeys test-slow test-slow-engines test-slow-product test-slow-paper test-browser test-alone test-oldest docs qgis-plugin release lint format bench-assembly bench-step bench-precision bench-laplace bench-setup bench-aquifer-step bench-aquifer-mesh bench-covariates bench-compare bench-latency bench-solve bench-check bench-space bench-device bench-first-map bench-walks bench-sampler bench-many-unknowns bench-auto bench-methods bench-reduced bench-emulate-in-time bench-transient bench-mesh-parts bench-many bench-next bench-misfit bench-mesh-error bench-refinement reproduce reproduce-smoke clean

demo: $(READY)
	$(BIN)/riesz demo --out demo-output

# Most of the time goes into compiling: less of that, and tests are done in half of it. (JAX 0.11 no
# longer knows the second flag; constraints.txt holds 0.10.)
QUICK_COMPILE := --xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false

test: $(READY)
	XLA_FLAGS="$(QUICK_COMPILE)" $(BIN)/python -m pytest -n 2 --dist loadfile --durations=30 tests

# The paper's experiments and other people's methods, a distribution of its own.
test-paper: $(READY)
	XLA_FLAGS="$(QUICK_COMPILE)" $(BIN)/python -m pytest -n 2 --dist loadfile --durations=10 paper/tests

# Every command of README and docs, and whole journeys from a table to a scored map.
test-journeys: $(READY)
	XLA_FLAGS="$(QUICK_COMPILE)" $(BIN)/python -m pytest -m journey -n 2 --dist loadfile --durations=10 tests

# Three parts that take ten minutes at most on 16 cores: make test-slow JOBS=16.
JOBS ?= 2
SLOW := $(BIN)/python -m pytest -m slow -n $(JOBS)

test-slow: test-slow-engines test-slow-product test-slow-paper

test-slow-engines: $(READY)
	$(SLOW) tests/method tests/density tests/amortise tests/inference

test-slow-product: $(READY)
	$(SLOW) tests --ignore=tests/method --ignore=tests/density --ignore=tests/amortise \
	    --ignore=tests/inference

test-slow-paper: $(READY)
	$(SLOW) paper/tests

# Needs Chromium, which it installs where it may; else it says why it was skipped.
test-browser: $(READY)
	XLA_FLAGS="$(QUICK_COMPILE)" tests/browser/run.sh $(BIN)

# `pip install .` and nothing else, in an environment of its own, which is kept.
test-alone: $(ALONE)/.ready
	$(ALONE)/bin/python -m pip install --quiet --force-reinstall --no-deps .
	XLA_FLAGS="$(QUICK_COMPILE)" tests/alone/run.sh $(ALONE)/bin

# The oldest versions that pyproject.toml allows, in another one. What depends on them: compiled
# code (fem, method, density, amortise, inference), files (case, io) and commands (cli). Warnings are
# no errors here: old packages warn of one another.
test-oldest: $(OLDEST)/.ready
	XLA_FLAGS="$(QUICK_COMPILE)" $(OLDEST)/bin/python -m pytest -n 2 --dist loadfile \
	    -W default tests/fem tests/method tests/density tests/amortise tests/inference tests/case \
	    tests/io tests/cli

# Every tutorial is run, and must end with the number it promises; then the book, in out/site.
docs: $(READY) $(DOCS_READY)
	for script in $(TUTORIALS); do \
	    PYTHONPATH=tools MPLBACKEND=Agg $(BIN)/python -m book.execute $$script out/tutorials || exit 1; \
	done
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "open out/site/index.html"

# All distributions, in out/release; then the wheel alone, in an environment of its own, must give the
# demo and the window.
release: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[release]'
	rm -rf $(OUT)/release
	for project in . paper; do $(BIN)/python -m build --outdir $(OUT)/release $$project || exit 1; done
	$(BIN)/python -m twine check --strict $(OUT)/release/*
	$(PYTHON) -m venv --clear $(RELEASE)
	wheel=$$(echo $(OUT)/release/riesz-*.whl) && \
	    $(RELEASE)/bin/python -m pip install --quiet --constraint constraints.txt "$$wheel[app]" && \
	    $(RELEASE)/bin/python tools/release_smoke.py "$$wheel" $(OUT)/release/smoke

# The plugin as QGIS installs it, by Plugins, Install from ZIP. Nothing of the environment is needed.
qgis-plugin:
	rm -rf $(OUT)/qgis && mkdir -p $(OUT)/qgis
	cp -r qgis/riesz_processing $(OUT)/qgis/ && cp LICENSE $(OUT)/qgis/riesz_processing/
	find $(OUT)/qgis -name __pycache__ -prune -exec rm -r {} +
	cd $(OUT)/qgis && $(PYTHON) -m zipfile -c riesz_processing.zip riesz_processing
	@echo "written: $(OUT)/qgis/riesz_processing.zip"

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench-assembly: $(READY)
	$(BIN)/python benchmarks/assembly.py --out results/bench-assembly.json

bench-step: $(READY)
	$(BIN)/python benchmarks/step.py --out results/bench-step.json

bench-precision: $(READY)
	$(BIN)/python benchmarks/precision.py --out results/bench-precision.json

bench-laplace: $(READY)
	$(BIN)/python benchmarks/laplace.py --out results/bench-laplace.json

# With 9 GB of memory to spare: make bench-setup LARGE=--large
bench-setup: $(READY)
	$(BIN)/python benchmarks/setup.py --out results/bench-setup.json $(LARGE)

bench-aquifer-step: $(READY)
	$(BIN)/python paper/benchmarks/aquifer_step.py --out results/bench-aquifer-step.json

bench-aquifer-mesh: $(READY)
	$(BIN)/python paper/benchmarks/aquifer_mesh.py --out results/bench-aquifer-mesh.json

bench-covariates: $(READY)
	$(BIN)/python paper/benchmarks/covariates.py --out results/bench-covariates.json

# The verdicts of the pages on the Jura and the plain, by riesz compare; RIESZ_DATA must hold esrp.
bench-compare: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/compare_models.py --out results/bench-compare-models.json

bench-solve: $(READY)
	$(BIN)/python benchmarks/solve.py --out results/bench-solve.json

# For a machine with an accelerator.
bench-device: $(READY)
	$(BIN)/python benchmarks/device.py --out results/bench-device.json

bench-mesh-error: $(READY)
	$(BIN)/python benchmarks/mesh_error.py --out results/bench-mesh-error.json

bench-refinement: $(READY)
	$(BIN)/python benchmarks/refinement.py --out results/bench-refinement.json

bench-check: $(READY)
	$(BIN)/python benchmarks/check.py --out results/bench-check.json

bench-space: $(READY)
	$(BIN)/python benchmarks/space.py --out results/bench-space.json

bench-mesh-parts: $(READY)
	$(BIN)/python benchmarks/mesh_parts.py --out results/bench-mesh-parts.json

bench-latency: $(READY)
	$(BIN)/python benchmarks/latency.py --out results/bench-latency.json

# Small matrices: threads of linear algebra would wait for each other.
bench-first-map: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/first_map.py --out results/bench-first-map.json

bench-walks: $(READY)
	$(BIN)/python benchmarks/walks.py --out results/walks

# Small matrices here too.
bench-sampler: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/sampler.py --out results/bench-sampler.json

bench-transient: $(READY)
	OMP_NUM_THREADS=2 $(BIN)/python benchmarks/transient.py

bench-auto: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/auto.py --out results/bench-auto.json

bench-methods: $(READY)
	$(BIN)/python benchmarks/methods.py --out results/bench-methods.json

# One thread: systems are small, and threads would wait for each other.
bench-reduced: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/reduced.py --out results/bench-reduced.json

bench-emulate-in-time: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/emulate_in_time.py --out results/bench-emulate-in-time.json

bench-many-unknowns: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/many_unknowns.py --out results/bench-many-unknowns.json

# 200 small sites by fit-many, and by a loop of riesz fit.
bench-many: $(READY)
	$(BIN)/python benchmarks/many.py --out results/bench-many.json

# One thread: systems are small, and threads would wait for each other.
bench-next: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/next.py --out results/bench-next.json

bench-misfit: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/misfit.py --out results/bench-misfit.json

# All experiments of the paper, hours; reproduce-smoke goes the same way in minutes, and means nothing.
SIZE ?= --full --resume
DATA_SETS ?= --data-sets 500
RESULTS ?= paper/results
CALIBRATION ?= results/calibration

reproduce-smoke:
	$(MAKE) reproduce SIZE=--smoke DATA_SETS="--data-sets 20" RESULTS=$(OUT)/smoke CALIBRATION=$(OUT)/smoke/calibration

reproduce: $(READY)
	$(BIN)/riesz experiment smoother $(SIZE) --out $(RESULTS)/smoother
	$(BIN)/riesz experiment taper $(SIZE) --out $(RESULTS)/taper
	$(BIN)/riesz experiment norms $(SIZE) --out $(RESULTS)/norms
	$(BIN)/riesz experiment transport $(SIZE) --out $(RESULTS)/transport
	$(BIN)/riesz experiment field $(SIZE) --out $(RESULTS)/field
	$(BIN)/riesz experiment amortised $(SIZE) --out $(RESULTS)/amortised
	$(BIN)/riesz experiment checkerboard $(SIZE) --out $(RESULTS)/checkerboard
	$(BIN)/riesz experiment blocks $(SIZE) --out $(RESULTS)/blocks
	$(BIN)/riesz experiment crossover $(SIZE) --out $(RESULTS)/crossover
	$(BIN)/riesz experiment mesh-error $(SIZE) --out $(RESULTS)/mesh-error
	$(BIN)/riesz experiment hanford $(SIZE) --out $(RESULTS)/hanford
	$(BIN)/riesz experiment pumping $(SIZE) --out $(RESULTS)/pumping
	$(BIN)/riesz check examples/transport/problem.toml --calibrate $(DATA_SETS) --out $(CALIBRATION)
	$(BIN)/riesz experiment misspecified $(SIZE) --out $(RESULTS)/misspecified
	$(BIN)/riesz experiment jura --select $(SIZE) --out $(RESULTS)/jura-select
	$(BIN)/riesz experiment jura $(SIZE) --out $(RESULTS)/jura
	$(BIN)/riesz experiment agreement $(SIZE) --out $(RESULTS)/agreement
	$(BIN)/riesz experiment aquifer --select $(SIZE) --out $(RESULTS)/aquifer-select
	$(BIN)/riesz experiment aquifer $(SIZE) --out $(RESULTS)/aquifer
	OPENBLAS_NUM_THREADS=1 $(BIN)/riesz experiment aquifer-time $(SIZE) --out $(RESULTS)/aquifer-time

clean:
	rm -rf $(VENV) $(ALONE) $(OLDEST) $(OUT) demo-output

# An environment is made once, and again when its description changes.
define make_venv
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	    { echo "Riesz needs Python 3.11 or newer, called '$(PYTHON)' here. On Debian: apt-get install python3 python3-venv"; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	    { echo "Python's venv is missing. On Debian: apt-get install python3-venv"; exit 2; }
	$(PYTHON) -m venv $(1) $(@D)
endef

$(READY): pyproject.toml paper/pyproject.toml constraints.txt
	$(call make_venv)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]" --editable ./paper
	@touch $@

$(ALONE)/.ready: pyproject.toml constraints.txt
	$(call make_venv,--clear)
	$(ALONE)/bin/python -m pip install --quiet --constraint constraints.txt .
	@touch $@

$(OLDEST)/.ready: pyproject.toml constraints.txt tools/oldest.py
	$(call make_venv,--clear)
	$(OLDEST)/bin/python tools/oldest.py > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install --quiet --constraint $(OLDEST)/constraints.txt --editable ".[arviz,excel,gis,test]"
	@touch $@

$(DOCS_READY): $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	@touch $(DOCS_READY)
