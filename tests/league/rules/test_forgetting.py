"""A main that climbs a ladder, and all at once loses to one of its own snapshots; nobody tells the league."""

from types import SimpleNamespace

import pytest

from league.rules.presets import LeagueSettings
from storage.records import MAIN
from tests.parameters import VARIANTS

GENERATION = 400  # matches of the main in which it becomes 2 mu better
SNAPSHOTS = 12  # when it forgets
LOST_BY = 8.0  # mu: it wins 9 % of its games against what it has forgotten


def climb(make, seed, planted, changes=None, decay=0.99):
    """The ladder so far, and `forget`, which makes the main lose to the snapshot `planted`, by age."""
    forgotten = []

    def lead(home, away):
        if away in forgotten:
            return -LOST_BY
        return LOST_BY if home in forgotten else 2.0 * (home - away)

    settings = LeagueSettings(
        preset="alphastar_pseudocode",
        freeze_every=GENERATION,
        players={"main": 1},
        decay=decay,
        roles={"main": {"opponents": changes or {}}},
    )
    it = make.league(settings, lead, {MAIN: 1.0 / GENERATION}, seed=seed)
    while len(it.roster.snapshots()) < SNAPSHOTS:
        it.step()
    for _ in range(GENERATION // (2 * it.matches)):  # the newest has been met, too
        it.step()
    index = int(it.roster.snapshots()[planted])
    return SimpleNamespace(
        it=it,
        name=it.roster.id(index),
        forget=lambda: forgotten.append(it.progress[index]),
        rate=lambda: float(it.standings.win_rate(0, it.roster.indices([it.roster.id(index)]), 10.0)[0]),
    )


def go_on(league, matches):
    """Play on. When verification first drew the snapshot, counted in matches (None: never); how many
    matches of verification there were after the 200th, how many of them against the snapshot, and how
    many that would be if all snapshots were drawn alike."""
    it, found = league.it, SimpleNamespace(first=None, verified=0, against_it=0, if_uniform=0.0)
    for played in range(0, matches, it.matches):
        batch = it.step().matches
        for i in range(len(batch)):
            match = batch[i]
            if match.match_type != "verification":
                continue
            hit = any(seat.competitor == league.name for seat in match.seats)
            if hit and found.first is None:
                found.first = played + i + 1
            if played >= 200:
                found.verified += 1
                found.against_it += hit
                found.if_uniform += 1.0 / len(it.roster.snapshots())
    return found


# A record that is soon out of date, little faith in ratings, and PFSP that also meets whom it beats: then
# the league looks often enough to see. As the preset has it, the main hardly meets whom it beats, and a
# hundred games of the past speak against the first losses: it takes 400 to 1,000 matches, and more for the
# oldest.
VIGILANT = {"prior_strength": 2.0, "branches": {"pfsp": {"weighting": "uniform"}}}


@pytest.mark.long
@pytest.mark.parametrize("planted", [1, 8] if VARIANTS else [8])
def test_what_was_forgotten_is_verified_within_two_hundred_matches_and_from_then_on(make, planted):
    for seed in range(5 if VARIANTS else 2):
        league = climb(make, seed, planted, VIGILANT, decay=0.8)
        assert league.rate() > 0.85
        league.forget()
        found = go_on(league, 1_000)
        print(f"snapshot {planted} of {SNAPSHOTS}, seed {seed}: {vars(found)}")
        assert found.first is not None
        assert found.first <= 200
        assert found.verified > 60  # 15 % of 800 matches, had none of them become self-play
        assert found.against_it > 3 * found.if_uniform


@pytest.mark.variant
@pytest.mark.long
def test_what_was_forgotten_is_verified_in_the_end_as_the_preset_has_it(make):
    for seed in range(5):
        league = climb(make, seed, 8)
        assert league.rate() > 0.8
        league.forget()
        found = go_on(league, 2_000)
        print(f"as it is, seed {seed}: {vars(found)}")
        assert found.first is not None
        assert found.against_it > 3 * found.if_uniform


@pytest.mark.variant
@pytest.mark.long
def test_what_was_not_forgotten_is_hardly_verified(make):
    for seed in range(5):
        league = climb(make, seed, 5, VIGILANT, decay=0.8)
        found = go_on(league, 1_000)
        print(f"nothing forgotten, seed {seed}: {vars(found)}")
        assert found.against_it < 10
