import re
from pathlib import Path

import pytest

from analysis.gates.gates import Gate, GateResult, parse_gate
from analysis.tournaments.tournament import Verdict, verdict
from storage.errors import Mistake
from tests.analysis.played_tournaments import bot, duel, snapshot, store

FIELD = [
    snapshot("main-0@100"),
    snapshot("main-0@200"),
    snapshot("main-0@200:greedy", 200.0, 0.0),
    bot("one_ply"),
]


@pytest.mark.parametrize(
    ("text", "subject", "measure", "operator", "bound", "against"),
    [
        ("elo > 20 against main@champion", None, "elo", ">", 20.0, "main@champion"),
        ("elo>20 against main@champion", None, "elo", ">", 20.0, "main@champion"),
        ("main-0 score >= 55% against one_ply", "main-0", "score", ">=", 0.55, "one_ply"),
        ("main-0@12 rank <= 3", "main-0@12", "rank", "<=", 3.0, None),
        ("p_best > 50 %", None, "p_best", ">", 0.5, None),
        ("rating > -1e2", None, "rating", ">", -100.0, None),
        ("rating > 100 against x:t=0.5", None, "rating", ">", 100.0, "x:t=0.5"),
        ("elo games < 500 against rank", "elo", "games", "<", 500.0, "rank"),
    ],
)
def test_a_gate_is_a_subject_a_measure_a_bound_and_an_opponent(
    text, subject, measure, operator, bound, against
):
    gate = parse_gate(text)
    assert (gate.subject, gate.measure, gate.operator, gate.against) == (subject, measure, operator, against)
    assert gate.bound == pytest.approx(bound)
    assert gate.text == text


@pytest.mark.parametrize(
    ("text", "found", "expected"),
    [
        ("", "the end at character 1", "one of: elo, score"),
        ("main-0 elq > 20 against x", "'elq' at character 8", "one of: elo, score"),
        ("elo 20 against x", "'20' at character 5", "one of: >, >=, <, <="),
        ("elo => 20 against x", "'=>' at character 5", "one of: >, >=, <, <="),
        ("elo > many against x", "'many' at character 7", "a number"),
        ("elo > nan against x", "'nan' at character 7", "a number"),
        ("elo >", "the end at character 6", "a number"),
        ("elo > 20", "the end at character 9", "'against NAME'.* or rating"),
        ("elo > 20 versus x", "'versus' at character 10", "against"),
        ("elo > 20 against", "the end at character 17", "the name of a competitor"),
        ("elo > 20 against x y", "'y' at character 20", "the end"),
        ("elo > 20% against x", "'%' at character 9", "a plain number"),
        ("score > 55 against x", "'55' at character 9", "a number from 0 to 1, or a percentage"),
        ("p_best > 120%", "'120' at character 10", "a number from 0 to 1, or a percentage"),
        ("rank <= 3 against x", "'against' at character 11", "the end: it is a measure of one"),
    ],
)
def test_what_is_no_gate_is_told_with_the_place_and_what_was_expected(text, found, expected):
    with pytest.raises(Mistake, match=f"found {found}, expected {expected}.*; a gate is such as: elo > 20"):
        parse_gate(text)


def resolved(text: str) -> Gate:
    return parse_gate(text).resolve(FIELD)


def test_names_are_found_in_the_field_and_without_a_subject_the_newest_other_snapshot_is_meant():
    gate = resolved("main-0 elo > 0 against one")
    assert (gate.subject, gate.against) == ("main-0@200", "one_ply")
    assert gate.resolve(FIELD) == gate
    assert resolved("elo > 0 against main-0@100").subject == "main-0@200"
    assert resolved("rank <= 3").subject == "main-0@200"
    assert resolved("elo > 0 against main-0@200").subject == "main-0@200:greedy"
    both = [entrant for entrant in FIELD if not entrant.competitor.endswith("greedy")]
    assert parse_gate("elo > 0 against main-0@200").resolve(both).subject == "main-0@100"


