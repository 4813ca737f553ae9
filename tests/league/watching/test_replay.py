"""Recorded matches are played again from their actions, and come out the same to the bit."""

import json
from dataclasses import replace

import numpy as np
import pytest
import yaml
from gymnasium.spaces import Box, Discrete

import league
from league.envs.base import BatchedGame
from league.rollout.env_runner import EnvRunner
from league.rollout.requests import BotSource, PlayRequest, PlaySetup
from league.rollout.settings import RolloutSettings
from league.watching.replay import Replayed, replay
from storage import query
from storage.archive import Archive
from storage.errors import BadQuery, Mistake, NotARun
from storage.ledger.ledger import Ledger
from storage.records import EndReason, Outcome, Purpose
from tests import made_up


class Careless:
    """A bot that takes any action, legal or not."""

    def __init__(self, env_id):
        self.env_id = env_id

    def act(self, observation, mask, rng, greedy):
        return rng.integers(-1, mask.shape[1] + 1, size=len(mask)), np.zeros(len(mask), np.float32)


class Wild:
    """A bot of two seats with real numbers, now and then out of bounds, or none at all."""

    def __init__(self, env_id):
        self.env_id = env_id

    def act(self, observation, mask, rng, greedy):
        action = rng.uniform(-2, 2, size=(len(mask), 1)).astype(np.float32)
        lot = rng.integers(400, size=len(mask))
        action[lot == 0], action[lot == 1] = np.nan, 1e9
        return action, np.zeros(len(mask), np.float32)


class Breaking(BatchedGame):
    """A seat counts to 3; the match of an odd seed breaks at its second step, as long as `broken`."""

    id = "breaking"
    num_seats = 1
    observation_spaces = (Box(0, 1, (1,), np.float32),)
    action_spaces = (Discrete(2),)
    broken = True

    def observe(self, slot, seat):
        return np.zeros((len(slot), 1), np.float32)

    def legal(self, slot, seat):
        return np.ones((len(slot), 2), np.bool_)

    def _reset(self, slots, seeds):
        self.odd = np.zeros(self.num_slots, np.bool_) if not hasattr(self, "odd") else self.odd
        self.odd[slots] = seeds % 2 == 1

    def _turn(self):
        slot = np.flatnonzero(self.active)
        return slot, np.zeros_like(slot)

    def _play(self, slot, seat, action):
        self._rewards[slot, 0] = action * np.float32(0.1)
        self._over[slot] = self.env_steps[slot] == 3
        broke = slot[self.odd[slot] & (self.env_steps[slot] == 2)] if self.broken else slot[:0]
        self._over[broke] = self._truncated[broke] = True
        self._reason[broke] = EndReason.CRASH


@pytest.fixture(autouse=True)
def own(own_module):
    """The parts above by import path, whatever name pytest imported this file by."""
    own_module("own_parts", Careless=Careless, Wild=Wild, Breaking=Breaking)


def config_of(env, options=None, step_limit=None, teams=None):
    return yaml.safe_dump(
        {
            "env": {"id": env, "options": options or {}},
            "matchmaking": {"teams": teams},
            "rollout": {"slots": 256, "step_limit": step_limit},
        }
    )


def play(config, num_matches, bot="random", share=1.0, seed=0):
    """Results of the bot against itself, recorded as they are in every run."""
    env, matchmaking, rollout = (yaml.safe_load(config)[part] for part in ("env", "matchmaking", "rollout"))
    runner = EnvRunner(PlaySetup(env["id"], env["options"], RolloutSettings(record=share, **rollout)))
    seats = np.zeros((num_matches, runner.game.num_seats), np.int32)
    sizes = matchmaking["teams"]
    matches = made_up.matches(
        (bot,),
        seats,
        env=env["id"],
        purpose=Purpose.EVALUATION,
        learning=seats > 0,
        match_id=np.arange(num_matches) + 10_000 * seed,
        seed=np.random.default_rng(seed).integers(2**62, size=num_matches),
        teams=None if sizes is None else np.repeat(np.arange(len(sizes)), sizes).tolist(),
    )
    results, _, _ = runner.play(PlayRequest(matches, (BotSource(bot),), (), seed), {})
    return results


def begin(run, config):
    return Archive.create(run, config, {"name": "x", "env": yaml.safe_load(config)["env"]["id"], "seed": 0})


