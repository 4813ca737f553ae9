"""Matchmaker: the opponents of one player, drawn in blocks, all seats of a match at once.

Every match first draws its branch, independently, by the role's shares; then each branch draws its
opponents (`branches/`). The match type that is recorded is the branch that was played in the end, after
all switches and fallbacks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from league.import_paths import is_import_path, running
from league.rules.matchmaking import seat_limits
from league.rules.matchmaking.branches import (
    BRANCHES,
    MATCH_TYPES,
    PSEUDO_TYPES,
    Branch,
    LeagueView,
    OpponentSettings,
    OwnBranch,
    checked,
    open_branch,
    own_types,
)
from league.rules.matchmaking.branches.live_opponents import ChosenMain, past_main
from league.rules.matchmaking.branches.own_branch import WHERE, OwnMatchmaker
from league.rules.matchmaking.pools import Deal, Pool, deal, newcomers, rarest_pairs, snapshots_and_bots
from league.rules.matchmaking.seat_limits import SeatsOf, TeamLimits
from league.rules.matchmaking.seating import MatchmakingSettings, Tables, arrange, match_seeds
from league.rules.roles import RoleSettings
from league.rules.roster import Roster, Rules, rules_of
from league.rules.standings import Standings
from league.section import OwnPart
from storage.arrays import Floats, Indices
from storage.records import MAIN, LivePlayer, MatchBatch, Purpose, Role

_OPEN = -1  # opponent of a match before one is found


@dataclass(frozen=True, slots=True)
class _Role:
    """Settings of one role, and its branches, ready to draw, by match type."""

    settings: OpponentSettings
    branches: Mapping[str, Branch]
    shares: Floats  # by match type, without placement and evaluation; the sum is 1
    own: Mapping[
        str, tuple[str, str]
    ]  # place in the config and import path of code of the user's own, by type


@dataclass(frozen=True, slots=True)
class _Request:
    """Matches to draw for one player."""

    view: LeagueView
    role: _Role
    n: int
    rng: np.random.Generator


@dataclass(slots=True)
class _Draft:
    """Matches [M] of T teams on the way to their opponents."""

    match_type: npt.NDArray[np.int16]  # [M]
    opponent: Indices  # [M, T - 1], _OPEN where none was found yet
    deals: list[Deal] = field(default_factory=list)


class Matchmaker:
    """Draws matches of `num_seats` in `env`. The matches' own seeds follow from `seed` and match id."""

    def __init__(
        self,
        roles: Mapping[Role, RoleSettings],
        settings: MatchmakingSettings | None = None,
        *,
        num_seats: int,
        env: str,
        seed: int,
        seats_of: SeatsOf | None = None,
        waits: bool = True,
        own: OwnMatchmaker | None = None,
    ) -> None:
        """Open the branches of all roles.

        `seats_of` is the seats that each competitor may take; `None` if every competitor may take all. With
        `waits=False` no branch waits for matches for the record: where nothing is played, they never come.
        `own` finds the opponents of training matches in place of the branches.
        Raise ValueError for branches that the game cannot have, and for a user's own that cannot be imported.
        """
        self._waits = waits
        self._env = env
        self._seed = seed
        self._settings = MatchmakingSettings() if settings is None else settings
        self._team_of_seat = self._settings.team_of_seat(num_seats)
        self._others = int(self._team_of_seat[-1])  # teams beside the player's own
        self._places = None if seats_of is None else TeamLimits(self._team_of_seat, seats_of)
        by_player = rules_of(roles)
        named = [
            (name, branch.use)
            for rules in by_player.places().values()
            for name, branch in rules.opponents.branches.items()
            if isinstance(branch, OwnBranch)
        ]
        self._own = own
        types = own_types(named if own is None else [*named, (own.match_type, own.path)], MATCH_TYPES)
        self._match_types = (*BRANCHES, *types, *PSEUDO_TYPES)
        self._type = {name: index for index, name in enumerate(self._match_types)}
        self._roles = Rules(
            {role: self._open(f"roles.{role}", rules.opponents) for role, rules in by_player.items()},
            {
                name: self._open(f"members.{name}", rules.opponents)
                for name, rules in by_player.members.items()
            },
        )
        if self._others == 0:
            self._refuse_opponents(num_seats)

    def _open(self, place: str, settings: OpponentSettings) -> _Role:
        branches: dict[str, Branch] = {}
        own: dict[str, tuple[str, str]] = {}
        for name, branch in settings.branches.items():
            where, weighting = f"league.{place}.opponents.branches", getattr(branch, "weighting", "")
            path = weighting.use if isinstance(weighting, OwnPart) else weighting
            if isinstance(branch, OwnBranch):
                own[name] = (f"{where}.{name}", branch.use)
            elif is_import_path(path):
                own[name] = (f"{where}.{name}.weighting", path)
            try:
                branches[name] = open_branch(branch)
            except ValueError as error:
                raise ValueError(f"league.{place}.opponents.branches: {error}") from None
        shares = np.array(
            [branches[t].share if t in branches else 0.0 for t in self._match_types[: -len(PSEUDO_TYPES)]]
        )
        return _Role(settings, branches, shares / shares.sum(), own)

    def next_matches(
        self,
        player: LivePlayer,
        n: int,
        roster: Roster,
        standings: Standings,
        rng: np.random.Generator,
        first_match_id: int,
    ) -> MatchBatch:
        """Return `n` matches for a live player, with ids from `first_match_id` on, all of one purpose.

        Opponents come in blocks: each branch makes a few draws by its weights, with replacement, and
        deals its seats out to them evenly, so a runner meets few snapshots at once while each single
        seat still follows the weights. A branch without candidates becomes its fallback, which is
        self-play for mains, and where no main is left. In evaluation no seat learns; when there is no
        opponent to evaluate against, the matches are for training. While a branch wants matches for the
        record (`Branch.wanted`), there are no others.
        """
        request = self._request(player, n, roster, standings, rng)
        wanted = self._wanted(request)
        if wanted is not None:
            return self._seat(
                self._for_the_record(*wanted, request), Purpose.EVALUATION, roster, first_match_id
            )
        evaluation = request.role.settings.evaluation
        if evaluation > 0.0 and rng.random() < evaluation:
            tables = self._evaluation(request)
            if tables is not None:
                return self._seat(tables, Purpose.EVALUATION, roster, first_match_id)
        return self._seat(self._training(request), Purpose.TRAINING, roster, first_match_id)

    def evaluation_matches(
        self,
        player: LivePlayer,
        n: int,
        roster: Roster,
        standings: Standings,
        rng: np.random.Generator,
        first_match_id: int,
    ) -> MatchBatch | None:
        """Return `n` matches for the record, by the role's `evaluate`; `None` without opponents."""
        tables = self._evaluation(self._request(player, n, roster, standings, rng))
        return None if tables is None else self._seat(tables, Purpose.EVALUATION, roster, first_match_id)

    def _request(
        self, player: LivePlayer, n: int, roster: Roster, standings: Standings, rng: np.random.Generator
    ) -> _Request:
        if player.role not in self._roles:
            raise KeyError(f"matchmaker: no settings for role '{player.role}' of '{player.player}'")
        role = self._roles.of(player)
        roster.index(player.player)  # raises KeyError for a player that was never admitted
        return _Request(LeagueView(player, roster, standings, role.settings, role.branches), role, n, rng)

    def _seat(self, tables: Tables, purpose: Purpose, roster: Roster, first_match_id: int) -> MatchBatch:
        """Return the batch of matches in which every team has its seats."""
        present, competitor = np.unique(tables.by_team, return_inverse=True)
        n, num_teams = tables.by_team.shape
        match_id = np.arange(first_match_id, first_match_id + n, dtype=np.int64)
        team_of_seat = self._team_of_seat
        return MatchBatch(
            env=self._env,
            purpose=purpose,
            match_types=self._match_types,
            competitors=tuple(roster.id(i) for i in present.tolist()),
            match_id=match_id,
            seed=match_seeds(self._seed, match_id),
            match_type=tables.match_type,
            seat=competitor.reshape(n, num_teams).astype(np.int32)[:, team_of_seat],
            learning=tables.learning[:, team_of_seat],
            team_of_seat=None if num_teams == len(team_of_seat) else tuple(team_of_seat.tolist()),
        )

    def _training(self, request: _Request) -> Tables:
        if self._own is not None:
            return self._by_own(self._own, request)
        match_type, pools = self._branches(request)
        view = request.view
        if self._places is not None:
            pools["current_main"] = BRANCHES["current_main"](share=0.0).pool(view)
            return self._placed(view.home, match_type, pools, request, learning=True)
        draft = _Draft(match_type, np.full((request.n, self._others), _OPEN, dtype=np.int64))
        self._meet_chosen_mains(draft, request)
        self._meet_current_mains(draft, pools.get("past_main"), request)
        self._deal_pools(draft, pools, request)
        return self._arrange(view.home, draft, request.rng, learning=True)

    def _by_own(self, own: OwnMatchmaker, request: _Request) -> Tables:
        """Return matches with opponents of a user's own matchmaker; those against oneself are self-play."""
        view, rng = request.view, request.rng
        opponent = own.opponents(view, request.n, self._others, rng)
        alone = (opponent == view.home).all(axis=1)
        match_type = np.where(alone, self._type["self_play"], self._type[own.match_type]).astype(np.int16)
        if self._places is None:
            return self._arrange(view.home, _Draft(match_type, opponent), rng, learning=True)
        with running(WHERE, own.path):
            return seat_limits.seat_chosen(
                view.home, opponent, match_type, self._places.may(view.roster), view.roster, rng
            )

    def _branches(self, request: _Request) -> tuple[npt.NDArray[np.int16], dict[str, Pool]]:
        """Draw the match type of each match [n], and find the pool of each branch that draws from one."""
        role, view, rng = request.role, request.view, request.rng
        match_type = rng.choice(len(role.shares), size=request.n, p=role.shares).astype(np.int16)
        pools = {name: self._pool(name, branch, role, view) for name, branch in self._drawn(role).items()}
        placement = role.settings.placement
        if placement > 0.0 and (unplaced := newcomers(view.roster, view.standings)):
            pools["placement"] = unplaced
            match_type[rng.random(request.n) < placement] = self._type["placement"]
        for name, pool in pools.items():
            if not pool or not self._may_be_seated(pool, view.home, view.roster):
                match_type[match_type == self._type[name]] = self._fallback(role.branches.get(name), view)
        return match_type, pools

    def _drawn(self, role: _Role) -> dict[str, Branch]:
        """Return the branches whose pools this role may need, in the order of the match types."""
        needed = {name: b for name, b in role.branches.items() if b.drawn and b.share > 0.0}
        current = role.branches.get("current_main")
        if current is not None and current.share > 0.0 and role.settings.switch_below > 0.0:
            needed.setdefault("past_main", BRANCHES["past_main"](share=0.0))
        return dict(sorted(needed.items(), key=lambda item: self._type[item[0]]))

    def _pool(self, name: str, branch: Branch, role: _Role, view: LeagueView) -> Pool:
        """Return the pool of a branch. Raise OwnCodeFailed if a user's own fails, or has other candidates."""
        with running(*role.own[name]) if name in role.own else contextlib.nullcontext():
            if name in BRANCHES:
                return (past_main(view) if name == "past_main" else branch).pool(view)
            return checked(name, branch.pool(view), view.roster)

    def _fallback(self, branch: Branch | None, view: LeagueView) -> int:
        """Return the match type that a branch without candidates becomes."""
        asked = Branch.fallback if branch is None else branch.fallback
        alone = asked == "self_play" or view.player.role == MAIN or not len(view.other_mains())
        return self._type["self_play" if alone else "current_main"]

    def _meet_chosen_mains(self, draft: _Draft, request: _Request) -> None:
        """Draw one live main for each match of a branch that begins with one, and follow its lead."""
        view, rng = request.view, request.rng
        branches = {
            self._type[name]: branch
            for name, branch in request.role.branches.items()
            if isinstance(branch, ChosenMain)
        }
        matches, mains = np.flatnonzero(np.isin(draft.match_type, list(branches))), view.roster.mains()
        if not len(matches):
            return
        if not len(mains):
            draft.match_type[matches] = self._type["self_play"]
            return
        drawn = draft.match_type[matches]
        chosen = mains[rng.integers(len(mains), size=len(matches))]
        for main in np.unique(chosen).tolist():
            led: dict[int, Deal] = {}  # by match type: what two branches lead to alike is one deal
            for kind in sorted(branches):
                of_kind = matches[(chosen == main) & (drawn == kind)]
                if len(of_kind):
                    lead = branches[kind].lead(main, view)
                    to = self._type[lead.match_type]
                    before = led[to].matches if to in led else of_kind[:0]
                    led[to] = Deal(to, np.sort(np.concatenate([before, of_kind])), lead.pool)
            for to, each in led.items():
                draft.match_type[each.matches] = to
                if each.pool:
                    draft.deals.append(each)
                else:
                    draft.opponent[each.matches] = main

    def _meet_current_mains(self, draft: _Draft, past: Pool | None, request: _Request) -> None:
        """Draw live mains uniformly; matches against one that is too strong become `past_main`."""
        open_ones = (draft.match_type == self._type["current_main"]) & (draft.opponent == _OPEN).all(axis=1)
        matches, mains = np.flatnonzero(open_ones), request.view.other_mains()
        if not len(matches):
            return
        if not len(mains):
            draft.match_type[matches] = self._type["self_play"]
            return
        drawn = request.rng.integers(len(mains), size=(len(matches), self._others))
        draft.opponent[matches] = mains[drawn]
        if past:
            too_strong = request.view.rates(mains) < request.role.settings.switch_below
            moved = matches[too_strong[drawn].any(axis=1)]
            draft.match_type[moved] = self._type["past_main"]
            draft.opponent[moved] = _OPEN

    def _deal_pools(self, draft: _Draft, pools: Mapping[str, Pool], request: _Request) -> None:
        """Draw the opponents of all matches that a pool was found for, and seat the player in self-play."""
        dealt = np.concatenate([np.zeros(0, dtype=np.int64), *(each.matches for each in draft.deals)])
        of_pools = [
            Deal(kind, np.setdiff1d(np.flatnonzero(draft.match_type == kind), dealt), pool)
            for kind, pool in ((self._type[name], pool) for name, pool in pools.items())
        ]
        deals = [each for each in (*of_pools, *draft.deals) if len(each.matches)]
        draft.opponent = deal(deals, draft.opponent, self._settings.distinct_opponents, request.rng)
        draft.opponent[draft.match_type == self._type["self_play"]] = request.view.home
        left = np.flatnonzero((draft.opponent == _OPEN).any(axis=1))
        if len(left):
            name = self._match_types[draft.match_type[left[0]]]
            raise RuntimeError(f"matchmaker: branch '{name}' found no opponent for {len(left)} matches")

    def _arrange(self, home: int, draft: _Draft, rng: np.random.Generator, *, learning: bool) -> Tables:
        return arrange(
            home,
            draft.opponent,
            draft.match_type,
            self._type["self_play"],
            rng,
            learning=learning,
            balanced=self._settings.seats == "balanced",
        )

    def _evaluation(self, request: _Request) -> Tables | None:
        """Return matches for the record; `None` without opponents."""
        view, rng = request.view, request.rng
        home = view.home
        if request.role.settings.evaluate == "player":
            pool = snapshots_and_bots(view.roster)
            if not pool:
                return None
        else:
            snapshots = view.roster.snapshots()
            if len(snapshots) < 2:
                return None
            pairs = rarest_pairs(view.roster, view.standings)
            row = rng.choice(len(snapshots), p=pairs.sum(axis=1))
            home, pool = int(snapshots[row]), Pool(snapshots, pairs[row] / pairs[row].sum())
        return self._for_the_record(home, pool, request)

    def _wanted(self, request: _Request) -> tuple[int, Pool] | None:
        """Return the competitor and opponents that the first waiting branch of the role wants to see play."""
        branches = ((name, branch) for name, branch in request.role.branches.items() if branch.share > 0.0)
        for name, branch in branches if self._waits else ():
            with running(*request.role.own[name]) if name in request.role.own else contextlib.nullcontext():
                if (wanted := branch.wanted(request.view)) is not None:
                    return wanted
        return None

    def _for_the_record(self, home: int, pool: Pool, request: _Request) -> Tables:
        """Return matches of `home` against opponents from `pool`, in which no seat learns."""
        n, rng = request.n, request.rng
        match_type = np.full(n, self._type["evaluation"], dtype=np.int16)
        if self._places is not None:
            return self._placed(home, match_type, {"evaluation": pool}, request, learning=False)
        opponent = np.empty((n, self._others), dtype=np.int64)
        if n:
            whole = Deal(self._type["evaluation"], np.arange(n), pool)
            opponent = deal([whole], opponent, self._settings.distinct_opponents, rng)
        return self._arrange(home, _Draft(match_type, opponent), rng, learning=False)

    # ------------------------------------------------------------------ seats that differ

    def _placed(
        self,
        home: int,
        match_type: npt.NDArray[np.int16],
        pools: Mapping[str, Pool],
        request: _Request,
        *,
        learning: bool,
    ) -> Tables:
        """Seat matches of a league in which a competitor may take some seats only."""
        assert self._places is not None
        return seat_limits.arrange(
            home,
            match_type,
            {self._type[name]: pool for name, pool in pools.items()},
            self._type["self_play"],
            self._places.may(request.view.roster),
            request.view.roster,
            self._settings.distinct_opponents,
            request.rng,
            learning=learning,
        )

    def _may_be_seated(self, pool: Pool, home: int, roster: Roster) -> bool:
        """Return whether a competitor of the pool may be a team beside `home`."""
        if self._places is None:
            return True
        may = self._places.may(roster)
        others = ~may[home] if may[home].sum() == 1 else np.ones(may.shape[1], dtype=np.bool_)
        return bool(may[pool.candidates][:, others].any())

    def _refuse_opponents(self, num_seats: int) -> None:
        """Raise ValueError for branches with opponents in a game for one, or for one team."""
        for place, rules in self._roles.places().items():
            name = place.partition(".")[2]
            others = [branch for branch, b in rules.branches.items() if b.share and not b.alone]
            others += [kind for kind in PSEUDO_TYPES if getattr(rules.settings, kind) > 0.0]
            if others:
                seats = "1 seat" if num_seats == 1 else "1 team"
                raise ValueError(
                    f"matchmaker: '{self._env}' has {seats}, but {name} draws opponents by "
                    f"{' and '.join(others)}, expected self_play only; set league.preset to none"
                )
