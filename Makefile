# Every target runs in the Python environment that is active.
.PHONY: setup test lint types bench

setup:
	python -m pip install -e '.[dev]'

test:
	python -m pytest

lint:
	ruff check .
	ruff format --check .

types:
	mypy

bench:
	python -m tests.bench.throughput
	python -m tests.bench.learners
	python -m tests.bench.stacked
	python -m tests.bench.ratings
	python -m tests.bench.matchmaking