def record(run, config, *batches):
    """A run of these batches of results."""
    with begin(run, config) as archive:
        for results in batches:
            archive.append_results(results, [])
    return run


def all_same(matches, crashed=0):
    return Replayed(matches, matches - crashed, crashed, 0, ())


@pytest.mark.parametrize("size", ["auto", 3])
def test_a_run_is_played_again_whether_its_slots_are_a_number_or_auto(tmp_path, size):
    config = yaml.safe_load(config_of("rock_paper_scissors"))
    results = play(yaml.safe_dump(config), 40)
    config["rollout"]["slots"] = size
    run = record(tmp_path / "run", yaml.safe_dump(config), results)
    assert replay(run) == all_same(40)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "options", "step_limit", "bot", "num_matches"),
    [
        ("connect_four", None, None, "random", 500),
        ("connect_four", None, 9, "random", 500),
        pytest.param(  # a process that is asked
            *("rock_paper_scissors", {"rounds": 3}, None, "own_parts:Careless", 40), marks=pytest.mark.long
        ),
    ],
)
def test_matches_come_out_the_same_while_the_run_is_written_or_compacted(
    env, options, step_limit, bot, num_matches, tmp_path
):
    run, config = tmp_path / "run", config_of(env, options, step_limit)
    ends = set()
    with begin(run, config) as archive:
        for seed in range(2):
            results = play(config, num_matches, bot, seed=seed)
            ends |= set(results.reason.tolist())
            archive.append_results(results, [])
        assert replay(run) == all_same(2 * num_matches)
    expected = {EndReason.FINISHED}
    expected |= {EndReason.STEP_LIMIT} if step_limit else set()
    expected |= {EndReason.ILLEGAL_ACTION} if bot != "random" else set()
    assert ends == expected
    with Ledger(run / "ledger", "test", segment_frames=1) as ledger:
        ledger.append({})
        assert ledger.compact() == 1
    assert replay(run) == all_same(2 * num_matches)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "options", "bot"),
    [
        ("gymnasium:Pendulum-v1", {"seats": 2}, "own_parts:Wild"),
        ("gymnasium:CartPole-v1+MountainCarContinuous-v0", {"threads": 2}, "random"),
    ],
)
def test_real_numbers_are_played_again_to_the_bit_whatever_the_seats_and_the_threads(
    env, options, bot, tmp_path
):
    config = config_of(env, options, 60)
    results = play(config, 40, bot)
    assert EndReason.STEP_LIMIT in results.reason
    assert (EndReason.ILLEGAL_ACTION in results.reason) == (bot != "random")
    assert replay(record(tmp_path / "run", config, results)) == all_same(40)


def test_teams_of_leagues_and_tournaments_are_placed_again_as_teams(tmp_path):
    """Partners win together; everyone for itself, they would have drawn."""
    config = config_of("whist", teams=[2, 2])
    results = play(config, 60)
    np.testing.assert_array_equal(results.outcome[:, 0], results.outcome[:, 1])
    assert set(results.outcome.ravel()) >= {Outcome.WIN, Outcome.LOSS}
    assert replay(record(tmp_path / "run", config, results)) == all_same(60)
    settings = yaml.safe_load(config)
    settings["teams"] = settings.pop("matchmaking")["teams"]  # a tournament has them in a place of its own
    assert replay(record(tmp_path / "cup", yaml.safe_dump(settings), results)) == all_same(60)


@pytest.mark.slow
def test_what_was_changed_is_found(tmp_path):
    """One action of one match, or its score in the last bit, or the actions that are missing."""
    config = config_of("leduc_poker")
    results = play(config, 50)
    actions = results.recordings
    score = results.score.copy()
    score[7, 1] = np.nextafter(score[7, 1], np.float32(2))
    found = replay(record(tmp_path / "score", config, replace(results, score=score)))
    assert (found.differing, found.identical) == (1, 49)
    ((match_id, what, before, after),) = found.first
    assert (match_id, what) == (7, "score")
    assert before[0] == after[0]
    assert before[1] != after[1] == pytest.approx(before[1])

    other = actions.action.copy()
    other[actions.offset[3]] = 9
    changed = replace(results, recordings=replace(actions, action=other))
    found = replay(record(tmp_path / "action", config, changed))
    assert found.differing == 1
    differences = {d.what: (d.recorded, d.replayed) for d in found.first}
    assert differences["reason"] == ("finished", "illegal_action")
    assert differences["env_steps"][1] == 1

    kept = actions.offset.copy()
    kept[-1] -= 1
    shorter = replace(actions, offset=kept, action=actions.action[:-1])
    found = replay(record(tmp_path / "missing", config, replace(results, recordings=shorter)))
    assert found.first == ((49, "actions", "all that were taken", "more were due"),)


