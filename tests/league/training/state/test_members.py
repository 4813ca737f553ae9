"""Players come, go and stop while the others train; and a run that is resumed knows all of it."""

import numpy as np
import pytest

import analysis
import league
from league.config.loading import load
from league.import_paths import OwnCodeFailed
from league.learning.groups.shard_learners import LearnReport
from league.learning.learner.learner import Learner
from league.rules.building.builder import LeagueBuilder
from league.training.actions import Actions
from league.training.state.reports import UpdateLog
from storage.archive import open_reader
from storage.errors import Failure
from storage.records import MAIN, MAIN_EXPLOITER, Add, Freeze, Remove, Reset, Retire, Role
from storage.snapshots.blobs import map_tensors


@pytest.fixture
def scripted(monkeypatch):
    """Decisions that the builder takes at a given count of the main's env steps, once each."""
    waiting = []
    decide = LeagueBuilder.decide

    def also(self, roster, standings, clocks, rng):
        due = [item for item in waiting if item[0] <= max(c.env_steps for c in clocks.values())]
        for item in due:
            waiting.remove(item)
        return [decision for _, decision in due] + decide(self, roster, standings, clocks, rng)

    monkeypatch.setattr(LeagueBuilder, "decide", also)
    return waiting


@pytest.fixture
def changed(scripted, tmp_path, tiny):
    """A run in which a player was added, another removed, and a snapshot retired."""
    scripted += [
        (3_000, Add(player="main-7", role=MAIN, reason="test")),
        (6_000, Remove(player="main_exploiter-0", reason="test")),
        (6_000, Add(player="main_exploiter-1", role=MAIN_EXPLOITER, reason="test")),
        (8_000, Retire(player="main-0", target="main-0@0", reason="test")),
    ]
    return league.train(tiny(stop={"env_steps": 50_000}), tmp_path / "run")


@pytest.mark.long
def test_a_player_is_added_another_removed_and_a_third_takes_its_place(changed):
    with analysis.open_run(changed) as history:
        kinds = history.sql("SELECT kind, player FROM decisions WHERE reason = 'test' ORDER BY seq")
        last = history.sql(
            "SELECT competitor, max(match_id) AS last, min(match_id) AS first, bool_or(learning) AS learned "
            "FROM seats JOIN matches USING (seq) GROUP BY competitor"
        ).set_index("competitor")
        steps = history.sql("SELECT player, max(env_steps) AS steps FROM snapshots GROUP BY player")
    assert kinds.values.tolist() == [
        ["add", "main-7"],
        ["remove", "main_exploiter-0"],
        ["add", "main_exploiter-1"],
        ["retire", "main-0"],
    ]
    assert last.loc[["main-7", "main_exploiter-1"], "learned"].all()
    assert last.loc["main-7", "first"] > 0
    assert last.loc["main_exploiter-0", "last"] < last.loc["main_exploiter-1", "last"]
    assert last.loc["main-0@0", "last"] < last.loc["main-0", "last"]
    assert steps.set_index("player").loc[["main-0", "main-7", "main_exploiter-1"], "steps"].gt(1000).all()


@pytest.mark.long
def test_a_resumed_run_trains_the_players_it_had_not_those_of_the_config(changed, tiny):
    before = {s.player: s.env_steps for s in open_reader(changed).snapshots()}
    league.train(tiny(stop={"env_steps": 70_000}), changed, resume=True)
    after = {s.player: s.env_steps for s in open_reader(changed).snapshots()}
    assert {name for name in after if after[name] > before[name]} >= {"main-0", "main-7", "main_exploiter-1"}
    assert after["main_exploiter-0"] == before["main_exploiter-0"]


def test_a_player_of_a_role_without_rules_is_refused_and_not_recorded(scripted, tmp_path, tiny):
    scripted.append((0, Add(player="x", role=Role("specialist"), reason="test")))
    with pytest.raises(OwnCodeFailed, match=r"add 'specialist: 0' to league\.players"):
        league.train(tiny(), tmp_path / "run")
    assert "x" not in {player.player for player in open_reader(tmp_path / "run").players()}


@pytest.fixture
def poisoned(monkeypatch):
    """From its third update on, the named players' experience holds a reward that is no number."""
    names = set()
    update = Learner.learn_from

    def spoiled(self, episodes, *progress):
        if self.player in names and self.updates >= 3:
            episodes.reward[0] = np.nan
        return update(self, episodes, *progress)

    monkeypatch.setattr(Learner, "learn_from", spoiled)
    return names


