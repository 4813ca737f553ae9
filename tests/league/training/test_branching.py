"""A branch trains on from a past moment: as the original did, if it may, and alike each time."""

import shutil

import numpy as np
import pytest

import analysis
import league
from analysis.report.sections.overview import overview
from analysis.report.sections.reproduce import reproduce
from analysis.report.story import Story
from league.config.file import ConfigError
from league.config.loading import load
from league.training.resume import ResumeRefused, branch
from league.training.state.state import LeagueState
from storage import run_folder
from storage.archive import open_reader
from storage.errors import Mistake
from storage.ledger.ledger import read_frames, read_tables
from storage.reader import SEATED
from storage.records import STATE
from storage.tables import columns
from storage.tables.columns import competitors_of
from storage.upkeep.verification import verify_snapshots

pytestmark = pytest.mark.slow

STEPS, THIRD = 6_000, 2_000
# what no two runs share: clocks, and the frames, of which a branch has one more
ALONE = {"matches": ["started_at", "seconds", "batch"], "ratings": ["batch"], "snapshots": ["created_at"]}


@pytest.fixture(scope="module")
def config():
    return {
        "seed": 5,
        "env": {"id": "tic_tac_toe"},
        "policy": {"hidden": [16]},
        "league": {
            "preset": "alphastar_paper",
            "freeze_every": 700,
            "players": {"main": 1, "main_exploiter": 1, "league_exploiter": 1},
        },
        "rollout": {"slots": 32, "matches_per_request": 64},
        "learner": {"batch_steps": 256},
        "storage": {"kept_states": 32},
        "log": {"seconds": 1e6},
        "runners": 0,
        "stop": {"env_steps": STEPS},
    }


@pytest.fixture(scope="module")
def original(config, tmp_path_factory):
    """A run of which a third was trained in one session, the rest in another."""
    run = tmp_path_factory.mktemp("branching") / "original"
    league.train(config, run, overrides=[f"stop.env_steps={THIRD}"])
    return league.train(config, run, resume=True)


def facts(run):
    tables = read_tables(run / "ledger", ("matches", "seats", "ratings", "snapshots"))
    return {name: table.drop_columns(ALONE.get(name, [])) for name, table in tables.items()}


def replayed(run, settings, until):
    """Ratings [n], payoffs [n, n] and clocks: the fold of the facts of `run` up to the frame `until`."""
    state = LeagueState(settings.league.resolve(), settings.ratings, settings.league.decay)
    for frame in read_frames(run / "ledger", tables=(*SEATED, "decisions", "matches", "seats")):
        if frame.sequence <= until:
            for competitor in competitors_of(frame.tables):
                state.apply(competitor)
            if "decisions" in frame.tables:
                for _, decision in columns.decisions_of(frame.tables["decisions"]):
                    state.apply(decision)
            if "matches" in frame.tables:
                state.apply(columns.results_of(frame.tables))
    everyone = np.arange(len(state.roster))
    payoffs = [state.standings.win_rate(home, everyone, 2.0).tolist() for home in everyone]
    ratings = [state.standings.rating(name) for name in state.roster.ids]
    return ratings, payoffs, state.totals, state.members


