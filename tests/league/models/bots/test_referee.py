"""A bot whose code is not ours forfeits its own decisions when it fails, and nothing else."""

import os
import time

import numpy as np
import pytest

from league.envs import registry
from league.envs.spaces import ActionSpec
from league.models.actor import Actor, BadChoice, Chosen, Look
from league.models.bots.referee import COSTLY, Referee
from league.models.bots.scripted import make_bot, seated_bot
from league.models.bots.settings import NO_LIMITS, Limits, OwnBotSettings
from league.rollout.seats import Seats
from storage.records import EndReason

BOTS = """
import os, time
import numpy as np

made = []

def choose(observation, mask, rng):
    bad = observation.reshape(len(observation), -1)[:, 0] == 1
    if bad.any():
        FAIL
    return mask.argmax(1)

def counts(observation, mask, rng):
    made.append(len(mask))
    return np.full(len(mask), len(made) - 1)

def draws(observation, mask, rng):
    return rng.integers(9, size=len(mask))
"""


@pytest.fixture
def bot(own_module):
    """Makes the bot of a function that fails where the first number of an observation is 1."""

    def make(fail="raise ValueError('no idea')", function="choose", **limits):
        own_module("failing_bots", BOTS.replace("FAIL", fail))
        settings = {"mine": OwnBotSettings(use=f"failing_bots:{function}", limits=limits)}
        return make_bot("mine", "tic_tac_toe", None, settings)

    return make


def look(*marks):
    observation = np.zeros((len(marks), 18), np.int8)
    observation[:, 0] = marks
    return Look(observation, np.ones((len(marks), 9), bool))


def reasons(chosen):
    return {row: failed.reason for row, failed in chosen.failed.items()}


@pytest.mark.parametrize(
    ("fail", "reason", "cause"),
    [
        ("raise ValueError('no idea')", "ERROR", r"ValueError: no idea \(.*failing_bots.py, line 10"),
        ("os._exit(3)", "ERROR", r"it ended itself with exit code 3 \(.*failing_bots.py, line 7"),
        ("raise SystemExit(4)", "ERROR", r"it ended itself with exit code 4 \(.*failing_bots.py, line 7"),
        ("os.kill(os.getpid(), 11)", "ERROR", r"killed by SIGSEGV \(.*failing_bots.py, line 10"),
        ("return bad * 99", "ILLEGAL_ACTION", r"99 is no legal action there \(.*failing_bots.py, line 7"),
        ("return 'e4'", "ILLEGAL_ACTION", r"gave an array \[\] of <U2.* \(.*failing_bots.py, line 7"),
        ("return np.array([lambda: 0])", "ERROR", "ickl"),
    ],
)
def test_a_decision_that_fails_is_told_with_its_place_and_those_beside_it_count(bot, fail, reason, cause):
    chosen = bot(fail).decide(look(0, 1, 0), np.random.default_rng(0))
    assert reasons(chosen) == {1: EndReason[reason]}
    assert chosen.action[[0, 2]].tolist() == [0, 0]
    with pytest.raises(BadChoice, match=cause):
        raise BadChoice(chosen.failed[1].cause)


@pytest.mark.slow
@pytest.mark.parametrize("fail", ["time.sleep(600)", "while True: pass"])
def test_a_decision_that_does_not_end_loses_on_time_at_the_line_where_it_is(bot, fail):
    chosen = bot(fail, move_seconds=1.0).decide(look(0, 1, 0), np.random.default_rng(0))
    assert reasons(chosen) == {1: EndReason.TIME}
    assert "did not answer in time (" in chosen.failed[1].cause
    assert "failing_bots.py, line 10, in choose)" in chosen.failed[1].cause


@pytest.mark.slow
def test_without_limits_a_decision_is_waited_for_some_minutes_and_its_cause_names_the_setting(
    bot, monkeypatch
):
    monkeypatch.setattr("league.models.bots.bot.PATIENCE", 0.3)
    chosen = bot("time.sleep(600)").decide(look(0, 1, 0), np.random.default_rng(0))
    assert reasons(chosen) == {1: EndReason.TIME}
    assert "did not answer for 0.3 s, " in chosen.failed[1].cause
    assert "`limits: {move_seconds: ...}`" in chosen.failed[1].cause
    assert chosen.action[[0, 2]].tolist() == [0, 0]


@pytest.mark.slow
def test_one_that_hangs_at_every_decision_is_found_in_twice_the_time_of_one_however_many_are_due(
    bot, monkeypatch, tmp_path
):
    monkeypatch.setattr("league.models.bots.bot.PATIENCE", 0.3)
    own = bot(f"open({str(tmp_path / 'asked')!r}, 'a').write('x'); time.sleep(600)")
    assert reasons(own.decide(look(*[1] * 2048), np.random.default_rng(0))) == dict.fromkeys(
        range(2048), EndReason.TIME
    )
    assert len((tmp_path / "asked").read_text()) == 2  # all at once, and one alone


