"""What a name stands for in a run: snapshots by id, prefix or player, bots, and how they play."""

import numpy as np
import pytest

import league
from league.competitors.names import Names, UnknownCompetitor, load_actor
from league.rollout.requests import BotSource
from league.rollout.snapshots import SnapshotSource
from storage.archive import open_reader
from storage.errors import CorruptBlob

OBSERVATION, MASK = np.zeros((3, 2, 9), np.float32), np.ones((3, 9), np.bool_)


@pytest.fixture(scope="module")
def reader(trained):
    return open_reader(trained)


def test_a_player_stands_for_its_newest_snapshot(reader):
    newest = [snapshot for snapshot in reader.snapshots() if snapshot.player == "main-1"][-1]
    source = Names(reader).source("main-1")
    assert isinstance(source, SnapshotSource)
    assert source.snapshot_id == newest.snapshot_id
    assert source.blob_hash == newest.blob_hash


def test_an_id_comes_before_a_prefix_of_others(reader):
    """`main-0@0` is whole; were it a prefix only, it might fit others as well."""
    assert Names(reader).source("main-0@0").snapshot_id == "main-0@0"


def test_a_unique_prefix_will_do_and_another_will_not(reader):
    snapshot = [s for s in reader.snapshots() if s.player == "main-0"][-1]
    assert Names(reader).source(snapshot.snapshot_id[:-1]).snapshot_id == snapshot.snapshot_id
    with pytest.raises(UnknownCompetitor, match=r"'main-0@' fits several snapshots; nearest: main-0@0"):
        Names(reader).source("main-0@")


def test_bots_are_those_of_the_game(reader):
    assert Names(reader).source("perfect") == BotSource("perfect")
    with pytest.raises(UnknownCompetitor, match="'equilibrium' is no snapshot, player or bot"):
        Names(reader).source("equilibrium")


@pytest.mark.parametrize(
    ("name", "temperature"),
    [("main-0", 1.0), ("main-0:sample", 1.0), ("main-0@0:greedy", 0.0), ("main-0:t=0.5", 0.5)],
)
def test_behind_a_name_stands_how_it_plays(reader, name, temperature):
    assert Names(reader).source(name).temperature == temperature


def test_another_mode_is_told_which_there_are(reader):
    with pytest.raises(
        UnknownCompetitor, match="'main-0:best': mode 'best', expected one of: sample, greedy"
    ):
        Names(reader).source("main-0:best")
    with pytest.raises(UnknownCompetitor, match="expected a temperature from"):
        Names(reader).source("main-0:t=0")


def test_a_bot_plays_in_no_mode_but_its_own(reader):
    assert Names(reader).source("perfect:sample") == BotSource("perfect")
    with pytest.raises(UnknownCompetitor, match=r"mode 'greedy' behind a bot.*give its name alone"):
        Names(reader).source("perfect:greedy")


def test_the_colon_in_a_class_of_ones_own_is_no_mode(make_run, tmp_path):
    roles = {"main": {"opponents": {"bots": {"my_bots:Clever": 1.0}}}}
    reader = open_reader(make_run(tmp_path / "run", league={"roles": roles}))
    assert Names(reader).source("my_bots:Clever") == BotSource("my_bots:Clever")
    assert Names(reader).source("my_bots:Clever:sample") == BotSource("my_bots:Clever")
    with pytest.raises(UnknownCompetitor, match="did you mean 'my_bots:Clever'"):
        Names(reader).source("my_bots:Clevr")


def test_an_unknown_name_names_the_nearest(reader):
    with pytest.raises(UnknownCompetitor, match=r"'perfekt' .* nearest: perfect"):
        Names(reader).source("perfekt")


# ---------------------------------------------------------------- loading


def test_a_loaded_policy_acts_on_observations(trained):
    policy = league.load_policy(trained, "main-0")
    action, log_prob = policy.act(OBSERVATION, MASK, np.random.default_rng(0))
    assert action.shape == log_prob.shape == (3,)
    assert ((action >= 0) & (action < 9)).all()
    likeliest, _ = policy.act(OBSERVATION, MASK, np.random.default_rng(0), greedy=True)
    assert (likeliest == likeliest[0]).all()


def test_bots_are_loaded_too(trained):
    action, _ = league.load_policy(str(trained), "perfect").act(OBSERVATION, MASK, np.random.default_rng(0))
    assert action.shape == (3,)


def test_a_damaged_blob_is_not_loaded(damaged):
    with pytest.raises(CorruptBlob, match="hash"):
        load_actor(damaged, "main-0")
    assert load_actor(damaged, "main-1") is not None


def test_a_mode_is_no_part_of_a_policy(trained):
    with pytest.raises(UnknownCompetitor, match=r"call act\(\.\.\., greedy=True\)"):
        load_actor(trained, "main-0:greedy")
