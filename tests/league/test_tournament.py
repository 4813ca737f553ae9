"""Stored competitors play in pairs: equal seeds, seats swapped, the same results every time."""

import shutil
import sys
import types

import numpy as np
import pytest

import league
from league.envs.tic_tac_toe import TicTacToe
from league.rollout.env_runner import BotSource, SnapshotSource
from league.tournament import UnknownCompetitor, compare, load_actor, resolve
from storage.archive import open_reader
from storage.errors import CorruptBlob, Mistake, NotARun
from storage.records import EndReason, Outcome, Purpose

OBSERVATION, MASK = np.zeros((3, 2, 9), np.float32), np.ones((3, 9), np.bool_)


@pytest.fixture(scope="module")
def reader(trained):
    return open_reader(trained)


@pytest.fixture
def damaged(trained, tmp_path):
    """A copy of the run in which one bit of main-0's newest snapshot is flipped."""
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    newest = [s for s in open_reader(run).snapshots() if s.player == "main-0"][-1]
    path = open_reader(run).blob_path(newest)
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    data[-2] ^= 4
    path.write_bytes(data)
    return run


def test_the_games_of_a_pair_share_a_seed_and_swap_seats(trained):
    played = compare(trained, "main-0", "random", pairs=30, seed=1)
    matches = played.results.matches
    assert len(played.results) == 60
    assert matches.purpose is Purpose.TOURNAMENT
    assert (matches.seed[0::2] == matches.seed[1::2]).all()
    assert len(np.unique(matches.seed)) == 30
    for i in range(60):
        names = [seat.competitor for seat in matches[i].seats]
        assert names == [played.a, played.b] if i % 2 == 0 else [played.b, played.a]
    assert not matches.learning.any()


def test_scores_are_those_of_a_whichever_seat_it_had(trained):
    played = compare(trained, "perfect", "random", pairs=40)
    outcome = played.results.outcome
    of_perfect = np.concatenate([outcome[0::2, 0], outcome[1::2, 1]])
    assert (of_perfect != Outcome.LOSS).all()
    assert sorted(played.outcome_of_a) == sorted(of_perfect)
    assert played.pair_scores.shape == (40,)
    points = (played.outcome_of_a == Outcome.WIN) + 0.5 * (played.outcome_of_a == Outcome.DRAW)
    assert played.pair_scores.mean() == pytest.approx(points.mean())
    swapped = compare(trained, "random", "perfect", pairs=40)
    assert swapped.pair_scores.mean() < 0.2


def test_the_same_seed_plays_the_same_games_and_another_seed_others(trained):
    first, again, other = (compare(trained, "main-0", "main-1", pairs=50, seed=s) for s in (4, 4, 5))
    np.testing.assert_array_equal(first.results.outcome, again.results.outcome)
    np.testing.assert_array_equal(first.results.env_steps, again.results.env_steps)
    assert (first.results.matches.seed != other.results.matches.seed).any()
    assert (first.results.env_steps != other.results.env_steps).any()


def test_greedy_policies_play_one_game_in_every_pair(trained):
    played = compare(trained, "main-0:greedy", "main-1:greedy", pairs=20)
    assert len(np.unique(played.pair_scores)) == 1  # nothing is left to chance in this game


def test_more_pairs_than_a_runner_has_slots_are_all_played(trained):
    played = compare(trained, "random", "one_ply", pairs=700)
    assert len(played.results) == 1400
    assert (played.results.env_steps >= 5).all()
    assert (played.results.reason == EndReason.FINISHED).all()


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
    played = compare(run, "main-0", "random", pairs=5)
    assert (played.results.env_steps == 3).all()
    assert (played.results.reason == EndReason.STEP_LIMIT).all()


def test_a_game_without_two_seats_cannot_be_compared(trained, tmp_path, monkeypatch):
    class Solo(TicTacToe):
        num_seats = 1
        observation_spaces = TicTacToe.observation_spaces[:1]
        action_spaces = TicTacToe.action_spaces[:1]

    games = types.ModuleType("games_for_one")
    games.Solo = Solo
    monkeypatch.setitem(sys.modules, "games_for_one", games)
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    text = (run / "config.yaml").read_text()
    (run / "config.yaml").chmod(0o644)
    (run / "config.yaml").write_text(text.replace("id: tic_tac_toe", "id: games_for_one:Solo"))
    with pytest.raises(Mistake, match="has 1 seats, expected 2"):
        compare(run, "main-0", "random", pairs=1)


