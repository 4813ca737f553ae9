"""The arena: one way to open competitors of runs, seat them, and play matches among them in this process.

arena = Arena.of_runs(run)                       the game of the run, with its bots and envs
seated = arena.seat("main-0", "random")          competitors, checked against the seats
table = arena.table("mine", seed)                what makes matches of seeds and seatings
arena.play(seated, table.pairs(seated.names, pairings, 0), seed)     results
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from league.arena.agreement import Agreed, agree, alike, require_bot, require_fit
from league.arena.matches import MeasureTable
from league.arena.origins import RunOrigin
from league.competitors.names import name_of, role_of
from league.envs.adapters.gymnasium.seats import FollowingEnvs
from league.envs.base import BatchedGame
from league.models.bots.settings import BotSettings
from league.rollout.env_runner import EnvRunner
from league.rollout.openings import Openings
from league.rollout.requests import BotSource, PlayRequest, PlaySetup, Source, StoredSource
from league.rollout.settings import RolloutSettings
from storage.records import MatchBatch, Purpose, ResultBatch
from storage.settings import CacheSettings
from storage.tables.live import names_of

SLOTS = 256  # matches at once; another number would give other games for the same seed


@dataclass(frozen=True, slots=True)
class Seated:
    """Competitors at a table, by the names under which they play."""

    sources: Mapping[str, Source]
    envs: FollowingEnvs | None = None  # None: all play in the env of the run
    brings: Mapping[str, str] = field(default_factory=dict)  # by name: the key of the env that it brings
    openings: Openings | None = None
    fingerprint: bool = False  # whether identical matches are to be recognised

    @property
    def names(self) -> tuple[str, ...]:
        """The names under which they play, each once."""
        return tuple(self.sources)

    def split(self, matches: MatchBatch) -> list[MatchBatch]:
        """Return the matches by game: competitors may bring envs of their own."""
        return [matches] if self.envs is None else self.envs.split(matches, self.brings.get)

    def request(self, matches: MatchBatch, seed: int) -> PlayRequest:
        """Return the request for one part of `split`; `seed` is that of sampled actions."""
        return PlayRequest(
            matches,
            tuple(self.sources[name] for name in matches.competitors),
            learners=(),
            seed=seed,
            openings=self.openings,
            env_options=None if self.envs is None else self.envs.own_options(matches.env),
            fingerprint=self.fingerprint,
        )


class Arena:
    """A game, the competitors that may play it, and a runner in this process."""

    def __init__(
        self,
        agreed: Agreed,
        *,
        origins: Sequence[RunOrigin] = (),
        bots: Mapping[str, BotSettings] = {},
        slots: int = SLOTS,
        trust: tuple[str, ...] = (),
        record: float = 0.0,
    ) -> None:
        """`origins`: runs whose competitors `seat` finds. `trust`: custom networks, as module:Class.

        `record`: the share of matches whose results have all actions.
        """
        self.agreed, self.origins, self.bots = agreed, tuple(origins), bots
        self.envs = origins[0].envs if origins else None
        self.slots = slots  # matches at once, until the first one
        self._trust, self._record = trust, record
        self._runner: EnvRunner | None = None
        self.failures: Counter[str] = Counter()  # matches forfeited, by cause

    @classmethod
    def of_runs(
        cls, *runs: str | Path, slots: int = SLOTS, trust: tuple[str, ...] = (), record: float = 0.0
    ) -> Arena:
        """Return the arena of one run, or of several that play one game.

        Raise NotARun for the run of a tournament, Mistake for runs of different games.
        """
        origins = [RunOrigin(run) for run in runs]
        remedy = "only runs of one game can be compared"
        agreed = agree(origins, remedy=remedy)
        alike("the envs of its roles", [(run.address, run.role_envs) for run in origins], remedy)
        bots: dict[str, BotSettings] = {}
        for name in {name for run in origins for name in run.bots}:
            have = [(run.address, run.bots[name]) for run in origins if name in run.bots]
            bots[name] = alike(f"bots.{name}", have, "compare competitors of one run")
        return cls(agreed, origins=origins, bots=bots, slots=slots, trust=trust, record=record)

    def find(self, name: str, run: int = 0) -> StoredSource:
        """Return the source of a competitor of that run. Raise UnknownCompetitor, CorruptManifest."""
        return self.origins[run].names.source(name)

    def seat(self, *names: str, runs: Sequence[int] | None = None) -> Seated:
        """Return competitors that can take every seat, each of the run with its number in `runs`.

        Of several runs every name has its run in front; one that is there twice gets another name. Raise
        UnknownCompetitor, UnknownBot, Mistake for one that cannot take every seat.
        """
        numbers = [0] * len(names) if runs is None else list(runs)
        sources = [self.find(name, run) for name, run in zip(names, numbers, strict=True)]
        seated = self.seated(sources, numbers)
        for given, shown, source in zip(names, seated.names, sources, strict=True):
            if isinstance(source, BotSource):
                require_bot(source.name, self.agreed, self.bots)
            else:
                require_fit(given, source, self.game_of(seated, shown))
        return seated

    def seated(self, sources: Sequence[StoredSource], runs: Sequence[int] | None = None) -> Seated:
        """Return competitors that were found and checked before; without `runs` none brings an env."""
        names = [name_of(source) for source in sources]
        if len(self.origins) > 1 and runs is not None:
            labels = names_of(tuple(origin.reader.run for origin in self.origins))
            names = [f"{labels[run]}/{name}" for run, name in zip(runs, names, strict=True)]
        for i, name in enumerate(names):
            if name in names[:i]:
                names[i] = f"{name}#{names[:i].count(name) + 1}"
        by_name = dict(zip(names, sources, strict=True))
        if runs is None or not self.envs:
            return Seated(by_name)
        roles = [role_of(self.origins[run].reader, source) for run, source in zip(runs, sources, strict=True)]
        brings = {name: role for name, role in zip(names, roles, strict=True) if role is not None}
        return Seated(by_name, self.envs, brings)

    def game_of(self, seated: Seated, name: str) -> BatchedGame:
        """Return the game, with one slot, as it is if all seats have the env that one of `seated` brings."""
        brought = seated.brings.get(name)
        return self.agreed.game if self.envs is None else self.agreed.game_of(self.envs, brought or "")

    def table(self, match_type: str, seed: int, purpose: Purpose = Purpose.EVALUATION) -> MeasureTable:
        """Return what makes matches of this game, whose seeds come from `seed`."""
        return MeasureTable(self.agreed.env_id, self.agreed.team_of_seat, match_type, seed, purpose)

    def play(self, seated: Seated, matches: MatchBatch, seed: int) -> list[ResultBatch]:
        """Play matches of `seated`; return the results by game. `seed` is that of sampled actions."""
        return [self.answer(seated.request(part, seed)) for part in seated.split(matches)]

    def answer(self, request: PlayRequest) -> ResultBatch:
        """Play the matches of a request and return their results."""
        if self._runner is None:
            agreed = self.agreed
            settings = RolloutSettings(slots=self.slots, step_limit=agreed.step_limit, record=self._record)
            setup = PlaySetup(
                agreed.env_id,
                agreed.env_options,
                settings,
                cache=CacheSettings(verify="always"),
                bots=self.bots,
                trust=self._trust,
            )
            self._runner = EnvRunner(setup)
        results, info, _ = self._runner.play(request, {})
        for (_, cause), count in info.failures.items():
            self.failures[cause] += count
        return results