def test_a_name_of_nobody_is_told_before_anything_is_played():
    with pytest.raises(
        Mistake, match=r"gate 'elo > 20 against main@champion': 'main@champion' takes no part"
    ):
        resolved("elo > 20 against main@champion")
    with pytest.raises(Mistake, match=r"'champion' takes no part"):
        resolved("champion elo > 20 against one_ply")


def test_a_field_of_bots_has_no_newest_snapshot():
    with pytest.raises(Mistake, match="newest snapshot of the field is meant, found none; write its id"):
        parse_gate("rank <= 3").resolve([bot("one_ply"), bot("random")])


def test_a_competitor_is_not_compared_with_itself():
    with pytest.raises(Mistake, match="'main-0@200' against itself, expected two competitors"):
        resolved("main-0 elo > 0 against main-0@2")


@pytest.fixture(scope="module")
def played_run(tmp_path_factory) -> Path:
    """new beats old clearly, one_ply barely; old and one_ply have not met, random has not played."""
    field = [snapshot("old@1"), snapshot("new@2"), bot("one_ply"), bot("random")]
    results = [
        duel("new@2", "old@1", [(1.0, 1.0), (1.0, 0.5), (0.5, 0.5), (1.0, 0.0)] * 25),
        duel(
            "new@2", "one_ply", [(1.0, 0.0), (0.5, 0.5), (1.0, 0.5), (0.5, 0.0)] * 3 + [(1.0, 0.5)], first=200
        ),
    ]
    return store(tmp_path_factory.mktemp("gates") / "run", field, results)


@pytest.fixture(scope="module")
def played(played_run) -> Verdict:
    return verdict(played_run)


def checked(text: str, found: Verdict) -> GateResult:
    return parse_gate(text).check(found)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("elo > 20 against old", r"passed: new@2 against old@1: Elo \+137 \[\+.* \(95 %\) over 100 pairs"),
        ("elo > 400 against old", r"failed: new@2 against old@1: Elo \+137 .*"),
        (
            "elo > 0 against one_ply",
            r"is not sure yet: new@2 against one_ply: Elo \+.* over 13 pairs; play more pairs",
        ),
        ("score >= 0.6 against old", r"passed: new@2 against old@1: score 0\.688 \[0\..*"),
        ("rating > 0", r"passed: .*over the mean of the field.*"),
        ("rating > 0 against old", r"passed: .*\(95 %\) over old@1"),
    ],
)
def test_a_gate_is_passed_or_failed_by_all_of_the_interval_and_not_sure_when_that_holds_its_bound(
    played, text, sentence
):
    result = checked(text, played)
    assert result.passed == sentence.startswith("passed")
    assert result.unsure == sentence.startswith("is not sure yet")
    assert re.fullmatch(f"gate '{text}' {sentence}", result.sentence)


@pytest.mark.parametrize(
    ("text", "passed"),
    [
        ("score >= 60% against old", True),
        ("score < 0.9 against old", True),
        ("elo < 0 against old", False),
        ("old elo < 0 against new", True),
        ("los > 0.95 against old", True),
        ("one_ply los > 0.95 against new", False),
        ("rank <= 2", True),
        ("rank > 2", False),
        ("p_best > 10%", True),
        ("old p_best > 0.5", False),
        ("games >= 226", True),
        ("games > 226", False),
        ("games > 26 against one_ply", False),
        ("rating > 0", True),
        ("old rating < -20 against new", True),
        ("old games <= 0 against one_ply", True),
    ],
)
def test_every_measure_is_judged(played, text, passed):
    result = checked(text, played)
    assert result.passed == passed
    assert result.gate == text
    assert not result.unsure


