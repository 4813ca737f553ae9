# Every target runs in the Python environment that is active.
.PHONY: setup browser engines check quick net test test-gpu test-long test-variants lint types picture bench gpu-report \
  bench-storage faults faults-cluster release

setup:
	python -m pip install -e '.[dev]'

# The report is looked at in a browser: Debian's, installed where it is missing and that is allowed; elsewhere
# selenium brings one of its own.
browser:
	@command -v chromedriver > /dev/null || ! command -v apt-get > /dev/null || [ "$$(id -u)" != 0 ] || \
	  (apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends \
	   chromium chromium-driver > /dev/null)

# Engines of chess and go that take part in tests: Debian's, installed where they are missing and that is allowed.
engines:
	@[ -e /usr/games/stockfish -a -e /usr/games/gnugo -a -e /usr/games/fairymax ] || ! command -v apt-get > /dev/null || [ "$$(id -u)" != 0 ] || \
	  (apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends \
	   stockfish gnugo fairymax > /dev/null) || echo "engines could not be installed: their tests are skipped"

# Before each commit: lint, types, and the tests that are neither slow nor alone; then what the change adds.
check:
	@began=$$(date +%s); $(MAKE) --no-print-directory -j 2 lint types quick && \
	  echo "make check took $$(( $$(date +%s) - began )) s" && $(MAKE) --no-print-directory net

# Lines that a branch adds to main and takes away, else those that are not committed yet; of files that git has.
net:
	@base=$$(git merge-base main HEAD 2> /dev/null) || base=HEAD; \
	[ "$$base" != "$$(git rev-parse HEAD 2> /dev/null)" ] || base=HEAD; \
	for part in "league storage analysis" tests; do \
	  git diff --numstat $$base -- $$part 2> /dev/null | \
	    awk -v part="$$part" '{a += $$1; d += $$2} END {printf "%s: %+d lines (+%d -%d)\n", part, a - d, a, d}'; \
	done

quick:
	python -m pytest -n 2 --dist loadfile -m "not slow and not alone and not long"

# Files whose tests may have a mark: to collect all others would take each process longer than many of the tests.
marked = $$(grep -rlE --include 'test_*.py' $(2) 'mark\.$(1)' tests)

# Everything that protects a user. Three tests at a time, also on two cores, as many wait for disks and other
# processes; then two at a time those that start several processes or fill the memory; then those of GPUs.
# CHECKED=1: without what `make check` has just shown.
test: browser engines
	python -m pytest -n 3 --dist loadfile -m "$(if $(CHECKED),slow and )not alone and not long" --ignore tests/gpu
	python -m pytest -n 2 --dist loadfile -m "alone and not long" $(call marked,alone,--exclude-dir gpu)
	@$(MAKE) --no-print-directory test-gpu

# On the GPUs of this machine; where there are none, on doubles of them (tests/gpu/double).
test-gpu:
	python -m tests.gpu.double -m pytest -n 2 --dist loadfile tests/gpu

# The rest: whole trainings, many more kills and faults, calibration of intervals. CI runs it after `make test`.
test-long: browser
	python -m pytest -n 3 --dist worksteal -m "long and not alone and not variant" $(call marked,long|mostly_long)
	python -m pytest -n 2 --dist loadfile -m "long and alone and not variant" $(call marked,alone)

# Further seeds and variants of what takes longest, and what configs/README.md says of all configs, as they are,
# over three seeds; CI does not run them.
test-variants:
	LEAGUE_LONG=1 python -m pytest tests/league/commands/test_app.py tests/league/rules
	python -m pytest -m variant tests
	python -m tests.bench.configs

# The tests of one room: make test-storage, test-analysis, test-league, or a folder: make test-league/rules
test-%:
	python -m pytest -n 2 --dist loadfile -m "not alone and not long" tests/$*

lint:
	ruff check .
	ruff format --check .

types:
	mypy

bench:
	python -m tests.bench.story
	python -m tests.bench.throughput
	python -m tests.bench.driver
	python -m tests.bench.many_runners
	python -m tests.bench.programs
	python -m tests.bench.gpu
	python -m tests.bench.gpu_beside
	python -m tests.bench.learners
	python -m tests.bench.fragments
	python -m tests.bench.runners --runners 1 4 16
	python -m tests.bench.ratings
	python -m tests.bench.matchmaking
	python -m tests.bench.policy_groups
	python -m tests.bench.tournaments
	python -m tests.bench.schedules
	python -m tests.bench.exploitability
	python -m tests.bench.exploit
	python -m tests.bench.yardsticks
	python -m tests.bench.strength --seeds 1
	python -m tests.bench.diagnostics
	python -m tests.bench.history

# What one GPU does, in 25 minutes or fewer, as a page: gpu_report/report.md. Neither Ray nor a network is needed.
MINUTES = 25
gpu-report:
	python -m tests.bench.gpu --out gpu_report --minutes $(MINUTES)

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
	LEAGUE_FAULTS=long python -m pytest -s tests/league/training/test_session.py -k killed

# Random kills and stops of everything that takes part in leagues on clusters of three raylets, two of which do not
# see the run: runners, learners, aggregators, raylets, heads, drivers. Needs root; SLOW times the patience, on a busy machine.
KILLS = 200
SEED = 0
SLOW = 1
faults-cluster:
	python -m tests.league.cluster.faults.siege --kills $(KILLS) --seed $(SEED) --slow $(SLOW)

# The pictures in README.md: a report, from the run of its first command, and a session in a terminal.
picture:
	python -m tests.bench.report_picture runs/connect_four
	python -m tests.bench.session_picture

# The wheel and the sdist, in dist/, once they have shown that they can be installed and used elsewhere. No network.
release: check
	rm -rf dist
	python -m build --no-isolation
	python -m pytest tests/test_packaging.py -m "long or not long"
