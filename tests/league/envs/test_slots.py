"""Matches that are Python objects: what they raise ends only themselves; the slow ones go their own pace."""

import logging
import threading

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

from league.envs.conformance import check_game
from league.envs.slots import SlotGame
from storage.records import EndReason

PATIENCE = 60.0  # seconds after which a test that waits in vain gives up


class Bout:
    """Two seats play at once for 2, 3 or 4 rounds; it can be set to wait, or to raise."""

    def __init__(self, number):
        self.number = number
        self.closed = False


class Bouts(SlotGame):
    """What a bout is like depends on its seed alone; its rewards are a tenth of what the seats played.

    `faults`: (where, seed) at which it raises; `gates`: by seed, what its second round waits for.
    """

    id = "bouts"
    num_seats = 2
    observation_spaces = (Box(0, 1e6, (2,), np.float32),) * 2
    action_spaces = (Discrete(3),) * 2
    loss_reward = -10.0

    def __init__(self, num_slots, *, faults=(), gates=None, threads=0, step_limit=None):
        super().__init__(num_slots, threads=threads, step_limit=step_limit)
        self.faults = set(faults)
        self.gates = gates or {}
        self.made = []

    def _fail(self, where, seed=None):
        if (where, seed) in self.faults:
            raise OverflowError(f"{where} of {seed}")

    def _make(self):
        self._fail("make")
        self.made.append(Bout(len(self.made)))
        return self.made[-1]

    def _discard(self, match):
        match.closed = True

    def _begin(self, match, slot, seed):
        self._fail("begin", seed)
        match.seed, match.rounds = seed, 0
        self._write(match, slot)

    def _advance(self, match, slot, seats, actions):
        assert seats == [0, 1]
        match.rounds += 1
        self.gained[slot] = [actions[0] / 10, -actions[1] / 10]
        if match.rounds == 2:
            self._fail("advance", match.seed)
            if match.seed in self.gates:
                assert self.gates[match.seed].wait(PATIENCE)
        self.finished[slot] = match.rounds == 2 + match.seed % 3
        self.cut[slot] = self.finished[slot] and match.seed % 7 == 0
        self._write(match, slot)

    def _write(self, match, slot):
        for seat in range(2):
            self.seen[seat][""][slot] = [match.seed, match.rounds]
            self.mask[seat][slot, 2] = (match.seed + seat + match.rounds) % 2
        self.acting[slot] = ~self.finished[slot]

    def _refresh(self, match, slot):
        self._fail("refresh", match.seed)
        self.seen[1][""][slot] = [match.seed, 99]


def answer(blocks, action=1):
    return [np.full(len(block), action) for block in blocks]


def start(game, seeds=None):
    game.reset(np.arange(game.num_slots), np.arange(game.num_slots) if seeds is None else np.array(seeds))
    return game


def results(game, num_matches):
    """By seed: reason, whether it was truncated, decisions, and the rewards of the steps that gave any."""
    told, seed_in, rewards = {}, {}, {}
    begun = 0

    def begin(slots):
        nonlocal begun
        slots = slots[: num_matches - begun]
        for slot in slots.tolist():
            seed_in[slot], rewards[slot] = begun, []
            begun += 1
        if len(slots):
            game.reset(slots, np.array([seed_in[slot] for slot in slots.tolist()]))

    begin(np.arange(game.num_slots))
    while game.active.any():
        transition = game.step(answer(game.due()))
        for slot in np.flatnonzero(transition.rewards.any(axis=1)).tolist():
            rewards[slot].append(transition.rewards[slot].tolist())
        for row, slot in enumerate(transition.ended.tolist()):
            end = (EndReason(transition.reason[row]).name, bool(transition.truncated[row]))
            told[seed_in[slot]] = (*end, int(game.env_steps[slot]), rewards[slot])
        begin(transition.ended)
    return told


ONE_ROUND = np.array([0.1, -0.1], np.float32).tolist()


def expected(seed):
    rounds = 2 + seed % 3
    cut = seed % 7 == 0
    return ("STEP_LIMIT" if cut else "FINISHED", cut, 2 * rounds, [ONE_ROUND] * rounds)


# ---------------------------------------------------------------- promises


@pytest.mark.slow
@pytest.mark.parametrize("threads", [0, 3])
def test_matches_that_are_objects_keep_every_promise(threads):
    found = check_game(lambda n, more: Bouts(n, threads=threads, **more), num_matches=60)
    assert [r for r in found if not r.passed] == []


@pytest.mark.parametrize("threads", [0, 1, 4])
def test_a_match_is_what_its_seed_makes_it_with_threads_and_without(threads):
    assert results(Bouts(5, threads=threads), 23) == {seed: expected(seed) for seed in range(23)}


