# Everything sets itself up: a second call installs nothing again.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
export PYTHONDONTWRITEBYTECODE := # empty: dozens of processes need not each compile what they import

.PHONY: demo test lint docs torture evidence wheel clean

demo: $(READY) ## Two methods learn ten digits in five tasks; ends with a table of both
	rm -rf runs/demo
	$(BIN)/dytox train digits --out runs/demo/dytox
	$(BIN)/dytox train digits --method replay --out runs/demo/replay
	$(BIN)/dytox report runs/demo/dytox runs/demo/replay

test: $(READY) ## The whole test suite, with coverage
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder --cov --cov-report=term

lint: $(READY) ## ruff and mypy
	$(BIN)/ruff check src tests tools examples
	$(BIN)/ruff format --check src tests tools examples
	$(BIN)/mypy

docs: $(READY) ## docs/reference/ anew, from the code, and the tables of results/, from its metrics
	$(BIN)/python tools/reference
	$(BIN)/python tools/results.py

torture: $(READY) ## Kills a run hundreds of times and compares it with one left in peace
	OMP_NUM_THREADS=1 $(BIN)/python tools/torture.py --kills 300

evidence: $(READY) ## Runs a part of results/ again and compares; DATA=DIR holds cifar-100-python
	$(BIN)/python tools/evidence.py $(DATA)

wheel: $(READY) ## Wheel and sdist in dist/, tried in a new environment
	$(BIN)/python tools/packaged.py

clean: ## Away with the environment and the demo's runs
	rm -rf .venv runs/demo

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "dytox needs Python 3.10 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $(READY)
