"""Every snippet of league/EXTEND.md runs as it is written there."""

import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import analysis
import league
import league.extend
from analysis.exploitability import (
    PublicTree,
    best_responses,
    public_best_responses,
    public_strategy,
    strategy,
)
from league.config.loading import load
from league.envs.conformance import check
from league.envs.trees.trees import smallest_tree_of
from league.rules.roster import Roster
from league.rules.standings import Standings
from storage.records import MAIN, LivePlayer, Snapshot

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "league" / "EXTEND.md").read_text()
SNIPPETS = dict(re.findall(r"^```\w+\n# (my_\w+\.\w+)\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE))


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Write the files that the page shows, in the folder that the user runs `league` in."""
    for name, text in SNIPPETS.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in SNIPPETS:
        sys.modules.pop(name.removesuffix(".py"), None)


def test_the_page_shows_each_part_in_one_file():
    parts = (
        "game dealt_game network connector columns hook loss replay dqn branch weighting builder matchmaker "
        "bot section"
    )
    assert set(SNIPPETS) == {*(f"my_{part}.py" for part in parts.split()), "my_league.yaml"}


def test_every_name_to_import_is_there_and_documented():
    assert {name for name in league.extend.__all__ if not getattr(league.extend, name).__doc__} == set()
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = league.extend.Nonsense
    assert "league.extend" in PAGE


def test_each_table_that_a_part_of_ours_is_named_in_is_where_the_page_says():
    rows = [row for row in PAGE.partition("## A part of ours")[2].splitlines() if row.startswith("| a ")]
    assert len(rows) >= 8
    for row in rows:
        places = [ROOT / place for place in re.findall(r"`((?:league|analysis)/[\w/.]+)`", row)]
        files = [place / "__init__.py" if place.is_dir() else place for place in places]
        text = "".join(file.read_text() for file in files)
        missing = {name for name in re.findall(r"`([A-Z]\w+)`", row) if not re.search(rf"\b{name}\b", text)}
        assert missing == set(), row


def test_the_game_keeps_every_promise(written):
    report = check("my_game:Higher")
    assert report.passed, report


def test_the_game_with_hidden_hands_keeps_every_promise_and_is_solved_exactly(written):
    report = check("my_dealt_game:Dare", num_matches=64)
    assert report.passed, report
    public = smallest_tree_of("my_dealt_game:Dare", most_histories=1)
    single = smallest_tree_of("my_dealt_game:Dare")
    assert isinstance(public, PublicTree)
    assert public.histories == single.histories

    def uniform(observations, masks):
        return masks / masks.sum(axis=1, keepdims=True)

    found = public_best_responses(public, public_strategy(public, uniform))
    expected = best_responses(single, strategy(single, uniform))
    assert found.best == pytest.approx(expected.best, abs=1e-12)
    assert found.nash_conv > 0.5


@pytest.mark.slow
def test_a_league_of_all_parts_trains_and_its_report_has_the_section(written, league_here):
    run = league.train("my_league.yaml", "runs/mine")
    with analysis.open_run(run) as history:
        played = set(history.match_mix()["match_type"])
        terms = history.sql("SELECT json_extract(metrics, '$.reference_kl') AS kl FROM updates")
    assert {"youngest", "recent", "bots", "pfsp", "self_play"} <= played
    assert terms["kl"].notna().any()
    assert sys.modules["my_hook"].seen["main-0"] > 0
    league_here("report", "runs/mine", "--section", "my_section:hardest")
    shown = (written / "report.html").read_text().partition('<section id="hardest"')[2]
    assert "is the hardest." in shown
    assert shown.count("<svg") == shown.count("<table") == 1
    refused = league_here("report", "runs/mine", "--section", "my_section:hardset")
    assert "did you mean 'hardest'?" in refused.stderr


@pytest.mark.long
def test_a_program_without_a_config_learns_to_balance_a_pole(written):
    group, lengths = importlib.import_module("my_dqn").train(1_500)
    assert group.get_state()["cart"].updates > 600
    assert sum(lengths[-9:-1]) / 8 > 40  # steps that the pole stays up; 22 by chance


def test_the_config_of_all_parts_is_a_config(written):
    assert load("my_league.yaml").name == "mine"


def test_the_matchmaker_finds_the_opponents(written):
    options = {"matchmaker": {"use": "my_matchmaker:newest", "most": 1}}
    settings = load({"env": {"id": "rock_paper_scissors"}, "league": {"preset": "self_play", **options}})
    player = LivePlayer("main-0", MAIN)
    roster = Roster([player])
    newest = Snapshot("main-0@7", "main-0", MAIN, 7, 0, None, "", 0, "mlp", 0.0, "made up")
    roster.admit(newest)
    drawn = settings.make_matchmaker().next_matches(
        player, 100, roster, Standings(roster), np.random.default_rng(0), 0
    )
    assert set(drawn.competitors) == {"main-0", "main-0@7"}
    assert {drawn.match_types[i] for i in np.unique(drawn.match_type)} == {"newest", "self_play"}