class Unlike(Bouts):
    """The same, but the second seat sees parts, and has other actions."""

    observation_spaces = (
        Box(0, 1e6, (2,), np.float32),
        Dict({"seed": Box(0, 30_000, (), np.int16), "round": Box(0, 99, (1,), np.int8)}),
    )
    action_spaces = (Discrete(3), Discrete(4))

    def _write(self, match, slot):
        self.seen[0][""][slot] = [match.seed, match.rounds]
        self.seen[1]["seed"][slot], self.seen[1]["round"][slot] = match.seed, match.rounds
        self.mask[1][slot, 3] = match.seed % 2
        self.acting[slot] = ~self.finished[slot]

    def _refresh(self, match, slot):
        self.seen[1]["round"][slot] = 99


@pytest.mark.slow
@pytest.mark.parametrize("threads", [0, 2])
def test_seats_that_differ_have_rows_of_their_own(threads):
    found = check_game(lambda n, more: Unlike(n, threads=threads, **more), num_matches=60)
    assert [r for r in found if not r.passed] == []
    game = start(Unlike(3, threads=threads))
    while not (blocks := game.due()) or sum(map(len, blocks)) < 6:
        game.step(answer(blocks))
    first, second = blocks
    assert first.observation[:, 0].tolist() == [0, 1, 2]
    assert second.observation[:, 1].tolist() == [0, 1, 2]  # parts in order of their names
    assert second.mask[:, 3].tolist() == [False, True, False]
    assert (first.mask.shape[1], second.mask.shape[1]) == (3, 4)


# ---------------------------------------------------------------- what raises


@pytest.mark.parametrize("threads", [0, 3])
def test_a_match_that_raises_costs_itself_and_its_object_and_nothing_else(threads, caplog):
    faults = [("advance", 1), ("advance", 8), ("begin", 4), ("begin", 10)]
    game = Bouts(3, threads=threads, faults=faults)
    with caplog.at_level(logging.WARNING):
        told = results(game, 20)
    crashed = {1: ONE_ROUND, 8: ONE_ROUND, 4: None, 10: None}
    for seed in range(20):
        if seed not in crashed:
            assert told[seed] == expected(seed)
        elif crashed[seed] is None:  # at its beginning: no seat decided anything
            assert told[seed] == ("CRASH", True, 0, [])
        else:  # the round in which it raised gives nothing
            assert told[seed] == ("CRASH", True, 4, [ONE_ROUND])
    assert len(game.made) == 3 + 4
    assert sum(bout.closed for bout in game.made) == 4
    assert caplog.text.count("a match crashed") == 1  # one for each kind of exception
    assert "of 1" in caplog.text or "of 4" in caplog.text


@pytest.mark.parametrize("threads", [0, 2])
def test_matches_that_all_break_at_once_are_told_by_a_step_without_decisions(threads):
    game = Bouts(3, threads=threads, faults=[("begin", seed) for seed in range(3)])
    start(game)
    ended = []
    while game.active.any():
        assert game.due() == []
        transition = game.step([])
        assert (transition.reason == EndReason.CRASH).all()
        ended += transition.ended.tolist()
    assert sorted(ended) == [0, 1, 2]
    assert results(game, 0) == {}
    start(game, [3, 4, 5])
    while game.active.any():
        transition = game.step(answer(game.due()))
    assert (transition.reason == EndReason.FINISHED).all()


def test_a_slot_that_can_get_no_object_crashes_until_it_can():
    game = start(Bouts(2, faults=[("make", None)]))
    assert game.due() == []
    assert game.step([]).reason.tolist() == [EndReason.CRASH] * 2
    game.faults.clear()
    assert results(game, 4) == {seed: expected(seed) for seed in range(4)}


# ---------------------------------------------------------------- limits


def test_a_match_that_is_cut_short_shows_its_last_state_to_all_seats(caplog):
    game = start(Bouts(2, step_limit=2, faults=[("refresh", 2)]), [1, 2])
    game.due()
    transition = game.step(answer(game.due()))
    assert transition.reason.tolist() == [EndReason.STEP_LIMIT] * 2
    looked = game.look(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]))
    assert looked.tolist() == [[1, 1], [1, 99], [2, 1], [2, 1]]  # what it saw last, where that failed
    assert "refresh of 2" in caplog.text
    assert results(game, 2) == {seed: ("STEP_LIMIT", True, 2, [ONE_ROUND]) for seed in range(2)}


