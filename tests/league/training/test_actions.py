"""What a user's own builder may decide, and what a session does with it."""

import pytest
import yaml

import analysis
import league
from league.import_paths import OwnCodeFailed
from league.learning.groups.local_learners import LocalLearners
from league.learning.learner.optimizers import Optimizer

OWN = """
from league.rules.building.builder import LeagueBuilder
from storage.records import Freeze, Reset, Stop

class Own(LeagueBuilder):
    def decide(self, roster, standings, clocks, rng):
        if clocks["main-0"].since_freeze < 500:
            return []
        return [{decision}]
"""


@pytest.fixture
def train_with(tiny, tmp_path, own_module):
    """Trains a small league whose builder decides `decision`, an expression."""

    def train(decision, **more):
        own_module("deciding", OWN.format(decision=decision))
        own = {"builder": "deciding:Own", "players": {"main": 1, "main_exploiter": 1}}
        return league.train(tiny(league=own, **more), tmp_path / "run")

    return train


@pytest.mark.slow
def test_a_freeze_that_carries_a_reset_is_two_rows_and_gives_the_weights(train_with):
    reset = "Reset(player='main-0', reason='again', target='main-0@0')"
    run = train_with(f"Freeze(player='main-0', reason='due', reset={reset})", stop={"env_steps": 6_000})
    with analysis.open_run(run) as history:
        decisions = history.sql("SELECT kind, player, reason, snapshot_id FROM decisions ORDER BY seq")
        own = decisions[decisions["reason"].isin(["due", "again"])]
        assert own["kind"].tolist() == ["freeze", "reset"] * (len(own) // 2)
        assert len(own) >= 4
        assert set(own[own["kind"] == "reset"]["snapshot_id"]) == {"main-0@0"}
        parents = history.sql("SELECT parent_id FROM snapshots WHERE player = 'main-0' AND env_steps > 0")
        assert set(parents["parent_id"]) == {"main-0@0"}


@pytest.mark.slow
def test_settings_that_a_reset_changes_are_learned_with_also_after_the_run_goes_on(train_with, monkeypatch):
    seen = []
    step = Optimizer.step

    def noted(self, progress):
        seen.append(self._settings.lr)
        return step(self, progress)

    monkeypatch.setattr(Optimizer, "step", noted)
    reset = "Reset(player='main-0', reason='copies', target='main-0@0', evidence={'learner.lr': 0.25})"
    own = {"learner": {"lr": 0.125}}
    run = train_with(
        f"Freeze(player='main-0', reason='due', reset={reset})", stop={"env_steps": 3_000}, **own
    )
    assert seen[0] == 0.125
    assert 0.25 in seen
    seen.clear()
    config = yaml.safe_load((run / "config.yaml").read_text())
    again = league.train(config | {"stop": {"env_steps": 4_000}}, run, resume=True)
    assert seen
    assert set(seen) <= {0.125, 0.25}  # of the exploiter, and of the main
    assert 0.25 in seen[:4]
    assert again == run


class Late(LocalLearners):
    """Learners whose states come only at the tenth look."""

    looks, learned = 0, 0  # updates of any player meanwhile

    def state_soon(self, player):
        Late.looks += 1
        return self.state(player) if Late.looks % 10 == 0 else None

    def ready(self, timeout_seconds):
        reports = super().ready(timeout_seconds)
        Late.learned += len(reports) * (Late.looks % 10 != 0)
        return reports


@pytest.mark.slow
def test_play_and_learning_go_on_while_a_freeze_waits_for_the_state_of_its_learner(train_with, monkeypatch):
    """The loop waited for it, however many updates the learner had to make first."""
    monkeypatch.setattr("league.training.engine.LocalLearners", Late)
    for name in ("looks", "learned"):
        monkeypatch.setattr(Late, name, 0)
    reset = "Reset(player='main-0', reason='again', target='main-0@0')"
    run = train_with(f"Freeze(player='main-0', reason='due', reset={reset})", stop={"env_steps": 6_000})
    assert Late.learned > 10
    with analysis.open_run(run) as history:
        decisions = history.sql("SELECT kind FROM decisions WHERE reason IN ('due', 'again') ORDER BY seq")
        assert decisions["kind"].tolist() == ["freeze", "reset"] * (len(decisions) // 2)
        assert len(decisions) >= 2
        frozen = history.snapshots().query("player == 'main-0'")
        assert frozen["env_steps"].is_monotonic_increasing
        assert frozen["snapshot_id"].is_unique


@pytest.mark.slow
@pytest.mark.parametrize(
    ("decision", "named"),
    [
        ("Reset(player='main-0', reason='mine', target='main-0@0')", r"a Reset of player 'main-0' \(mine\)"),
        ("Stop(player='main-0', reason='enough')", r"a Stop of player 'main-0' \(enough\)"),
        ("'freeze main-0'", "decided 'freeze main-0', expected Freeze"),
        ("Freeze(player='man-0', reason='due')", "a Freeze of player 'man-0', .*did you mean 'main-0'"),
        (
            "Freeze(player='main-0', reason='due', reset="
            "Reset(player='main_exploiter-0', reason='mine', target='main-0@0'))",
            "a Freeze of player 'main-0' with a Reset of player 'main_exploiter-0'",
        ),
    ],
)
def test_what_no_builder_may_decide_is_refused_by_name_and_the_run_is_kept(
    train_with, tiny, tmp_path, decision, named
):
    with pytest.raises(OwnCodeFailed, match=f"league.builder deciding:Own: .*{named}"):
        train_with(decision)
    settings = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    settings["league"]["builder"] = "default"
    settings["stop"]["env_steps"] = 3_000
    run = league.train(settings, tmp_path / "run", resume=True)
    with analysis.open_run(run) as history:
        assert history.sql("SELECT DISTINCT kind FROM decisions WHERE reason = 'mine'").empty
        assert history.sql("SELECT min(env_steps) AS n FROM snapshots WHERE env_steps > 0")["n"][0] >= 500
