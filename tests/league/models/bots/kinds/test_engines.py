"""Engines of chess and go play by UCI and GTP: small ones of ours, and Debian's where they are installed."""

import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from league.envs import registry
from league.models.bots.bot import UnknownBot
from league.models.bots.kinds.engines import GAMES
from league.models.bots.scripted import seated_bot
from league.models.bots.settings import EngineSettings, settings_in
from league.rollout.seats import Seats
from storage.records import EndReason

UCI = """
import sys
for line in sys.stdin:
    word, _, rest = line.strip().partition(" ")
    if word == "uci":
        print("option name UCI_Elo type spin default 1320 min 1320 max 3190\\nuciok", flush=True)
    elif word == "isready":
        print("readyok", flush=True)
    elif word in ("setoption", "position", "go"):
        print(line.strip(), file=open(NOTE, "a"))
        if word == "position":
            moves = rest.partition(" moves ")[2].split()
        elif word == "go":
            print("info depth 1\\nbestmove", PLAYED[len(moves) // 2], "ponder e2e4", flush=True)
"""
XBOARD = """
import sys
for line in sys.stdin:
    print(line.strip(), file=open(NOTE, "a"))
    if line.startswith("protover"):
        print('feature usermove=1 option="Claim draw after -spin 50 0 200"\\nfeature done=1', flush=True)
    elif line == "go\\n":
        print("Thinking", "move PLAYED", sep="\\n", flush=True)
"""
GTP = """
import sys
for line in sys.stdin:
    words = line.split()
    print(line.strip(), file=open(NOTE, "a"))
    print("= " + {"protocol_version": "2", "genmove": "MOVE"}.get(words[0], "") + "\\n", flush=True)
"""
CHESS = ("openspiel:chess", "pettingzoo:classic/chess_v6")
GO = ("openspiel:go(board_size=9)", "pettingzoo:classic/go_v5")
OPTIONS = {GO[1]: {"kwargs": {"board_size": 9}}}


@pytest.fixture
def engine(tmp_path):
    """Returns the name of a small engine that notes what it is told, and the file of its notes."""

    def make(source, kind, options=""):
        note = tmp_path / "note"
        path = tmp_path / "engine.py"
        path.write_text(source.replace("NOTE", repr(str(note))))
        return f"{kind}:{sys.executable} {path}{options}", note

    return make


def game_of(env_id):
    game = registry.make(env_id, 1, step_limit=400, **OPTIONS.get(env_id, {}))
    game.reset(np.array([0]), np.array([0]))
    return game


def table(env_id, *names):
    game = game_of(env_id)
    bots = [seated_bot(name, env_id, game, {}).actor for name in names]
    seats = Seats(game, bots, [1.0] * len(bots))
    seats.begin(np.array([0]), np.array([[0, len(bots) - 1]]))
    return game, seats


def step(game, seats):
    """Make one step with the actions of the seats; return what failed and the end."""
    (block,) = game.due()
    choice = seats.decide(block, np.random.default_rng(0))
    return choice.failed, game.step([choice.action])


@pytest.mark.slow
@pytest.mark.parametrize("env_id", CHESS)
def test_an_engine_of_chess_is_told_the_whole_match_and_its_options(env_id, engine):
    name, note = engine(UCI.replace("PLAYED", '["e2e4", "g1f3"]'), "uci", "?depth=3&uci_elo=1400")
    names = (name, "random") if env_id == CHESS[1] else ("random", name)  # white is seat 1 of OpenSpiel
    game, seats = table(env_id, *names)
    failed, _ = step(game, seats)
    assert failed == []
    told = note.read_text().splitlines()
    fen = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
    assert told[-3:] == ["setoption name UCI_Elo value 1400", f"position fen {fen}", "go depth 3"]
    (block,) = game.due()
    legal = np.flatnonzero(block.mask[0]).tolist()
    if env_id == CHESS[0]:
        reply = [action for action in legal if game.action_name(0, int(block.seat[0]), action) == "e5"]
    else:  # it mirrors the board of black
        from pettingzoo.classic.chess.chess_utils import action_to_move

        board = game.native(0).unwrapped.board
        reply = [action for action in legal if action_to_move(board, action, 1).uci() == "e7e5"]
    game.step([np.array(reply)])
    failed, _ = step(game, seats)
    assert failed == []
    assert note.read_text().splitlines()[-2] == f"position fen {fen} moves e2e4 e7e5"


