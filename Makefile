# Every target sets up .venv by itself.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo federation test test-long lint bench docs wheel clean

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
