import json

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from league.commands import diagnose as diagnose_command
from league.commands.diagnose import diagnose, player_of_games
from storage.errors import Mistake
from tests.analysis.planted_runs import PLAYER, Plan, forgetting, plant

pytestmark = pytest.mark.slow

PLAN = Plan(advantage=forgetting(Plan()))


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    return plant(tmp_path_factory.mktemp("runs") / "planted", np.random.default_rng(0), PLAN)


def said(*arguments):
    app = typer.Typer()
    app.command()(diagnose)
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)


def test_warnings_come_first_a_line_each(planted):
    answer = said(planted)
    assert answer.exit_code == 0
    lines = answer.output.splitlines()
    assert lines[0].startswith(f"warning: {PLAYER} lost strength against {PLAN.snapshot(4)}: it scored")
    kinds = [line.split(":")[0] for line in lines]
    assert kinds == sorted(kinds, reverse=True)


def test_the_same_is_given_as_json(planted):
    found = json.loads(said(planted, "--json").output)
    assert found[0]["kind"] == "forgetting"
    assert found[0]["evidence"]["opponent"] == PLAN.snapshot(4)


def test_a_run_in_order_has_nothing_to_tell(tmp_path):
    assert said(plant(tmp_path / "clean", np.random.default_rng(0))).output == "nothing found\n"


def test_games_played_now_tell_between_which_snapshots_it_was(planted, monkeypatch):
    rng, forgot = np.random.default_rng(0), 9

    def play(a, b, pairs):
        assert b == PLAN.snapshot(4)
        stage = int(a.split("@")[1]) // int(PLAN.snapshot(1).split("@")[1])
        wins = int(rng.binomial(2 * pairs, 0.75 if stage < forgot else 0.3))
        return wins, 0, 2 * pairs - wins

    monkeypatch.setattr(diagnose_command, "player_of_games", lambda run: play)
    answer = said(planted, "--play", 1000)
    assert f"played now: between {PLAN.snapshot(8)} and {PLAN.snapshot(9)} the score" in answer.output
    found = json.loads(said(planted, "--play", 1000, "--json").output)
    assert found[0]["evidence"]["located"]["after"] == PLAN.snapshot(forgot)


def test_games_that_show_no_loss_are_said_to(planted, monkeypatch):
    monkeypatch.setattr(
        diagnose_command, "player_of_games", lambda run: lambda a, b, pairs: (pairs, 0, pairs)
    )
    assert "scores no worse against" in said(planted, "--play", 400).output


def test_competitors_of_a_run_play_other_games_at_each_call(trained):
    play = player_of_games(trained)
    names = [f"{name}" for name in ("main-0", "random")]
    first, second = play(*names, 40), play(*names, 40)
    assert sum(first) == sum(second) == 80
    assert first[0] > first[2] or second[0] > second[2]
    with pytest.raises(Mistake, match="nobody"):
        play("nobody", "random", 16)
