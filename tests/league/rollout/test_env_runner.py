"""A runner plays every match of a request to its end, and hands over what the learner saw."""

import dataclasses
import os
import socket
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

from league.envs import registry
from league.models.networks.distributions import distribution
from league.models.networks.networks import build_network
from league.models.policies.policy import Policy, initial_weights
from league.models.spec import PolicySettings, PolicySpec
from league.rollout.env_runner import EnvRunner
from league.rollout.requests import LiveSource, PlaySetup
from league.rollout.settings import RolloutSettings
from storage.records import EndReason, Outcome
from storage.snapshots.blobs import map_tensors
from tests.league.rollout.conftest import GRU, LSTM, STACKED, unlearned


def runner(env, slots=16, *, options=None, **settings):
    return EnvRunner(PlaySetup(env, options or {}, RolloutSettings(slots=slots, **settings)))


def play(runner, request, weights):
    """The results, the info, and the episodes of the only learner."""
    results, info, by_learner = runner.play(request, weights)
    (episodes,) = by_learner.values()
    return results, info, episodes


@pytest.mark.parametrize(
    "env", ["connect_four", "tic_tac_toe", "kuhn_poker", "leduc_poker", "rock_paper_scissors"]
)
def test_every_match_ends_and_its_scores_are_the_sums_of_its_rewards(env, make_request):
    request, weights = make_request(env, 100, snapshots=3, self_play=10)
    results, info, episodes = play(runner(env), request, weights)
    assert (results.reason == EndReason.FINISHED).all()
    np.testing.assert_allclose(results.score.sum(axis=1), 0.0, atol=1e-6)  # all of these games are zero-sum
    assert info.env_steps == results.env_steps.sum() > 0
    assert info.trained_steps == {episodes.player: episodes.num_steps}
    for e in range(len(episodes)):
        episode = episodes[e]
        match = episode.match_id - 1000
        assert request.matches.learning[match, episode.seat]
        np.testing.assert_allclose(episode.reward.sum(), results.score[match, episode.seat], atol=1e-5)
    learning_seats = {(m, s) for m, s in zip(*np.nonzero(request.matches.learning), strict=True)}
    assert {
        (e.match_id - 1000, e.seat) for e in map(episodes.__getitem__, range(len(episodes)))
    } <= learning_seats


def test_each_learning_seat_of_a_game_of_turns_leaves_an_episode_in_order_of_matches(make_request):
    request, weights = make_request("tic_tac_toe", 60, self_play=5)
    _, _, episodes = play(runner("tic_tac_toe"), request, weights)
    assert len(episodes) == request.matches.learning.sum() == 65
    key = episodes.match_id * 2 + episodes.seat
    assert (np.diff(key) > 0).all()
    assert (episodes.version == 7).all()
    assert episodes.terminated.all()


CRITIC = PolicySettings(hidden=(16,), separate_value=True, value_sees="all")


def test_a_value_that_sees_all_learns_beside_what_the_other_seat_saw(make_request):
    request, weights = make_request("kuhn_poker", 60, self_play=60, settings=CRITIC, snapshots=0)
    _, _, episodes = play(runner("kuhn_poker"), request, weights)
    own, others = episodes.observation[:, :11], episodes.observation[:, 11:]
    assert others.shape == own.shape
    assert (own[:, :2] == others[:, 1::-1]).all()  # the seat
    assert (own[:, 2:5] * others[:, 2:5] == 0).all()  # nobody has the same card
    assert (others[:, 2:5].sum(1) == 1).all()
    assert (own[:, 5:] == others[:, 5:]).all()  # what was said is public
    for match in range(60):
        first, second = (episodes[int(e)] for e in np.flatnonzero(episodes.match_id == 1000 + match))
        assert (first.observation[:, 11 + 2 : 11 + 5] == second.observation[0, 2:5]).all()


def test_a_truncated_match_leaves_what_all_seats_see_at_its_end(signals, make_request):
    request, weights = make_request(signals, 40, self_play=40, settings=CRITIC, snapshots=0)
    _, _, episodes = play(runner(signals, step_limit=3), request, weights)
    assert not episodes.terminated.all()
    assert episodes.bootstrap.shape == (np.count_nonzero(~episodes.terminated), 8)
    pairs = {}
    for e in np.flatnonzero(~episodes.terminated):
        pairs.setdefault(int(episodes.match_id[e]), []).append(episodes[int(e)].bootstrap)
    both = [rows for rows in pairs.values() if len(rows) == 2]
    assert both
    for first, second in both:
        assert (first == np.roll(second, 4)).all()


