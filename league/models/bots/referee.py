"""Referee: asks a bot whose code is not ours, so that its failures forfeit its own matches and nothing else.

What fails is an exception, an answer that is no legal action, the end of its process, and time that is over.
All decisions that are due are asked for at once. If that fails, each is asked for alone, so that those which
succeed count. After COSTLY decisions in a row that ended its process, the rest of the block fails with them;
without a limit after one, if it has been waited for in vain together with others.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from league.envs.base import is_legal
from league.envs.spaces import ActionSpec
from league.envs.trial.blame import cause_of
from league.import_paths import RAISED
from league.models.actor import Actor, BadChoice, Chosen, Failed, Look
from league.models.bots.settings import Limits
from storage.arrays import Bools, Floats, Floats32, Indices
from storage.errors import Failure, Mistake
from storage.records import EndReason

COSTLY = 4  # decisions that ended the bot's process, one after the other


class Referee(Actor):
    """A bot under limits, in whose place a forfeit is noted wherever it makes no legal choice.

    With `match_seconds` the last number of a seat's memory is the seconds that it has used.
    """

    def __init__(
        self, where: str, bot: Actor, limits: Limits, action: ActionSpec | None = None, place: str = ""
    ) -> None:
        """`where`: the bot's name in messages; `place`: file and line. Without `action`: one choice."""
        self.bot, self._where, self.limits, self._action = bot, where, limits, action
        self._place = place
        self._counts = limits.match_seconds is not None
        self.memory_size = bot.memory_size + self._counts
        self.wants_reward, self.wants_game = bot.wants_reward, bot.wants_game
        self.wants_end, self.most_matches = bot.wants_end, bot.most_matches
        self._alone = False  # whether each decision is asked for alone: together they take too long
        self._costly = 0  # failures in a row

    def over(self, memory: Floats32, seat: Indices, score: Floats, reason: npt.NDArray[np.int8]) -> None:
        self.bot.over(memory[:, : self.bot.memory_size], seat, score, reason)

    def decide(self, look: Look, rng: np.random.Generator, temperature: float = 1.0) -> Chosen:
        limits, memory, n = self.limits, look.memory, len(look)
        left = np.full(n, np.inf if limits.move_seconds is None else limits.move_seconds)
        if limits.match_seconds is not None:
            used = np.zeros(n) if memory is None else memory[:, -1]
            left = np.minimum(left, limits.match_seconds - used)
        own = None if memory is None else memory[:, : self.bot.memory_size]
        look = replace(look, memory=own, seconds=left)
        chosen = None if self._alone and n > 1 else self._asked(look, rng, temperature)
        if chosen is None:
            chosen = self._one_by_one(look, rng, temperature)
        assert chosen.seconds is not None
        failed = dict(chosen.failed)
        for row in np.flatnonzero(chosen.seconds > left).tolist():
            failed.setdefault(row, self._late(float(chosen.seconds[row])))
        spec = self._action or ActionSpec("discrete", (look.mask.shape[1],))
        with np.errstate(over="ignore"):  # infinity is no legal action
            action = chosen.action.astype(spec.dtype)  # a copy
        for row in np.flatnonzero(~is_legal(spec, look.mask, action)).tolist():
            shown = " ".join(f"{number:g}" for number in np.atleast_1d(action[row])[:8])
            illegal = Failed(
                EndReason.ILLEGAL_ACTION, f"{self._where}: {shown} is no legal action there{self._place}"
            )
            failed.setdefault(row, illegal)
        for row, failure in failed.items():
            if failure.reason != EndReason.ILLEGAL_ACTION:
                action[row] = _nothing(spec)
        if self._counts and memory is not None:
            memory[:, -1] += chosen.seconds
        return chosen._replace(action=action, raw=action, failed=failed)

    def _asked(self, look: Look, rng: np.random.Generator, temperature: float) -> Chosen | None:
        """Return what the bot chooses; `None` if it fails and several rows are asked for."""
        before = rng.bit_generator.state
        memory = None if look.memory is None else look.memory.copy()
        began = time.monotonic()
        n, late = len(look), look.seconds is not None and bool((look.seconds <= 0.0).any())
        try:
            if late:
                raise BadChoice(self._late(0.0).cause, EndReason.TIME)
            chosen = self.bot.decide(look, rng, temperature)
            self._check(chosen, n)
        except BadChoice as error:
            bad = error
        except (Mistake, Failure):  # of ours
            raise
        except RAISED as error:
            bad = BadChoice(f"{self._where}: {cause_of(error)}")
        else:
            self._costly = 0
            seconds = np.full(n, (time.monotonic() - began) / n)
            return chosen if chosen.seconds is not None else chosen._replace(seconds=seconds)
        if n > 1:
            self._alone |= bad.failed.reason == EndReason.TIME and not late
            rng.bit_generator.state = before
            if memory is not None and look.memory is not None:
                look.memory[:] = memory
            return None
        self._costly += bad.costly
        undrawn = np.array([rng.bit_generator.state == before and not bad.costly])
        return self._nothing(look, bad.failed, undrawn, time.monotonic() - began)

    def _one_by_one(self, look: Look, rng: np.random.Generator, temperature: float) -> Chosen:
        assert look.seconds is not None
        # one that has hung with all rows, and may take any time: it is waited for once more, not COSTLY times
        self._costly = COSTLY - 1 if self._alone and np.isinf(look.seconds).any() else 0
        parts: list[Chosen] = []
        for row in range(len(look)):
            if self._costly >= COSTLY:
                parts.append(self._nothing(look.row(row), parts[-1].failed[0], np.zeros(1, np.bool_), 0.0))
                continue
            chosen = self._asked(look.row(row), rng, temperature)
            assert chosen is not None
            parts.append(chosen)
        action, log_prob, seconds = (
            np.concatenate([np.asarray(getattr(part, name)) for part in parts])
            for name in ("action", "log_prob", "seconds")
        )
        certain = np.concatenate([np.zeros(1, bool) if p.certain is None else p.certain for p in parts])
        failed = {row: part.failed[0] for row, part in enumerate(parts) if part.failed}
        return Chosen(action, log_prob, look.observation, action, certain, failed, seconds)

    def _check(self, chosen: Chosen, n: int) -> None:
        """Raise BadChoice for arrays that are not one action and one log-probability for each row."""
        spec = self._action or ActionSpec("discrete", (1,))
        expected, dtype = (n, *spec.shape), np.dtype(spec.dtype)
        action = chosen.action
        if action.shape != expected or not np.can_cast(action.dtype, dtype, "same_kind"):
            raise BadChoice(
                f"{self._where}: gave an array {list(action.shape)} of {action.dtype}, expected "
                f"{list(expected)} of {dtype}: one action for each observation{self._place}",
                EndReason.ILLEGAL_ACTION,
            )

    def _late(self, seconds: float) -> Failed:
        limits = [("a move", self.limits.move_seconds), ("a match", self.limits.match_seconds)]
        given = " and ".join(f"{most:g} s for {what}" for what, most in limits if most is not None)
        return Failed(EndReason.TIME, f"{self._where}: time is over, it has {given}")

    def _nothing(self, look: Look, failed: Failed, certain: Bools, seconds: float) -> Chosen:
        """Return the choice of one row that failed."""
        spec = self._action or ActionSpec("discrete", (1,))
        action = np.full((1, *spec.shape), _nothing(spec), dtype=spec.dtype)
        log_prob, took = np.zeros(1, dtype=np.float32), np.full(1, seconds)
        if failed.reason == EndReason.TIME:
            took[:] = 0.0 if look.seconds is None else look.seconds  # no more than there was
        return Chosen(action, log_prob, look.observation, action, certain, {0: failed}, took)


def _nothing(spec: ActionSpec) -> float:
    """Return the number in an action of no answer: it is never legal."""
    return np.nan if spec.kind == "continuous" else -1
