import numpy as np
import pytest
from pydantic import ValidationError

from league.tournament.schedules import make_schedule
from league.tournament.schedules.settings import ScheduleSettings
from storage.errors import Mistake
from tests.analysis.simulated_games import join, next_pairs

KINDS = {
    "round_robin": {},
    "gauntlet": {"seeds": ("c1", "c3")},
    "swiss": {},
    "adaptive": {"budget": 300},
    "top_k": {"k": 3, "budget": 300},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_schedule_that_was_stopped_goes_on_as_if_it_had_not_been(make, kind):
    field, history = make.truth(np.arange(12) * 60.0), []
    games, dice = make.no_games(12), np.random.default_rng(0)
    unbroken = make.schedule(12, kind=kind, **KINDS[kind])
    while True:
        rng, again = (np.random.default_rng([7, len(history)]) for _ in range(2))
        pairings = next_pairs(unbroken, history, games, rng)
        resumed = next_pairs(make.schedule(12, kind=kind, **KINDS[kind]), tuple(history), games, again)
        if pairings is None:
            assert resumed is None
            break
        np.testing.assert_array_equal(pairings, resumed)
        assert pairings.dtype == np.int64
        history.append(pairings)
        games = join([games, field.play(pairings, dice)])
    assert sum(map(len, history)) <= unbroken.total_pairs()
    assert len(history) > (kind in ("swiss", "adaptive", "top_k"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num_teams", [2, 3, 4])
def test_nobody_meets_itself_and_everybody_takes_part(make, kind, num_teams):
    schedule = make.schedule(13, num_teams, kind=kind, **KINDS[kind])
    history = []
    for round_number in range(2):
        rng = np.random.default_rng(round_number)
        pairings = next_pairs(schedule, history, make.no_games(13), rng)
        if pairings is not None:
            history.append(pairings)
    rows = np.concatenate(history)
    assert rows.shape[1] == num_teams
    assert (np.diff(np.sort(rows, axis=1), axis=1) > 0).all()
    assert len(np.unique(rows)) == 13


@pytest.mark.parametrize(
    ("names", "num_teams", "message"),
    [
        ([], 2, "competitors: found none, expected at least 2"),
        (["main-0@5"], 2, "competitors: found 'main-0@5' alone, expected at least 2"),
        (["a", "b", "c"], 4, "competitors: found 3 entrants, expected at least 4"),
    ],
)
@pytest.mark.parametrize("kind", ["round_robin", "swiss", "adaptive", "top_k"])
def test_a_field_that_is_too_small_is_a_mistake(kind, names, num_teams, message):
    with pytest.raises(Mistake, match=message):
        make_schedule(ScheduleSettings(kind=kind), names, num_teams)


def test_a_seed_that_nobody_is_is_named_with_the_nearest():
    settings = ScheduleSettings(kind="gauntlet", seeds=("main-0@1200",))
    with pytest.raises(
        Mistake, match="'main-0@1200' takes no part; nearest: main-0@1300, main-0@12000:greedy"
    ):
        make_schedule(settings, ["main-0@12000:greedy", "random", "main-0@1300"], 2)


def test_all_of_a_field_cannot_be_its_best():
    with pytest.raises(Mistake, match=r"schedule\.k: found 3 of 3 entrants, expected at most 2"):
        make_schedule(ScheduleSettings(kind="top_k", k=3), ["a", "b", "c"], 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pairs": 0}, "greater than or equal to 1"),
        ({"kind": "adaptive", "uniform": 0.2}, "greater than or equal to 0.3"),
        ({"kind": "top_k", "confidence": 0.5}, "greater than 0.5"),
        ({"kind": "gauntlet"}, "seeds: found none, expected the seeds of the gauntlet"),
        ({"kind": "gauntlet", "seeds": ("a", "b", "a")}, "found 'a' twice, expected each seed once"),
        ({"seeds": ("a",)}, "seeds: is for gauntlet alone, found kind 'round_robin'"),
        ({"kind": "swiss", "budget": 9}, "budget: is for adaptive and top_k alone, found kind 'swiss'"),
        ({"kind": "knock_out"}, "'round_robin', 'gauntlet', 'swiss', 'adaptive' or 'top_k'"),
    ],
)
def test_settings_that_contradict_themselves_are_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        ScheduleSettings.model_validate(settings)


@pytest.mark.parametrize("kind", KINDS)
def test_settings_that_were_written_down_whole_can_be_read_again(kind):
    settings = ScheduleSettings(kind=kind, **KINDS[kind])
    assert ScheduleSettings.model_validate(settings.model_dump(mode="json")) == settings
