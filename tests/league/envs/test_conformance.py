"""Native games keep every promise; games that break one are caught by the check that is named for it."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, MultiDiscrete

from league.envs import registry
from league.envs.conformance import check, check_game
from league.envs.games.kuhn_poker import KuhnPoker
from league.envs.games.leduc_poker import LeducPoker
from league.envs.games.rock_paper_scissors import RockPaperScissors
from league.envs.games.tic_tac_toe import TicTacToe
from league.envs.registry import BadOption, UnknownEnv
from storage.records import EndReason


def failures(game, **options):
    """Names and messages of the failed checks of a game class."""
    results = check_game(lambda n, more: game(n, **options, **more), num_matches=120)
    return {r.name: r.message for r in results if not r.passed}


@pytest.mark.long
@pytest.mark.parametrize("env_id", registry.ids())
def test_native_games_keep_every_promise(env_id):
    report = check(env_id, {}, num_matches=128)
    assert [c for c in report.checks if not c.passed] == []
    assert report.passed
    assert len(report.checks) == 13


@pytest.mark.slow
def test_options_are_checked_with_the_game():
    assert check("rock_paper_scissors", {"rounds": 9}, seed=3, num_matches=60).passed
    assert check("connect_four", {"step_limit": 9}, num_matches=60).passed
    with pytest.raises(BadOption, match="no option 'rouns'"):
        check("rock_paper_scissors", {"rouns": 9})
    with pytest.raises(BadOption, match=r"^env rock_paper_scissors: rounds is 0"):
        check("rock_paper_scissors", {"rounds": 0})
    with pytest.raises(UnknownEnv):
        check("tic_tac_two", {})


class LeaksBetweenSlots(TicTacToe):
    def observe(self, slot, seat):
        observation = super().observe(slot, seat)
        return np.maximum(observation, super().observe(np.full_like(slot, slot[0]), seat))


class KeepsStateOverReset(TicTacToe):
    def _reset(self, slots, seeds):
        self._mover[slots] = 0
        self._stones[slots, 0] = 0  # but those of the other seat stay


class SharedDice(KuhnPoker):
    def __init__(self, num_slots, **options):
        super().__init__(num_slots, **options)
        self._dice = np.random.default_rng(0)

    def _reset(self, slots, seeds):
        super()._reset(slots, self._dice.integers(0, 1000, len(seeds)))


class FreshDice(SharedDice):
    def __init__(self, num_slots, **options):
        super().__init__(num_slots, **options)
        self._dice = np.random.default_rng()


class PaysOnlyTheMover(TicTacToe):
    def _play(self, slot, seat, action):
        super()._play(slot, seat, action)
        self._rewards[slot, 1 - seat] = 0


class EmptyMask(TicTacToe):
    def legal(self, slot, seat):
        mask = super().legal(slot, seat)
        mask[mask.sum(axis=1) == 3] = False
        return mask


class PaysLessThanItSays(LeducPoker):
    loss_reward = -5.0


class PaysMoreThanItSays(LeducPoker):
    score_bounds = (-13.0, 5.0)


class CountsBackwards(LeducPoker):
    score_bounds = (13.0, -13.0)


class DrawsInSecret(TicTacToe):
    draw_possible = False


class NeverEnds(RockPaperScissors):
    def _play(self, slot, seat, action):
        super()._play(slot, seat, action)
        self._over[:] = False


class ActsOutOfTurn(RockPaperScissors):
    def _turn(self):
        slot, seat = super()._turn()
        return slot[::-1].copy(), seat[::-1].copy()


class Raises(TicTacToe):
    def _play(self, slot, seat, action):
        if (action == 8).any():
            raise KeyError("the corner")
        super()._play(slot, seat, action)


class ForgivesForfeits(TicTacToe):
    def _forfeit(self, slot, seat):
        self._over[slot] = True


class IgnoresTheLimit(TicTacToe):
    def __init__(self, num_slots, *, step_limit=None):
        super().__init__(num_slots)


class OneSpaceForTwoSeats(TicTacToe):
    action_spaces = TicTacToe.action_spaces[:1]


class InParts(RockPaperScissors):
    """The same, but what was played and how long it went on are seen apart; two choices make an action."""

    observation_spaces = (
        Dict({"played": Box(0, 1, (6,), np.float32), "share": Box(0, 1, (), np.float32)}),
    ) * 2
    action_spaces = (MultiDiscrete([3, 2]),) * 2

    def observe(self, slot, seat):
        row = super().observe(slot, seat)
        return {"played": row[:, :6], "share": row[:, 6]}

    def legal(self, slot, seat):
        return np.ones((len(slot), 5), np.bool_)

    def _play(self, slot, seat, action):
        super()._play(slot, seat, action[:, 0])


class PartTooLarge(InParts):
    def observe(self, slot, seat):
        seen = super().observe(slot, seat)
        return {**seen, "share": seen["share"] + np.float32(1.5)}


class OneChoiceOfNothing(InParts):
    def legal(self, slot, seat):
        mask = super().legal(slot, seat)
        mask[:, 3:] = self._played[slot, None] > 0
        return mask


class Crashes(TicTacToe):
    def _play(self, slot, seat, action):
        super()._play(slot, seat, action)
        crashed = slot[action == 4]
        self._over[crashed] = True
        self._reason[crashed] = EndReason.CRASH


class HasItsOwnLimit(TicTacToe):
    """Cuts its matches at the sixth stone; keeps every promise."""

    def _play(self, slot, seat, action):
        super()._play(slot, seat, action)
        late = slot[~self._over[slot] & (self.env_steps[slot] == 6)]
        self._over[late] = True
        self._truncated[late] = True
        self._reason[late] = EndReason.STEP_LIMIT


@pytest.mark.slow
@pytest.mark.parametrize(
    ("game", "check_name", "message"),
    [
        (LeaksBetweenSlots, "independent of slot and batch", "the match of seed"),
        (KeepsStateOverReset, "refill", "in a slot that was used before"),
        (SharedDice, "independent of slot and batch", "in another slot"),
        (FreshDice, "repeatable", "a second time"),
        (PaysOnlyTheMover, "rewards", "got nothing in"),
        (EmptyMask, "masks", "no legal action"),
        (PaysLessThanItSays, "rewards", "below the loss_reward -5"),
        (PaysMoreThanItSays, "rewards", "outside score_bounds (-13.0, 5.0)"),
        (CountsBackwards, "declarations", "score_bounds are (13.0, -13.0)"),
        (DrawsInSecret, "rewards", "draw_possible"),
        (ActsOutOfTurn, "decisions", "not ordered"),
        (Raises, "decisions", "KeyError: 'the corner'"),
        (ForgivesForfeits, "forfeits", "forfeit"),
        (IgnoresTheLimit, "step limit", "step_limit is 4"),
        (PartTooLarge, "observations", "an observation 'share' holds 1.5, outside of its space"),
        (OneChoiceOfNothing, "masks", "no legal action"),
        (Crashes, "endings", "a match crashed"),
        (OneSpaceForTwoSeats, "declarations", "1 action_spaces for 2 seats"),
    ],
)
def test_a_broken_promise_is_found_and_said(game, check_name, message):
    found = failures(game)
    assert check_name in found, found
    assert message in found[check_name]


@pytest.mark.slow
@pytest.mark.parametrize("game", [InParts, HasItsOwnLimit])
def test_parts_choices_and_limits_of_a_games_own_break_no_promise(game):
    assert failures(game) == {}


@pytest.mark.slow
def test_one_fault_does_not_fail_the_checks_that_it_does_not_concern():
    assert set(failures(PaysLessThanItSays)) == {"rewards"}
    assert set(failures(DrawsInSecret)) == {"rewards"}
    assert set(failures(IgnoresTheLimit)) == {"step limit"}
    assert set(failures(FreshDice)).isdisjoint({"observations", "masks", "endings", "rewards"})


@pytest.mark.long
def test_an_endless_game_is_played_only_once():
    found = failures(NeverEnds)
    assert found.pop("endings").startswith("a match goes on")
    assert "outside of its space" in found.pop("trial")  # which it leaves before its match is called endless
    assert len(found) == 10
    assert all(message.startswith("not checked: a match goes on") for message in found.values())
