"""What a builder decides can be checked afterwards, from the numbers that are stored with it."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from league.rules.building.builder import FreezeSettings, KeepSettings, ResetSettings
from storage.records import MAIN, Add, Freeze, Remove, Reset, Retire
from storage.tables.columns import decision_table, decisions_of
from tests.league.rules.building.explains import explains

RULES = SimpleNamespace(
    freeze=FreezeSettings(beats="mains", min_steps=100, max_steps=200),
    reset=ResetSettings(probability=0.5, target="inherit"),
    keep=KeepSettings(snapshots=4, by="diverse", pinned=("x-0@9",)),
)
BEATEN = Freeze(
    player="x-0",
    reason="beats all mains",
    evidence={
        "steps_since_freeze": 120,
        "min_steps": 100,
        "win_rate": 0.75,
        "win_rate_threshold": 0.7,
        "games": 50,
        "min_games": 50,
        "opponents": 2,
    },
)
TIMEOUT = Freeze(player="x-0", reason="timeout", evidence={"steps_since_freeze": 200, "max_steps": 200})
INHERITED = Reset(
    player="x-0",
    reason="inherited",
    target="x-0@3",
    evidence={
        "drawn": 0.4,
        "probability": 0.5,
        "candidates": 1,
        "win_rate": 0.3,
        "inherit_above": 0.2,
        "inherit_below": 0.5,
    },
)
NOBODY = Reset(
    player="x-0",
    reason="initial",
    target="x-0@0",
    evidence={"drawn": 0.4, "probability": 0.5, "candidates": 0},
)
RETIRED = Retire(
    player="x-0",
    reason="not among the diverse",
    target="x-0@3",
    evidence={"seated": 5, "most": 4, "distance": 0.1, "least_kept": 0.2},
)
DECISIONS = (BEATEN, TIMEOUT, INHERITED, NOBODY, RETIRED)


def changed(decision, **evidence):
    kept = {**decision.evidence, **evidence}
    return replace(decision, evidence={k: v for k, v in kept.items() if v is not None})


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda d: d.reason)
def test_a_decision_explains_itself_also_after_it_was_stored(decision):
    assert explains(decision, RULES)
    ((_, read),) = decisions_of(decision_table([decision], 1, 0.0))
    assert explains(read, RULES)


@pytest.mark.parametrize(
    ("decision", "evidence"),
    [
        (BEATEN, {"win_rate": 0.7}),
        (BEATEN, {"win_rate": 0.65}),
        (BEATEN, {"games": 49}),
        (BEATEN, {"opponents": 0}),
        (BEATEN, {"steps_since_freeze": 99}),
        (BEATEN, {"win_rate_threshold": 0.6}),
        (TIMEOUT, {"steps_since_freeze": 199}),
        (TIMEOUT, {"max_steps": 150}),
        (INHERITED, {"win_rate": 0.51}),
        (INHERITED, {"win_rate": 0.1}),
        (INHERITED, {"drawn": 0.5}),
        (INHERITED, {"candidates": 0}),
        (INHERITED, {"inherit_below": 0.9}),
        (NOBODY, {"candidates": 2}),
        (RETIRED, {"seated": 4}),
        (RETIRED, {"most": 3}),
        (RETIRED, {"distance": 0.3}),
    ],
)
def test_numbers_that_do_not_call_for_it_explain_nothing(decision, evidence):
    assert not explains(changed(decision, **evidence), RULES)


@pytest.mark.parametrize(
    ("decision", "missing"), [(d, key) for d in DECISIONS for key in d.evidence if key != "least_kept"]
)
def test_no_number_can_be_left_out(decision, missing):
    assert not explains(changed(decision, **{missing: None}), RULES)


def test_a_snapshot_goes_without_a_rival_only_when_all_others_are_protected():
    assert explains(changed(RETIRED, least_kept=None), RULES)


@pytest.mark.parametrize(
    "decision",
    [
        replace(RETIRED, target="x-0@9"),  # pinned
        replace(RETIRED, reason="not among the newest"),
        replace(INHERITED, reason="named"),
        replace(INHERITED, reason="latest main"),
        replace(BEATEN, reason="beats all snapshots"),
        Freeze(player="x-0", reason="end of training"),
        Freeze(player="x-0", reason="initial weights"),
        Add(player="x-1", role=MAIN, reason="test"),
        Remove(player="x-0", reason="test"),
    ],
)
def test_what_the_rules_did_not_ask_for_explains_nothing(decision):
    assert not explains(decision, RULES)