def test_few_pairs_pass_no_gate_although_all_were_won(tmp_path):
    field = [snapshot("old@1"), snapshot("new@2"), bot("one_ply")]
    results = [duel("new@2", "old@1", [(1.0, 1.0)] * 2), duel("new@2", "one_ply", [(1.0, 1.0)] * 2, first=4)]
    found = verdict(store(tmp_path / "run", field, results))
    assert found.value("new@2", "elo_low") < 200.0
    for gate in ("rating > 200", "rating > 200 against old", "p_best > 0.95", "rank <= 2"):
        assert not checked(gate, found).passed
    assert checked("rating > 200", found).unsure


def test_a_name_with_blanks_is_in_double_quotes():
    gate = parse_gate('"Stockfish 16" elo > 20 against "Fairy Max"')
    assert (gate.subject, gate.measure, gate.against) == ("Stockfish 16", "elo", "Fairy Max")
    assert parse_gate('a rating > 0 against "rating"').against == "rating"


def test_with_an_anchor_a_rating_is_over_that_and_its_own_is_zero(played, played_run):
    by_mean = checked("rating > 0 against one_ply", played)
    found = verdict(played_run, anchor="one_ply")
    assert checked("rating > 0", found).sentence.endswith("(95 %) over one_ply; play more pairs")
    assert checked("rating > 0", found).passed == by_mean.passed
    assert checked("one_ply rating >= 0", found).passed
    assert not checked("one_ply rating > 0", found).passed
    assert found.difference("new@2", "old@1").elo == pytest.approx(played.difference("new@2", "old@1").elo)


NOT_MET, NOT_PLAYED = "old@1 and one_ply have not met", "random has played no game"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        *(
            (f"old {measure} against one_ply", NOT_MET)
            for measure in ("elo > -900", "score >= 0", "los >= 0")
        ),
        *((f"random {measure}", NOT_PLAYED) for measure in ("rank <= 9", "p_best >= 0", "rating > -900")),
        ("rating > -900 against random", NOT_PLAYED),
    ],
)
def test_who_never_met_or_played_fails_with_a_sentence(played, text, why):
    result = checked(text, played)
    assert (result.passed, result.unsure) == (False, False)
    assert result.sentence.endswith(f"failed: {why}")


@pytest.mark.slow
def test_gates_of_the_posterior_pass_from_six_pairs_on(tmp_path):
    """Four pairs of clean wins passed: the posterior may be sure, but then the prior of the field decides."""
    field = [snapshot("old@1"), snapshot("new@2")]

    def played(pairs):
        return verdict(store(tmp_path / str(pairs), field, [duel("new@2", "old@1", [(1.0, 1.0)] * pairs)]))

    few, enough = played(5), played(6)
    for text in ("p_best > 0.95", "rank <= 1", "rating > 0 against old"):
        result = checked(text, few)
        assert (result.passed, result.unsure) == (False, True)
        assert "of the 6 pairs that it takes at least, new@2 has played 5; play more" in result.sentence
        assert checked(text, enough).passed


def test_a_rank_that_is_not_sure_passes_no_gate(played):
    """one_ply lost 13 pairs by little: it may well be the best."""
    result = checked("rank <= 1", played)
    assert (result.passed, result.unsure) == (False, True)
    assert "new@2 is number 1 [1, 2] (95 %) of 4; play more pairs" in result.sentence


@pytest.mark.slow
def test_parts_that_never_met_pass_no_gate(tmp_path):
    field = [snapshot(f"main-{line}@{step}") for line, step in ((0, 1), (0, 2), (1, 3), (1, 4))]
    results = [
        duel("main-0@1", "main-0@2", [(1.0, 0.0)] * 5),
        duel("main-1@4", "main-1@3", [(1.0, 1.0)] * 20, first=10),
    ]
    found = verdict(store(tmp_path / "run", field, results))
    for text in ("rank <= 4", "p_best > 0", "rating > -900", "rating > -900 against main-0@1"):
        result = checked(f"main-1@4 {text}", found)
        assert (result.passed, result.unsure) == (False, False)
        assert "never met" in result.sentence
