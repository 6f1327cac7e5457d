# `make` alone lists the targets. Every target sets up what it needs in .venv.
PYTHON ?= python3.11
BIN := .venv/bin
READY := .venv/.ready
PLAIN := .venv/.plain

# Tests start hundreds of processes; each would compile all modules of cofill again, which takes a second.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo serve test test-all quick messages docs check format dist audit clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(PLAIN) ## Make a world of films, train, evaluate, recommend, write a report into demo/
	$(BIN)/cofill demo --out demo

serve: demo/model/model.json $(READY) ## Open the page on the demo's model: rate films, and watch recommendations follow
	$(BIN)/cofill serve demo/model

demo/model/model.json: | $(PLAIN)
	$(BIN)/cofill demo --out demo

# In the order of the folders: those of the cluster, which wait for Ray more than they work, come early, and not last.
# One thread of BLAS and torch in each process: threads spin while they wait for others. Three processes for two cores:
# tests of servers and clusters wait a third of their time.
PYTEST := OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(BIN)/pytest --dist loadfile \
	--numprocesses $$(( ($$(getconf _NPROCESSORS_ONLN) * 3 + 1) / 2 ))

test: $(READY) ## Run the tests of every law, on all cores, in eight minutes on two of them
	$(PYTEST) --no-loadscope-reorder --durations 30 -m 'not slow'

test-all: $(READY) ## Run the tests that take long as well: kills in a row, releases, trainings on Ray, every page
	$(PYTEST) --no-loadscope-reorder --durations 30

quick: $(READY) ## Run the central tests of every package (tests/quick.txt), below 45 seconds on two cores
	$(PYTEST) --durations 5 -p no:schemathesis --hypothesis-profile quick -m 'not real_data and not slow' @tests/quick.txt

messages: $(READY) ## Write tests/messages.md, what is said of every bad input, anew
	$(BIN)/python -m tests.messages

# Every warning is an error, a link to nothing among them. The search of the pages works without a server.
docs: $(READY) ## Build the site into docs/_build/html
	OMP_NUM_THREADS=1 $(BIN)/sphinx-build -W --keep-going -n -b html -d docs/_build/doctrees docs docs/_build/html
	@echo 'open docs/_build/html/index.html'

check: $(READY) ## Linters, layers, types, and the wording of docs and help texts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/mypy
	$(BIN)/python -m tests.wording

format: $(READY) ## Rewrite the code in the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

dist: $(READY) ## Build the wheel and the sdist into dist/
	rm -rf dist
	$(BIN)/python -m build

# Strict: a package that the service does not know is a failure, not a pass. +cpu and the like are known to nobody.
audit: $(READY) ## Look for known vulnerabilities in all that is installed (needs the service of advisories)
	$(BIN)/pip freeze --exclude-editable | sed 's/+[a-z0-9.]*$$//' > .venv/audited.txt
	$(BIN)/pip-audit --strict --no-deps --disable-pip --progress-spinner off --requirement .venv/audited.txt

clean: ## Remove .venv, demo/, dist/, the built site and caches
	rm -rf .venv demo dist docs/_build .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The package and what it needs: byte code is written as modules are imported, which is half the time of the install.
$(PLAIN): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile -e .
	@touch $@

# The extras: torch, Ray, the server, the tools of tests and of the site.
$(READY): $(PLAIN)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@
