"""Replay: bounded, oldest out, nothing copied before it is drawn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from league.episode import Episodes
from league.learning.data.replay import ByError, Drawn, Replay, episode_errors, mix
from tests.league.learning.conftest import random_episodes


def episodes_of(sampled):
    """Each episode by the reward of its first step."""
    return sorted(float(sampled.reward[start]) for start in sampled.offset[:-1])


def test_it_is_bounded_and_the_oldest_go_first(make_episodes):
    replay = Replay(25)
    for seed in range(4):
        replay.add(make_episodes([4, 6], seed=seed))
        assert replay.steps <= 25
    assert replay.metrics() == {
        "replay_steps": 20,
        "replay_capacity_steps": 25,
        "replay_evicted_steps": 20,
        "replay_age_versions": 0,
    }
    newest = Episodes.concatenate([make_episodes([4, 6], seed=seed) for seed in (2, 3)])
    assert episodes_of(replay.sample(25, np.random.default_rng(0)).episodes) == episodes_of(newest)


def test_of_more_than_fits_the_last_episodes_are_kept(make_episodes):
    replay = Replay(9)
    block = make_episodes([5, 5, 4])
    replay.add(block)
    assert (replay.steps, replay.metrics()["replay_evicted_steps"]) == (9, 5)
    kept = replay.sample(9, np.random.default_rng(0)).episodes
    assert episodes_of(kept) == sorted([float(block.reward[5]), float(block.reward[10])])
    replay.add(make_episodes([10]))
    assert (replay.steps, replay.metrics()["replay_evicted_steps"]) == (9, 15)


def test_a_sample_is_whole_episodes_none_of_them_twice(make_episodes):
    replay = Replay(1000)
    blocks = [make_episodes([3, 5, 4], truncated=[True, False, True], seed=seed) for seed in range(3)]
    for block in blocks:
        replay.add(block)
    every = [tuple(block[e].reward) for block in blocks for e in range(3)]
    for seed in range(20):
        sampled = replay.sample(14, np.random.default_rng(seed)).episodes
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
    replay.add(make_episodes([2, 2], seed=1))
    replay.add(make_episodes([2, 2, 2], seed=2))
    rng, counts = np.random.default_rng(0), {}
    for _ in range(5000):
        sampled = replay.sample(2, rng).episodes
        counts[float(sampled.reward[0])] = counts.get(float(sampled.reward[0]), 0) + 1
    assert len(counts) == 5
    assert all(abs(count - 1000) < 5 * np.sqrt(5000 * 0.2 * 0.8) for count in counts.values())


def test_fewer_steps_than_asked_for_are_all_there_are(make_episodes):
    replay = Replay(1000)
    assert replay.sample(10, np.random.default_rng(0)) is None
    replay.add(make_episodes([3, 2]))
    assert replay.sample(10, np.random.default_rng(0)).episodes.num_steps == 5
    assert replay.sample(0, np.random.default_rng(0)) is None


def test_what_is_kept_are_the_arrays_that_came(make_episodes):
    replay, block = Replay(1000), make_episodes([3, 2])
    for name in ("observation", "action"):
        getattr(block, name).flags.writeable = False  # as views of a shared store are
    replay.add(block)
    assert replay.blocks[0].episodes is block
    assert replay.sample(5, np.random.default_rng(0)).episodes.observation.flags.writeable


def test_ages_are_means_over_steps(make_episodes):
    replay = Replay(1000)
    assert replay.metrics()["replay_age_versions"] == 0.0
    replay.add(make_episodes([6], version=3))
    replay.add(make_episodes([2], version=7))
    assert replay.metrics()["replay_age_versions"] == pytest.approx((6 * 4 + 2 * 0) / 8)


@pytest.mark.slow
@given(st.lists(st.lists(st.integers(1, 9), max_size=5), max_size=12), st.integers(1, 40))
def test_steps_are_counted_exactly_whatever_comes(blocks, capacity):
    replay, added = Replay(capacity), 0
    for lengths in blocks:
        replay.add(random_episodes(lengths))
        added += sum(lengths)
        assert replay.steps == sum(block.episodes.num_steps for block in replay.blocks) <= capacity
        assert replay.steps + replay.metrics()["replay_evicted_steps"] == added


def test_mixed_experience_is_spread_evenly(make_episodes):
    fresh, old = make_episodes([2] * 30, seed=1), make_episodes([3] * 10, seed=2)
    mixed, weight = mix(fresh, Drawn(old, np.full(10, 0.5, np.float32)))
    assert mixed.num_steps == 90
    is_old = np.isin(mixed.reward, old.reward)
    np.testing.assert_array_equal(weight == 0.5, is_old[mixed.offset[:-1]])
    for part in np.split(is_old, 3):
        assert part.mean() == pytest.approx(1 / 3, abs=0.1)
    np.testing.assert_array_equal(mixed.reward[is_old], old.reward)  # each in its own order
    np.testing.assert_array_equal(mixed.reward[~is_old], fresh.reward)


@pytest.mark.parametrize("make", [Replay, lambda steps: ByError(steps, 0.6, 0.4)])
def test_a_stored_replay_draws_and_evicts_as_the_one_that_it_is_of(make_episodes, make):
    here, there, rng, twin = make(60), make(60), np.random.default_rng(0), np.random.default_rng(0)
    for n in range(12):
        if n == 7:
            there.load("main-0", here.state())
        for replay, drawing in ((here, rng), (there, twin))[: 1 + (n >= 7)]:
            if n > 6:
                drawn = replay.sample(13, drawing)
                replay.rate(np.abs(drawn.episodes.reward[drawn.episodes.offset[:-1]]))
            block = make_episodes([4, 6], seed=n)
            replay.add(block, np.abs(block.reward[block.offset[:-1]]))
        if n >= 7:
            assert here.metrics() == there.metrics()
            assert all(np.array_equal(array, there.state()[name]) for name, array in here.state().items())
    there.load("main-0", {})
    assert there.nbytes == 0 < here.nbytes
    assert there.state() == {}


def test_what_an_older_version_stored_is_loaded(make_episodes):
    replay, block = Replay(60), make_episodes([4, 6])
    replay.load(
        "main-0",
        {
            "numbers": np.array([3, 5]),
            "sizes": np.array([1, 1]),
            "counts": np.array([2, 7]),
            **block.arrays(),
        },
    )
    assert [each.episodes.num_steps for each in replay.blocks] == [4, 6]
    assert replay.metrics()["replay_evicted_steps"] == 7


def test_an_episode_is_drawn_by_its_error_and_weighs_the_less_for_it(make_episodes):
    replay, counts = ByError(1000, 1.0, 1.0), np.zeros(3)
    block = make_episodes([2, 2, 2])
    replay.add(block, np.array([1.0, 2.0, 5.0], np.float32))
    firsts, rng = block.reward[block.offset[:-1]], np.random.default_rng(0)
    for _ in range(800):
        drawn = replay.sample(2, rng)
        counts += firsts == drawn.episodes.reward[0]
    assert counts / 800 == pytest.approx(np.array([1, 2, 5]) / 8, abs=0.05)
    weight = replay.sample(6, rng).weight
    np.testing.assert_allclose(weight, [1, 0.5, 0.2], rtol=1e-3)


def test_an_episode_is_as_wrong_as_its_worst_step_and_a_little_of_their_mean(make_episodes):
    errors = episode_errors(make_episodes([2, 1]), np.array([-3.0, 1.0, 0.5]))
    np.testing.assert_allclose(errors, [0.9 * 3 + 0.1 * 2, 0.5])


def test_a_smaller_store_keeps_the_newest_of_what_it_is_given(make_episodes):
    large, small = Replay(100), Replay(20)
    for seed in range(5):
        large.add(make_episodes([4, 6], seed=seed))
    small.load("main-0", large.state())
    newest = Episodes.concatenate([make_episodes([4, 6], seed=seed) for seed in (3, 4)])
    assert episodes_of(small.sample(20, np.random.default_rng(0)).episodes) == episodes_of(newest)
