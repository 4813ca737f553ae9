"""Distilling: one network plays as the mixture does, and goes wherever an exported snapshot goes."""

import numpy as np
import pytest
from typer.testing import CliRunner

import league
from analysis.exploitability import values
from league.commands.app import app
from league.competitors.distillation import distil, distil_to, play
from league.competitors.names import load_actor
from league.config.loading import load
from league.envs import registry
from league.envs.trees.trees import tree_of
from league.exploit.exact import strategy_of
from league.models.policies.policy import Policy, initial_weights
from league.models.spec import PolicySettings, PolicySpec
from league.training.sources import load_initial
from storage.archive import open_reader
from storage.errors import Mistake

pytestmark = pytest.mark.slow

NAME, NEWEST = "main-0@0:greedy+main-0@3:greedy", "1*main-0@3:greedy"


@pytest.fixture(scope="module")
def kuhn(make_run, tmp_path_factory):
    """Four snapshots far from one another."""
    return make_run(tmp_path_factory.mktemp("kuhn") / "run", env="kuhn_poker", snapshots=4, hidden=(16, 16))


@pytest.fixture(scope="module")
def distilled(kuhn, tmp_path_factory):
    """The folder of a distilled mixture, and what was found while it was made."""
    folder = tmp_path_factory.mktemp("distilled") / "folder"
    return folder, distil_to(open_reader(kuhn), NAME, folder, "MIT", decisions=400_000)


def test_the_network_plays_as_the_mixture_does_and_not_as_a_member(kuhn, distilled):
    tree = tree_of("kuhn_poker")
    actors = (
        league.load_policy(kuhn, NAME),
        league.load_export(distilled[0]),
        league.load_policy(kuhn, NEWEST),
    )
    mixture, network, newest = (strategy_of(tree, actor) for actor in actors)

    def gap(strategy):
        """The largest difference in what it is worth against the mixture and against its member, by seat."""
        found = []
        for other in (mixture, newest):
            for seat in (0, 1):
                pair, own = [other[0], other[1]], [other[0], other[1]]
                pair[seat], own[seat] = strategy[seat], mixture[seat]
                found.append(abs(values(tree, tuple(pair))[seat] - values(tree, tuple(own))[seat]))
        return max(found)

    assert gap(network) < 0.04
    assert gap(newest) > 0.2
    assert distilled[1].last_loss < distilled[1].first_loss


def test_its_returns_are_the_rewards_from_each_decision_on(kuhn):
    game = registry.make("kuhn_poker", 100)
    shown = play(load_actor(kuhn, NAME), game, np.random.default_rng(0))
    assert 200 <= len(shown.returns) <= 300  # two or three decisions of each match
    assert set(np.abs(shown.returns)) == {1.0, 2.0}
    assert shown.mask.shape == (len(shown.returns), 2)


def test_the_folder_is_an_export_with_its_licence_and_first_weights_of_a_player(distilled, tmp_path):
    folder, found = distilled
    settings = load(
        {
            "env": {"id": "kuhn_poker"},
            "policy": {"hidden": [16, 16]},
            "league": {"preset": "none"},
            "init_from": [{"player": "main-0", "folder": str(folder)}],
        }
    )
    initial = load_initial(settings.init_from, settings.policy_specs())["main-0"]
    for name, tensor in found.tensors.items():
        assert (initial.tensors[name] == tensor).all()
    assert "| licence | MIT |" in (folder / "README.md").read_text()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("main-0", "'main-0' is no mixture, expected one"),
        ("nobody:average", "'nobody:average' is no mixture"),
    ],
)
def test_what_is_no_mixture_is_refused_in_a_sentence(kuhn, tmp_path, name, message):
    with pytest.raises(Mistake, match=message):
        distil_to(open_reader(kuhn), name, tmp_path / "out", decisions=1)
    assert not (tmp_path / "out").exists()


def test_a_network_that_remembers_is_refused(kuhn):
    game = registry.make("kuhn_poker", 2)
    spec = PolicySpec.for_game(PolicySettings(hidden=(8,), memory="gru"), game)
    with pytest.raises(Mistake, match="remembers earlier decisions"):
        distil(load_actor(kuhn, NAME), game, spec, initial_weights(spec, 0), decisions=1)


def test_the_command_says_what_it_did(kuhn, tmp_path):
    out = tmp_path / "out"
    done = CliRunner().invoke(app, ["snapshots", str(kuhn), "distil", NAME, str(out), "--decisions", "2000"])
    assert "distilled into one network" in done.output
    assert league.load_export(out).memory_size == 0


def test_a_network_whose_value_sees_all_seats_is_distilled_without_its_value():
    """The value would need what is not in the mixture's own decisions."""
    game = registry.make("kuhn_poker", 64)
    settings = PolicySettings(hidden=(8,), separate_value=True, value_sees="all")
    spec = PolicySpec.for_game(settings, game)
    weights = initial_weights(spec, 1)
    found = distil(Policy(spec, weights), game, spec, dict(weights), decisions=4_000)
    of_value = {name for name in weights if name.startswith("value_")}
    changed = {name for name in weights if not bool((found.tensors[name] == weights[name]).all())}
    assert of_value
    assert changed
    assert not changed & of_value
