"""A loss of a user's own learns from ready tensors under names of its own, and from episodes."""

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from league.learning.learner.learner import Learner, LearnerSettings
from storage.errors import Mistake

MODULE = """
import torch

from league.extend import Loss


def td_error(batch):
    q = batch.network(batch["seen"]).parameters.gather(1, batch["done"][:, None])[:, 0]
    best = batch.target(batch["next"]).parameters.max(1).values
    wanted = batch["won"] + batch.options["discount"] * (1.0 - batch["over"].float()) * best
    return (q - wanted.detach()).square()


def of_episodes(batch):
    value = batch.network(batch["observation"][: len(batch["reward"])]).value
    return (value - batch["reward"]).square()


TD = Loss(td_error, "none", sees="batch", options={"discount": 0.9})
VALUE = Loss(of_episodes, "none", sees="batch")
SCALAR = Loss(lambda batch: batch.network(batch["seen"]).value.mean(), "none", sees="batch")
CONSTANT = Loss(lambda batch: batch["won"], "none", sees="batch")
"""


@pytest.fixture(autouse=True)
def module(own_module):
    own_module("my_losses", MODULE)


@pytest.fixture
def learner(make_spec):
    def make(loss="my_losses:TD", target_updates=2, **settings):
        settings = LearnerSettings(loss=loss, target_updates=target_updates, batch_steps=8, **settings)
        return Learner("main-0", make_spec(), settings, 1)

    return make


def transitions(n=32, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "seen": rng.normal(size=(n, 4)).astype(np.float32),
        "next": rng.normal(size=(n, 4)).astype(np.float32),
        "done": rng.integers(0, 3, n),
        "won": rng.normal(size=n).astype(np.float32),
        "over": rng.random(n) < 0.5,
    }


def test_ready_tensors_are_learned_from_with_a_target_network(learner):
    player, batch = learner(lr=3e-3), transitions()
    first = player.update_from_batch(batch)
    for _ in range(100):
        last = player.update_from_batch({name: torch.from_numpy(rows) for name, rows in batch.items()})
    assert set(first) == {"policy_loss", "lag", "gradient_norm"}
    assert last["policy_loss"] < 0.3 * first["policy_loss"]
    assert (player.updates, player.env_steps) == (101, 0)


def test_ready_tensors_are_learned_from_in_parts_as_at_once(learner):
    whole, parts = (learner(optimizer="rmsprop", micro_steps=most) for most in (None, 5))
    reports = [player.update_from_batch(transitions()) for player in (whole, parts)]
    assert reports[1] == pytest.approx(reports[0], rel=1e-4)
    mine = parts.weights()
    for name, tensor in whole.weights().items():
        torch.testing.assert_close(mine[name], tensor, atol=1e-6, rtol=1e-4, msg=name)


def test_the_same_loss_of_a_run_learns_from_episodes(learner, make_episodes):
    player = learner("my_losses:VALUE", 0, lr=1e-2)
    episodes = make_episodes([4] * 8, truncated=[True] * 8)
    first = player.update_from_episodes(episodes)
    for _ in range(40):
        last = player.update_from_episodes(episodes)
    assert last["policy_loss"] < 0.5 * first["policy_loss"]
    assert last["lag"] > 50  # of version 0


@pytest.mark.parametrize(
    ("loss", "change", "message"),
    [
        ("my_losses:TD", {"won": None}, "batch: found no tensor 'won'"),
        ("my_losses:TD", {"won": np.zeros(5)}, "batch: 'won' has 5 rows, 'seen' has 32, expected as many"),
        ("my_losses:TD", {"won": 3.0}, "batch: found 'won' 3.0, expected a tensor or an array of rows"),
        ("my_losses:SCALAR", {}, r"gave shape \[\], expected one loss for each row, \[32\]"),
        ("my_losses:CONSTANT", {}, "gave losses without a gradient; call batch.network"),
        ("appo", {}, "learner.loss 'appo' learns from episodes, found a batch of tensors"),
    ],
)
def test_tensors_that_the_loss_cannot_take_are_refused_by_name(learner, loss, change, message):
    batch = {name: rows for name, rows in (transitions() | change).items() if rows is not None}
    with pytest.raises(Mistake, match=message):
        learner(loss).update_from_batch(batch)


def test_a_missing_target_network_and_an_empty_batch_are_named(learner):
    with pytest.raises(Mistake, match=r"learner\.target_updates: found 0, but the loss calls"):
        learner(target_updates=0).update_from_batch(transitions())
    with pytest.raises(Mistake, match="batch: found no tensors"):
        learner().update_from_batch({})


def test_a_whole_loss_takes_no_other_parts(make_spec):
    with pytest.raises(ValidationError, match="magnet: found a magnet with loss 'my_losses:TD'"):
        LearnerSettings(loss="my_losses:TD", magnet={"kind": "initial", "weight": 0.1})
    settings = LearnerSettings(loss="my_losses:TD", target_updates=1)
    player = Learner("a", make_spec(memory="gru"), settings, 1)
    with pytest.raises(Mistake, match=r"policy\.memory: found a network with memory"):
        player.update_from_batch(transitions())