def test_recorded_steps_replay_the_match(make_request):
    request, weights = make_request("tic_tac_toe", 40, self_play=40)
    results, _, episodes = play(runner("tic_tac_toe"), request, weights)
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
    results, _, episodes = play(runner("connect_four"), request, weights)
    lost = np.flatnonzero((results.outcome == Outcome.LOSS).any(axis=1))
    assert len(lost) > 20
    for match in lost:
        seat = int(np.flatnonzero(results.outcome[match] == Outcome.LOSS)[0])
        (e,) = np.flatnonzero((episodes.match_id == 1000 + match) & (episodes.seat == seat))
        assert episodes[int(e)].reward[-1] == -1.0


def test_truncated_matches_are_bootstrapped_from_what_each_seat_sees_then(make_request):
    request, weights = make_request("connect_four", 30, self_play=30)
    results, _, episodes = play(runner("connect_four", step_limit=5), request, weights)
    assert (results.reason == EndReason.STEP_LIMIT).all()
    assert (results.env_steps == 5).all()
    assert not episodes.terminated.any()
    assert len(episodes.bootstrap) == len(episodes) == 60
    for e in range(0, 60, 2):
        seat0, seat1 = episodes[e], episodes[e + 1]
        # after five stones the seat to move sees three of the other's and two of its own
        assert seat1.bootstrap.reshape(2, 42).sum(axis=1).tolist() == [2, 3]
        assert seat0.bootstrap.reshape(2, 42).sum(axis=1).tolist() == [3, 2]


def test_snapshots_are_at_hand_while_they_play_and_the_least_used_leave_afterwards(make_request):
    request, weights = make_request("tic_tac_toe", 60, snapshots=5)
    player = runner("tic_tac_toe", policy_map_capacity=3)
    _, info, _ = player.play(request, weights)
    mapped, disk, remote = info.tiers
    assert (mapped.tier, mapped.misses, mapped.resident, mapped.evictions["count"]) == ("mapped", 5, 3, 2)
    assert (disk.tier, disk.hits, disk.misses) == ("disk", 5, 0)
    assert (remote.tier, remote.hits, remote.misses) == ("remote", 0, 0)
    assert info.process == f"{socket.gethostname()}:{os.getpid()}"
    _, info, _ = runner("tic_tac_toe", policy_map_bytes=1).play(request, weights)
    assert info.tiers[0].resident == 1


def test_matches_are_the_same_when_snapshots_play_on_a_device(make_request):
    """The device is the CPU here, by another name: the tier between is what differs."""
    request, weights = make_request("connect_four", 50, snapshots=3)
    settings = RolloutSettings(slots=16, policy_map_capacity=2)
    results, info, episodes = play(EnvRunner(PlaySetup("connect_four", {}, settings)), request, weights)
    on_device = EnvRunner(PlaySetup("connect_four", {}, settings.model_copy(update={"device": "cpu:0"})))
    theirs, their_info, their_episodes = play(on_device, request, weights)
    np.testing.assert_array_equal(results.score, theirs.score)
    np.testing.assert_array_equal(episodes.action, their_episodes.action)
    np.testing.assert_array_equal(episodes.log_prob, their_episodes.log_prob)
    assert [tier.tier for tier in info.tiers] == ["mapped", "disk", "remote"]
    assert [tier.tier for tier in their_info.tiers] == ["device", "mapped", "disk", "remote"]
    assert (their_info.tiers[0].misses, their_info.tiers[0].resident) == (3, 2)


def test_a_request_without_learner_leaves_no_episodes(make_request):
    request, weights = make_request("tic_tac_toe", 10)
    _, info, episodes = runner("tic_tac_toe").play(dataclasses.replace(request, learners=()), weights)
    assert episodes == {}
    assert info.trained_steps == {}


def test_greedy_snapshots_play_the_same_game_whatever_the_seed(make_request):
    request, weights = make_request("tic_tac_toe", 2, snapshots=2)
    greedy = unlearned(request, [[1, 2], [2, 1]], [None, 0.0, 0.0])
    one, other = (
        runner("tic_tac_toe").play(dataclasses.replace(greedy, seed=seed), weights)[0] for seed in (1, 2)
    )
    np.testing.assert_array_equal(one.env_steps, other.env_steps)
    np.testing.assert_array_equal(one.score, other.score)


def test_a_learner_that_is_not_seated_is_refused(make_request):
    request, weights = make_request("tic_tac_toe", 2)
    with pytest.raises(ValueError, match="'ghost' is not among its live competitors"):
        runner("tic_tac_toe").play(dataclasses.replace(request, learners=("ghost",)), weights)


# ---------------------------------------------------------------- memory, connectors, kinds of actions