@pytest.mark.slow
def test_seconds_of_a_match_add_up_in_the_memory_of_its_seat(bot):
    own = bot("time.sleep(1.0)", match_seconds=1.8)
    memory = np.zeros((2, own.memory_size), np.float32)
    shown = look(1, 0)
    for expected in ({}, {0: EndReason.TIME}, {0: EndReason.TIME}):
        its = Look(shown.observation, shown.mask, memory)
        own._alone = True  # so that the seconds of one row are not shared by both
        assert reasons(own.decide(its, np.random.default_rng(0))) == expected
    assert memory[0, 0] >= 1.8 > 1.0 > memory[1, 0]


@pytest.mark.slow
def test_after_some_that_end_its_process_the_rest_of_a_block_fails_unasked(bot, tmp_path):
    note = f"open({str(tmp_path / 'asked')!r}, 'a').write('x'); os._exit(1)"
    own = bot(note)
    assert reasons(own.decide(look(*[1] * 50), np.random.default_rng(0))) == dict.fromkeys(range(50), 4)
    assert len((tmp_path / "asked").read_text()) == 1 + COSTLY


def test_it_runs_in_a_process_of_its_own_keeps_its_state_there_and_draws_as_if_it_were_here(bot):
    own = bot(function="counts")
    assert [own.decide(look(0, 0), np.random.default_rng(0)).action.tolist() for _ in range(3)] == [
        [0, 0],
        [1, 1],
        [2, 2],
    ]
    drawing, rng = bot(function="draws"), np.random.default_rng(7)
    found = [drawing.decide(look(0, 0), rng).action.tolist() for _ in range(2)]
    again = np.random.default_rng(7)
    assert found == [again.integers(9, size=2).tolist() for _ in range(2)]


def test_its_process_ends_with_it_and_one_that_was_killed_while_idle_is_made_anew(bot):
    own = bot()
    own.decide(look(0), np.random.default_rng(0))
    process = own.bot._choose._process
    os.kill(process.pid, 9)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert own.decide(look(0), np.random.default_rng(0)).failed == {}
    pid = own.bot._choose._process.pid
    del own
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


class Slow(Actor):
    """Takes a tenth of a second in this process."""

    def decide(self, look, rng, temperature=1.0):
        time.sleep(0.1)
        action = np.zeros(len(look), np.int64)
        return Chosen(action, np.zeros(len(look), np.float32), look.observation, action)


def test_what_cannot_be_interrupted_is_late_when_it_answers():
    late = Referee("bot 'slow'", Slow(), Limits(move_seconds=0.01)).decide(look(0), np.random.default_rng(0))
    assert reasons(late) == {0: EndReason.TIME}
    assert "it has 0.01 s for a move" in late.failed[0].cause
    assert not Referee("bot 'slow'", Slow(), NO_LIMITS).decide(look(0), np.random.default_rng(0)).failed


class Raises(Actor):
    def decide(self, look, rng, temperature=1.0):
        raise RuntimeError("of its own")


@pytest.mark.parametrize(
    "spec", [ActionSpec("multi_discrete", (2, 3)), ActionSpec("continuous", low=(-1.0,), high=(1.0,))]
)
def test_no_answer_is_an_illegal_action_of_every_kind(spec):
    own = Referee("bot 'r'", Raises(), NO_LIMITS, spec)
    mask = np.ones((2, spec.mask_width), bool)
    chosen = own.decide(Look(np.zeros((2, 1)), mask), np.random.default_rng(0))
    assert reasons(chosen) == {0: EndReason.ERROR, 1: EndReason.ERROR}
    assert chosen.action.shape == (2, *spec.shape)


class Enormous(Actor):
    def decide(self, look, rng, temperature=1.0):
        return Chosen(np.full((len(look), 1), 1e300), np.zeros(len(look), np.float32), look.observation, None)


def test_a_number_beyond_all_bounds_is_no_legal_action():
    own = Referee("bot 'e'", Enormous(), NO_LIMITS, ActionSpec("continuous", low=(-1.0,), high=(np.inf,)))
    chosen = own.decide(Look(np.zeros((1, 1)), np.ones((1, 0), bool)), np.random.default_rng(0))
    assert "inf is no legal action" in chosen.failed[0].cause


def test_a_seat_that_fails_forfeits_for_its_reason_in_every_place_that_asks_seats(own_module):
    own_module("failing_bots", BOTS.replace("FAIL", "raise ValueError('no idea')"))
    game = registry.make("tic_tac_toe", 3)
    bots = [seated_bot(name, "tic_tac_toe", game, {}).actor for name in ("random", "failing_bots:choose")]
    seats, slots, rng = Seats(game, bots, [1.0, 1.0]), np.arange(3), np.random.default_rng(0)
    game.reset(slots, slots)
    seats.begin(slots, np.array([[0, 1]] * 3))
    ends = {}
    while game.active.any():
        (block,) = game.due()
        block.observation[:, 0] = (block.slot == 1)[:, None, None]  # the mark at which it fails
        transition = game.step([seats.decide(block, rng).action])
        ends |= dict(zip(transition.ended.tolist(), transition.reason.tolist(), strict=True))
        for slot, lost in zip(transition.ended.tolist(), transition.forfeited.tolist(), strict=True):
            assert lost == [False, slot == 1]
    assert ends[1] == EndReason.ERROR
    assert set(ends.values()) == {EndReason.ERROR, EndReason.FINISHED}