def test_standings_pool_and_clocks_are_those_of_the_original_as_of_there(original, config, tmp_path):
    made = branch(original, tmp_path / "new", STEPS // 2)  # in the middle of a session
    assert STEPS // 2 <= made.env_steps < STEPS // 2 + 2000
    then = replayed(original, load(config), made.frame)
    assert replayed(tmp_path / "new", load(config), made.frame + 1) == then
    assert (then[2].env_steps, then[2].matches) == (made.env_steps, made.matches)
    with analysis.open_run([original, tmp_path / "new"]) as both:
        steps = both.sql(
            "SELECT run, sum(env_steps) AS n FROM played WHERE NOT is_placing GROUP BY ALL ORDER BY run DESC"
        )
        assert steps["run"].tolist() == ["original", "new"]
        assert steps["n"][0] > steps["n"][1] == made.env_steps
        assert both.branches()[["run", "parent"]].to_numpy().tolist() == [["new", str(original)]]
        assert both.branches()["learners"].tolist() == [dict(made.learners)]
        board = both.as_of(made.env_steps).leaderboard().set_index("run").drop(columns="kind")
    assert board.loc["original"].equals(board.loc["new"].set_index(board.loc["original"].index))
    with analysis.open_run(tmp_path / "new") as history:
        story = Story(history)
        again, summary = reproduce(story), overview(story)
    assert f"league branch {original} runs/again --as-of {made.env_steps}" in again.html
    assert "is a branch of <strong>original</strong>" in summary.html


def test_where_a_session_began_the_games_that_follow_are_those_of_the_original(original, config, tmp_path):
    made = branch(original, tmp_path / "new", THIRD)
    assert set(made.learners.values()) == {STATE}
    league.train(config, tmp_path / "new", resume=True)
    expected, found = facts(original), facts(tmp_path / "new")
    assert len(found["matches"]) > 2 * made.matches
    for name, table in expected.items():
        assert found[name].equals(table), name


@pytest.mark.long
def test_two_branches_at_one_moment_train_to_equal_snapshots_saved_state_or_none(original, tmp_path):
    forgetful = tmp_path / "forgetful"
    shutil.copytree(original, forgetful)
    shutil.rmtree(forgetful / "learners" / "kept")
    for moment in ("state", "snapshot"):
        found = []
        for name in ("one", "two"):
            new = tmp_path / moment / name
            parent = original if moment == "state" else forgetful
            made = branch(parent, new, THIRD + 900, ["learner.lr=3e-3", "stop.env_steps=4_500"])
            assert (STATE in made.learners.values()) == (moment == "state")
            league.train(new / "config.yaml", new, resume=True)
            found.append(facts(new))
        one, two = found
        assert len(one["matches"]) > made.matches
        assert one["snapshots"]["blob_hash"].to_pylist() == two["snapshots"]["blob_hash"].to_pylist()
        assert one["matches"].equals(two["matches"])
    came_from = open_reader(original).resolve(made.learners["main-0"])
    later = [s for s in open_reader(new).snapshots() if s.parent_id == came_from.snapshot_id]
    assert later[0].env_steps > came_from.env_steps > 0  # the learner counted on from its snapshot
    assert later[0].updates > came_from.updates > 0


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ("env.id=connect_four", ResumeRefused, "a run keeps its game"),
        ("policy.hidden=[8]", ResumeRefused, "a run keeps its network"),
        ("league.players={main: 2}", ResumeRefused, "a run keeps its players"),
        ("learner.entropie=1", ConfigError, "unknown key 'learner.entropie'; did you mean 'entropy'"),
        ("learner.lr", ConfigError, "expected key=value"),
    ],
)
def test_a_setting_that_a_run_keeps_or_that_does_not_exist_is_refused(
    original, tmp_path, change, error, said
):
    with pytest.raises(error, match=said):
        branch(original, tmp_path / "new", THIRD, [change])
    assert list(tmp_path.iterdir()) == []


def test_a_remote_run_is_branched_and_its_remote_is_left_to_it(config, tmp_path):
    remote = f"file://{tmp_path / 'remote'}"
    given = [f"storage.remote={remote}", f"stop.env_steps={THIRD}"]
    run = league.train(config, tmp_path / "run", overrides=given)
    with pytest.raises(Mistake, match="a run is there already"):
        branch(run, tmp_path / "new", None, [f"storage.remote={remote}"])
    made = branch(run_folder(remote), tmp_path / "new")
    assert made.parent == remote
    assert set(made.learners.values()) == {STATE}
    assert open_reader(tmp_path / "new").remote() is None
    assert verify_snapshots(open_reader(tmp_path / "new")) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "remote", "run"]