def reevaluated(spec, weights, episodes):
    """Log-probabilities [N] of the recorded actions, from what a learner gets to know."""
    network = build_network(spec)
    network.load_state_dict({name: torch.tensor(array) for name, array in weights["main-0"].items()})
    lengths = np.diff(episodes.offset)
    steps = np.arange(lengths.max())[:, None]
    layout = np.where(steps < lengths, episodes.offset[:-1] + steps, episodes.num_steps)
    with torch.no_grad():
        parameters, _, _ = network.unroll(
            torch.from_numpy(episodes.observation),
            torch.from_numpy(layout),
            torch.zeros(len(episodes), network.memory_size),
        )
        of = distribution(spec.action, spec.squash)
        log_prob, _ = of.evaluate(
            parameters, torch.from_numpy(episodes.mask), torch.from_numpy(episodes.action)
        )
    return log_prob.numpy()


@pytest.mark.parametrize("actions", ["discrete", "multi_discrete", "continuous"])
@pytest.mark.parametrize(
    "settings",
    [
        GRU,
        LSTM,
        STACKED,
        PolicySettings(hidden=(16,), memory={"kind": "transformer", "size": 8, "context": 3, "heads": 2}),
        GRU.model_copy(update={"connectors": STACKED.connectors}),
        PolicySettings(hidden=(16,), connectors=({"kind": "normalise"},)),
    ],
    ids=["gru", "lstm", "stacked", "transformer", "gru-stacked", "normalised"],
)
def test_recorded_steps_have_the_log_probabilities_that_an_unroll_gives_them(
    settings, actions, signals, make_request
):
    """Memory is right at every step, zero where matches begin, and of no other seat."""
    options = {"actions": actions, "parts": settings is GRU}
    opponents = [LSTM, STACKED, PolicySettings(hidden=(8,))]
    request, weights = make_request(
        signals, 60, snapshots=opponents, bots=("random",), self_play=20, settings=settings, options=options
    )
    # heads that are close to uniform would hide what went wrong
    weights["main-0"]["policy_head.weight"] *= 100.0
    results, _, episodes = play(runner(signals, slots=7, options=options), request, weights)
    assert (results.reason == EndReason.FINISHED).all()
    assert episodes.num_steps > 300
    spec = request.sources[0].spec
    assert episodes.observation.shape[1:] == spec.seen.shape
    assert episodes.observation.dtype == spec.seen.dtype
    assert episodes.action.shape[1:] == spec.action.shape
    assert episodes.mask.shape[1:] == (spec.action.mask_width,)
    np.testing.assert_allclose(reevaluated(spec, weights, episodes), episodes.log_prob, rtol=0, atol=1e-5)


def test_frames_last_actions_and_rewards_are_those_of_the_seat_itself(signals, make_request):
    options = {"actions": "multi_discrete"}
    request, weights = make_request(
        signals, 40, snapshots=[GRU], self_play=10, settings=STACKED, options=options
    )
    _, _, episodes = play(runner(signals, slots=6, options=options, step_limit=6), request, weights)
    assert (~episodes.terminated).sum() > 10
    width, zeros = 4, np.zeros(4, np.float32)
    one_hot = [np.eye(size, dtype=np.float32) for size in (2, 3)]
    for e in range(len(episodes)):
        episode = episodes[e]
        seen = list(episode.observation)
        if episode.bootstrap is not None:
            seen.append(episode.bootstrap)  # what it would have been shown next
        frames = [zeros, zeros, *(row[2 * width : 3 * width] for row in seen)]
        for t, row in enumerate(seen):
            np.testing.assert_array_equal(row[: 3 * width], np.concatenate(frames[t : t + 3]))
            last = np.zeros(6, np.float32)
            if t:
                choices = episode.action[t - 1]
                last = np.r_[one_hot[0][choices[0]], one_hot[1][choices[1]], episode.reward[t - 1]]
                np.testing.assert_allclose(row[3 * width :], last, atol=1e-6)
            else:
                np.testing.assert_array_equal(row[3 * width : -1], last[:-1])


@pytest.mark.parametrize("theirs", [GRU, STACKED, LSTM], ids=["gru", "stacked", "lstm"])
def test_snapshots_mapped_from_blobs_remember_as_opponents_do_in_their_own_match(
    theirs, signals, make_request
):
    request, weights = make_request(signals, 12, snapshots=[theirs, theirs])
    seat = np.array([[1, 2], [2, 1]] * 6)
    alone = unlearned(request, seat, [None, 0.0, 0.0])
    results, _, _ = runner(signals, slots=5).play(alone, weights)
    policies = [Policy(s.spec, map_tensors(Path(s.path), verify=True)) for s in alone.sources[1:]]
    game, rng = registry.make(signals, 1), np.random.default_rng(0)
    for match in range(12):
        memory = [np.zeros((1, policies[0].memory_size), np.float32) for _ in range(2)]
        since, score = np.zeros(2, np.float32), np.zeros(2, np.float32)
        game.reset(np.array([0]), request.matches.seed[match : match + 1])
        while game.active.any():
            (block,) = game.due()
            actions = []
            for row, s in enumerate(block.seat):
                action, _ = policies[seat[match, s] - 1].act(
                    block.observation[row : row + 1],
                    block.mask[row : row + 1],
                    rng,
                    True,
                    memory[s],
                    since[s : s + 1].copy(),
                )
                since[s] = 0.0
                actions.append(action)
            rewards = game.step([np.concatenate(actions)]).rewards[0]
            since += rewards
            score += rewards
        np.testing.assert_allclose(score, results.score[match], atol=1e-5)