@pytest.mark.slow
def test_an_engine_of_xboard_is_told_the_match_from_its_start_and_its_options(engine):
    options = "?depth=3&movetime=1500&claim draw after=9"
    name, note = engine(XBOARD.replace("PLAYED", "e2e4"), "xboard", options)
    game, seats = table("openspiel:chess", name)
    assert step(game, seats)[0] == []
    assert note.read_text().splitlines()[-9:] == (
        ["xboard", "protover 2", "option Claim draw after=9", "easy", "new", "force", "sd 3", "st 2", "go"]
    )
    (failure,) = step(game, seats)[0]  # e2e4 once more
    assert "it played e2e4, which is not legal there" in failure[2].cause
    assert note.read_text().splitlines()[-5:] == ["force", "usermove e2e4", "sd 3", "st 2", "go"]


@pytest.mark.slow
def test_an_engine_of_xboard_that_resigns_forfeits(engine):
    name, _ = engine(XBOARD.replace("move PLAYED", "resign"), "xboard")
    game, seats = table("openspiel:chess", name)
    (failure,), _ = step(game, seats)
    assert "it answered 'resign', expected a move" in failure[2].cause


@pytest.mark.slow
def test_a_move_that_is_not_legal_forfeits(engine):
    name, _ = engine(UCI.replace("PLAYED", '["e2e5"]'), "uci")
    game, seats = table("openspiel:chess", name)
    (failure,), end = step(game, seats)
    assert "it played e2e5, which is not legal there" in failure[2].cause
    assert end.reason.tolist() == [EndReason.ILLEGAL_ACTION]


@pytest.mark.slow
@pytest.mark.parametrize("env_id", GO)
def test_an_engine_of_go_is_told_the_whole_match_with_its_komi(env_id, engine):
    name, note = engine(GTP.replace("MOVE", "c4"), "gtp")
    game, seats = table(env_id, "random", name)
    game.due()
    game.step([np.array([0])])
    corner = "A9" if env_id == GO[1] else "A1"  # rows are counted from there
    failed, _ = step(game, seats)
    assert failed == []
    told = note.read_text().splitlines()
    assert told[-5:] == ["boardsize 9", "clear_board", "komi 7.5", f"play B {corner}", "genmove W"]
    if env_id == GO[0]:
        assert game.native(0).history_str() == "0, 29"  # the third point of the fourth row
    else:
        assert game.native(0).unwrapped._go.recent[-1].move == (5, 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "kind", "options", "env_id", "told"),
    [
        (UCI, "uci", "?UCI_Eloo=1", "openspiel:chess", "it has no option UCI_Eloo, expected one of UCI_Elo"),
        (
            UCI,
            "uci",
            "?UCI_Elo=1",
            "openspiel:chess",
            "its UCI_Elo is 1, expected a whole number from 1320 to 3190",
        ),
        (UCI, "uci", "", "connect_four", "of kind uci cannot play 'connect_four', expected chess"),
        (UCI, "uci", "", "openspiel:go(board_size=9)", "expected chess: openspiel:chess or pettingzoo"),
        (GTP, "gtp", "", "openspiel:chess", "expected go: openspiel:go or pettingzoo:classic/go_v5"),
        (GTP, "gtp", "?level=1", GO[0], "found options, expected them in its command"),
        ("", "uci", "", "openspiel:chess", "it ended itself with exit code 0"),
        (
            "print('? what'); input()",
            "gtp",
            "",
            GO[0],
            "it ended itself with|found '. what', expected a version",
        ),
    ],
)
def test_an_engine_that_cannot_play_is_refused_in_one_line(engine, source, kind, options, env_id, told):
    name, _ = engine(source, kind, options)
    with pytest.raises(UnknownBot, match=told) as refused:
        seated_bot(name, env_id, game_of(env_id), {})
    assert "\n" not in str(refused.value)


def test_a_name_has_the_options_behind_its_command():
    given = settings_in("uci:stockfish?depth=3&Skill Level=5&UCI_LimitStrength=true")
    assert isinstance(given, EngineSettings)
    assert given.command == "stockfish"
    assert given.options == {"depth": "3", "Skill Level": "5", "UCI_LimitStrength": "true"}
    assert settings_in("gtp:gnugo --mode gtp --level 1").command == "gnugo --mode gtp --level 1"


def installed(program):
    return bool(shutil.which(program) or (Path(GAMES) / program).exists())


GNUGO = "gtp:gnugo --mode gtp --level 1 --chinese-rules --capture-all-dead"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "env_id"),
    [
        *(("uci:stockfish?depth=3", env_id) for env_id in CHESS),
        ("xboard:fairymax?depth=3", CHESS[0]),
        *((GNUGO, env_id) for env_id in GO),
    ],
)
def test_engines_beat_a_random_player(name, env_id):
    program = re.split("[: ?]", name)[1]
    if not installed(program):
        pytest.skip(f"{program} is not installed (make engines)")
    game, seats = table(env_id, name, "random")
    end = None
    while game.active.any():
        failed, end = step(game, seats)
        assert failed == []
    assert end.reason.tolist() == [EndReason.FINISHED]
    assert end.rewards.tolist() == [[1.0, -1.0]]
