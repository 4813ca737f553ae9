"""Checks that a game keeps the promises of `BatchedGame`: one named check for each promise.

Actions are drawn from the seed of a match and the number of its decisions. So a match must come out
the same in every slot, and whatever other matches are played beside it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Dict

from league.envs import chance, registry
from league.envs.base import BatchedGame, Decisions, Transition, is_legal
from league.envs.dealt import MATCHES, DealtGame, broken_promise
from league.envs.slots import SlotGame
from league.envs.trial import promises
from league.envs.trial.blame import cause_of, of_seats
from league.envs.trial.trial import find_fault
from league.import_paths import RAISED
from storage.arrays import Bools, Floats, Indices
from storage.records import EndReason

MAX_DECISIONS = 20_000  # of one match under random play; a longer match counts as endless
MIN_EVIDENCE = 30  # matches needed to conclude "never"
SMALLEST_DIFFERENCE = 1e-4  # between returns, which are sums of float32

Build = Callable[[int, Mapping[str, Any]], BatchedGame]
Promise = Callable[[Build, Indices], None]
Spoil = Callable[[npt.NDArray, npt.NDArray, npt.NDArray], Bools]
Story = dict[int, list[tuple[Any, ...]]]  # by seed, all events of the match


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One promise, whether it was kept, and a `message` that names what was found instead."""

    name: str
    passed: bool
    message: str = ""


@dataclass(frozen=True, slots=True)
class ConformanceReport:
    """All checks of one game."""

    env_id: str
    checks: tuple[CheckResult, ...]

    @property
    def passed(self) -> bool:
        """Whether every promise was kept."""
        return all(c.passed for c in self.checks)

    @property
    def first_cause(self) -> str:
        """The message of the first check that failed, with its name; "" if all passed."""
        failed = [c for c in self.checks if not c.passed]
        return f"{failed[0].name}: {failed[0].message}" if failed else ""


class _Broken(Exception):
    """A promise was broken, as the message describes."""


