"""Two stored competitors play in pairs: equal seeds, sides swapped, the same results every time."""

import shutil
import sys
import types

import numpy as np
import pytest

import league
from analysis.statistics.elo import elo_of_score, score_counts
from analysis.statistics.sprt import Sprt
from league.arena.comparison import FIRST_BATCH, LAST_BATCH, batches, compare
from league.competitors.names import UnknownCompetitor
from league.envs.games.tic_tac_toe import TicTacToe
from league.models.bots.kinds.own_bot import FunctionBot
from storage.errors import CorruptBlob, Failure, Mistake, NotARun
from storage.records import EndReason, Outcome, Purpose
from tests.bench.until import chances, stopped
from tests.parameters import mostly_long

pytestmark = pytest.mark.slow


def games_of(played):
    """Of each game: seed, outcome of a, length."""
    seeds = np.concatenate([batch.matches.seed for batch in played.results])
    lengths = np.concatenate([batch.env_steps for batch in played.results])
    return np.stack([seeds, played.outcome_of_a, lengths], axis=1)


def with_game(trained, run, game, monkeypatch):
    """A copy of the run `trained` whose config says that it was of another game."""
    games = types.ModuleType("games_of_our_own")
    setattr(games, game.__name__, game)
    monkeypatch.setitem(sys.modules, "games_of_our_own", games)
    shutil.copytree(trained, run)
    config = run / "config.yaml"
    config.chmod(0o644)
    config.write_text(config.read_text().replace("id: tic_tac_toe", f"id: games_of_our_own:{game.__name__}"))
    return run


# ---------------------------------------------------------------- pairs


def test_the_games_of_a_pair_share_a_seed_and_swap_seats(trained):
    played = compare(trained, "main-0", "random", pairs=FIRST_BATCH, seed=1)
    (batch,) = played.results
    matches = batch.matches
    assert len(batch) == 32
    assert played.played_pairs == 16
    assert matches.purpose is Purpose.TOURNAMENT
    assert (matches.seed[0::2] == matches.seed[1::2]).all()
    assert len(np.unique(matches.seed)) == 16
    for i in range(32):
        names = [seat.competitor for seat in matches[i].seats]
        assert names == [played.a, played.b] if i % 2 == 0 else [played.b, played.a]
    assert not matches.learning.any()


def test_scores_are_those_of_a_whichever_seat_it_had(trained):
    played = compare(trained, "perfect", "random", pairs=FIRST_BATCH)
    (batch,) = played.results
    of_perfect = np.stack([batch.outcome[0::2, 0], batch.outcome[1::2, 1]], axis=1).ravel()
    assert (of_perfect != Outcome.LOSS).all()
    np.testing.assert_array_equal(played.outcome_of_a, of_perfect)
    points = (of_perfect == Outcome.WIN) + 0.5 * (of_perfect == Outcome.DRAW)
    assert played.pair_scores == pytest.approx(points.reshape(16, 2).mean(axis=1))
    swapped = compare(trained, "random", "perfect", pairs=FIRST_BATCH)
    assert swapped.pair_scores.mean() < 0.2


def test_figures_of_a_comparison_agree_with_its_games(trained):
    played = compare(trained, "main-0", "random", pairs=60, seed=2)
    wins, draws, losses = played.wins_draws_losses
    assert [wins, draws, losses] == [
        int((played.outcome_of_a == kind).sum()) for kind in (Outcome.WIN, Outcome.DRAW, Outcome.LOSS)
    ]
    score = (wins + draws / 2) / 120
    assert played.pentanomial.sum() == 60
    assert played.pentanomial @ np.arange(5) == pytest.approx(2 * wins + draws)
    assert played.pair_scores.mean() == pytest.approx(score)
    assert played.estimate.low < played.estimate.elo < played.estimate.high
    assert played.estimate.elo == pytest.approx(elo_of_score(score))
    assert played.normalized.low < played.normalized.elo < played.normalized.high
    assert (played.repeated_pairs, played.ruled_out_pairs) == (0, 0)
    assert played.sprt is played.llr is played.answer is None


def test_the_same_seed_plays_the_same_games_and_another_seed_others(trained):
    first, again, other = (compare(trained, "main-0", "main-1", pairs=50, seed=s) for s in (4, 4, 5))
    np.testing.assert_array_equal(games_of(first), games_of(again))
    assert (games_of(first)[:, 0] != games_of(other)[:, 0]).any()
    assert (games_of(first)[:, 2] != games_of(other)[:, 2]).any()


def test_pairs_are_played_batch_by_batch_and_none_is_lost(trained):
    pairs = 760
    played = compare(trained, "random", "one_ply", pairs=pairs)
    assert [len(batch) for batch in played.results] == [32, 64, 128, 256, 512, 512, 16]
    ids = np.concatenate([batch.matches.match_id for batch in played.results])
    assert ids.tolist() == list(range(2 * pairs))
    assert len(np.unique(games_of(played)[:, 0])) == pairs == len(played.pair_scores)
    assert (np.concatenate([batch.reason for batch in played.results]) == EndReason.FINISHED).all()


