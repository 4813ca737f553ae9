"""Networks beside the one that learns follow it by their rules, are saved with it and begin again with it."""

import numpy as np
import pytest
import torch

from league.learning.learner.companions import Companions
from league.learning.learner.learner import LearnerSettings, LearnerState, NonFiniteLoss
from league.models.networks.networks import build_network
from league.models.policies.policy import initial_weights
from storage.errors import Mistake, WeightsMismatch
from tests.league.learning.conftest import same

NORMALISED = {"connectors": [{"kind": "normalise"}], "separate_value": True}
HOLD = {"weight": 0.3}
MAGNETS = {
    "copy": {"kind": "copy", "every": 3, **HOLD},
    "ema": {"kind": "ema", "decay": 0.9, **HOLD},
    "initial": {"kind": "initial", **HOLD},
    "reward": {"kind": "copy", "every": 3, "through": "reward", **HOLD},
}

ADAMW = {"kind": "adamw", "weight_decay": 0.01}
RICH = {"appo": {"target_updates": 3, "optimizer": ADAMW}, "ppo": {}}


def followed(network, companions, part, count):
    """Weights of the live network and of `part`, after each of `count` random changes."""
    live, own = [], []
    for update in range(1, count + 1):
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.add_(torch.randn_like(parameter))
        companions.after_update(update)
        live.append({name: p.detach().clone() for name, p in network.named_parameters()})
        own.append({name: companions.live()[part][name].clone() for name in live[-1]})
    return live, own


# ---------------------------------------------------------------------- how they follow


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "settings"),
    [("average", {"ema": {"decay": 0.8}}), ("magnet", {"magnet": {"kind": "ema", "decay": 0.8, **HOLD}})],
)
def test_a_moving_average_is_the_weighted_mean_of_all_weights_since_it_began(make_spec, part, settings):
    torch.manual_seed(0)
    network = build_network(make_spec())
    live, own = followed(network, Companions(network, LearnerSettings(**settings)), part, 6)
    for t in range(1, 7):
        shares = 0.8 ** np.arange(t)[::-1]
        for name, found in own[t - 1].items():
            expected = sum(w * s[name] for w, s in zip(shares / shares.sum(), live, strict=False))
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    assert same(own[0], live[0])  # what it began with does not count


@pytest.mark.slow
def test_a_copy_is_made_after_every_so_many_updates_since_the_reset(learner, make_episodes):
    player = learner(magnet=MAGNETS["copy"])
    first, kept = player.weights(), []
    for seed in range(7):
        player.update_from_episodes(make_episodes([64], seed=seed))
        kept.append(player.weights())
        expected = first if seed < 2 else kept[2] if seed < 5 else kept[5]
        assert same(player.state().magnet, expected), seed
    player.reset(first)
    for seed in range(2):
        player.update_from_episodes(make_episodes([64], seed=seed))
        assert same(player.state().magnet, first)
    player.update_from_episodes(make_episodes([64], seed=9))
    assert same(player.state().magnet, player.weights())


def test_an_average_has_the_live_statistics_and_a_copy_those_of_its_time(learner, make_episodes):
    player = learner(NORMALISED, ema={"decay": 0.9}, magnet=MAGNETS["copy"])
    for seed in range(2):
        player.update_from_episodes(make_episodes([64], seed=seed))
    state = player.state()
    assert float(state.weights["normaliser.count"]) == 128
    assert same(
        {n: t for n, t in state.average.items() if n.startswith("normaliser")},
        {n: t for n, t in state.weights.items() if n.startswith("normaliser")},
    )
    assert not same(state.average, state.weights)
    assert float(state.magnet["normaliser.count"]) == 0


def test_a_refused_update_leaves_all_companions_as_they_were(learner, make_episodes):
    player = learner(NORMALISED, ema={"decay": 0.9}, magnet=MAGNETS["ema"])
    player.update_from_episodes(make_episodes([64], seed=1))
    before = player.state().to_tensors()
    bad = make_episodes([64, 64])
    bad.reward[100] = np.nan  # in the second of two updates
    with pytest.raises(NonFiniteLoss):
        player.learn_from(bad)
    after = player.state()
    assert after.updates == 2
    for part in ("weights", "magnet", "average"):
        assert float(getattr(after, part)["normaliser.count"]) == float(before[f"{part}/normaliser.count"])