class _Endless(_Broken):
    """A match does not end, so checks that play matches to their end are impossible."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """One observed step of a game."""

    game: BatchedGame
    seeds: Indices  # [num_slots], of the match in each slot
    active: Bools  # [num_slots], before the step
    pending: Bools  # [num_slots], before the step
    steps: Indices  # [num_slots], decisions of these matches, this step included
    blocks: list[Decisions]
    shown: list[Any]  # by block, the result of `observe`: an array, or the parts of a dict space
    actions: list[npt.NDArray]
    transition: Transition
    returns: Floats  # [num_slots, num_seats], this step included


def check(
    env_id: str, options: Mapping[str, Any] | None = None, *, seed: int = 0, num_matches: int = 256
) -> ConformanceReport:
    """Check the game `env_id` (an id for `registry.make`) on `num_matches` matches.

    Errors inside the game are reported as failed checks. Raise UnknownEnv or BadOption if there is no such
    game or option, or if the game cannot be made.
    """
    registry.make(env_id, 1, **(options or {}))

    def build(num_slots: int, more: Mapping[str, Any]) -> BatchedGame:
        return registry.make(env_id, num_slots, **{**(options or {}), **more})

    return ConformanceReport(env_id, check_game(build, seed=seed, num_matches=num_matches))


def check_game(build: Build, *, seed: int = 0, num_matches: int = 256) -> tuple[CheckResult, ...]:
    """Check the game that `build(num_slots, more_options)` makes, without stopping at a failure."""
    seeds = seed + np.arange(num_matches, dtype=np.int64)
    results: list[CheckResult] = []
    endless = ""
    for name, promise in _PROMISES.items():
        message = endless and f"not checked: {endless}"
        try:
            if not message:
                promise(build, seeds)
        except _Broken as broken:
            message = str(broken)
            endless = message if isinstance(broken, _Endless) else ""
        except RAISED as error:  # an error in a user's game is a finding about that game
            message = cause_of(error)
        results.append(CheckResult(name, not message, message))
    return tuple(results)


def _expect(kept: bool | np.bool_, message: str) -> None:
    if not kept:
        raise _Broken(message)


def _expect_kept(broken: promises.Broken | None) -> None:
    if broken is not None:
        raise _Broken(f"{of_seats(broken.seats)}{broken.found}")


def _turns(game: BatchedGame, seeds: Indices, spoil: Spoil | None = None) -> Iterator[_Turn]:
    """Play a match of each seed with random legal actions, and yield every step.

    Every free slot is refilled at once. `spoil(seeds, steps, seats)` selects the decisions that are answered
    with an illegal action.
    """
    started = min(len(seeds), game.num_slots)
    playing = np.full(game.num_slots, -1, dtype=np.int64)
    playing[:started] = seeds[:started]
    steps = np.zeros(game.num_slots, dtype=np.int64)
    returns = np.zeros((game.num_slots, game.num_seats))
    game.reset(np.arange(started), seeds[:started])
    while game.active.any():
        blocks = game.due()
        active, pending = game.active.copy(), game.pending.copy()
        if not blocks and not game.pending.any():
            broke = isinstance(game, SlotGame) and EndReason.CRASH in game.step([]).reason
            _expect(not broke, "matches crash at their start (see the first check)")
            raise _Broken(f"{active.sum()} matches are active, but no decision is due")
        shown = [game.observe(b.slot, b.seat) if _parts(game, b.seat) else b.observation for b in blocks]
        actions = [_choose(game, b, playing[b.slot], steps[b.slot], spoil) for b in blocks]
        for block in blocks:
            np.add.at(steps, block.slot, 1)
        transition = game.step(actions)
        returns += transition.rewards
        yield _Turn(game, playing, active, pending, steps, blocks, shown, actions, transition, returns)
        if steps.max() > MAX_DECISIONS:
            raise _Endless(f"a match goes on after {MAX_DECISIONS} decisions; has the game a step_limit?")
        free = transition.ended[: len(seeds) - started]
        following = seeds[started : started + len(free)]
        started += len(free)
        returns[transition.ended] = 0.0
        steps[transition.ended] = 0
        playing[transition.ended] = -1
        playing[free] = following
        if len(free):
            game.reset(free, following)


def _choose(
    game: BatchedGame, block: Decisions, seeds: npt.NDArray, steps: npt.NDArray, spoil: Spoil | None
) -> npt.NDArray:
    """Return a random legal action for each decision; an illegal one where `spoil` is `True`."""
    spec = game.action_specs[int(block.seat[0])]
    counter = (steps * 64 + block.seat)[:, None] * 4096 + np.arange(spec.width)
    drawn = spec.random(block.mask, chance.bits(seeds[:, None], counter) / 2.0**64)
    spoilt = np.zeros(len(block), dtype=np.bool_) if spoil is None else spoil(seeds, steps, block.seat)
    if spec.sizes:
        first = block.mask[:, : spec.sizes[0]]
        illegal = np.where(first.all(axis=1), spec.sizes[0], first.argmin(axis=1))
        illegal = np.where(steps % 2 == 0, illegal, -1)
    else:
        illegal = np.where(steps % 2 == 0, np.nan, np.float32(spec.high[0] + 1.0 + abs(spec.high[0])))
    drawn.reshape(len(block), -1)[spoilt, 0] = illegal[spoilt]
    return drawn


def _play(build: Build, seeds: npt.NDArray, num_slots: int, spoil: Spoil | None = None) -> Story:
    """Play a match of each seed, and return all its events in order, in a form to compare."""
    story: Story = {int(s): [] for s in seeds}
    for turn in _turns(build(num_slots, {}), seeds, spoil):
        for block, actions in zip(turn.blocks, turn.actions, strict=True):
            for row, slot in enumerate(block.slot):
                arrays = (block.observation, block.mask, actions)
                event = (int(block.seat[row]), *(zlib.crc32(a[row].tobytes()) for a in arrays))
                story[int(turn.seeds[slot])].append(event)
        # rewards that are all zero are left out: pending matches have them, too
        for slot in np.flatnonzero(turn.active & turn.transition.rewards.any(axis=1)):
            story[int(turn.seeds[slot])].append(tuple(turn.transition.rewards[slot].tolist()))
        ended = turn.transition
        for slot, cut, reason, forfeited in zip(
            ended.ended, ended.truncated, ended.reason, ended.forfeited, strict=True
        ):
            end = (bool(cut), EndReason(reason).name, *np.flatnonzero(forfeited).tolist())
            story[int(turn.seeds[slot])].append(end)
    return story


def _expect_same(one: Story, other: Story, where: str) -> None:
    for seed, events in one.items():
        if events != other[seed]:
            pairs = zip(events, other[seed], strict=False)
            at = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(events), len(other[seed])))
            raise _Broken(f"the match of seed {seed} differs from event {at} on when it is played {where}")


def _trial(build: Build, seeds: npt.NDArray) -> None:
    """Expect that the trial that precedes every training finds nothing."""
    fault = find_fault(lambda num_slots: build(num_slots, {}))
    _expect(fault is None, "" if fault is None else fault.sentence)


def _declarations(build: Build, seeds: npt.NDArray) -> None:
    game = build(3, {})
    _expect(isinstance(getattr(game, "id", None), str), "the class has no id")
    _expect(game.num_slots == 3, f"num_slots is {game.num_slots} after it was asked for 3")
    for name in ("observation_spaces", "action_spaces"):
        spaces = getattr(game, name, None)
        _expect(isinstance(spaces, tuple), f"{name} is {spaces!r}, expected a tuple")
    _expect(not game.active.any(), "matches are active before any was started")


def _endings(build: Build, seeds: npt.NDArray) -> None:
    num_ended = 0
    for turn in _turns(build(16, {}), seeds):
        game, end = turn.game, turn.transition
        _expect((np.diff(end.ended) > 0).all(), "ended slots are not in order, each once")
        _expect(turn.active[end.ended].all(), "a slot without a match is said to have ended")
        still = turn.active.copy()
        still[end.ended] = False
        _expect((game.active == still).all(), "`active` is not what was active, less what ended")
        counted = game.env_steps[turn.active], turn.steps[turn.active]
        _expect((counted[0] == counted[1]).all(), f"env_steps {counted[0]} after {counted[1]} decisions")
        _expect((end.reason != EndReason.CRASH).all(), "a match crashed")
        limited = end.reason == EndReason.STEP_LIMIT
        _expect((limited == end.truncated).all(), "truncated and the reason STEP_LIMIT do not go together")
        _expect((limited | (end.reason == EndReason.FINISHED)).all(), "legal play ended for another reason")
        _expect(not end.forfeited.any(), "a seat that played legally forfeited")
        num_ended += len(end.ended)
    _expect(num_ended == len(seeds), f"{len(seeds)} matches started, {num_ended} ended")


def _decisions(build: Build, seeds: npt.NDArray) -> None:
    for turn in _turns(build(16, {}), seeds):
        for block in turn.blocks:
            _expect_kept(promises.of_turns(block.slot, block.seat, turn.active, turn.game.num_seats))
        due = np.isin(np.arange(turn.game.num_slots), np.concatenate([[-1], *(b.slot for b in turn.blocks)]))
        _expect((due | turn.pending)[turn.active].all(), "a match is active, but none of its seats must act")


def _observations(build: Build, seeds: npt.NDArray) -> None:
    for turn in _turns(build(16, {}), seeds):
        for block, shown in zip(turn.blocks, turn.shown, strict=True):
            _expect_seen(turn.game, block.seat, shown)


def _parts(game: BatchedGame, seat: npt.NDArray) -> Mapping[str, gymnasium.Space[Any]]:
    """Return the parts of what these seats see, by name; an empty mapping for a plain array."""
    space = game.observation_spaces[int(seat[0])]
    return space.spaces if isinstance(space, Dict) else {}


def _expect_seen(game: BatchedGame, seat: npt.NDArray, seen: Any) -> None:
    """Expect that what these seats, which see alike, see is inside their space, part by part."""
    own = int(seat[0])
    _expect_kept(promises.of_observations(game.observation_spaces[own], len(seat), seen, own))


def _masks(build: Build, seeds: npt.NDArray) -> None:
    for turn in _turns(build(16, {}), seeds):
        for block in turn.blocks:
            seat = int(block.seat[0])
            _expect_kept(promises.of_masks(turn.game.action_specs[seat], len(block), block.mask, seat))


def _rewards(build: Build, seeds: npt.NDArray) -> None:
    """Expect finite rewards, within the declared range, and for waiting seats as well."""
    first = build(16, {})
    waited, paid = np.zeros((2, first.num_seats), dtype=np.int64)  # of decided matches, by seat
    for turn in _turns(first, seeds):
        game, rewards = turn.game, turn.transition.rewards
        shape = (game.num_slots, game.num_seats)
        _expect_kept(promises.of_rewards(rewards, shape))
        _expect(not rewards[~turn.active].any(), "a slot without a match got a reward")
        finished = turn.transition.ended[~turn.transition.truncated]
        returns = turn.returns[finished]
        lowest = returns.min(initial=np.inf)
        low_enough = lowest >= game.loss_reward - SMALLEST_DIFFERENCE
        _expect(low_enough, f"a return is {lowest:g}, below the loss_reward {game.loss_reward:g}")
        if game.score_bounds is not None and len(finished):
            low, high = game.score_bounds
            inside = low - SMALLEST_DIFFERENCE <= lowest and returns.max() <= high + SMALLEST_DIFFERENCE
            _expect(
                inside,
                f"returns are {lowest:g} to {returns.max():g}, outside score_bounds {game.score_bounds}",
            )
        if game.num_seats > 1 and not game.draw_possible:
            drawn = np.ptp(returns, axis=1) < SMALLEST_DIFFERENCE
            _expect(not drawn.any(), "a match was drawn, but draw_possible is False")
        acted = np.zeros(shape, dtype=np.bool_)
        for block in turn.blocks:
            acted[block.slot, block.seat] = True
        waiting = ~acted[finished] & returns.any(axis=1, keepdims=True)
        waited += waiting.sum(axis=0)
        paid += (waiting & (returns != 0)).sum(axis=0)
    if first.loss_reward < 0:  # otherwise 0 may be the return of a loser
        for seat in np.flatnonzero((waited >= MIN_EVIDENCE) & (paid == 0)):
            raise _Broken(
                f"seat {seat} got nothing in {waited[seat]} decided matches that another seat ended"
            )


def _repeatable(build: Build, seeds: npt.NDArray) -> None:
    _expect_same(_play(build, seeds, 16), _play(build, seeds, 16), "a second time")


def _independent(build: Build, seeds: npt.NDArray) -> None:
    together = _play(build, seeds, len(seeds))
    _expect_same(together, _play(build, seeds[::-1], len(seeds)), "in another slot")
    half = seeds[::2]
    _expect_same({int(s): together[int(s)] for s in half}, _play(build, half, len(half)), "in other company")


def _refill(build: Build, seeds: npt.NDArray) -> None:
    fresh = _play(build, seeds, len(seeds))
    _expect_same(fresh, _play(build, seeds, 5), "in a slot that was used before, while others go on")


def _forfeits(build: Build, seeds: npt.NDArray) -> None:
    """Expect forfeits where one seat acts illegally, in every third match."""
    num_seats = build(1, {}).num_seats

    def spoil(seeds: npt.NDArray, steps: npt.NDArray, seats: npt.NDArray) -> Bools:
        return (seeds % 3 == 0) & (steps >= seeds // 3 % 4) & (seats == seeds // 12 % num_seats)

    for turn in _turns(build(16, {}), seeds, spoil):
        end, game = turn.transition, turn.game
        offended = np.zeros((game.num_slots, num_seats), dtype=np.bool_)
        for block, actions in zip(turn.blocks, turn.actions, strict=True):
            spec = game.action_specs[int(block.seat[0])]
            offended[block.slot, block.seat] = ~is_legal(spec, block.mask, actions)
        slots = np.flatnonzero(offended.any(axis=1))
        _expect(np.isin(slots, end.ended).all(), "a match went on after an illegal action")
        _expect(
            (end.forfeited == offended[end.ended]).all(),
            "`forfeited` differs from the seats that offended",
        )
        illegal = end.reason == EndReason.ILLEGAL_ACTION
        _expect((illegal == offended[end.ended].any(axis=1)).all(), "ILLEGAL_ACTION is not the reason given")
        cost = turn.returns[offended]
        fair = np.abs(cost - game.loss_reward) < SMALLEST_DIFFERENCE
        _expect(fair.all(), f"a forfeit's return is {cost[~fair][:1]}, expected {game.loss_reward:g}")
    honest = seeds[seeds % 3 != 0]
    spoilt = _play(build, seeds, 16, spoil)
    _expect_same(_play(build, honest, 16), spoilt, "beside matches that are forfeited")


def _step_limit(build: Build, seeds: npt.NDArray) -> None:
    longest, has_its_own = 0, False
    for turn in _turns(build(16, {}), seeds):
        longest = max(longest, int(turn.steps.max()))
        has_its_own |= bool(turn.transition.truncated.any())
    limit = max(1, longest // 2)
    num_cut = 0
    for turn in _turns(build(16, {"step_limit": limit}), seeds):
        game, end = turn.game, turn.transition
        most = limit + game.num_seats - 1  # seats that act at once may pass the limit together
        steps = turn.steps[end.ended]
        _expect(turn.steps.max() <= most, f"a match had {turn.steps.max()} decisions, step_limit is {limit}")
        _expect(
            (end.truncated == (end.reason == EndReason.STEP_LIMIT)).all(),
            "STEP_LIMIT is not the reason given",
        )
        late = (steps[end.truncated] >= limit).all() or has_its_own
        _expect(late, "a match was truncated before the limit")
        cut = end.ended[end.truncated]
        num_cut += len(cut)
        for seat in range(game.num_seats) if len(cut) else ():
            seats = np.full(len(cut), seat)
            _expect_seen(game, seats, game.observe(cut, seats))
        on = game.env_steps[game.active & ~game.pending]  # pending matches are judged later
        _expect(
            (on < limit).all(), f"a match goes on after {on.max(initial=0)} decisions, step_limit is {limit}"
        )
    enough = num_cut > 0 or longest <= most
    _expect(enough, f"no match was truncated, though they last up to {longest} decisions")

    def limited(num_slots: int, more: Mapping[str, Any]) -> BatchedGame:
        return build(num_slots, {**more, "step_limit": limit})

    _refill(limited, seeds)


def _hidden(build: Build, seeds: npt.NDArray) -> None:
    """Expect of a dealt game that its hands are all that it hides."""
    game = build(MATCHES, {})
    broken = broken_promise(game, int(seeds[0])) if isinstance(game, DealtGame) else ""
    _expect(not broken, broken)


_PROMISES: dict[str, Promise] = {
    "trial": _trial,  # first: its message is the first cause, with the seat, the file and the line
    "declarations": _declarations,
    "endings": _endings,
    "decisions": _decisions,
    "observations": _observations,
    "masks": _masks,
    "rewards": _rewards,
    "repeatable": _repeatable,
    "independent of slot and batch": _independent,
    "refill": _refill,
    "forfeits": _forfeits,
    "step limit": _step_limit,
    "hidden hands": _hidden,
}
