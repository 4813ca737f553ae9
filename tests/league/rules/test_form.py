import numpy as np
import pytest

from league.rules.form import Form
from league.rules.roster import Roster
from league.rules.standings import Standings
from storage.records import MAIN, LivePlayer, Outcome, Purpose
from tests import made_up

WIN, DRAW, LOSS, _ = Outcome


def filled(*batches, games):
    form = Form(games)
    for leads in batches:
        form.add("main-0", np.array(leads, dtype=np.float64))
    return form


def test_the_gain_is_the_newest_mean_less_the_mean_before():
    form = filled([9.0] * 4, [0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [1.0, 2.0], games=4)
    gain = form.gain("main-0", 4)
    assert (gain.gain, gain.lead, gain.games) == (1.0, 1.5, 4)
    assert gain.error == pytest.approx(np.sqrt(0.25 / 4 + 0.25 / 4))


def test_there_is_no_gain_before_both_windows_are_full():
    assert filled([1.0] * 7, games=4).gain("main-0", 4) is None
    assert filled(games=4).gain("main-0", 4) is None
    assert filled([1.0] * 4, [1.0] * 4, games=4).gain("main-0", 4).gain == 0.0


def test_what_no_window_holds_is_forgotten():
    form = filled(*([float(i)] * 10 for i in range(1_000)), games=25)
    assert len(form._played["main-0"]) < 10
    assert form.gain("main-0", 25).gain == pytest.approx(3.0)  # windows of 30 games, in whole batches
    assert form.gain("main-0", 10).gain == pytest.approx(1.0)


def test_a_larger_window_than_is_remembered_is_refused():
    with pytest.raises(ValueError, match="a window of 11 games, expected at most 10"):
        Form(10).gain("main-0", 11)


@pytest.fixture
def standings(make):
    roster = Roster([LivePlayer("main-0", MAIN), LivePlayer("main-1", MAIN)])
    for n in range(2):
        roster.admit(make.snapshot(f"main-0@{n}"))
    return Standings(roster, form_games=2)


def record(standings, make, rows, purpose=Purpose.TRAINING):
    """Games of home, away and home's outcome."""
    played = make.games(*rows)
    seats = played.matches.seat
    matches = made_up.matches(played.matches.competitors, seats, purpose=purpose, learning=True)
    standings.record(make.results(matches, played.outcome))


def test_games_in_training_against_what_never_changes_make_the_form(standings, make):
    record(standings, make, [("main-0", "main-0@0", LOSS), ("main-0@1", "main-0", WIN)])
    record(standings, make, [("main-0", "main-0@0", WIN), ("main-0@1", "main-0", DRAW)])
    before = standings.form.gain("main-0", 2)
    assert (before.gain, before.lead) == (1.5, 0.5)
    record(standings, make, [("main-0", "main-1", WIN)] * 4)
    record(standings, make, [("main-0", "main-0@0", WIN)] * 4, Purpose.EVALUATION)
    assert standings.form.gain("main-0", 2) == before
    assert standings.form.gain("main-1", 2) is None


def test_a_snapshot_or_a_reset_begins_a_new_form(standings, make):
    games = [("main-0", "main-0@0", WIN)] * 4
    for forget in (
        lambda: standings.on_reset("main-0", "main-0@0"),
        lambda: standings.on_admit(standings._roster["main-0@2"], "main-0"),
    ):
        record(standings, make, games)
        record(standings, make, games)
        assert standings.form.gain("main-0", 2) is not None
        if "main-0@2" not in standings._roster:
            standings._roster.admit(make.snapshot("main-0@2"))
        forget()
        assert standings.form.gain("main-0", 2) is None
