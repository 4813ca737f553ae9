"""An exported snapshot plays as the policy it was, memory included; what does not fit is refused."""

import dataclasses

import numpy as np
import pytest
import torch

from league.envs import registry
from league.envs.spaces import ActionSpec
from league.models.actor import Look
from league.models.bots.bot import UnknownBot
from league.models.bots.scripted import make_bot
from league.models.bots.settings import ExportSettings
from league.models.policies.policy import Policy, initial_weights
from league.models.spec import PolicySettings, PolicySpec
from storage.archive import Archive, open_reader
from storage.records import MAIN, LivePlayer
from storage.upkeep.exports import WEIGHTS, export_snapshot
from tests.steps import flip_bit

torch.set_num_threads(1)
GRU = PolicySettings(hidden=(16,), memory={"kind": "gru", "size": 8}, connectors=({"kind": "previous"},))


def spec_of(settings=GRU):
    return PolicySpec.for_game(settings, registry.make("connect_four", 1))


@pytest.fixture
def export(tmp_path):
    """Exports a snapshot as a run of its own would; gives the folder."""

    def make(spec, tensors):
        config = "env: {id: connect_four, options: {}}\n"
        with Archive.create(tmp_path / "run", config, {"name": "x", "env": "e", "seed": 0}) as archive:
            archive.add_player(LivePlayer("main-0", MAIN))
            archive.add_snapshot(
                "main-0", MAIN, 5, 1, None, tensors, spec.to_json(), spec.architecture, "test"
            )
        reader = open_reader(tmp_path / "run")
        export_snapshot(reader, reader.resolve("main-0@5"), tmp_path / "champion")
        return tmp_path / "champion"

    return make


def bot_of(folder, spec, mode="sample"):
    settings = {"champion": ExportSettings(kind="export", folder=str(folder), mode=mode)}
    return make_bot("champion", "connect_four", spec.action, settings, spec.observation)


@pytest.mark.parametrize(("mode", "temperature"), [("sample", 1.0), ("greedy", 0.0)])
def test_it_plays_as_the_policy_it_was_and_remembers_as_much(export, mode, temperature):
    spec = spec_of()
    policy = Policy(spec, initial_weights(spec, 0))
    bot = bot_of(export(spec, policy.tensors), spec, mode)
    assert (bot.memory_size, bot.wants_reward) == (policy.memory_size, policy.wants_reward)
    game, slots = registry.make("connect_four", 20), np.arange(20)
    memories = [np.zeros((20, policy.memory_size), np.float32) for _ in range(2)]
    reward = np.zeros(20, np.float32)
    game.reset(slots, slots)
    for step in range(6):
        (block,) = game.due()
        seen, mask = block.observation, block.mask
        ours = bot.decide(Look(seen, mask, memories[0], reward), np.random.default_rng(step))
        theirs = policy.decide(
            Look(seen, mask, memories[1], reward), np.random.default_rng(step), temperature
        )
        assert ours.action.tolist() == theirs.action.tolist()
        assert ours.certain.tolist() == theirs.certain.tolist() == [mode == "greedy"] * 20
        np.testing.assert_array_equal(memories[0], memories[1])
        np.testing.assert_array_equal(
            bot.see(seen, memories[0], reward), policy.see(seen, memories[1], reward)
        )
        game.step([ours.action])
    assert memories[0].any()


def test_a_snapshot_of_another_game_is_refused_with_what_differs(export):
    spec = spec_of(PolicySettings(hidden=(16,)))
    folder = export(spec, initial_weights(spec, 0))
    other = dataclasses.replace(spec, action=ActionSpec("discrete", (9,)))
    with pytest.raises(
        UnknownBot, match=r"^bot 'champion': .*champion: action sizes is \(7,\), expected \(9,\); is it"
    ):
        bot_of(folder, other)


def test_a_folder_that_is_gone_or_damaged_is_told_in_one_sentence(export, tmp_path):
    spec = spec_of(PolicySettings(hidden=(16,)))
    folder = export(spec, initial_weights(spec, 0))
    with pytest.raises(
        UnknownBot, match=r"^bot 'champion': .*no such file, expected a folder made by: league snap"
    ):
        bot_of(tmp_path / "nowhere", spec)
    weights = folder / WEIGHTS
    flip_bit(weights)
    with pytest.raises(UnknownBot, match=r"^bot 'champion': "):
        bot_of(folder, spec)


def test_a_network_that_is_code_is_never_imported_for_being_named_in_an_export(export):
    spec = spec_of(PolicySettings(torso="this:Flies"))
    folder = export(spec, {"weight": np.zeros(3, np.float32)})
    with pytest.raises(UnknownBot, match=r"^bot 'champion': .*'this:Flies' is code.* was not imported"):
        bot_of(folder, spec)


def test_the_spaces_of_the_seat_must_be_known(tmp_path):
    settings = {"champion": ExportSettings(kind="export", folder=str(tmp_path))}
    with pytest.raises(ValueError, match="bot 'champion' of kind export: found no spaces of a seat"):
        make_bot("champion", "connect_four", None, settings)
