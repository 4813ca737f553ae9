from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from storage.records import (
    MAIN,
    Add,
    Bot,
    EndReason,
    Freeze,
    LivePlayer,
    Match,
    Outcome,
    Purpose,
    Reset,
    Seat,
)


def test_every_competitor_says_by_what_id_it_is_known():
    assert LivePlayer("main-0", MAIN).competitor == "main-0"
    assert Bot("random").competitor == "random"


def test_one_match_of_a_batch_is_a_record_of_plain_values(make_results):
    batch = make_results(4, first_match_id=10).matches
    match = batch[1]
    assert isinstance(match, Match)
    assert match.match_id == 11
    assert type(match.seed) is int
    assert match.purpose is Purpose.TRAINING
    assert match.seats == (Seat("main-0@0", False), Seat("main-0", True))
    assert match.match_type in ("self_play", "pfsp")


def test_iterating_a_batch_of_matches_ends(make_results):
    assert len(list(make_results(3).matches)) == 3
    assert make_results(3).matches.num_seats == 2


def test_records_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        LivePlayer("main-0", MAIN).player = "main-1"
    with pytest.raises(FrozenInstanceError):
        Freeze(player="main-0", reason="due").reason = "other"


def test_decisions_know_their_kind_and_take_their_fields_by_name():
    assert (Freeze.kind, Reset.kind, Add.kind) == ("freeze", "reset", "add")
    with pytest.raises(TypeError):
        Reset("main-0", "why", {}, "main-0@0")


def test_outcomes_and_reasons_are_stored_under_stable_numbers():
    assert [o.name for o in sorted(Outcome)] == ["WIN", "DRAW", "LOSS", "FORFEIT"]
    assert np.int8(Outcome.FORFEIT) == 3
    reasons = ["FINISHED", "ILLEGAL_ACTION", "STEP_LIMIT", "CRASH", "ERROR", "TIME"]
    assert [r.name for r in sorted(EndReason)] == reasons
