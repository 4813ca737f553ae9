"""A matchmaker of the user's own: what it may return, and what is shown if it fails."""

import numpy as np
import pytest

from league.config.file import ConfigError
from league.config.loading import load
from league.import_paths import OwnCodeFailed
from league.rules.matchmaking.branches.own_branch import find_matchmaker
from league.rules.matchmaking.matchmaker import Matchmaker
from league.rules.presets import LeagueSettings
from storage.records import MAIN, LivePlayer

MODULE = """
import numpy as np

def oldest(view, n, rng, most=2):
    return rng.choice(view.roster.snapshots()[:most], n)

def by_name(view, n, rng):
    return ["main-0", "main-1"] * (n // 2)

class InTurn:
    def __init__(self, first):
        self.next = first
    def __call__(self, view, n, rng):
        numbers = self.next + np.arange(n)
        self.next += n
        snapshots = view.roster.snapshots()
        return snapshots[numbers % len(snapshots)]

class Broken:
    def __init__(self):
        raise RuntimeError("no such file")

def nothing(view, n, rng): return None
def few(view, n, rng): return [0]
def floats(view, n, rng): return np.zeros(n)
def beyond(view, n, rng): return np.full(n, 99)
def unknown(view, n, rng): return ["main-9"] * n
def retired(view, n, rng): return ["main-0@0"] * n
def ragged(view, n, rng): return [[0], [0, 1]]
def raises(view, n, rng):
    table = {}
    return table["main-0"]
def deaf(view): return []
number = 3
"""


@pytest.fixture(autouse=True)
def module(own_module):
    own_module("own_matchmakers", MODULE)


@pytest.fixture
def draw(make):
    """Draws the matches of main-0 in a league of two mains with three snapshots each."""

    def draw(name, options=None, n=8, **more):
        it = make.crowd("main-0", {}, snapshots={"main-0": 3, "main-1": 3})
        it.roster.retire("main-0@0")
        rules = LeagueSettings.model_validate({"preset": "self_play", "players": {"main": 2}}).resolve()
        own = find_matchmaker(f"own_matchmakers:{name}", options or {})
        maker = Matchmaker(rules, num_seats=2, env="any", seed=1, own=own, **more)
        rng = np.random.default_rng(0)
        return maker.next_matches(LivePlayer("main-0", MAIN), n, it.roster, it.standings, rng, 0)

    return draw


def kinds_and_opponents(batch):
    kinds = [batch.match_types[i] for i in batch.match_type]
    seats = [{batch.competitors[i] for i in row} - {"main-0"} for row in batch.seat.tolist()]
    return list(zip(kinds, (next(iter(row), "main-0") for row in seats), strict=True))


def test_a_function_finds_the_opponents_with_its_options(draw):
    drawn = kinds_and_opponents(draw("oldest", {"most": 1}))
    assert set(drawn) == {("oldest", "main-1@0")}
    assert len({opponent for _, opponent in kinds_and_opponents(draw("oldest", n=50))}) == 2


def test_names_do_as_well_and_against_itself_a_player_is_all_that_learns(draw):
    batch = draw("by_name")
    assert kinds_and_opponents(batch) == [("self_play", "main-0"), ("by_name", "main-1")] * 4
    assert batch.learning[::2].all()
    assert (batch.learning[1::2].sum(axis=1) == 1).all()


def test_an_object_may_remember_what_it_drew(draw):
    drawn = [opponent for _, opponent in kinds_and_opponents(draw("InTurn", {"first": 1}, n=5))]
    assert drawn == ["main-0@1", "main-1@1", "main-0@2", "main-1@2", "main-1@0"]


def test_where_seats_differ_the_chosen_ones_are_seated_or_it_is_an_error(draw):
    def seats_of(competitor):
        return (0,) if competitor.player == "main-0" else (1,)

    batch = draw("oldest", {"most": 1}, seats_of=seats_of)
    assert {batch.competitors[i] for i in batch.seat[:, 1]} == {"main-1@0"}
    with pytest.raises(OwnCodeFailed, match="returned 'main-0' for 'main-0', but they cannot take seats"):
        draw("by_name", seats_of=seats_of)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", r"returned None, expected \[8\] competitors"),
        ("few", r"returned \[0\], expected \[8\]"),
        ("floats", r"returned float64 \(8,\), expected \[8\]"),
        ("ragged", r"returned \[\[0\], \[0, 1\]\], expected"),
        ("beyond", "returned competitor 99, expected indices of the roster, 0 to 7"),
        ("unknown", "returned 'main-9', which is no competitor of the league; did you mean 'main-"),
        ("retired", "returned 'main-0@0', which has left the league"),
        ("raises", r"KeyError: 'main-0' \(.*own_matchmakers.py, line 32, in raises\)"),
    ],
)
def test_rubbish_and_errors_are_one_message_with_the_place_in_config_and_code(draw, name, message):
    with pytest.raises(OwnCodeFailed, match=f"^league.matchmaker own_matchmakers:{name}: {message}"):
        draw(name)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("own_matchmakers:oldets", {}, "did you mean 'oldest'"),
        ("own_matchmakers:oldest", {"moost": 1}, r"cannot be called as oldest\(view, n, rng, moost\)"),
        ("own_matchmakers:deaf", {}, r"cannot be called as deaf\(view, n, rng\)"),
        ("own_matchmakers:InTurn", {}, r"cannot be made as InTurn\(\)"),
        ("own_matchmakers:Broken", {}, r"RuntimeError: no such file \(.*line 21, in __init__\)"),
        ("own_matchmakers:number", {}, "is 3, expected a function"),
        (
            "own_matchmaker",
            {},
            r"found 'own_matchmaker'; expected default \(or \{use: module:Name\} for your own\)",
        ),
        ("default", {"most": 1}, ""),
    ],
)
def test_what_is_no_matchmaker_is_refused_before_a_run_begins(name, options, message):
    league = {"matchmaker": {"use" if ":" in name else "kind": name, **options}}
    with pytest.raises(ConfigError, match=rf"league\.matchmaker.*{message}"):
        load({"env": {"id": "rock_paper_scissors"}, "league": {"preset": "self_play", **league}})
