"""Table: one match of a game at a time, played by a function that answers decisions, and shown as text."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from league.envs.base import BatchedGame, Decisions
from league.models.actor import Actor, Chosen, Look
from league.models.policies.policy import Policy
from league.watching.words import by_order, how_it_ended, moves, results, title
from storage.arrays import Floats32, Indices
from storage.records import EndReason, Outcome

Show = Callable[[str], None]

MOST_NAMED = 5  # actions whose probabilities are shown

# (decisions that are due, rewards [1, num_seats] of the step before) -> an array of actions for each
# block; None: the rest of the match is unknown
Answer = Callable[[list[Decisions], Floats32], list[npt.NDArray] | None]


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


class ShownTable:
    """Display of matches in slot 0 of a game, which it also plays."""

    def __init__(
        self,
        game: BatchedGame,
        names: Sequence[str],
        team_of_seat: Indices | None,
        show: Show,
        delay: float,
        actors: Sequence[Actor] = (),
        guarded: bool = False,
    ) -> None:
        """`guarded`: hide moves until the match is over, because a person plays."""
        self._game = game
        self._names = [title(seat, name, len(names)) for seat, name in enumerate(names)]
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
        score = np.zeros(rewards.shape, dtype=np.float64)
        game.reset(np.zeros(1, dtype=np.int64), np.array([seed]))
        while game.active[0]:
            blocks = game.due()
            if blocks and not self._guarded:
                self._show(by_order(game.render(0)))
            actions = answer(blocks, rewards)
            if actions is None:
                self._show("nothing more was recorded")
                return
            said = moves(game, self._names, blocks, actions)
            lines = [f"{line}{self._thought(seat)}" for seat, line in said.items()]
            transition = game.step(actions)
            rewards = transition.rewards
            score += rewards
            if self._guarded:
                hidden += lines
            elif lines:
                self._show("\n".join(lines) + "\n")
                time.sleep(self._delay)
        if transition.reason[0] != EndReason.CRASH:  # a crashed match cannot be shown any more
            self._show(by_order(game.render(0)))
        if hidden:
            self._show("what was played:\n" + "\n".join(hidden))
        self._show(f"over {how_it_ended(game, int(transition.reason[0]))}")
        kinds, lines = results(
            self._names, score, transition.forfeited, self._team_of_seat, self._game.draw_margin
        )
        for kind, line, total in zip(kinds, lines, self._totals, strict=True):
            total[kind] += 1
            self._show(line)

    def show_totals(self) -> None:
        """Show how often each seat has won, drawn, lost and forfeited."""
        for name, total in zip(self._names, self._totals, strict=True):
            counts = ", ".join(f"{kind.name.lower()} {total[kind]}" for kind in Outcome if total[kind])
            self._show(f"{name}: {counts}")

    def _thought(self, seat: int) -> str:
        """Return the probabilities and the value of the policy in `seat` as text, or ''."""
        actor = self._actors[seat] if self._actors else None
        if not isinstance(actor, Watched):
            return ""
        value = "" if math.isnan(actor.value) else f"; value {actor.value:+.2f}"  # some see what it does not
        return f"   [{self._probabilities(seat, actor.thought)}{value}]"

    def _probabilities(self, seat: int, thought: Floats32) -> str:
        spec = self._game.action_specs[seat]
        if spec.kind == "discrete":
            likeliest = np.argsort(-thought, kind="stable")[:MOST_NAMED]
            named = [
                (self._game.action_name(0, seat, int(a)), thought[a]) for a in likeliest if thought[a] > 0
            ]
            return ", ".join(f"{name} {share:.2f}" for name, share in named)
        parts = [" ".join(f"{share:.2f}" for share in thought[start:end]) for start, end in spec.columns]
        mean, log_std = np.split(thought[spec.mask_width :], 2)
        numbers = [f"{m:.3g} ± {s:.2g}" for m, s in zip(mean, np.exp(log_std), strict=True)]
        return "; ".join([*parts, *[", ".join(numbers)] * bool(numbers)])
