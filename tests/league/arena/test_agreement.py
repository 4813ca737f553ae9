"""A tournament plays one game, in which all who take part can take every seat."""

import pytest

from league.arena.agreement import Agreed, agree, require_bot, require_fit
from league.arena.origins import RunOrigin
from league.envs import registry
from league.envs.games.tic_tac_toe import TicTacToe
from league.models.bots.settings import ExportSettings
from league.models.spec import PolicySettings, PolicySpec
from league.rollout.snapshots import SnapshotSource
from storage.archive import open_reader
from storage.errors import Mistake
from storage.upkeep.exports import export_snapshot

CONNECT_FOUR = {"id": "connect_four", "options": {}}


@pytest.fixture
def origin(make_run, tmp_path):
    """Makes runs, and what a tournament knows of them."""

    def make(name="run", **config):
        return RunOrigin(str(make_run(tmp_path / name, snapshots=1, **config)))

    return make


@pytest.fixture
def variants(own_module):
    """Tic-tac-toe for one, and one in which seat 1 sees less."""

    class Solo(TicTacToe):
        num_seats = 1
        observation_spaces = TicTacToe.observation_spaces[:1]
        action_spaces = TicTacToe.action_spaces[:1]

    class Uneven(TicTacToe):
        action_spaces = (TicTacToe.action_spaces[0], type(TicTacToe.action_spaces[1])(8))

    own_module("games_to_agree_on", Solo=Solo, Uneven=Uneven)
    return {name: {"id": f"games_to_agree_on:{name}", "options": {}} for name in ("Solo", "Uneven")}


@pytest.mark.slow
def test_the_game_is_that_of_the_runs(origin):
    runs = [origin(name, rollout={"step_limit": 7}) for name in ("a", "b")]
    agreed = agree(runs, None, None, None)
    assert (agreed.env_id, agreed.env_options, agreed.step_limit) == ("tic_tac_toe", {}, 7)
    assert (agreed.teams, agreed.num_teams, agreed.game.step_limit) == (None, 2, 7)


def test_competitors_of_another_game_are_refused_by_name(origin):
    runs = [origin("a"), origin("b", env="connect_four")]
    one, other = (run.address for run in runs)
    with pytest.raises(
        Mistake, match=rf"^{other}: env: found 'connect_four', expected 'tic_tac_toe' as in {one};"
    ):
        agree(runs, None, None, None)


@pytest.mark.slow
def test_options_and_step_limits_are_part_of_the_game(origin):
    options = {"id": "connect_four", "options": {"rows": 5}}
    runs = [origin("a", env="connect_four"), origin("b", env="connect_four")]
    runs[1].env = options
    with pytest.raises(
        Mistake, match=r"env: found 'connect_four' \{'rows': 5\}, expected 'connect_four' as in"
    ):
        agree(runs, None, None, None)
    limited = [origin("c"), origin("d", rollout={"step_limit": 7})]
    with pytest.raises(
        Mistake, match=r"rollout.step_limit: found 7, expected none as in .*set rollout.step_limit"
    ):
        agree(limited, None, None, None)
    assert agree(limited, None, None, 5).step_limit == 5


def test_what_is_given_comes_before_what_the_runs_say(origin):
    runs = [origin("a"), origin("b", env="connect_four")]
    agreed = agree(runs, CONNECT_FOUR, None, 9)
    assert (agreed.env_id, agreed.step_limit) == ("connect_four", 9)


def test_teams_are_those_of_the_runs_the_settings_or_the_game(origin):
    assert agree([], {"id": "whist", "options": {}}, None, None).num_teams == 2
    assert agree([], {"id": "tron", "options": {}}, None, None).num_teams == 4
    run = origin("tron", env="tron", matchmaking={"teams": [2, 2]})
    assert agree([run], None, None, None).teams == (2, 2)
    assert agree([run], None, (1, 3), None).teams == (1, 3)


@pytest.mark.parametrize("teams", [(2, 1), (2, 2, 1), (4, 0)])
def test_teams_make_up_the_seats(teams):
    with pytest.raises(
        Mistake, match=r"teams: found \[.*\], expected sizes that make up the 4 seats of 'tron'"
    ):
        agree([], {"id": "tron", "options": {}}, teams, None)


def test_a_game_in_which_nobody_meets_is_refused(variants):
    with pytest.raises(Mistake, match="'games_to_agree_on:Solo' has one seat, expected a game in which"):
        agree([], variants["Solo"]).require_swaps()
    with pytest.raises(Mistake, match="'tic_tac_toe' has one team, expected a game in which"):
        agree([], {"id": "tic_tac_toe", "options": {}}, (2,)).require_swaps()


def test_a_game_whose_seats_differ_is_refused_once_for_all(variants):
    with pytest.raises(
        Mistake, match="'games_to_agree_on:Uneven': its seats differ in observations or actions"
    ):
        agree([], variants["Uneven"]).require_swaps()


def test_a_game_that_there_is_not_is_told():
    with pytest.raises(Mistake, match="no env 'conect_four': did you mean connect_four"):
        agree([], {"id": "conect_four", "options": {}}, None, None)


def test_a_snapshot_of_other_spaces_cannot_take_a_seat():
    agreed = agree([], CONNECT_FOUR, None, None)
    settings = PolicySettings(hidden=(4,))
    own = SnapshotSource("a", "0", "", PolicySpec.for_game(settings, agreed.game))
    require_fit("a", own, agreed.game)
    other = SnapshotSource("b", "0", "", PolicySpec.for_game(settings, TicTacToe(1)))
    with pytest.raises(
        Mistake, match=r"^'b' cannot take seat 0 of 'connect_four', .*; is it of another game"
    ):
        require_fit("b", other, agreed.game)


def test_a_bot_that_cannot_take_every_seat_cannot_take_part(variants):
    agreed = agree([], CONNECT_FOUR, None, None)
    require_bot("one_ply", agreed, {})
    with pytest.raises(Mistake, match="bot 'perfect' cannot play 'connect_four'"):
        require_bot("perfect", agreed, {})


def test_a_bot_for_some_seats_alone_cannot_take_part(variants, snapshots_run, tmp_path):
    reader = open_reader(snapshots_run)
    export_snapshot(reader, reader.resolve("main-0@1"), tmp_path / "out")  # of nine actions, as in seat 0
    settings = {"champion": ExportSettings(kind="export", folder=str(tmp_path / "out"))}
    env_id = variants["Uneven"]["id"]
    uneven = Agreed(env_id, {}, None, None, registry.make(env_id, 1))
    with pytest.raises(Mistake, match=r"bot 'champion' can take seats \[0\] of .* alone, expected all 2"):
        require_bot("champion", uneven, settings)
