# Two commands on a fresh machine:  make demo   and   make test
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
DOCS_STAMP := $(VENV)/.installed-docs
JOBS   ?= 2

.PHONY: help install demo test lint types doctest unit bench-smoke format bench docs clean

help:
	@echo "make demo     install into $(VENV) and run the example"
	@echo "make test     install into $(VENV) and run every check (lint, types, doctests, tests)"
	@echo "make bench    print the speed ratios of benchmarks/"
	@echo "make bench-smoke  run every benchmark suite at toy size"
	@echo "make docs     install what the site takes and build it: build/docs/html/index.html"
	@echo "make format   rewrite the sources with ruff"
	@echo "make clean    remove $(VENV) and all caches"

# The stamp is newer than the files that decide what is installed, so a second run installs nothing.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	@touch $@

# Sphinx and its theme, beside what is there; the tests do without.
$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[docs]"
	@touch $@

install: $(STAMP)

demo: $(STAMP)
	$(BIN)/python -m pyro_pivid.demo

test: lint types doctest unit bench-smoke

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

doctest: $(STAMP)
	$(BIN)/python -m pytest --doctest-modules pyro_pivid -q
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --doctest-glob='*.md' README.md docs -q

unit: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests -q -n $(JOBS) --dist worksteal

bench-smoke: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks run all --size smoke --strict --jobs $(JOBS) --store $$(mktemp -d)/rows.csv

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)
	$(BIN)/python -m benchmarks

# Every warning is an error; -E reads all pages anew. The notebooks are shown as they are stored.
docs: $(DOCS_STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -q -W --keep-going -E -b html docs build/docs/html
	@echo "The site: build/docs/html/index.html"

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
