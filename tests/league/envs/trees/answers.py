"""Policies by tables: the answers to all questions of a game's tree."""

import numpy as np

from league.envs import registry
from league.models.policies.policy import Policy, initial_weights
from league.models.spec import PolicySettings, PolicySpec


def uniform(observations, masks):
    return masks / masks.sum(axis=1, keepdims=True)


def answers_by_row(tree, probabilities):
    """A policy that gives each question [Q] its row of `probabilities`, whatever else is asked beside it."""
    rows = {
        (seen.tobytes(), mask.tobytes()): row
        for seen, mask, row in zip(
            tree.questions.observations, tree.questions.masks, probabilities, strict=True
        )
    }

    def policy(observations, masks):
        return np.array([rows[o.tobytes(), m.tobytes()] for o, m in zip(observations, masks, strict=True)])

    return policy


def random_table(tree, seed):
    """Probabilities [Q, A], some of them 0."""
    rng = np.random.default_rng(seed)
    weights = rng.exponential(size=tree.questions.masks.shape) * tree.questions.masks
    weights *= (rng.random(weights.shape) < 0.8) | (weights.sum(axis=1, keepdims=True) == weights)
    weights += 1e-3 * tree.questions.masks * (weights.sum(axis=1, keepdims=True) == 0)
    return weights / weights.sum(axis=1, keepdims=True)


def network_table(tree, env_id, seed, options=None):
    spec = PolicySpec.for_game(PolicySettings(hidden=(16,)), registry.make(env_id, 1, **(options or {})))
    weights = initial_weights(spec, seed)
    weights["policy_head.weight"] *= 300  # a fresh policy is nearly uniform
    return Policy(spec, weights).evaluate(tree.questions.observations, tree.questions.masks)[0]
