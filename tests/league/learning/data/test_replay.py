"""Replay: bounded, oldest out, nothing copied before it is drawn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from league.episode import Episodes
from league.learning.data.replay import Replay, mix
from tests.league.learning.conftest import random_episodes


def episodes_of(sampled):
    """Each episode by the reward of its first step."""
    return sorted(float(sampled.reward[start]) for start in sampled.offset[:-1])


def test_it_is_bounded_and_the_oldest_go_first(make_episodes):
    replay = Replay(25)
    for seed in range(4):
        replay.add("main-0", make_episodes([4, 6], seed=seed))
        assert replay.info().steps <= 25
    info = replay.info()
    assert (info.steps, info.capacity_steps, info.evicted_steps) == (20, 25, 20)
    newest = Episodes.concatenate([make_episodes([4, 6], seed=seed) for seed in (2, 3)])
    assert episodes_of(replay.sample("main-0", 25, np.random.default_rng(0))) == episodes_of(newest)


def test_the_bound_is_for_all_players_together(make_episodes):
    replay = Replay(20)
    replay.add("main-0", make_episodes([10]))
    replay.add("main-1", make_episodes([10], player="main-1"))
    replay.add("main-1", make_episodes([10], player="main-1", seed=1))
    assert replay.sample("main-0", 5, np.random.default_rng(0)) is None
    assert replay.info().steps == 20


def test_of_more_than_fits_the_last_episodes_are_kept(make_episodes):
    replay = Replay(9)
    block = make_episodes([5, 5, 4])
    replay.add("main-0", block)
    assert (replay.info().steps, replay.info().evicted_steps) == (9, 5)
    kept = replay.sample("main-0", 9, np.random.default_rng(0))
    assert episodes_of(kept) == sorted([float(block.reward[5]), float(block.reward[10])])
    replay.add("main-0", make_episodes([10]))
    assert (replay.info().steps, replay.info().evicted_steps) == (9, 15)


def test_a_sample_is_whole_episodes_none_of_them_twice(make_episodes):
    replay = Replay(1000)
    blocks = [make_episodes([3, 5, 4], truncated=[True, False, True], seed=seed) for seed in range(3)]
    for block in blocks:
        replay.add("main-0", block)
    every = [tuple(block[e].reward) for block in blocks for e in range(3)]
    for seed in range(20):
        sampled = replay.sample("main-0", 14, np.random.default_rng(seed))
        found = [tuple(sampled[e].reward) for e in range(len(sampled))]
        assert set(found) <= set(every)
        assert len(set(found)) == len(found)
        assert 14 <= sampled.num_steps < 14 + 5
    for e in range(len(sampled)):
        (origin,) = [b[i] for b in blocks for i in range(3) if tuple(b[i].reward) == found[e]]
        np.testing.assert_array_equal(sampled[e].observation, origin.observation)
        if origin.bootstrap is None:
            assert sampled[e].bootstrap is None
        else:
            np.testing.assert_array_equal(sampled[e].bootstrap, origin.bootstrap)


@pytest.mark.slow
def test_every_episode_is_as_likely_as_any_other(make_episodes):
    replay = Replay(1000)
    replay.add("main-0", make_episodes([2, 2], seed=1))
    replay.add("main-0", make_episodes([2, 2, 2], seed=2))
    rng, counts = np.random.default_rng(0), {}
    for _ in range(5000):
        sampled = replay.sample("main-0", 2, rng)
        counts[float(sampled.reward[0])] = counts.get(float(sampled.reward[0]), 0) + 1
    assert len(counts) == 5
    assert all(abs(count - 1000) < 5 * np.sqrt(5000 * 0.2 * 0.8) for count in counts.values())


def test_fewer_steps_than_asked_for_are_all_there_are(make_episodes):
    replay = Replay(1000)
    assert replay.sample("main-0", 10, np.random.default_rng(0)) is None
    replay.add("main-0", make_episodes([3, 2]))
    assert replay.sample("main-0", 10, np.random.default_rng(0)).num_steps == 5
    assert replay.sample("main-0", 0, np.random.default_rng(0)) is None


def test_what_is_kept_are_the_arrays_that_came(make_episodes):
    replay, block = Replay(1000), make_episodes([3, 2])
    for name in ("observation", "action"):
        getattr(block, name).flags.writeable = False  # as views of a shared store are
    replay.add("main-0", block)
    assert replay._blocks[0].episodes is block
    assert replay.sample("main-0", 5, np.random.default_rng(0)).observation.flags.writeable


def test_forgetting_one_player_leaves_the_others(make_episodes):
    replay = Replay(1000)
    replay.add("main-0", make_episodes([3]))
    replay.add("main-1", make_episodes([4], player="main-1"))
    replay.forget("main-0")
    assert replay.sample("main-0", 3, np.random.default_rng(0)) is None
    assert replay.sample("main-1", 3, np.random.default_rng(0)).num_steps == 4
    assert (replay.info().steps, replay.info().evicted_steps) == (4, 0)


def test_ages_are_means_over_steps(make_episodes):
    now = [100.0]
    replay = Replay(1000, clock=lambda: now[0])
    assert (replay.info().age_seconds, replay.info().age_versions) == (0.0, 0.0)
    replay.add("main-0", make_episodes([6], version=3))
    now[0] = 110.0
    replay.add("main-0", make_episodes([2], version=7))
    now[0] = 112.0
    assert replay.info().age_seconds == pytest.approx((6 * 12 + 2 * 2) / 8)
    assert replay.info().age_versions == pytest.approx((6 * 4 + 2 * 0) / 8)


def test_experience_of_somebody_else_is_refused(make_episodes):
    with pytest.raises(ValueError, match="found episodes of 'main-0', expected 'main-1'"):
        Replay(10).add("main-1", make_episodes([3]))


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.lists(st.integers(1, 9), max_size=5)), max_size=12),
    st.integers(1, 40),
)
def test_steps_are_counted_exactly_whatever_comes(blocks, capacity):
    replay, added = Replay(capacity), 0
    for player, lengths in blocks:
        replay.add(player, random_episodes(lengths, player=player))
        added += sum(lengths)
        info = replay.info()
        assert info.steps == sum(block.episodes.num_steps for block in replay._blocks) <= capacity
        assert info.steps + info.evicted_steps == added


def test_mixed_experience_is_spread_evenly(make_episodes):
    fresh, old = make_episodes([2] * 30, seed=1), make_episodes([3] * 10, seed=2)
    mixed = mix(fresh, old)
    assert mixed.num_steps == 90
    is_old = np.isin(mixed.reward, old.reward)
    for part in np.split(is_old, 3):
        assert part.mean() == pytest.approx(1 / 3, abs=0.1)
    np.testing.assert_array_equal(mixed.reward[is_old], old.reward)  # each in its own order
    np.testing.assert_array_equal(mixed.reward[~is_old], fresh.reward)


def test_a_stored_replay_draws_and_evicts_as_the_one_that_it_is_of(make_episodes):
    here, there, players = Replay(60), Replay(60), ("main-0", "main-1")
    adds = [
        (players[n % 3 == 0], make_episodes([4, 6], seed=n, player=players[n % 3 == 0])) for n in range(12)
    ]
    for player, episodes in adds[:7]:
        here.add(player, episodes)
    for player in reversed(players):  # one after the other, in any order
        there.load(player, here.state(player))
    rng, twin = np.random.default_rng(0), np.random.default_rng(0)
    for player, episodes in adds[7:]:
        for each in players:
            one, other = here.sample(each, 13, rng), there.sample(each, 13, twin)
            np.testing.assert_array_equal(one.reward, other.reward)
            np.testing.assert_array_equal(one.match_id, other.match_id)
        for replay in (here, there):
            replay.add(player, episodes)
        assert here.info().metrics() == there.info().metrics()
    there.load("main-1", {})
    assert there.nbytes("main-1") == 0 < there.nbytes("main-0")
    assert there.state("main-1") == {}


def test_a_smaller_store_keeps_the_newest_of_what_it_is_given(make_episodes):
    large, small = Replay(100), Replay(20)
    for seed in range(5):
        large.add("main-0", make_episodes([4, 6], seed=seed))
    small.load("main-0", large.state("main-0"))
    newest = Episodes.concatenate([make_episodes([4, 6], seed=seed) for seed in (3, 4)])
    assert episodes_of(small.sample("main-0", 20, np.random.default_rng(0))) == episodes_of(newest)