def test_a_teacher_stays_whatever_happens_to_its_player(learner, make_episodes, make_spec):
    teacher = initial_weights(make_spec(), 7)
    player = learner(teacher=teacher, magnet={"kind": "snapshot", "folder": "best", **HOLD})
    for seed in range(3):
        player.update_from_episodes(make_episodes([64], seed=seed))
    assert same(player.state().teacher, teacher)
    player.reset(initial_weights(make_spec(), 8))
    assert same(player.state().teacher, teacher)


def test_a_teacher_of_another_network_or_none_is_refused(learner, make_spec):
    settings = {"magnet": {"kind": "snapshot", "folder": "best", **HOLD}}
    with pytest.raises(WeightsMismatch, match=r"player main-0: 'torso.0.weight' is \(8, 4\)"):
        learner(teacher=initial_weights(make_spec(hidden=(8,)), 0), **settings)
    with pytest.raises(Mistake, match=r"learner.magnet of main-0: its kind is snapshot, but no weights"):
        learner(**settings)


# ---------------------------------------------------------------------- what is kept


@pytest.mark.parametrize("magnet", MAGNETS.values(), ids=MAGNETS)
@pytest.mark.parametrize("loss", RICH)
def test_a_restored_learner_goes_on_exactly_as_the_old_one(learner, make_episodes, magnet, loss):
    settings = {"loss": loss, "epochs": 2, "magnet": magnet, "ema": {"decay": 0.9}, **RICH[loss]}
    old, new = (learner(NORMALISED, **settings) for _ in range(2))
    for each, seed in ((old, 1), (new, 5)):
        each.update_from_episodes(make_episodes([10] * 10, seed=seed))
    stored = {name: tensor.clone() for name, tensor in old.state().to_tensors().items()}
    new.load_state(LearnerState.from_tensors(stored, old.updates, old.env_steps))
    reports = [each.update_from_episodes(make_episodes([10] * 10, seed=2)) for each in (old, new)]
    assert reports[0] == reports[1]
    assert (new.updates, new.env_steps) == (old.updates, old.env_steps) == (8, 200)
    assert same(old.state().to_tensors(), new.state().to_tensors())
    assert {"average", "ages", *(["target", "optimizer"] if loss == "appo" else [])} <= {
        name.split("/")[0] for name in stored
    }


def test_a_restored_teacher_is_the_saved_one(learner, make_spec):
    settings = {"magnet": {"kind": "snapshot", "folder": "best", **HOLD}}
    old, new = (learner(teacher=initial_weights(make_spec(), seed), **settings) for seed in (3, 4))
    new.load_state(old.state())
    assert same(new.state().teacher, initial_weights(make_spec(), 3))


def test_a_state_without_companions_begins_them_as_its_weights(learner, make_episodes):
    plain = learner()
    plain.update_from_episodes(make_episodes([64]))
    assert not any(plain.state().companions.values())
    beside = {"magnet": MAGNETS["copy"], "ema": {"decay": 0.9}, "target_updates": 5}
    held = learner(seed=2, terms={"diversity": {}}, **beside)
    held.update_from_episodes(make_episodes([64]))
    held.load_state(plain.state())
    begun = held.state().companions
    for part in ("magnet", "average", "target", "reference"):
        assert same(begun[part], plain.weights()), part
    assert {part: int(age) for part, age in begun["ages"].items()} == {"magnet": 0, "average": 0}


def test_a_snapshot_stores_the_live_weights_or_their_average(learner, make_episodes):
    player = learner(ema={"decay": 0.9}, freeze="ema")
    for seed in range(2):
        player.update_from_episodes(make_episodes([64], seed=seed))
    state = player.state()
    assert state.to_freeze("live") is state.weights
    assert state.to_freeze("ema") is state.average
    assert same(player.weights(), state.weights)  # which play
