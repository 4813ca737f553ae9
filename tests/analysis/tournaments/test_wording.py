import dataclasses
import itertools
import json
import re

import numpy as np
import pytest

from analysis.tournaments.tournament import Verdict, verdict
from analysis.tournaments.wording import HEADER, as_json, headline, rows, summary, warnings
from storage.records import EndReason
from tests.analysis.played_tournaments import duel, round_robin, snapshots, store

pytestmark = pytest.mark.slow

FIELD = snapshots(6)
a, b, c, d, e, f = (entrant.competitor for entrant in FIELD)


@pytest.fixture
def judged(tmp_path):
    """Of results, the verdict."""
    runs = itertools.count()

    def judge(*results, field=4) -> Verdict:
        return verdict(store(tmp_path / f"run-{next(runs)}", FIELD[:field], results))

    return judge


def robin(elo, pairs, seed=0):
    return round_robin(elo, pairs, np.random.default_rng(seed))


def test_the_headline_says_who_is_best_and_the_summary_what_was_played_and_what_is_cyclic(judged):
    found = judged(robin({a: 300.0, b: 100.0, c: 0.0}, 50), field=3)
    sentence = headline(found)
    assert sentence.startswith(f"{a} is best with probability over 0.99; second {b}, ")
    assert sentence.endswith("]"), "nobody else comes near"
    told = summary(found)
    assert told.startswith("300 games, 150 pairs count, ")
    assert re.search(
        r"; places are worth [+-]\d+ \[[+-]\d+, [+-]\d+\], [+-]\d+ \[[+-]\d+, [+-]\d+\] Elo; ", told
    )
    assert re.search(r"; cyclic share 0\.\d\d \[0\.\d\d, [01]\.\d\d\]$", told)


def test_a_chain_says_that_neighbours_are_taken_to_be_near_which_can_be_switched_off(judged, tmp_path):
    names = [entrant.competitor for entrant in snapshots(24)]
    steps = [duel(*two, [(1.0, 0.5)] * 2, first=2 * i) for i, two in enumerate(itertools.pairwise(names))]
    run = store(tmp_path / "chain", snapshots(24), steps)
    told = summary(verdict(run))
    assert re.search(r"near the next, \+\d+ \[[+-]\d+, \+\d+\] Elo a step upwards$", told)
    assert "cyclic share 0.00 [0.00, 0.00]" in told
    assert "near the next" not in summary(verdict(run, lines=None))


def test_a_design_of_uneven_pairs_says_how_wide_its_intervals_are(judged):
    star = judged(*[duel(a, other, [(1.0, 0.0)] * 20, first=20 * i) for i, other in enumerate((b, c, d))])
    assert re.search(r"intervals are 1\.\d\d times as wide as a round robin of as many games", summary(star))
    assert as_json(star)["width"]["all"] > 1.1


def test_the_headline_says_how_many_may_be_as_good(judged):
    found = judged(robin({a: 0.0, b: 0.0, c: 0.0, d: -500.0}, 10))
    assert headline(found).endswith("; 2 cannot be separated from the first")


def test_without_a_pair_there_is_no_best(judged):
    found = judged()
    assert headline(found) == "no pair has been finished yet"
    assert summary(found) == "0 games, 0 pairs count"


def test_a_clear_field_needs_no_warning(judged):
    assert warnings(judged(robin({a: 400.0, b: 200.0, c: 0.0, d: -200.0}, 100))) == []


def test_who_has_not_played_is_named(judged):
    (told, *_) = warnings(judged(duel(a, b, [(1.0, 1.0)] * 30)))
    assert told == f"2 of 4 competitors have finished no pair: {c}, {d}"


def test_parts_of_the_field_that_never_met_are_named(judged):
    found = judged(duel(a, b, [(1.0, 1.0)] * 30), duel(c, d, [(1.0, 0.5)] * 30, first=60))
    told = [sentence for sentence in warnings(found) if "never met" in sentence]
    assert len(told) == 1
    assert told[0].startswith("the field falls into 2 parts that never met (")


def test_a_cycle_is_named_where_one_number_misleads(judged):
    cycle = [
        duel(x, y, [(1.0, 1.0), (1.0, 0.5)] * 20, first=80 * i)
        for i, (x, y) in enumerate([(a, b), (b, c), (c, a)])
    ]
    (told, *_) = [sentence for sentence in warnings(judged(*cycle, field=3)) if "cyclic" in sentence]
    assert re.match(r"(9\d|100)% \(95 %: \d+% to 100%\) of what decides these games is cyclic \(", told)
    for one, other in ((a, b), (b, c), (c, a)):
        assert f"{one} beats {other}" in told
    assert ": 0.88, 0.88, 0.88): the first place of main-0@" in told
    assert re.search(r"does not hold \(main-0@\d beats it with 0.88\): read the pairings", told)


