"""Runs with a magnet and a moving average: teachers from elsewhere, what is frozen, exact resumption."""

import shutil

import pytest

import league
from league.learning.learner.learner import LearnerState
from storage.archive import Archive, open_reader
from storage.errors import Mistake, WeightsMismatch
from storage.snapshots.blobs import map_tensors
from storage.upkeep.exports import export_snapshot
from tests.league.learning.conftest import same

pytestmark = pytest.mark.slow

BASE = {
    "env": {"id": "kuhn_poker"},
    "policy": {"hidden": [8]},
    "league": {"preset": "self_play", "freeze_every": 1000},
    "rollout": {"slots": 64, "matches_per_request": 64},
    "stop": {"env_steps": 4000},
}
LEARNER = {"batch_steps": 128, "lr": 1e-2}


def config(stop=None, policy=None, **learner):
    changes = {"learner": LEARNER | learner}
    if stop is not None:
        changes["stop"] = {"env_steps": stop}
    return BASE | changes | ({"policy": policy} if policy else {})


def saved(run, player="main-0"):
    with Archive.open(run) as archive:
        tensors, meta = archive.load_learner(player)
    return LearnerState.from_tensors(tensors, meta["updates"], meta["env_steps"])


def newest(run):
    reader = open_reader(run)
    snapshot = [s for s in reader.snapshots() if s.player == "main-0"][-1]
    return snapshot, map_tensors(reader.blob_path(snapshot), verify=True)


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """A run that others have teachers from, and its newest snapshot as an exported folder."""
    folder = tmp_path_factory.mktemp("before")
    run = league.train(config(), folder / "run")
    snapshot, _ = newest(run)
    export_snapshot(open_reader(run), snapshot, folder / "best")
    return run, folder / "best"


def test_what_is_frozen_is_the_average_and_what_plays_is_live(tmp_path):
    runs = [
        league.train(config(ema={"decay": 0.9}, freeze=kind), tmp_path / kind) for kind in ("live", "ema")
    ]
    states = [saved(run) for run in runs]
    assert same(newest(runs[0])[1], states[0].weights)
    assert same(newest(runs[1])[1], states[1].average)
    assert not same(states[1].average, states[1].weights)
    first = open_reader(runs[1]).resolve("main-0@0")
    assert first.reason == "initial weights"


@pytest.mark.parametrize("kind", ["folder", "run"])
def test_a_teacher_is_a_snapshot_of_a_run_or_an_exported_folder(before, tmp_path, kind):
    run, folder = before
    source = {"folder": str(folder)} if kind == "folder" else {"run": str(run), "snapshot": "main-0"}
    magnet = {"kind": "snapshot", "weight": 0.5, **source}
    found = league.train(config(magnet=magnet), tmp_path / "run")
    assert same(saved(found).teacher, newest(run)[1])


def test_a_role_may_have_a_teacher_of_its_own(before, tmp_path):
    magnet = {"kind": "snapshot", "weight": 0.5, "folder": str(before[1])}
    settings = config()
    settings["league"] = {
        "freeze_every": 1000,
        "players": {"main": 1, "main_exploiter": 1},
        "roles": {"main_exploiter": {"learner": {"magnet": magnet}}},
    }
    run = league.train(settings, tmp_path / "run")
    assert saved(run).teacher == {}
    assert same(saved(run, "main_exploiter-0").teacher, newest(before[0])[1])


OTHER_NETWORK = r"learner.magnet of main-0, main-0@\d+ of .*: policy.hidden is \[8\], expected \[16\]"


@pytest.mark.parametrize(
    ("source", "policy", "error", "message"),
    [
        ("run", [16], WeightsMismatch, OTHER_NETWORK),
        ("folder", [16], WeightsMismatch, OTHER_NETWORK),
        ("nowhere", [8], Mistake, "nowhere"),
        ("nobody", [8], Mistake, "learner.magnet of main-0: .*'nobody'"),
    ],
)
def test_a_teacher_that_does_not_fit_is_refused_before_anything_is_written(
    before, tmp_path, source, policy, error, message
):
    run, folder = before
    magnet = {
        "run": {"run": str(run), "snapshot": "main-0"},
        "folder": {"folder": str(folder)},
        "nowhere": {"folder": str(tmp_path / "nowhere")},
        "nobody": {"run": str(run), "snapshot": "nobody"},
    }[source]
    magnet = {"kind": "snapshot", "weight": 0.5, **magnet}
    with pytest.raises(error, match=message) as caught:
        league.train(config(policy={"hidden": policy}, magnet=magnet), tmp_path / "run")
    assert isinstance(caught.value, Mistake)  # exit code 2
    assert not (tmp_path / "run").exists()


def test_a_resumed_run_keeps_the_teacher_it_had_until_its_config_names_another(before, tmp_path):
    run, folder = before
    teachers = [tmp_path / "a", tmp_path / "b"]
    shutil.copytree(folder, teachers[0])
    export_snapshot(open_reader(run), open_reader(run).resolve("main-0@0"), teachers[1])
    own = tmp_path / "run"
    magnets = [{"kind": "snapshot", "weight": 0.5, "folder": str(teacher)} for teacher in teachers]
    league.train(config(magnet=magnets[0]), own)
    kept = saved(own).teacher
    shutil.rmtree(teachers[0])
    shutil.copytree(teachers[1], teachers[0])  # as a player's newest snapshot would change
    league.train(config(stop=5000, magnet=magnets[0]), own, resume=True)
    assert same(saved(own).teacher, kept)
    league.train(config(stop=6000, magnet=magnets[1]), own, resume=True)
    assert not same(saved(own).teacher, kept)


def test_a_magnet_and_an_average_survive_a_resume(tmp_path):
    learner = {"magnet": {"kind": "copy", "every": 10_000, "weight": 0.1}, "ema": {"decay": 0.99}}
    run = league.train(config(**learner), tmp_path / "run")
    first = saved(run)
    league.train(config(stop=6000, **learner), run, resume=True)
    second = saved(run)
    assert same(first.magnet, second.magnet)  # no copy is due yet
    assert second.updates > first.updates
    assert {part: int(age) for part, age in second.ages.items()} == {
        "magnet": second.updates,
        "average": second.updates,
    }


def test_its_kl_is_in_the_table_of_updates(tmp_path, monkeypatch):
    import analysis

    magnet = {"kind": "initial", "weight": 0.1}
    run = league.train(config(magnet=magnet) | {"log": {"seconds": 0.1}}, tmp_path / "run")
    with analysis.open_run(run) as history:
        kl = history.sql("SELECT (metrics->>'magnet_kl')::DOUBLE AS kl FROM updates ORDER BY updates")["kl"]
    assert kl.notna().all()
    assert kl.iloc[-1] > 0


@pytest.mark.long
@pytest.mark.alone
def test_learners_in_processes_of_their_own_get_their_teacher_too(before, tmp_path):
    magnet = {"kind": "snapshot", "weight": 0.5, "folder": str(before[1])}
    settings = config(magnet=magnet, ema={"decay": 0.9}, freeze="ema")
    run = league.train(settings | {"runners": 1, "learners": {"processes": 2}}, tmp_path / "run")
    assert same(saved(run).teacher, newest(before[0])[1])
    assert same(newest(run)[1], saved(run).average)
    assert not same(saved(run).average, saved(run).weights)
