"""Table: one match of a game at a time, played by a function that answers decisions, and shown as text."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from league.envs.base import BatchedGame, Decisions, is_legal
from league.models.actor import Actor, Chosen, Look
from league.models.policies.policy import Policy
from league.rollout.traces.results import placed
from league.watching.person import Show
from storage.records import EndReason, Outcome

MOST_NAMED = 5  # actions whose probabilities are shown

# (decisions that are due, rewards [1, num_seats] of the step before) -> an array of actions for each
# block; None: the rest of the match is unknown
Answer = Callable[[list[Decisions], npt.NDArray[np.float32]], list[npt.NDArray] | None]

_ENDS = {
    EndReason.ILLEGAL_ACTION: ", by an illegal action",
    EndReason.STEP_LIMIT: ", by the step limit",
    EndReason.CRASH: ": the game broke",
}


class Watched(Actor):
    """Policy that also keeps its probabilities and its value of the latest decision."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.memory_size, self.wants_reward = policy.memory_size, policy.wants_reward
        self.thought = np.zeros(0, dtype=np.float32)  # result of Policy.evaluate for one decision
        self.value = 0.0

    def decide(self, look: Look, rng: np.random.Generator, temperature: float = 1.0) -> Chosen:
        """Evaluate the decision, then let the policy decide."""
        thoughts, values = self._policy.evaluate(look.observation, look.mask, look.memory, look.reward)
        self.thought, self.value = thoughts[0], float(values[0])
        return self._policy.decide(look, rng, temperature)


class Table:
    """Display of matches in slot 0 of a game, which it also plays."""

    def __init__(
        self,
        game: BatchedGame,
        names: Sequence[str],
        team_of_seat: npt.NDArray[np.int64] | None,
        show: Show,
        delay: float,
        actors: Sequence[Actor] = (),
        guarded: bool = False,
    ) -> None:
        """`guarded`: hide moves until the match is over, because a person plays."""
        self._game = game
        self._names = [f"seat {seat} {name}" for seat, name in enumerate(names)]
        self._team_of_seat = team_of_seat
        self._guarded = guarded
        self._show = show
        self._delay = delay
        self._actors = actors
        self._totals: list[Counter[Outcome]] = [Counter() for _ in names]

    def play(self, seed: int, answer: Answer) -> None:
        """Play the match of `seed`."""
        game, hidden = self._game, []
        rewards = np.zeros((1, game.num_seats), dtype=np.float32)
        score = np.zeros_like(rewards)
        game.reset(np.zeros(1, dtype=np.int64), np.array([seed]))
        while game.active[0]:
            blocks = game.due()
            if blocks and not self._guarded:
                self._show(game.render(0))
            actions = answer(blocks, rewards)
            if actions is None:
                self._show("nothing more was recorded")
                return
            moves = self._moves(blocks, actions)
            transition = game.step(actions)
            rewards = transition.rewards
            score += rewards
            if self._guarded:
                hidden += moves
            else:
                self._show_moves(moves)
        if transition.reason[0] != EndReason.CRASH:  # a crashed match cannot be shown any more
            self._show(game.render(0))
        if hidden:
            self._show("what was played:\n" + "\n".join(hidden))
        outcome, _ = placed(score, transition.forfeited, self._team_of_seat)
        self._show(f"over after {game.env_steps[0]} decisions{_ENDS.get(transition.reason[0], '')}")
        for name, kind, points, total in zip(self._names, outcome[0], score[0], self._totals, strict=True):
            total[Outcome(kind)] += 1
            self._show(f"{name}: {Outcome(kind).name.lower()}, score {points:g}")

    def _show_moves(self, moves: list[str]) -> None:
        if moves:
            self._show("\n".join(moves) + "\n")
            time.sleep(self._delay)

    def show_totals(self) -> None:
        """Show how often each seat has won, drawn, lost and forfeited."""
        for name, total in zip(self._names, self._totals, strict=True):
            counts = ", ".join(f"{kind.name.lower()} {total[kind]}" for kind in Outcome if total[kind])
            self._show(f"{name}: {counts}")

    def _moves(self, blocks: list[Decisions], actions: list[npt.NDArray]) -> list[str]:
        """Return a line for each decision, in order of seats; call it before the game makes its step."""
        moves = {}
        for block, taken in zip(blocks, actions, strict=True):
            legal = is_legal(self._game.action_specs[int(block.seat[0])], block.mask, taken)
            for seat, action, allowed in zip(block.seat.tolist(), taken, legal, strict=True):
                numbers = " ".join(f"{number:g}" for number in np.atleast_1d(action))
                name = self._game.action_name(0, seat, action) if allowed else f"{numbers}, which is illegal"
                moves[seat] = f"{self._names[seat]}: {name}{self._thought(seat)}"
        return [moves[seat] for seat in sorted(moves)]

    def _thought(self, seat: int) -> str:
        """Return the probabilities and the value of the policy in `seat` as text, or ''."""
        actor = self._actors[seat] if self._actors else None
        if not isinstance(actor, Watched):
            return ""
        value = "" if math.isnan(actor.value) else f"; value {actor.value:+.2f}"  # some see what it does not
        return f"   [{self._probabilities(seat, actor.thought)}{value}]"

    def _probabilities(self, seat: int, thought: npt.NDArray[np.float32]) -> str:
        spec = self._game.action_specs[seat]
        if spec.kind == "discrete":
            likeliest = np.argsort(-thought, kind="stable")[:MOST_NAMED]
            named = [
                (self._game.action_name(0, seat, int(a)), thought[a]) for a in likeliest if thought[a] > 0
            ]
            return ", ".join(f"{name} {share:.2f}" for name, share in named)
        if spec.kind == "multi_discrete":
            choices = np.split(thought, np.cumsum(spec.sizes)[:-1])
            return "; ".join(" ".join(f"{share:.2f}" for share in choice) for choice in choices)
        mean, log_std = np.split(thought, 2)
        return ", ".join(f"{m:.3g} ± {s:.2g}" for m, s in zip(mean, np.exp(log_std), strict=True))
