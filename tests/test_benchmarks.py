"""Benchmarks still run: the cheap ones print their figures, each with its smallest options.

Not among them: `learners`, `many_runners` and `runners`, for which Ray starts many processes; those that
train, simulate or start processes for minutes, whose parts have tests of their own; `gpu` and `gpu_beside`,
which are in tests/gpu/test_bench.py; and those that need other programs or packages: `peers`, `pgx_loop`,
`tournaments`, `make_connect_four_positions` and both pictures.
"""

import importlib
import re
import sys

import pytest

from tests.bench import story, throughput

SMALLEST = {
    "calibration": "--fields 2",
    "driver": "--snapshots 5 --matches 64 --seconds 0.5",
    "exploit": "--seeds 1 --env-steps 500",
    "history": "ratings --matches 2000 --players 1 --snapshots 2 --opponents 2 --batch 500",
    "killing": "--every 30 --matches 64 --requests 1",
    "storage_ledger": "--seconds 0.05",
    "storage_miss": "--snapshots 2 --rounds 1",
    "storage_payoff": "--matches 5000 --snapshots 5",
    "storage_readers": "--seconds 1 --rows 1000 --readers 1",
    "storage_snapshots": "--snapshots 20",
    "strength": "--games kuhn_poker --env-steps 3000 --seeds 1 --runners 0",
    "throughput": "--snapshots 1 --seconds 4 --runners 0",
    "until": "--comparisons 2",
    "yardsticks": "--repeats 1",
}


@pytest.mark.long
@pytest.mark.parametrize("name", SMALLEST)
def test_a_benchmark_prints_its_figures(name, monkeypatch, capfd):
    monkeypatch.setattr(throughput, "WARMUP_SECONDS", 1.0)
    monkeypatch.setattr(sys, "argv", [name, *SMALLEST[name].split()])
    importlib.import_module(f"tests.bench.{name}").main()
    *_, last = capfd.readouterr().out.splitlines()
    figures = re.findall(r"\d[\d,.]*|nan", last)
    assert figures
    assert "nan" not in figures


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Use global function rate_1vs1:DeprecationWarning")  # the library's own
def test_each_row_of_the_story_has_a_ratio_above_nothing_and_says_what_it_means(capsys):
    story.main(["--quick"])
    title, _, head, rule, *rows = capsys.readouterr().out.splitlines()
    assert "cores, load" in title
    assert head == "| what | ours | beside | ratio | means |"
    assert rule == "|---|---|---|---|---|"
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert [row[0] for row in cells[:4]] == [
        "learning",
        "ratings",
        "matchmaking in a league of 100",
        "16 small snapshots in one call",
    ]
    assert all(float(row[3]) > 0 and len(row[4]) > 20 for row in cells)
