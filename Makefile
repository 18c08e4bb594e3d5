# Every target sets up .venv by itself.
PYTHON ?= python3
BIN := .venv/bin

# Every command of docs/paper.md's table, at the scale written there.
.PHONY: paper
paper: .venv/ready
	$(BIN)/python tests/paper/commands.py

.PHONY: demo federation test test-long fuzz kernels lint bench docs wheel clean

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: .venv/ready
	$(BIN)/baton demo

federation: .venv/ready
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[deploy]'
	$(BIN)/baton deploy demo

test: .venv/ready
	$(BIN)/pytest -n 2 --dist worksteal

test-long: .venv/ready
	$(BIN)/pytest -n 2 --dist worksteal -m 'long or not long'

# Messages that nobody would send: at most 15 minutes. What it finds stays in tests/corpus, which make test replays.
.venv/fuzz/ready: fuzz.txt | .venv/ready
	rm -rf .venv/fuzz
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --target .venv/fuzz -r fuzz.txt
	touch $@

ifeq ($(shell uname),Linux)
fuzz: .venv/fuzz/ready
	PYTHONPATH="$(CURDIR)/.venv/fuzz$${PYTHONPATH:+:$$PYTHONPATH}" $(BIN)/python tests/fuzz_guided.py -runs=200000 -seed=1
	$(BIN)/python tests/fuzz.py --messages 300000
else
fuzz: .venv/ready
	$(BIN)/python tests/fuzz.py
endif

# The GPU's kernels without a GPU: interpreted, and compiled for Hopper. Triton is made for Linux alone.
.venv/kernels/ready: kernels.txt | .venv/ready
	rm -rf .venv/kernels
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --target .venv/kernels -r kernels.txt
	touch $@

ifeq ($(shell uname),Linux)
kernels: .venv/kernels/ready
	PYTHONPATH="$(CURDIR)/.venv/kernels$${PYTHONPATH:+:$$PYTHONPATH}" $(BIN)/pytest tests/test_cuda_kernels.py
else
kernels:
	@echo "make kernels: Triton is made for Linux alone"
endif

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.venv/docs: .venv/ready
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]' build hatchling
	touch $@

docs: .venv/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

wheel: .venv/docs
	$(BIN)/python tests/wheel.py

bench: .venv/ready
	$(BIN)/python bench/main.py

clean:
	rm -rf .venv site dist
