"""What a game costs that ends its process in some matches: processor of healthy play, and of play in a cage.

    python -m tests.bench.killing --every 500 --milliseconds 0.1

Requests are played by a runner, and then, with one match in `--every` that ends its process, by a cage with
the search for it, both in this process and its forks. Ray and the driver are left out.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from dataclasses import replace

import numpy as np

from league.envs.games.tic_tac_toe import TicTacToe
from league.models.policies.policy import initial_weights
from league.rollout.cage import Cage, PlayKilled
from league.rollout.env_runner import EnvRunner
from league.rollout.requests import PlayRequest, PlaySetup
from league.rollout.settings import RolloutSettings
from league.training.state.under_way import Part, ReplayedMatches
from tests.bench.runners import TINY, request_of, spec_of
from tests.bench.shared import parser_of

ID = f"{__name__}:Killing"


class Killing(TicTacToe):
    """Tic-tac-toe that takes more time, and ends its process at the third move of some matches."""

    id = "killing"
    every, milliseconds = 500, 0.0

    def _reset(self, slots: np.ndarray, seeds: np.ndarray) -> None:
        bad = getattr(self, "_bad", np.zeros(self.num_slots, np.bool_))
        bad[slots] = seeds % self.every == 0
        self._bad = bad
        super()._reset(slots, seeds)

    def _play(self, slot: np.ndarray, seat: np.ndarray, action: np.ndarray) -> None:
        if (self._bad[slot] & (self.env_steps[slot] == 2)).any():
            os.kill(os.getpid(), signal.SIGSEGV)
        until = time.process_time() + len(slot) * self.milliseconds / 1000
        while time.process_time() < until:
            pass
        super()._play(slot, seat, action)


def processor_seconds() -> float:
    """Of this process, and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--every", type=int, default=500, help="matches of which one ends its process")
    parser.add_argument("--milliseconds", type=float, default=0.0, help="that each decision takes more")
    parser.add_argument("--matches", type=int, default=4096, help="of one request")
    parser.add_argument("--requests", type=int, default=5)
    arguments = parser.parse_args()
    Killing.every, Killing.milliseconds = arguments.every, arguments.milliseconds
    rng, weights = np.random.default_rng(0), {"main-0": {}}
    weights["main-0"] = {name: tensor.numpy() for name, tensor in initial_weights(spec_of(TINY), 0).items()}
    requests = [request_of([], arguments.matches, rng) for _ in range(arguments.requests)]
    setup = PlaySetup(ID, {}, RolloutSettings(slots=arguments.matches))

    def played(matches, runner: EnvRunner | Cage) -> int:
        request = PlayRequest(replace(matches, env=ID), requests[0].sources, (), 0)
        return len(runner.play(request, weights)[0])

    cage, again, healthy, bad, deaths, plays = Cage(setup), ReplayedMatches(), 0, [], 0, 0
    began = processor_seconds()
    for request in requests:
        part: Part | None = Part(request.matches, None, "training")
        while part is not None:
            plays += 1
            try:
                healthy += played(part.matches, cage)
            except PlayKilled:
                deaths += 1
                found = again.lost(part, blamed=True)
                bad += [] if found is None else found.matches.match_id.tolist()
            part = again.next("training", suspected=True)
    cage.close()
    caged = processor_seconds() - began
    Killing.every = 2**62  # none
    runner, began = EnvRunner(setup), processor_seconds()
    for request in requests:
        played(request.matches, runner)
    plain = processor_seconds() - began
    total = arguments.matches * arguments.requests
    each = 1000 * (caged - plain) / max(1, len(bad))
    print(
        f"{total:,} matches, {1e6 * plain / total:.0f} us of the processor each: {len(bad)} end their process"
    )
    print(f"found with {deaths} deaths and {plays - deaths} plays, {each:.0f} ms of the processor each")
    print(f"rate kept: {plain / caged:.0%}; {healthy:,} matches beside them counted")


if __name__ == "__main__":
    main()