def test_the_step_limit_waits_for_the_step_that_is_under_way():
    gate = threading.Event()
    game = start(Bouts(2, threads=2, step_limit=4, gates={1: gate}), [1, 5])
    while game.active[1]:
        transition = game.step(answer(game.due()))
    assert transition.reason.tolist() == [EndReason.STEP_LIMIT]
    assert (game.pending.tolist(), game.active.tolist()) == ([True, False], [True, False])
    assert game.env_steps[0] == 4
    gate.set()
    assert game.due() == []
    transition = game.step([])
    assert transition.ended.tolist() == [0]
    assert transition.reason.tolist() == [EndReason.STEP_LIMIT]
    assert transition.rewards[0].tolist() == ONE_ROUND


# ---------------------------------------------------------------- slow matches


def test_a_slow_match_does_not_hold_back_the_others_and_its_rewards_arrive_once():
    gate = threading.Event()
    game = start(Bouts(3, threads=2, gates={100: gate}), [100, 0, 1])
    given, finished, seed = [], 0, 2
    while finished < 30:
        transition = game.step(answer(game.due()))
        given += [transition.rewards[0].tolist()] if transition.rewards[0].any() else []
        fast = transition.ended
        assert 0 not in fast
        finished += len(fast)
        game.reset(fast, seed + np.arange(len(fast)))
        seed += len(fast)
    assert game.pending[0]
    assert given == [ONE_ROUND]  # of its first round; the second waits
    gate.set()
    while game.active[0]:
        transition = game.step(answer(game.due()))
        given += [transition.rewards[0].tolist()] if transition.rewards[0].any() else []
        others = transition.ended[transition.ended != 0]
        game.reset(others, seed + np.arange(len(others)))
        seed += len(others)
    assert given == [ONE_ROUND] * 3
    assert game.env_steps[0] == 6


def test_nothing_is_due_while_all_is_under_way_and_a_step_waits_for_it():
    gate = threading.Event()
    game = start(Bouts(1, threads=1, gates={1: gate}), [1])
    for waits in (True, False, False):  # for the beginning; then two rounds, of which the second is slow
        blocks = game.due()
        assert (blocks == []) == waits
        if game.env_steps[0] == 2:
            gate.set()
        game.step(answer(blocks))
    assert not game.pending.any()
    assert game.due()[0].observation[:, 1].tolist() == [2, 2]


def test_a_slot_whose_step_is_under_way_can_be_started_anew():
    gate = threading.Event()
    game = start(Bouts(2, threads=2, gates={9: gate}), [9, 0])
    while not (game.pending[0] and game.env_steps[0] == 4):
        transition = game.step(answer(game.due()))
        if 1 in transition.ended:
            game.reset(np.array([1]), np.array([0]))
    threading.Timer(0.05, gate.set).start()
    game.reset(np.array([0]), np.array([6]))
    assert gate.is_set()  # it waited for the slot to be free
    assert game.env_steps[0] == 0
    returns = np.zeros(2)
    while game.active[0]:
        transition = game.step(answer(game.due()))
        returns += transition.rewards[0]
    np.testing.assert_allclose(returns, [0.2, -0.2], rtol=1e-6)  # 2 rounds, and nothing of the match before


def test_an_illegal_action_beside_a_slow_match_forfeits_at_once():
    gate = threading.Event()
    game = start(Bouts(2, threads=2, gates={100: gate}), [100, 2])
    while not (game.pending[0] and game.env_steps[0] == 4 and not game.pending[1]):
        transition = game.step(answer(game.due()))
        if len(transition.ended):
            game.reset(np.array([1]), np.array([2]))
    (block,) = game.due()
    assert block.slot.tolist() == [1, 1]
    transition = game.step([np.array([1, 7])])
    assert transition.ended.tolist() == [1]
    assert transition.forfeited.tolist() == [[False, True]]
    gate.set()


@pytest.mark.parametrize("threads", [-1, 1.5, "many"])
def test_threads_that_cannot_be_are_refused(threads):
    with pytest.raises(ValueError, match=r"bouts: threads is .*, expected a whole number, at least 0"):
        Bouts(1, threads=threads)


def test_the_object_behind_a_match_is_handed_out():
    game = start(Bouts(2))
    assert game.native(1) is game.made[1]
    assert game.native(1).seed == 1


def test_a_game_whose_matches_all_crash_at_their_start_is_told_so():
    class Broken(Bouts):
        def _begin(self, match, slot, seed):
            raise OSError("no simulator here")

    checks = {c.name: c for c in check_game(lambda n, more: Broken(n, **more), num_matches=8)}
    assert "matches crash at their start" in checks["endings"].message
