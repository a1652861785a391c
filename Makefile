# make setup | demo | test | test-extras | test-oldest | docs | mutants | lint | clean. Every target installs what it needs first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

ROOMS  ?= tests

# An interpreter that may not keep what it compiled compiles every library anew, and the tests start a hundred of them.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo test test-extras test-oldest docs mutants lint format clean

setup: $(STAMP)

# uv is quicker than pip but does not read pip's find-links, so that one setting is handed over; plain pip is the fallback.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt uv
	UV_FIND_LINKS="$$($(BIN)/python -m pip config get :env:.find-links 2>/dev/null || $(BIN)/python -m pip config get global.find-links 2>/dev/null)" \
	    $(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt --editable ".[dev]" \
	    || $(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/crossfeed demo --out demo

test: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal

# In a second environment; what cannot be downloaded is skipped and named.
test-extras: $(STAMP)
	$(BIN)/python .ci/extras.py

# With the oldest packages that pyproject.toml allows, in an environment of their own; ROOMS=tests/windows for one room.
test-oldest: $(STAMP)
	test -x .venv-oldest/bin/python || $(BIN)/uv venv --quiet --python $(BIN)/python .venv-oldest
	UV_FIND_LINKS="$$($(BIN)/python -m pip config get :env:.find-links 2>/dev/null || $(BIN)/python -m pip config get global.find-links 2>/dev/null)" \
	    $(BIN)/uv pip install --quiet --python .venv-oldest/bin/python --resolution lowest-direct --editable ".[dev]"
	.venv-oldest/bin/python -m pytest -n 2 --dist worksteal $(ROOMS)

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "open site/index.html"

$(VENV)/.docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt "mkdocs-material" "mkdocstrings[python]"
	touch $(VENV)/.docs

# Plants small errors in the files that decide numbers and asks whether their tests notice; about half an hour.
mutants: $(STAMP)
	$(BIN)/python benchmarks/mutants.py

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .venv-extras .venv-oldest site .pytest_cache .mypy_cache .ruff_cache .hypothesis