# ---------------------------------------------------------------- names


def test_a_player_stands_for_its_newest_snapshot(reader):
    newest = [snapshot for snapshot in reader.snapshots() if snapshot.player == "main-1"][-1]
    source = resolve(reader, "main-1", "tic_tac_toe")
    assert isinstance(source, SnapshotSource)
    assert source.snapshot_id == newest.snapshot_id
    assert source.blob_hash == newest.blob_hash


def test_an_id_comes_before_a_prefix_of_others(reader):
    """`main-0@0` is whole; were it a prefix only, it might fit others as well."""
    assert resolve(reader, "main-0@0", "tic_tac_toe").snapshot_id == "main-0@0"


def test_a_unique_prefix_will_do_and_another_will_not(reader):
    snapshot = [s for s in reader.snapshots() if s.player == "main-0"][-1]
    assert resolve(reader, snapshot.snapshot_id[:-1], "tic_tac_toe").snapshot_id == snapshot.snapshot_id
    with pytest.raises(UnknownCompetitor, match=r"'main-0@' fits several snapshots; nearest: main-0@0"):
        resolve(reader, "main-0@", "tic_tac_toe")


def test_bots_are_those_of_the_game(reader):
    assert resolve(reader, "perfect", "tic_tac_toe") == BotSource("perfect")
    with pytest.raises(UnknownCompetitor, match="'perfect' is no snapshot, player or bot"):
        resolve(reader, "perfect", "connect_four")


def test_modes_are_sample_and_greedy(reader):
    assert resolve(reader, "main-0:greedy", "tic_tac_toe").greedy
    assert not resolve(reader, "main-0:sample", "tic_tac_toe").greedy
    assert not resolve(reader, "main-0", "tic_tac_toe").greedy
    with pytest.raises(UnknownCompetitor, match="mode 'best', expected one of: sample, greedy"):
        resolve(reader, "main-0:best", "tic_tac_toe")


def test_an_unknown_name_names_the_nearest(reader):
    with pytest.raises(UnknownCompetitor, match=r"'perfekt' .* nearest: perfect"):
        resolve(reader, "perfekt", "tic_tac_toe")


def test_a_folder_without_a_run_has_no_competitors(tmp_path):
    with pytest.raises(NotARun):
        compare(tmp_path, "a", "b", pairs=1)


# ---------------------------------------------------------------- loading


def test_a_loaded_policy_acts_on_observations(trained):
    policy = league.load_policy(trained, "main-0")
    action, log_prob = policy.act(OBSERVATION, MASK, np.random.default_rng(0))
    assert action.shape == log_prob.shape == (3,)
    assert ((action >= 0) & (action < 9)).all()
    likeliest, _ = policy.act(OBSERVATION, MASK, np.random.default_rng(0), greedy=True)
    assert (likeliest == likeliest[0]).all()


def test_a_loaded_snapshot_is_the_one_that_was_frozen(trained, reader):
    first, newest = league.load_policy(trained, "main-0@0"), league.load_policy(trained, "main-0")
    assert any((first.tensors[name] != tensor).any() for name, tensor in newest.tensors.items())


def test_bots_are_loaded_too(trained):
    action, _ = league.load_policy(str(trained), "perfect").act(OBSERVATION, MASK, np.random.default_rng(0))
    assert action.shape == (3,)


def test_a_damaged_blob_is_neither_loaded_nor_compared(damaged):
    with pytest.raises(CorruptBlob, match="hash"):
        load_actor(damaged, "main-0")
    with pytest.raises(CorruptBlob, match="hash"):
        compare(damaged, "main-0", "random", pairs=1)
    assert load_actor(damaged, "main-1") is not None


def test_a_mode_is_no_part_of_a_policy(trained):
    with pytest.raises(UnknownCompetitor, match=r"call act\(\.\.\., greedy=True\)"):
        load_actor(trained, "main-0:greedy")