@pytest.mark.long
def test_a_loss_that_is_no_number_stops_only_its_player(poisoned, tmp_path, tiny):
    poisoned.add("main_exploiter-0")
    run = league.train(tiny(stop={"env_steps": 40_000}), tmp_path / "run")
    with analysis.open_run(run) as history:
        stops = history.sql("SELECT player, reason FROM decisions WHERE kind = 'stop'")
        steps = history.sql("SELECT player, max(env_steps) AS steps FROM updates GROUP BY 1").set_index(
            "player"
        )
    assert stops["player"].tolist() == ["main_exploiter-0"]
    assert "update 4" in stops["reason"][0]
    (path,) = (run / "learners" / "refused").iterdir()
    assert str(path) in stops["reason"][0]
    assert map_tensors(path, verify=False)["reward"].isnan().any()
    assert steps.loc["main-0", "steps"] > 10_000
    for tensor in map_tensors(
        next((run / "learners").glob("main_exploiter-0.*.safetensors")), verify=False
    ).values():
        assert tensor.isfinite().all()


@pytest.mark.long
def test_a_stopped_player_trains_again_when_the_run_is_resumed(poisoned, tmp_path, tiny):
    poisoned.add("main_exploiter-0")
    run = league.train(tiny(stop={"env_steps": 40_000}), tmp_path / "run")
    poisoned.clear()
    league.train(tiny(stop={"env_steps": 50_000}), run, resume=True)
    with analysis.open_run(run) as history:
        steps = history.sql("SELECT max(updates) AS n FROM updates WHERE player = 'main_exploiter-0'")
    assert steps["n"][0] > 3


@pytest.mark.long
def test_a_stopped_player_that_gets_other_weights_learns_again(
    poisoned, scripted, tmp_path, tiny, monkeypatch
):
    poisoned.add("main_exploiter-0")
    stop = Actions.stop
    monkeypatch.setattr(Actions, "stop", lambda self, report: (poisoned.clear(), stop(self, report)))
    name = "main_exploiter-0"
    reset = Reset(player=name, reason="test", target=f"{name}@0")
    scripted.append((6_000, Freeze(player=name, reason="test", reset=reset)))
    run = league.train(tiny(stop={"env_steps": 40_000}), tmp_path / "run")
    with analysis.open_run(run) as history:
        kinds = history.sql(f"SELECT kind FROM decisions WHERE player = '{name}' ORDER BY seq")[
            "kind"
        ].tolist()
    assert kinds[:4] == ["freeze", "stop", "freeze", "reset"]
    assert max(s.env_steps for s in open_reader(run).snapshots() if s.player == name) > 2_000


@pytest.mark.slow
def test_a_run_whose_last_player_is_removed_ends_with_everything_saved(scripted, tmp_path, tiny):
    everybody = ("main-0", "main_exploiter-0", "league_exploiter-0")
    scripted += [(3_000, Remove(player=name, reason="test")) for name in everybody]
    with pytest.raises(Failure, match=r"no player is left that learns\. test"):
        league.train(tiny(), tmp_path / "run")
    with analysis.open_run(tmp_path / "run") as history:
        assert len(history.sql("SELECT * FROM decisions WHERE kind = 'remove'")) == 3


@pytest.mark.long
def test_a_run_without_a_learning_player_ends_with_everything_saved(poisoned, tmp_path, tiny):
    poisoned.update({"main-0", "main_exploiter-0", "league_exploiter-0"})
    with pytest.raises(Failure, match="no player is left that learns"):
        league.train(tiny(), tmp_path / "run")
    poisoned.clear()
    run = league.train(tiny(stop={"env_steps": 30_000}), tmp_path / "run", resume=True)
    assert load(tiny()).name in (run / "config.yaml").read_text()
    assert max(s.env_steps for s in open_reader(run).snapshots()) > 3_000


def test_seconds_of_an_interval_are_sums_and_wait_for_the_next_row():
    log = UpdateLog()
    log.spend("main-0", playing=2.0)
    log.spend("main-0", learning=0.25, broadcasting=0.125, waiting=1.0)
    assert log.rows({}) == []  # no update: kept for the next row
    for updates in (1, 2):
        log.add(LearnReport("main-0", updates, 64, {"lag": 0.0, "entropy": 1.0 * updates}))
        log.spend("main-0", learning=0.25)
    (row,) = log.rows({})
    seconds = {"playing": 2.0, "learning": 0.75, "broadcasting": 0.125, "waiting": 1.0}
    assert row.metrics == {"entropy": 1.5, **{f"seconds_{name}": value for name, value in seconds.items()}}
    assert log.spent["main-0"]["seconds_playing"] == 2.0
    log.add(LearnReport("main-0", 3, 64, {"lag": 0.0, "entropy": 1.0}))
    assert log.rows({})[0].metrics["seconds_learning"] == 0.0
    log.forget("main-0")
    assert log.spent == {}
