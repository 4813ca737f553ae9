"""A runner plays every match of a request to its end, and hands over what the learner saw."""

import dataclasses

import numpy as np
import pytest

from league.envs import registry
from league.rollout.env_runner import EnvRunner, LiveSource, RolloutSettings
from storage.records import EndReason, Outcome


def runner(env, slots=16, **settings):
    return EnvRunner(env, {}, RolloutSettings(slots=slots, **settings))


@pytest.mark.parametrize(
    "env", ["connect_four", "tic_tac_toe", "kuhn_poker", "leduc_poker", "rock_paper_scissors"]
)
def test_every_match_ends_and_its_scores_are_the_sums_of_its_rewards(env, make_request):
    request, weights = make_request(env, 100, snapshots=3, self_play=10)
    results, info, episodes = runner(env).play(request, weights)
    assert (results.reason == EndReason.FINISHED).all()
    np.testing.assert_allclose(results.score.sum(axis=1), 0.0, atol=1e-6)  # all of these games are zero-sum
    assert info.env_steps == results.env_steps.sum() > 0
    assert episodes.num_steps == info.trained_steps
    for e in range(len(episodes)):
        episode = episodes[e]
        match = episode.match_id - 1000
        assert request.matches.learning[match, episode.seat]
        np.testing.assert_allclose(episode.reward.sum(), results.score[match, episode.seat], atol=1e-5)
    learning_seats = {(m, s) for m, s in zip(*np.nonzero(request.matches.learning), strict=True)}
    assert {
        (e.match_id - 1000, e.seat) for e in map(episodes.__getitem__, range(len(episodes)))
    } <= learning_seats


def test_each_learning_seat_of_a_turn_based_game_leaves_one_episode_in_the_order_of_matches(make_request):
    request, weights = make_request("tic_tac_toe", 60, self_play=5)
    _, _, episodes = runner("tic_tac_toe").play(request, weights)
    assert len(episodes) == request.matches.learning.sum() == 65
    key = episodes.match_id * 2 + episodes.seat
    assert (np.diff(key) > 0).all()
    assert (episodes.version == 7).all()
    assert episodes.terminated.all()


def test_recorded_steps_replay_the_match(make_request):
    request, weights = make_request("tic_tac_toe", 40, self_play=40)
    results, _, episodes = runner("tic_tac_toe").play(request, weights)
    game = registry.make("tic_tac_toe", 1)
    for match in range(40):
        first, second = (episodes[int(e)] for e in np.flatnonzero(episodes.match_id == 1000 + match))
        game.reset(np.array([0]), request.matches.seed[match : match + 1])
        steps = [iter(range(len(first.action))), iter(range(len(second.action)))]
        rewards = np.zeros(2)
        while game.active.any():
            (block,) = game.due()
            episode, t = (first, second)[block.seat[0]], next(steps[block.seat[0]])
            np.testing.assert_array_equal(block.observation[0], episode.observation[t])
            np.testing.assert_array_equal(block.mask[0], episode.mask[t])
            rewards += game.step([episode.action[t : t + 1]]).rewards[0]
        np.testing.assert_allclose(rewards, results.score[match])


def test_the_seat_that_did_not_move_last_gets_its_reward_on_its_own_last_step(make_request):
    request, weights = make_request("connect_four", 80, self_play=80)
    results, _, episodes = runner("connect_four").play(request, weights)
    lost = np.flatnonzero((results.outcome == Outcome.LOSS).any(axis=1))
    assert len(lost) > 20
    for match in lost:
        seat = int(np.flatnonzero(results.outcome[match] == Outcome.LOSS)[0])
        (e,) = np.flatnonzero((episodes.match_id == 1000 + match) & (episodes.seat == seat))
        assert episodes[int(e)].reward[-1] == -1.0


def test_the_same_request_gives_the_same_matches_bit_for_bit(make_request):
    request, weights = make_request("connect_four", 50, bots=("random", "one_ply"))
    first, second = (runner("connect_four").play(request, weights) for _ in range(2))
    np.testing.assert_array_equal(first[0].score, second[0].score)
    np.testing.assert_array_equal(first[2].action, second[2].action)
    np.testing.assert_array_equal(first[2].log_prob, second[2].log_prob)
    other, _, _ = runner("connect_four").play(dataclasses.replace(request, seed=99), weights)
    assert (other.env_steps != first[0].env_steps).any()


def test_truncated_matches_are_bootstrapped_from_what_each_seat_sees_then(make_request):
    request, weights = make_request("connect_four", 30, self_play=30)
    results, _, episodes = runner("connect_four", step_limit=5).play(request, weights)
    assert (results.reason == EndReason.STEP_LIMIT).all()
    assert (results.env_steps == 5).all()
    assert not episodes.terminated.any()
    assert len(episodes.bootstrap) == len(episodes) == 60
    for e in range(0, 60, 2):
        seat0, seat1 = episodes[e], episodes[e + 1]
        # after five stones the seat to move sees three of the other's and two of its own
        assert seat1.bootstrap.reshape(2, 42).sum(axis=1).tolist() == [2, 3]
        assert seat0.bootstrap.reshape(2, 42).sum(axis=1).tolist() == [3, 2]


def test_snapshots_are_loaded_once_and_the_least_used_leave(make_request):
    request, weights = make_request("tic_tac_toe", 60, snapshots=5)
    player = runner("tic_tac_toe", policy_map_capacity=3)
    _, info, _ = player.play(request, weights)
    assert info.policy_map.misses == 5
    assert info.policy_map.resident == 3


def test_a_request_without_learner_leaves_no_episodes(make_request):
    request, weights = make_request("tic_tac_toe", 10)
    _, info, episodes = runner("tic_tac_toe").play(dataclasses.replace(request, learner=None), weights)
    assert episodes is None
    assert info.trained_steps == 0


def test_greedy_snapshots_play_the_same_game_whatever_the_seed(make_request):
    request, weights = make_request("tic_tac_toe", 2, snapshots=2)
    greedy = tuple(
        s if isinstance(s, LiveSource) else dataclasses.replace(s, greedy=True) for s in request.sources
    )
    seat = np.array([[1, 2], [2, 1]], np.int32)
    matches = dataclasses.replace(request.matches, seat=seat, learning=np.zeros((2, 2), bool))
    played = [
        runner("tic_tac_toe").play(
            dataclasses.replace(request, matches=matches, sources=greedy, learner=None, seed=seed), weights
        )[0]
        for seed in (1, 2)
    ]
    np.testing.assert_array_equal(played[0].env_steps, played[1].env_steps)
    np.testing.assert_array_equal(played[0].score, played[1].score)


def test_a_learner_that_is_not_seated_is_refused(make_request):
    request, weights = make_request("tic_tac_toe", 2)
    with pytest.raises(ValueError, match="'ghost' is not among its live competitors"):
        runner("tic_tac_toe").play(dataclasses.replace(request, learner="ghost"), weights)
