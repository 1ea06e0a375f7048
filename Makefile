# Every target creates the virtual environment first, unless it exists.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
export PYTHONDONTWRITEBYTECODE := # empty, so that the many processes of the tests share compiled files

.PHONY: demo test lint docs torture evidence wheel clean

demo: $(READY) ## Train two methods on ten digits in five tasks, and print a table of both
	rm -rf runs/demo
	$(BIN)/dytox train digits --out runs/demo/dytox
	$(BIN)/dytox train digits --method replay --out runs/demo/replay
	$(BIN)/dytox report runs/demo/dytox runs/demo/replay

test: $(READY) ## Run all tests, with coverage
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder --cov --cov-report=term

lint: $(READY) ## Run ruff and mypy
	$(BIN)/ruff check src tests tools examples
	$(BIN)/ruff format --check src tests tools examples
	$(BIN)/mypy

docs: $(READY) ## Generate docs/reference/ from the code, and the tables of results/ from its metrics
	$(BIN)/python tools/reference
	$(BIN)/python tools/results.py

torture: $(READY) ## Kill a run hundreds of times and compare it with an uninterrupted one
	OMP_NUM_THREADS=1 $(BIN)/python tools/torture.py --kills 300

evidence: $(READY) ## Repeat a part of results/ and compare; DATA=DIR holds cifar-100-python
	$(BIN)/python tools/evidence.py $(DATA)

wheel: $(READY) ## Build wheel and sdist in dist/, and try them in a new environment
	$(BIN)/python tools/packaged.py

clean: ## Remove the virtual environment and the demo runs
	rm -rf .venv runs/demo

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "dytox needs Python 3.10 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $(READY)
