"""How a run ended, or that it has not."""

from datetime import UTC, datetime

import pytest

from storage.ends import state_of

BEGAN, LATER = (datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in (8, 9))
END = {
    "state": "stopped",
    "reason": "",
    "seconds": 45.0,
    "of_seconds": 600.0,
    "env_steps": 900,
    "of_env_steps": None,
    "ended_at": LATER,
}
NO_END = dict.fromkeys(END)


@pytest.mark.parametrize(
    ("end", "session", "written", "kind", "sentence"),
    [
        (END, BEGAN, False, "stopped", "Stopped after 45 s of 10 min"),
        (END, BEGAN, True, "stopped", "Stopped after 45 s of 10 min"),
        (END | {"state": "failed", "reason": "x"}, BEGAN, False, "failed", "Failed after 45 s of 10 min: x"),
        (END | {"state": "trained"}, BEGAN, False, "trained", "Trained for 45 s, 900 env steps"),
        (
            END | {"state": "untrained", "reason": "no match ended"},
            BEGAN,
            False,
            "untrained",
            "Learned nothing in 45 s: no match ended",
        ),
        (NO_END, BEGAN, True, "running", "training now"),
        (NO_END, BEGAN, False, "killed", "killed, or of an older version: no end is recorded"),
        (END | {"ended_at": BEGAN}, LATER, True, "running", "training now"),
        (
            END | {"ended_at": BEGAN},
            LATER,
            False,
            "killed",
            "killed, or of an older version: no end is recorded",
        ),
    ],
)
def test_the_newest_session_says_how_a_run_ended(end, session, written, kind, sentence):
    state = state_of({"session": session, "entrants": 0} | end, written)
    assert (state.kind, state.sentence) == (kind, sentence)


@pytest.mark.parametrize(("written", "kind"), [(True, "running"), (False, "played")])
def test_a_tournament_is_played_or_was(written, kind):
    assert state_of({"session": BEGAN, "entrants": 3} | NO_END, written).kind == kind