def test_two_teams_are_compared_side_by_side(make_run, tmp_path):
    """In whist partners sit opposite and are one side; each side has had either team of a deal."""
    run = make_run(tmp_path / "whist", env="whist", snapshots=1)
    played = compare(run, "thrifty", "random", pairs=4)
    (batch,) = played.results
    seated = np.array(batch.matches.competitors)[batch.matches.seat]
    assert seated.shape == (8, 4)
    assert all(sorted(row) == ["random", "random", "thrifty", "thrifty"] for row in seated.tolist())
    assert (seated[0::2] != seated[1::2]).all()
    assert (batch.matches.seed[0::2] == batch.matches.seed[1::2]).all()
    assert played.pair_scores.shape == (4,)


def test_batches_grow_and_hold_as_many_pairs_as_are_asked_for():
    assert list(batches(3)) == [(0, 3)]
    assert list(batches(100)) == [(0, 16), (16, 32), (48, 52)]
    for pairs in (1, FIRST_BATCH, 17, 496, 5000):
        first, size = zip(*batches(pairs), strict=True)
        assert sum(size) == pairs
        assert list(first) == [sum(size[:i]) for i in range(len(size))]
        assert max(size) <= LAST_BATCH


# ---------------------------------------------------------------- sequential tests


def test_a_sequential_test_stops_as_soon_as_it_can_tell(trained):
    played = compare(trained, "perfect", "random", pairs=5000, sprt=Sprt(0, 50))
    low, high = played.sprt.bounds
    assert played.answer == "H1"
    assert played.llr >= high
    assert played.played_pairs == 48  # two batches
    seen = int(played.tested.sum())  # it looks after each four pairs
    assert seen % 4 == 0
    assert seen < len(played.pair_scores), "it ended within a batch"
    assert played.tested.tolist() == score_counts(played.pair_scores[:seen]).tolist()
    assert low < played.sprt.llr(score_counts(played.pair_scores[: seen - 4])) < high
    beaten = compare(trained, "random", "perfect", pairs=5000, sprt=Sprt(0, 50))
    assert beaten.answer == "H0"
    assert beaten.llr <= low


def test_a_test_that_cannot_tell_ends_with_its_pairs_undecided(trained):
    played = compare(trained, "main-0", "main-1", pairs=3, sprt=Sprt(0, 5))
    low, high = played.sprt.bounds
    assert played.answer is None
    assert low < played.llr < high
    assert played.played_pairs == 3


def test_a_test_plays_the_games_that_would_be_played_without_it(trained):
    plain = compare(trained, "one_ply", "random", pairs=300, seed=3)
    tested = compare(trained, "one_ply", "random", pairs=300, seed=3, sprt=Sprt(0, 50))
    other = compare(trained, "one_ply", "random", pairs=300, seed=3, sprt=Sprt(0, 10, model="normalized"))
    assert tested.answer == "H1"
    assert tested.played_pairs < other.played_pairs
    for each in (tested, other):
        np.testing.assert_array_equal(games_of(each), games_of(plain)[: 2 * each.played_pairs])


@pytest.mark.parametrize(("elo", "drawn"), [(0.0, 0.0), (50.0, 0.4), (150.0, 0.9)])
def test_an_interval_that_ends_a_comparison_holds_as_often_as_others(elo, drawn):
    """4,000 simulated comparisons each, stopped as `until` stops them: the standard error is 0.0035."""
    low, high, pairs = stopped(50.0, elo, drawn, 4000, seed=5)
    score = chances(elo, drawn) @ np.linspace(0.0, 1.0, 5)
    held = np.mean((low <= elo_of_score(score)) & (elo_of_score(score) <= high))
    assert 0.938 < held < 0.965
    assert pairs.max() > pairs.min() or drawn > 0.5, "they stop by what was seen"
    assert ((high - low) / 2.0 <= 50.0).all()


# ---------------------------------------------------------------- modes


def test_greedy_policies_play_one_game_over_and_over_which_counts_once(trained):
    """Nothing is left to chance in this game; twenty pairs know no more than one."""
    played = compare(trained, "main-0:greedy", "main-1:greedy", pairs=20)
    assert len(played.outcome_of_a) == 40
    assert played.repeated_pairs == 19
    assert len(played.pair_scores) == sum(played.pentanomial) == 1
    assert sum(played.wins_draws_losses) == 2
    assert played.estimate.high - played.estimate.low > 500


def test_random_openings_make_deterministic_players_play_different_games(trained):
    plain = compare(trained, "main-0:greedy", "main-1:greedy", pairs=40)
    opened = compare(trained, "main-0:greedy", "main-1:greedy", pairs=40, opening_plies=2)
    assert len(plain.pair_scores) == 1 < 10 < len(opened.pair_scores) <= 40
    assert opened.repeated_pairs == 40 - len(opened.pair_scores)


