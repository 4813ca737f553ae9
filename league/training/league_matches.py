"""Matches of the league itself: asked for by the players' shares, taken back, played again if they are lost.

A request brings matches to one runner. They are played whole, or a fragment of them is played with those that
are unfinished there. `UnderWay` holds which matches a runner has and whether they still count. A request that
is lost with its runner is played again, or set aside (`ReplayedMatches`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from league.config.settings import Settings
from league.learning.groups.learners import Learners
from league.rollout.requests import Fragment, PlayRequest
from league.rollout.runner_group import LostRequests, Rollout
from league.rules.roles import earned
from league.training.requests import Owner, Played, Requests, Ticket
from league.training.sources import Sources
from league.training.state.pace import Pace
from league.training.state.state import LeagueState, TrainingPlayer
from league.training.state.under_way import Part, ReplayedMatches, UnderWay
from storage.records import LivePlayer, MatchBatch, Purpose, ResultBatch, Snapshot

OWNERS: set[Owner] = {"training", "evaluation"}
LEAD = 2  # requests for a player beyond one whose learner has no room


@dataclass(frozen=True, slots=True)
class TakenRollout:
    """What was played for one request, and the results that are to be recorded."""

    ticket: Ticket
    rollout: Rollout
    results: list[ResultBatch]


def _level(member: TrainingPlayer) -> float:
    """Return how much of its share a player has had."""
    return member.matches_asked / member.share


class LeagueMatches:
    """Matches for training and for evaluation."""

    def __init__(
        self,
        settings: Settings,
        state: LeagueState,
        learners: Learners,
        requests: Requests,
        sources: Sources,
        rng: np.random.Generator,
        first_id: int,
    ) -> None:
        """`rng`: of the opponents that are drawn; `first_id`: of the next match."""
        self.pace = Pace(settings)
        self.replayed = ReplayedMatches()
        self._settings, self._state, self._learners = settings, state, learners
        self._requests, self._sources, self._rng = requests, sources, rng
        self._roster, self._standings, self._members = state.roster, state.standings, state.members
        self._matchmaker = settings.make_matchmaker(sources.allowed_seats)
        self._roles = settings.league.resolve()
        self._openings = settings.opening.openings()
        self._envs = settings.following()
        self._steps = {"training": settings.rollout.fragment, "evaluation": None}
        self._depth = settings.rollout.requests_in_flight if settings.most_runners else 1
        self._under_way = UnderWay(state.members)
        self._next_id = first_id

    # ------------------------------------------------------------------ asked for

    def ask(self) -> None:
        """Submit requests while runners have room, each for the player furthest behind its share.

        If that player's learner has enough to do, the next one is asked for, up to LEAD requests beyond it,
        so that the shares hold for what is played. Players whose learner is away (it died, or has been silent
        for long) and those that are about to be reset hold up no other.
        """
        self._ask_again("training")
        self.pace.follow({name: (own.player.role, own.share) for name, own in self._members.items()})
        resets = [name for name, member in self._members.items() if member.resets]
        away = {*self._learners.away(), *resets}
        room = self._requests.room("training", self.pace.each_runner())
        while room > 0:
            runner = self._requests.runners["training"].next_runner()
            member = self._next(runner, away)
            if member is None:
                return
            if self.pace.enough(member.player.player, self._requests.runners["training"].in_flight()):
                return
            room -= self._request(member, runner)

    def _next(self, runner: int, away: Collection[str]) -> TrainingPlayer | None:
        """Return the player to ask for now: the first in the order of their shares whose learner has room.

        Matches that go on on the runner are learned from too, so the learners of all of them must have room.
        """
        going_on = set(self._under_way.players(("training", runner), learning=True)).difference(away)
        if any(self._learners.full(name) for name in going_on & self._members.keys()):
            return None
        in_order = sorted(self._asked_for(away), key=_level)
        for member in in_order:
            beyond = (_level(member) - _level(in_order[0])) * member.share
            near = member is in_order[0] or beyond < LEAD * self.pace.matches(member.player.player)
            if near and not self._learners.full(member.player.player):
                return member
        return None

    def evaluate(self) -> None:
        """Submit evaluation matches while evaluation runners have room, for each player in turn."""
        self._ask_again("evaluation")
        while self._requests.room("evaluation") > 0:
            member = min(self._members.values(), key=lambda member: member.matches_evaluated)
            matches = self._matchmaker.evaluation_matches(
                member.player,
                self._settings.evaluation.matches_per_request,
                self._roster,
                self._standings,
                self._rng,
                self._next_id,
            )
            if matches is None:
                return
            member.matches_evaluated += len(matches)
            self._submit("evaluation", matches)

    def _ask_again(self, owner: Owner) -> None:
        """Submit matches that were lost with a runner while others have room, unless a player has left.

        What has ended a runner is played where that costs least, and alone.
        """
        while len(self.replayed) and self._requests.room(owner) > 0:
            safest = self._requests.runners[owner].safest_runner()
            part = None if safest is None else self.replayed.next(owner, suspected=True)
            part = part or self.replayed.next(owner, suspected=False)
            if part is None:
                return
            seated = [self._roster[competitor] for competitor in part.matches.competitors]
            if any(isinstance(c, LivePlayer) and c.player not in self._members for c in seated):
                self._state.totals.dropped_matches += len(part.matches)
            elif part.deaths and safest is not None:
                self._submit_to(safest, part, None, alone=True)
            else:
                self._submit_part(part)

    def _asked_for(self, away: Collection[str]) -> list[TrainingPlayer]:
        """Return the players that matches are asked for; those `away` only if all that learn are.

        A player that is away keeps level with the others, so that these need not wait for it once it is back.
        """
        learning = [member for member in self._members.values() if not member.stopped]
        here = [member for member in learning if member.player.player not in away]
        if not here or not away:
            return learning
        level = min(map(_level, here))
        for member in learning:
            if member.player.player in away:
                member.matches_asked = max(member.matches_asked, level * member.share)
        return here

    def _request(self, member: TrainingPlayer, runner: int) -> int:
        """Request matches for a player; return the number of requests.

        Matches in fragments are as many as the runner has room for.
        """
        count, place = self.pace.matches(member.player.player), ("training", runner)
        if self._steps["training"] is not None:
            slots = self._settings.rollout_of_runners.slots
            count = self._under_way.wanted(place, slots, count, self._depth, len(self._members))
        if count:
            matches = self._matchmaker.next_matches(
                member.player, count, self._roster, self._standings, self._rng, self._next_id
            )
        else:
            matches = self._under_way.none_new(place)
        self.pace.asked(len(matches.competitors))
        submitted = self._submit("training", matches)
        since_reset = member.env_steps - member.reset_at
        rule = self._roles.of(member.player).earns
        # a player that earned less of its share is charged more per match
        member.matches_asked += count / earned(
            member.player, rule, self._roster, self._standings, since_reset
        )
        return submitted

    # ------------------------------------------------------------------ submitted

    def _submit(self, owner: Owner, matches: MatchBatch) -> int:
        """Submit matches; return the number of requests: one for each game that competitors bring."""
        parts = self._envs.split(matches, self._brings)
        for own in parts:
            self._submit_part(Part(own, self._envs.own_options(own.env), owner))
        self._next_id += len(matches)
        return len(parts)

    def _brings(self, competitor: str) -> str | None:
        """Return the role of a competitor, whose env it may bring; `None` for a bot."""
        found = self._roster[competitor]
        return found.role if isinstance(found, LivePlayer | Snapshot) else None

    def _submit_part(self, part: Part) -> None:
        """Submit matches to the next runner, for as many steps as settings allow."""
        runner = self._requests.runners[part.owner].next_runner()
        self._submit_to(runner, part, self._steps[part.owner])

    def _submit_to(self, runner: int, part: Part, steps: int | None, *, alone: bool = False) -> None:
        """Submit matches to a runner, where its unfinished ones go on, or wait if these are played `alone`.

        `steps`: most of each match.
        """
        matches, place = part.matches, (part.owner, runner)
        seated = [self._roster[competitor] for competitor in matches.competitors]
        own = [c.player for c in seated if isinstance(c, LivePlayer)]
        goes_on = self._under_way.going_on(place)[: 0 if alone else None]
        beside = [] if alone else self._under_way.players(place)
        others = [name for name in beside if name not in own]
        live = {name: self._learners.live(name) for name in [*own, *others]}
        versions = {name: weights.version for name, weights in live.items()}
        learning = {matches.competitors[i] for i in np.unique(matches.seat[matches.learning]).tolist()}
        learning |= set() if alone else set(self._under_way.players(place, learning=True))
        request = PlayRequest(
            matches=matches,
            sources=tuple(
                self._sources.of(c, versions[c.player] if isinstance(c, LivePlayer) else 0) for c in seated
            ),
            learners=tuple(name for name in live if name in learning and not self._members[name].stopped),
            seed=int(self._rng.integers(2**63)),
            openings=self._openings if matches.purpose is Purpose.TRAINING else None,
            env_options=part.env_options,
            fragment=Fragment(
                steps,
                goes_on,
                tuple(self._sources.live(self._members[name].player, versions[name]) for name in others),
                self._settings.rollout.fragment_weights,
            ),
        )
        generations = {name: self._members[name].generation for name in live}
        ticket = Ticket(part.owner, runner, alone, generations, versions)
        number = self._requests.submit(ticket, request, {name: w.handle for name, w in live.items()})
        self._under_way.add(place, number, part, own, cut=steps is not None)

    # ------------------------------------------------------------------ taken back

    def take(self, played: Sequence[Played]) -> list[TakenRollout]:
        """Return what was played, each with the results of the matches whose players have not changed."""
        taken = []
        for ticket, rollout in played:
            info = rollout.info
            results = self._under_way.settle(
                (ticket.owner, ticket.runner),
                rollout.request_id,
                rollout.results,
                info.unfinished,
                info.unfinished_steps,
            )
            taken.append(TakenRollout(ticket, rollout, results))
        return taken

    def lost(self, lost: LostRequests, tickets: Mapping[int, Ticket]) -> tuple[int, list[Part]]:
        """Have the matches of lost requests played again; those that went on in them are dropped.

        Return the number of matches that were lost, and those that are to be set aside.
        """
        cost, set_aside = 0, []
        for number, ticket in tickets.items():
            if ticket.owner not in OWNERS:
                continue
            before, place = self._under_way.dropped, (ticket.owner, ticket.runner)
            part = self._under_way.lost(place, number, others_go_on=lost.others_go_on)
            cost += self._under_way.dropped - before
            if part is not None:
                cost += len(part.matches)
                own = self.replayed.lost(part, blamed=number == lost.suspect)
                set_aside += [] if own is None else [own]
        return cost, set_aside

    def part(self) -> None:
        """End the runners that are to end; one with unfinished matches first plays them to their end."""
        for owner, group in self._requests.runners.items():
            for runner in group.parting() if owner in OWNERS else ():
                if len(self._under_way.going_on((owner, runner))):
                    none_new = self._under_way.none_new((owner, runner))
                    self._submit_to(runner, Part(none_new, None, owner), None)
                else:
                    group.part(runner)

    def count(self) -> None:
        """Count the steps of unfinished matches, and the matches that were dropped, in the totals."""
        self._state.totals.unfinished_steps = self._under_way.steps
        self._state.totals.dropped_matches += self._under_way.dropped
        self._under_way.dropped = 0
