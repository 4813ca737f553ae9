"""A mixture draws one of its members for each seat of each match, and that one plays to the end."""

import numpy as np
import pytest

from league.envs.spaces import ActionSpec, ObservationSpec
from league.models.actor import Actor, Chosen, Look
from league.models.policies.mixture import MixtureActor, MixtureMember
from league.models.policies.policy import Policy, initial_weights
from league.models.spec import PolicySettings, PolicySpec

OBSERVATION, ACTION = ObservationSpec((2, 3), "int8"), ActionSpec("discrete", (5,))
MASK = np.ones((400, 5), np.bool_)
SEEN = np.zeros((400, 2, 3), np.int8)


class Always(Actor):
    """Takes one action, and counts in its memory how often it was asked."""

    memory_size = 1

    def __init__(self, action, searches=False):
        self.action, self.wants_game = action, searches

    def decide(self, look, rng, temperature=1.0):
        if look.memory is not None:
            look.memory[:] += 1
        n = len(look)
        action = np.full(n, self.action)
        raw = 10 * look.places.slot + look.places.seat if self.wants_game else action
        return Chosen(action, np.full(n, -temperature, np.float32), look.observation, raw, np.ones(n, bool))


def policy(seed, **settings):
    spec = PolicySpec(PolicySettings(hidden=(8,), **settings), OBSERVATION, ACTION)
    weights = initial_weights(spec, seed)
    weights["policy_head.weight"] = 100 * weights["policy_head.weight"]
    return Policy(spec, weights, f"policy-{seed}")


def memory_of(mixture, n=400):
    return np.zeros((n, mixture.memory_size), np.float32)


def test_members_are_drawn_by_their_weights_and_stay():
    mixture = MixtureActor([MixtureMember(Always(1), 1.0), MixtureMember(Always(3), 3.0)])
    memory, rng = memory_of(mixture), np.random.default_rng(0)
    first = mixture.decide(Look(SEEN, MASK, memory), rng).action
    assert (first == 3).mean() == pytest.approx(0.75, abs=0.07)
    for asked in range(2, 5):
        assert (mixture.decide(Look(SEEN, MASK, memory), rng).action == first).all()
        assert (memory[:, 1] == asked).all()
    memory[:200] = 0.0  # new matches there
    again = mixture.decide(Look(SEEN, MASK, memory), rng).action
    assert (again[200:] == first[200:]).all()
    assert not (again[:200] == first[:200]).all()


def test_rows_get_what_their_member_would_choose_alone_in_any_order():
    networks = [policy(0), policy(1), policy(2, memory={"kind": "gru", "size": 4})]
    mixture = MixtureActor([MixtureMember(each, 1.0, temperature=0.0) for each in networks])
    rng = np.random.default_rng(1)
    seen = rng.integers(-2, 3, SEEN.shape).astype(np.int8)
    memory = memory_of(mixture)
    chosen = mixture.decide(Look(seen, MASK, memory), rng)
    member = memory[:, 0].astype(int) - 1
    assert sorted(np.unique(member)) == [0, 1, 2]
    for number, network in enumerate(networks):
        own = member == number
        alone_memory = np.zeros((own.sum(), network.memory_size), np.float32)
        alone = network.decide(Look(seen[own], MASK[own], alone_memory), np.random.default_rng(0), 0.0)
        np.testing.assert_array_equal(chosen.action[own], alone.action)
        np.testing.assert_allclose(chosen.log_prob[own], alone.log_prob, atol=1e-5)
        np.testing.assert_allclose(memory[own, 1 : 1 + network.memory_size], alone_memory, atol=1e-5)


def test_members_play_at_their_own_temperature_unless_another_is_asked_for():
    mixture = MixtureActor([MixtureMember(Always(0), 1.0, temperature=0.25), MixtureMember(Always(1), 1.0)])
    memory, rng = memory_of(mixture), np.random.default_rng(0)
    chosen = mixture.decide(Look(SEEN, MASK, memory), rng)
    np.testing.assert_array_equal(
        chosen.log_prob, np.where(chosen.action == 0, -0.25, -1.0).astype(np.float32)
    )
    assert (mixture.decide(Look(SEEN, MASK, memory), rng, 0.5).log_prob == -0.5).all()


def test_a_match_in_which_a_member_was_drawn_is_never_certain_at_first():
    mixture = MixtureActor([MixtureMember(Always(0), 1.0), MixtureMember(Always(1), 1.0)])
    memory, rng = memory_of(mixture), np.random.default_rng(0)
    assert not mixture.decide(Look(SEEN, MASK, memory), rng).certain.any()
    assert mixture.decide(Look(SEEN, MASK, memory), rng).certain.all()
    alone = MixtureActor([MixtureMember(Always(0), 1.0)])
    assert alone.decide(Look(SEEN, MASK, memory_of(alone)), rng).certain.all()


def test_a_member_that_searches_is_shown_the_match():
    mixture = MixtureActor([MixtureMember(Always(0), 1.0), MixtureMember(Always(1, searches=True), 1.0)])
    assert mixture.wants_game
    slot, seat = np.arange(400), np.arange(400) % 2
    chosen = mixture.decide_at(
        None, slot, seat, Look(SEEN, MASK, memory_of(mixture)), np.random.default_rng(0)
    )
    np.testing.assert_array_equal(chosen.raw, np.where(chosen.action == 1, 10 * slot + seat, 0))


@pytest.mark.parametrize("weights", [[], [1.0, 0.0], [1.0, -1.0], [float("nan")]])
def test_weights_that_are_no_weights_are_refused(weights):
    with pytest.raises(ValueError, match="expected positive numbers"):
        MixtureActor([MixtureMember(Always(0), weight) for weight in weights])
