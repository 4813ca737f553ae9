# Every target runs in the Python environment that is active.
.PHONY: setup test test-long lint types bench bench-storage faults

setup:
	python -m pip install -e '.[dev]'

# What keeps one core busy is run twice at a time; what trains has the machine for itself.
ALONE = tests/storage tests/analysis tests/league/rules tests/league/models

test:
	python -m pytest -n 2 --dist loadfile $(ALONE)
	python -m pytest $(ALONE:%=--ignore=%)

# Further seeds of what has to learn.
test-long:
	LEAGUE_LONG=1 python -m pytest tests/league/test_learning.py -k cartpole

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

bench-storage:
	python -m tests.bench.storage_ledger
	python -m tests.bench.storage_readers
	python -m tests.bench.storage_payoff
	python -m tests.bench.storage_snapshots
	python -m tests.bench.storage_miss
	python -m tests.bench.storage_memory

# The long forms of the fault tests: their figures, and the seed of whatever fails, go to the screen.
faults:
	LEAGUE_FAULTS=long python -m pytest -s tests/storage/faults tests/storage/hostile