@pytest.mark.parametrize("env", ["kuhn_poker", "leduc_poker"])
def test_deals_count_as_often_as_they_come_though_nobody_else_draws(make_run, tmp_path, env):
    """All pairs of greedy players are one of few, and yet no repeats: their mean is that over all deals."""
    run = make_run(tmp_path / "run", env=env, snapshots=2)
    played = compare(run, "main-0@0:greedy", "main-0@1:greedy", pairs=300)
    assert played.repeated_pairs == 0
    assert len(played.pair_scores) == 300
    assert len(np.unique(played.pair_scores)) <= 5
    dealt_anew = compare(run, "main-0@0:greedy", "main-0@1:greedy", pairs=300, seed=1)
    error = np.hypot(played.pair_scores.std(), dealt_anew.pair_scores.std()) / 300**0.5
    assert abs(played.pair_scores.mean() - dealt_anew.pair_scores.mean()) <= 4 * error


def test_one_snapshot_in_two_modes_is_two_competitors(trained):
    played = compare(trained, "main-0", "main-0:t=0.5", pairs=20)
    assert played.b == f"{played.a}:t=0.5"
    greedy = compare(trained, "main-0:greedy", "main-0", pairs=20)
    assert greedy.a == f"{greedy.b}:greedy"
    assert greedy.repeated_pairs == 0


@pytest.mark.parametrize("name", mostly_long(["main-1:t=2", "main-0", "random"], variant=True))
@pytest.mark.long
def test_who_is_compared_with_itself_is_as_strong_as_itself(trained, name):
    """Of 20 intervals 19 are expected to hold 0, and 16 or more with a probability of 0.997."""
    held = 0
    for seed in range(20):
        played = compare(trained, name, name, pairs=50, seed=seed)
        assert played.b == f"{played.a}#2"
        assert sum(played.wins_draws_losses) == 100
        held += played.estimate.low < 0 < played.estimate.high
    assert held >= 16


# ---------------------------------------------------------------- bad input


def test_a_run_with_a_step_limit_is_compared_under_it(tmp_path):
    config = {
        "env": {"id": "tic_tac_toe"},
        "policy": {"hidden": [4]},
        "league": {"preset": "none"},
        "rollout": {"slots": 8, "matches_per_request": 8, "step_limit": 3},
        "learner": {"batch_steps": 16},
        "stop": {"env_steps": 50},
    }
    run = league.train(config, tmp_path / "run")
    (batch,) = compare(run, "main-0", "random", pairs=5).results
    assert (batch.env_steps == 3).all()
    assert (batch.reason == EndReason.STEP_LIMIT).all()


def test_a_game_without_two_sides_cannot_be_compared(trained, make_run, tmp_path, monkeypatch):
    class Solo(TicTacToe):
        num_seats = 1
        observation_spaces = TicTacToe.observation_spaces[:1]
        action_spaces = TicTacToe.action_spaces[:1]

    run = with_game(trained, tmp_path / "run", Solo, monkeypatch)
    with pytest.raises(Mistake, match=r"have one side, .* league evaluate"):
        compare(run, "main-0", "random", pairs=1)
    with pytest.raises(Mistake, match="has 4 seats, expected 2, or two teams"):
        compare(make_run(tmp_path / "four", env="tron", snapshots=1), "random", "roomy", pairs=1)


def test_the_run_of_a_tournament_has_nobody_to_compare(make_run, tmp_path):
    run = make_run(tmp_path / "run", competitors=[{"run": "elsewhere"}])
    with pytest.raises(NotARun, match="found the run of a tournament, expected that of a league"):
        compare(run, "main-0", "random", pairs=2)


def test_openings_that_leave_nothing_to_play_are_refused(trained):
    with pytest.raises(Mistake, match=r"opening\.plies: found 10{30}, but"):
        compare(trained, "main-0", "random", pairs=2, opening_plies=10**30)


def test_a_bot_of_ones_own_is_compared_that_the_run_has_never_played(trained, own_module):
    first = FunctionBot("first", lambda observation, mask, rng: mask.argmax(axis=1))
    own_module("clever_bots", First=lambda env_id: first)
    played = compare(trained, "main-0", "clever_bots:First", pairs=4)
    assert played.b == "clever_bots:First"
    with pytest.raises(Mistake, match="module 'clever_bots' has no 'Second'"):
        compare(trained, "main-0", "clever_bots:Second", pairs=4)


def test_unknown_competitors_and_missing_runs_are_told(trained, tmp_path):
    with pytest.raises(UnknownCompetitor, match="nearest: perfect"):
        compare(trained, "perfekt", "random", pairs=1)
    with pytest.raises(NotARun):
        compare(tmp_path, "a", "b", pairs=1)


def test_a_damaged_competitor_is_not_compared(damaged):
    with pytest.raises(CorruptBlob, match="hash"):
        compare(damaged, "main-0", "random", pairs=1)


def test_a_game_that_always_crashes_says_nothing_of_who_is_better(trained, tmp_path, monkeypatch):
    class Crashing(TicTacToe):
        def _play(self, slot, seat, action):
            super()._play(slot, seat, action)
            self._over[slot] = True
            self._reason[slot] = EndReason.CRASH

    run = with_game(trained, tmp_path / "run", Crashing, monkeypatch)
    with pytest.raises(Failure, match=r"in each of 3 pairs of main-0@[0-9]* and random a match crashed"):
        compare(run, "main-0", "random", pairs=3)
