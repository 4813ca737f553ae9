"""Competitors of runs take seats in one game and play: a measure of one's own is a few lines."""

from dataclasses import replace

import numpy as np
import pytest

from league.arena.agreement import agree
from league.arena.arena import Arena
from league.arena.matches import drawn_seed, one_against_others, seatings
from league.competitors.names import UnknownCompetitor
from league.models.bots.bot import UnknownBot
from league.rollout.requests import BotSource
from storage.errors import Mistake, NotARun


def mean_length(run, *names, seeds=20, seed=0):
    """A made-up measure: decisions in a match of these, each seed played in all seatings."""
    arena = Arena.of_runs(run)
    seated = arena.seat(*names)
    matches = arena.table("length", seed).matches(seated.names, seatings(len(names)), np.arange(seeds))
    played = arena.play(seated, matches, drawn_seed(seed, 0))
    return np.concatenate([results.env_steps for results in played]).mean()


@pytest.mark.slow
def test_a_measure_of_ones_own_opens_seats_and_plays(trained):
    found = mean_length(trained, "main-0", "random")
    assert 5.0 <= found <= 9.0  # of tic-tac-toe
    assert found == mean_length(trained, "main-0", "random")
    assert found != mean_length(trained, "main-0", "random", seed=1)


@pytest.mark.slow
def test_one_that_is_there_twice_gets_another_name_and_of_two_runs_that_of_its_run(make_run, tmp_path):
    one, other = (make_run(tmp_path / name, snapshots=1) for name in ("a", "b"))
    assert Arena.of_runs(one).seat("main-0", "main-0", "random").names == ("main-0@0", "main-0@0#2", "random")
    both = Arena.of_runs(one, other)
    assert both.seat("main-0", "main-0", runs=[0, 1]).names == ("a/main-0@0", "b/main-0@0")
    assert (one, other) == tuple(origin.reader.run for origin in both.origins)


@pytest.mark.slow
def test_what_cannot_take_every_seat_is_refused(make_run, tmp_path):
    arena = Arena.of_runs(make_run(tmp_path / "run", snapshots=1))
    with pytest.raises(UnknownCompetitor):
        arena.seat("main-7")
    with pytest.raises(UnknownBot, match="has no 'Nobody'"):
        arena.seat("storage.records:Nobody")
    with pytest.raises(
        Mistake, match=r"b: env: found 'tron', expected 'tic_tac_toe' as in .*a; only runs of"
    ):
        Arena.of_runs(
            make_run(tmp_path / "a", snapshots=1), make_run(tmp_path / "b", snapshots=1, env="tron")
        )
    with pytest.raises(NotARun, match="found the run of a tournament, expected that of a league"):
        Arena.of_runs(make_run(tmp_path / "cup", competitors=[]))


def test_each_seed_is_played_in_each_seating_and_determined_by_its_number():
    arena = Arena(agree([], {"id": "tron", "options": {}}))
    table = arena.table("mine", 3)
    matches = table.matches(["a", "b"], one_against_others(4), np.array([5, 9]))
    assert matches.seat.tolist() == [[0, 1, 1, 1], [1, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0]] * 2
    assert matches.match_id.tolist() == [*range(20, 24), *range(36, 40)]
    assert len(set(matches.seed[:4])) == len(set(matches.seed[4:])) == 1
    again = table.matches(["a", "b"], np.stack([one_against_others(4)] * 2), np.array([9, 1]))
    assert again.seed[0] == matches.seed[4] != matches.seed[0]


def test_bots_play_without_any_run_and_alike_matches_have_one_fingerprint():
    arena = Arena(agree([], {"id": "rock_paper_scissors", "options": {}}))
    seated = replace(arena.seated([BotSource("rock"), BotSource("paper")]), fingerprint=True)
    matches = arena.table("mine", 0).matches(seated.names, seatings(2), np.arange(3))
    (results,) = arena.play(seated, matches, 0)
    assert results.score[0::2].tolist() == [[-1.0, 1.0]] * 3
    assert results.digest is not None
    assert (results.digest[0::2] == results.digest[0]).all()