def test_the_network_of_a_live_player_may_be_imported_that_of_a_snapshot_not(
    signals, make_request, monkeypatch
):
    trusted = []
    monkeypatch.setattr("league.rollout.env_runner.trust", lambda *paths: trusted.extend(paths))
    request, weights = make_request(signals, 2, snapshots=0, self_play=2)
    runner(signals).play(request, weights)
    assert trusted == []
    live = request.sources[0]
    spec = PolicySpec(PolicySettings(torso="mine:Net"), live.spec.observation, live.spec.action)
    foreign = dataclasses.replace(request, sources=(dataclasses.replace(live, spec=spec),))
    with pytest.raises(Exception, match="mine:Net"):  # named, not found: this test trusts nothing
        runner(signals).play(foreign, weights)
    assert trusted == ["mine:Net"]


# ---------------------------------------------------------------- games for one


def test_a_game_for_one_is_played_and_recorded(make_request):
    request, weights = make_request("recall", 50, snapshots=0, settings=GRU)
    results, info, episodes = play(runner("recall", options={"length": 5}), request, weights)
    assert results.score.shape == (50, 1)
    assert set(results.score[:, 0]) == {-1.0, 1.0}
    assert (results.rank == 0).all()
    assert info.env_steps == episodes.num_steps == 250
    assert np.diff(episodes.offset).tolist() == [5] * 50
    np.testing.assert_array_equal(episodes.reward.reshape(50, 5)[:, :4], 0.0)
    np.testing.assert_array_equal(episodes.reward.reshape(50, 5)[:, 4], results.score[:, 0])
    np.testing.assert_allclose(
        reevaluated(request.sources[0].spec, weights, episodes), episodes.log_prob, rtol=0, atol=1e-5
    )


@pytest.mark.parametrize(
    ("name", "seats", "time"), [("Pendulum-v1", 1, 9), ("CartPole-v1", 1, 14), ("CartPole-v1", 2, 14)]
)
def test_gymnasium_itself_replays_what_was_recorded_and_where_it_was_cut(name, seats, time, make_request):
    """Of two seats, one may have come to its end before time cut the other: it is not bootstrapped."""
    env, options = f"gymnasium:{name}", {"seats": seats, "kwargs": {"max_episode_steps": time}}
    request, weights = make_request(env, 30, snapshots=0, self_play=30, options=options)
    results, _, episodes = play(runner(env, slots=8, options=options), request, weights)
    spec = request.sources[0].spec
    assert len(episodes) == 30 * seats
    original, cut = gymnasium.make(name, max_episode_steps=time), []
    for e in range(len(episodes)):
        episode = episodes[e]
        match = episode.match_id - 1000
        seen, _ = original.reset(seed=int(request.matches.seed[match]))
        taken = distribution(spec.action, spec.squash).to_env(episode.action)
        for t, action in enumerate(taken):
            np.testing.assert_array_equal(episode.observation[t], np.float32(seen))
            seen, reward, terminated, truncated, _ = original.step(action)
            assert episode.reward[t] == pytest.approx(reward, abs=1e-5)
            assert (terminated or truncated) == (t == len(taken) - 1)
        cut.append(truncated and not terminated)
        assert episodes.terminated[e] != cut[-1]
        if cut[-1]:
            np.testing.assert_array_equal(episode.bootstrap, np.float32(seen))
    assert any(cut)
    assert all(cut) == (name == "Pendulum-v1")
    by_match = np.array(cut).reshape(30, seats).any(axis=1)
    np.testing.assert_array_equal(results.reason == EndReason.STEP_LIMIT, by_match)
    np.testing.assert_array_equal(results.reason == EndReason.FINISHED, ~by_match)


def test_live_weights_are_copied_once_as_long_as_they_are_the_same_arrays():
    game = runner("tic_tac_toe")
    spec = PolicySpec(PolicySettings(hidden=(4,)), game.game.observation_specs[0], game.game.action_specs[0])
    source = LiveSource("main-0", 3, spec)
    weights = {name: tensor.numpy() for name, tensor in initial_weights(spec, 0).items()}
    first = game._live(source, weights)
    assert game._live(source, dict(weights)) is first
    # a player that was reset begins again with other weights of the same version
    other = game._live(source, {name: array + 1.0 for name, array in weights.items()})
    assert torch.equal(other.tensors["value_head.bias"], first.tensors["value_head.bias"] + 1.0)