def test_a_first_place_that_nobody_beats_holds_beside_a_cycle_below_it(judged):
    circle = [(a, b), (b, c), (c, a)]
    games = [duel(x, y, [(1.0, 1.0), (1.0, 0.5)] * 20, first=80 * i) for i, (x, y) in enumerate(circle)]
    games += [duel(d, x, [(1.0, 0.5)] * 20, first=240 + 40 * i) for i, x in enumerate((a, b, c))]
    (told, *_) = [sentence for sentence in warnings(judged(*games, field=4)) if "cyclic" in sentence]
    assert f"the first place of {d} holds all the same, as it loses to no other" in told


def test_a_transitive_field_with_few_games_is_not_called_cyclic(judged):
    strength = {entrant.competitor: 60.0 * i for i, entrant in enumerate(FIELD)}
    found = judged(robin(strength, 2, seed=3), field=6)
    assert not [sentence for sentence in warnings(found) if "cyclic" in sentence]


def test_two_that_are_close_are_told_with_what_would_help(judged):
    (told, *_) = warnings(judged(robin({a: 30.0, b: 0.0}, 40), field=2))
    assert told.startswith("the best two cannot be separated (+")
    assert "times as many pairs would decide, if they are that far apart" in told


def test_two_that_score_alike_may_be_equal(judged):
    (told, *_) = warnings(judged(duel(a, b, [(1.0, 0.0), (0.0, 1.0)] * 10), field=2))
    assert told.endswith("they may well be equal")


def test_games_that_repeat_themselves_are_told_with_the_remedy(judged):
    results = dataclasses.replace(duel(a, b, [(1.0, 1.0)] * 50), digest=np.tile([5, 6], 50))
    (told, *_) = [sentence for sentence in warnings(judged(results, field=2)) if "same games" in sentence]
    assert told.startswith(
        f"49 of 50 pairs were the same games as one before, move by move (most: {a} and {b}, 49)"
    )
    assert "opening.plies" in told


def ended(results, reason: EndReason, count: int):
    reasons = np.where(np.arange(len(results)) < count, reason, EndReason.FINISHED)
    return dataclasses.replace(results, reason=reasons.astype(np.int8))


def test_pairs_that_the_rules_leave_out_are_counted(judged):
    results = ended(duel(a, b, [(1.0, 1.0)] * 100), EndReason.CRASH, 3)
    (told, *_) = warnings(judged(results, field=2))
    assert told == (
        "3 of 200 games did not come to an ordinary end (3 by crash); as the tournament's rules have it, "
        "2 pairs are left out for that"
    )


def test_many_games_that_were_cut_are_told_though_they_count_and_few_are_not(judged):
    results = duel(a, b, [(1.0, 1.0)] * 100)
    (told, *_) = warnings(judged(ended(results, EndReason.STEP_LIMIT, 40), field=2))
    assert told.startswith("40 of 200 games did not come to an ordinary end (40 by step_limit)")
    assert warnings(judged(ended(results, EndReason.STEP_LIMIT, 10), field=2)) == []


def test_people_get_one_row_each_with_intervals(judged):
    found = judged(robin({a: 200.0, b: 100.0, c: 0.0}, 50))
    table = rows(found)
    assert all(len(row) == len(HEADER) for row in table)
    first = dict(zip(HEADER, table[0], strict=True))
    assert (first["rank"], first["competitor"], first["games"]) == (1, a, 200)
    assert first["Elo"].startswith("+")
    assert first["Elo"].endswith("]")
    assert len(first["by place"].split()) == 2
    assert first["worst opponent"].startswith(b)
    assert first["TrueSkill"] == "25.0 ± 2.0"
    last = dict(zip(HEADER, table[-1], strict=True))
    assert (last["rank"], last["competitor"], last["games"], last["Elo"]) == (None, d, 0, None)


def test_programs_get_everything_as_json_with_null_for_the_infinite(judged):
    found = judged(duel(a, b, [(1.0, 1.0)] * 5))
    text = json.dumps(as_json(found), allow_nan=False)
    back = json.loads(text)
    assert back["headline"] == headline(found)
    assert [row["competitor"] for row in back["table"]] == [a, b, c, d]
    assert back["table"][3]["rank"] is None
    assert back["pairings"][0]["elo"] is None
    assert back["pairings"][0]["elo_low"] > 0
    others = ("illegal_action", "step_limit", "crash", "error", "time")
    assert back["ends"] == {"finished": 10} | dict.fromkeys(others, 0)
    assert back["cyclic"] is None


def test_a_circle_of_competitors_that_repeat_their_games_is_named(judged):
    """57 of 60 pairs were dropped as repeats, and all that was said is that the best may well be equal."""
    results = []
    for number, (one, other) in enumerate(((a, b), (b, c), (c, a))):
        games = duel(one, other, [(1.0, 1.0)] * 20, first=40 * number)
        results.append(dataclasses.replace(games, digest=np.tile([2 * number + 1, 2 * number + 2], 20)))
    found = judged(*results, field=3)
    assert found.repeated_pairs == 57
    (circle,) = [sentence for sentence in warnings(found) if "in a circle" in sentence]
    assert "no ranking holds" in circle
    for one, other in ((a, b), (b, c), (c, a)):
        assert f"{one} beats {other}" in circle
    assert not any("may well be equal" in sentence for sentence in warnings(found))