def test_a_crash_is_played_again_as_far_as_it_went(tmp_path, monkeypatch):
    config = config_of("own_parts:Breaking")
    results = play(config, 30)
    crashed = int((results.reason == EndReason.CRASH).sum())
    assert 0 < crashed < 30
    run = record(tmp_path / "run", config, results)
    assert replay(run) == all_same(30)
    monkeypatch.setattr(Breaking, "broken", False)
    assert replay(run) == all_same(30, crashed)


def test_each_session_is_played_again_under_its_own_step_limit(tmp_path):
    run, first, second = tmp_path / "run", config_of("connect_four"), config_of("connect_four", None, 7)
    with begin(run, first) as archive:
        archive.append_results(play(first, 40), [])
        archive.begin_session({"name": "x", "env": "connect_four", "seed": 0}, second)
        archive.append_results(play(second, 40, seed=1), [])
    assert replay(run) == all_same(80)


@pytest.mark.slow
def test_some_of_the_recorded_matches_can_be_chosen(tmp_path):
    config = config_of("rock_paper_scissors")
    batches = [play(config, 100, share=share, seed=seed) for seed, share in enumerate((1.0, 0.0, 0.5))]
    run = record(tmp_path / "run", config, *batches)
    some = len(batches[2].recordings)
    assert 30 < some < 70
    assert replay(run).matches == 100 + some
    assert replay(run, "match_id >= 10000").matches == some
    assert replay(run, "match_id < 10 -- and nothing behind it").matches == 10
    assert replay(run, limit=105).matches == 105
    assert replay(run, "match_id % 2 = 0", 3) == all_same(3)
    with pytest.raises(Mistake, match=r"no match where match_id = 10001 AND .* was recorded"):
        replay(run, "match_id = 10001 AND env = 'none'")
    with pytest.raises(BadQuery, match="no_such_column"):
        replay(run, "no_such_column = 1")
    with pytest.raises(NotARun):
        replay(tmp_path)


@pytest.mark.slow
def test_a_league_that_trains_records_the_share_that_its_settings_say(tiny, tmp_path):
    """What recurrent policies did is played again without them."""
    settings = tiny(
        rollout={"record": 0.5}, stop={"env_steps": 1500}, policy={"memory": {"kind": "gru", "size": 8}}
    )
    run = league.train(settings, tmp_path / "run")
    played = query(run, "SELECT count(*) AS n FROM matches")["n"][0].as_py()
    found = replay(run)
    assert found == all_same(found.matches)
    assert 0.4 < found.matches / played < 0.6


def test_a_run_that_recorded_nothing_says_how_to(tmp_path):
    config = config_of("rock_paper_scissors")
    with pytest.raises(Mistake, match=r"no match was recorded action by action; set rollout\.record"):
        replay(record(tmp_path / "run", config, play(config, 10, share=0.0)))


@pytest.mark.long
def test_the_command_says_how_many_were_identical_and_fails_if_not_all(league_command, tmp_path):
    config = config_of("leduc_poker")
    results = play(config, 20)
    run = record(tmp_path / "run", config, results)
    done = league_command("replay", run, "--limit", 15)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "15 matches played again: 15 identical\n"
    done = league_command("replay", run, "--where", "match_id < 5", "--json")
    assert json.loads(done.stdout) == {
        "matches": 5,
        "identical": 5,
        "crashed": 0,
        "differing": 0,
        "first": [],
    }
    other = record(tmp_path / "other", config, replace(results, env_steps=results.env_steps + 1))
    done = league_command("replay", other)
    assert done.returncode == 1
    assert "20 of 20 matches came out otherwise, the first of them match 0: env_steps" in done.stderr
    assert done.stderr.count("\n") == 1
