"""Histories of OpenSpiel and PGN of chess become games; the first move that is not legal is named."""

import numpy as np
import pytest

from league.teaching.games import Spaces
from league.teaching.sources import games_of
from league.teaching.states import Line, state_games
from storage.errors import Mistake

pytest.importorskip("pyspiel")
pytest.importorskip("chess")

WON = """[White "Anna"]
[Black "Bert"]
[WhiteElo "2100"]
[Result "1-0"]

1. e4 e5 2. Qh5 Nc6 3. Bc4 Nf6 4. Qxf7# 1-0
"""
CASTLED = """
[White "Cara"]
[Black "Anna"]
[Result "0-1"]
[SetUp "1"]
[FEN "4k3/P7/8/8/8/8/8/4K2R w K - 0 1"]

1. a8=N Kd7 2. O-O Ke7 0-1

[Result "*"]

1. d4 *
"""


def games_in(path, text, env=None):
    path.write_text(text)
    return list(games_of(path, None if env is None else (env, {}))[1])


def test_a_history_holds_what_each_seat_did_and_got(tmp_path):
    (games,) = games_in(tmp_path / "a.txt", "0, 3, 1, 4, 2\n\n4 0 8 2 1 7 6 3 5\n", "openspiel:tic_tac_toe")
    assert games.episodes.match_id.tolist() == [0, 0, 1, 1]
    assert games.episodes.action.tolist() == [0, 1, 2, 3, 4, 4, 8, 1, 6, 5, 0, 2, 7, 3]
    assert games.outcome.tolist() == ["win", "loss", "draw", "draw"]
    assert games.episodes.reward[[2, 4]].tolist() == [1.0, -1.0]


def test_chance_and_moves_at_the_same_time_are_followed():
    spaces = Spaces.of("openspiel:kuhn_poker", {})
    (games,) = state_games(spaces, [Line("here", [2, 0, 1, 1])])  # king against jack, bet and called
    assert games.score.tolist() == [2.0, -2.0]
    assert games.episodes.num_steps == 2
    spaces = Spaces.of("openspiel:matrix_rps", {})
    (games,) = state_games(spaces, [Line("here", [0, 1])])
    assert games.outcome.tolist() == ["loss", "win"]


def test_a_pgn_is_played_by_openspiel(tmp_path):
    (games,) = games_in(tmp_path / "a.pgn", WON + CASTLED)
    assert dict(zip(games.player, games.outcome, strict=True)) | {"Anna": ""} == {
        "Bert": "loss",
        "Anna": "",
        "Cara": "loss",
    }
    assert games.rating[games.player == "Anna"].tolist()[0] == 2100.0
    assert np.bincount(games.episodes.match_id).tolist() == [2, 2]
    assert games.episodes.num_steps == 11
    assert games.episodes.mask[np.arange(11), games.episodes.action].all()


@pytest.mark.parametrize(
    ("name", "env", "text", "said"),
    [
        ("a.txt", "openspiel:tic_tac_toe", "0 3 1 4 2\n0 3 0", "line 2, ply 3: 0 is not legal there"),
        ("a.txt", "openspiel:tic_tac_toe", "0 3", "line 1: the game is not over"),
        ("a.txt", "openspiel:tic_tac_toe", "0 3 1 4 2 5", "line 1: the game goes on with 5 after its end"),
        ("a.txt", "openspiel:tic_tac_toe", "e4 e5", "line 1: expected the actions of a game"),
        ("a.txt", "tic_tac_toe", "0 3", "found env 'tic_tac_toe', expected openspiel:"),
        ("a.txt", None, "0 3", "expected --env ID"),
        ("a.csv", None, "0 3", "found a file of another kind"),
        ("a.pgn", None, WON.replace("Bc4", "Bb6"), r"game 1, ply 5: illegal san: 'Bb6'"),
        ("a.pgn", None, WON + CASTLED.replace("Kd7", "Kd2"), r"game 2, ply 2: illegal san: 'Kd2'"),
        ("a.pgn", None, "hello", "found no game with moves and a result"),
        ("a.pgn", "openspiel:hex", WON, "found env 'openspiel:hex'"),
    ],
)
def test_what_is_no_game_is_one_clear_line(tmp_path, name, env, text, said):
    with pytest.raises(Mistake, match=said):
        games_in(tmp_path / name, text, env)


def test_a_file_that_is_no_text_is_one_clear_line(tmp_path):
    for name in ("a.pgn", "a.txt"):
        (tmp_path / name).write_bytes(b"\x89\xff\x00")
        with pytest.raises(Mistake, match=name):
            list(games_of(tmp_path / name, ("openspiel:chess", {}))[1])
