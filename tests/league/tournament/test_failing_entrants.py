"""Entrants that fail lose their games, the rest is played, and one that fails too often plays no more."""

from collections import Counter

import pytest

from analysis.tournaments.tournament import verdict
from analysis.tournaments.wording import warnings
from league.tournament.play import play
from league.tournament.settings import load
from league.watching.replay import replay
from storage import query
from tests.league.tournament.test_tournament_runs import assert_same
from tests.parameters import mostly_long

BOTS = """
import numpy as np

def first(observation, mask, rng):
    return mask.argmax(1)

def raises(observation, mask, rng):
    if (observation.reshape(len(observation), -1).sum(1) >= 3).any():
        raise ValueError("three stones")
    return mask.argmax(1)

def nonsense(observation, mask, rng):
    return ["e4"] * len(mask)
"""


@pytest.fixture
def settings(own_module):
    own_module("entrants", BOTS)

    def make(*bots, **changes):
        made = {
            "competitors": [{"bots": ["perfect", "random", *(f"entrants:{bot}" for bot in bots)]}],
            "env": {"id": "tic_tac_toe"},
            "schedule": {"kind": "round_robin", "pairs": 4},
            "rollout": {"slots": 16, "matches_per_request": 16, "record": 1.0},
            "runners": 0,
        }
        return load(made | changes)

    return make


def incidents(run):
    rows = query(run, "SELECT kind, who, cause, matches FROM incidents ORDER BY happened_at").to_pylist()
    return [tuple(row.values()) for row in rows]


class Killed(Exception):
    """Stands for the end of the process."""


def killed_and_resumed(settings, out, at):
    def observe(standing):
        if standing.pairs >= at:
            raise Killed

    with pytest.raises(Killed):
        play(settings, out, observe=observe)
    return play(settings, out, resume=True)


@pytest.mark.slow
def test_one_that_raises_forfeits_its_games_and_the_rest_is_played(settings, tmp_path):
    said = []
    out = play(settings("first", "raises", "nonsense"), tmp_path / "out", tell=said.append)
    found = verdict(out)
    assert sum(found.ends) == 10 * 4 * 2
    assert found.table.competitor[0] == "perfect"
    assert found.table.competitor.tolist()[-1] == "entrants:nonsense"
    rows = query(
        out,
        "SELECT competitor, reason FROM matches JOIN seats USING (seq) WHERE outcome = 'forfeit'",
    ).to_pylist()
    ends = Counter((row["competitor"], row["reason"]) for row in rows)
    assert set(ends) == {("entrants:raises", "error"), ("entrants:nonsense", "illegal_action")}
    assert ends["entrants:nonsense", "illegal_action"] == 4 * 2 * 4
    causes = {who: cause for kind, who, cause, _ in incidents(out) if kind == "forfeit"}
    assert set(causes) == {"entrants:raises", "entrants:nonsense"}
    assert "ValueError: three stones (" in causes["entrants:raises"]
    assert causes["entrants:raises"].endswith("entrants.py, line 9, in raises)")
    assert len(said) == len(incidents(out)) == 2
    assert replay(out).identical == 80
    assert not any("withdrawn" in line for line in warnings(found))


@pytest.mark.slow
def test_one_that_fails_too_often_is_withdrawn_and_the_verdict_says_so(settings, tmp_path):
    given = settings("first", "raises", "nonsense", limits={"failures": 5})
    out = play(given, tmp_path / "out")
    found = verdict(out)
    assert set(found.withdrawn) == {"entrants:raises", "entrants:nonsense"}
    assert min(found.withdrawn.values()) >= 5
    (line,) = [line for line in warnings(found) if "withdrawn" in line]
    assert "entrants:nonsense after" in line
    games = found.table.set_index("competitor").games
    assert games["entrants:nonsense"] < 32
    assert games["perfect"] >= 16
    assert Counter(kind for kind, *_ in incidents(out)) == {"forfeit": 2, "withdrawn": 2}

    more = given.model_copy(update={"schedule": given.schedule.model_copy(update={"pairs": 8})})
    later = verdict(play(more, out, resume=True))
    assert later.withdrawn == found.withdrawn
    assert later.table.set_index("competitor").games["perfect"] > games["perfect"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", mostly_long([({"failures": 5}, 12), ({}, 1), ({"failures": 5}, 1)], variant=True)
)
def test_a_killed_tournament_of_failing_entrants_goes_on_as_if_it_had_not_been(settings, tmp_path, case):
    limits, at = case
    given = settings("first", "raises", "nonsense", limits=limits)
    whole = play(given, tmp_path / "whole")
    parts = killed_and_resumed(given, tmp_path / "parts", at)
    assert_same(whole, parts)
    assert incidents(whole) == incidents(parts)
