"""Roster: the competitors that are in the league now, and rules by player.

Every competitor gets an index at admission, never reused, so that payoffs and ratings are arrays. Frequent
queries are answered by arrays that are kept ready.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TypeVar

import numpy as np

from storage.arrays import Indices
from storage.records import MAIN, Bot, Competitor, LivePlayer, Role, Snapshot
from storage.suggestions import or_near

_EMPTY: Indices = np.zeros(0, dtype=np.int64)


class Roster:
    """Players, snapshots, bots, and the entrants of a tournament, in order of admission.

    Returned arrays hold indices in order of admission; they are shared, so they must not be written to.
    """

    def __init__(self, competitors: Iterable[Competitor] = ()) -> None:
        self._members: list[Competitor] = []
        self._index: dict[str, int] = {}
        self._retired: set[int] = set()
        self._seated: Indices = _EMPTY
        self._seated_of_role: dict[Role, Indices] = {}
        self._of_player: dict[str, Indices] = {}
        self._live_of_role: dict[Role, Indices] = {}
        self._players: list[LivePlayer] = []
        self._bots: list[Bot] = []
        for competitor in competitors:
            self.admit(competitor)

    def __len__(self) -> int:
        """Return the number of competitors ever admitted: one more than the highest index."""
        return len(self._members)

    def __contains__(self, competitor: object) -> bool:
        return competitor in self._index

    def __getitem__(self, competitor: str) -> Competitor:
        """Return the competitor of an id. Raise KeyError for an id that was never admitted."""
        return self._members[self.index(competitor)]

    def at(self, index: int) -> Competitor:
        """Return the competitor of an index."""
        return self._members[index]

    @property
    def ids(self) -> tuple[str, ...]:
        """Id of every competitor, by index."""
        return tuple(self._index)

    def id(self, index: int) -> str:
        """Return the id of an index."""
        return self._members[index].competitor

    def index(self, competitor: str) -> int:
        """Return the index of an id. Raise KeyError with the nearest known id."""
        try:
            return self._index[competitor]
        except KeyError:
            hint = or_near(competitor, self._index, "; admit it first")
            raise KeyError(f"roster: no competitor '{competitor}' among {len(self)}{hint}") from None

    def indices(self, competitors: Iterable[str]) -> Indices:
        """Return the index of each id [n]. Raise KeyError as `index` does."""
        return np.array([self.index(c) for c in competitors], dtype=np.int64)

    def admit(self, competitor: Competitor) -> int:
        """Admit a newcomer and return its index. Raise ValueError for an id that is taken."""
        name = competitor.competitor
        if name in self._index:
            raise ValueError(f"roster: '{name}' is already admitted; ids are never used twice")
        index = len(self._members)
        self._members.append(competitor)
        self._index[name] = index
        match competitor:
            case Snapshot():
                self._seated = _with(self._seated, index)
                self._seated_of_role[competitor.role] = _with(self.snapshots(competitor.role), index)
                self._of_player[competitor.player] = _with(self.snapshots_of(competitor.player), index)
            case LivePlayer():
                self._players.append(competitor)
                self._live_of_role[competitor.role] = _with(self.players_of(competitor.role), index)
            case Bot():
                self._bots.append(competitor)
        return index

    def retire(self, snapshot_id: str) -> None:
        """Stop seating this snapshot; it keeps its index. Raise ValueError for anything else."""
        index = self.index(snapshot_id)
        snapshot = self._members[index]
        if not isinstance(snapshot, Snapshot) or index in self._retired:
            found = "already retired" if isinstance(snapshot, Snapshot) else "not a snapshot"
            raise ValueError(f"roster: '{snapshot_id}' is {found}; only a seated snapshot can retire")
        self._retired.add(index)
        self._seated = self._seated[self._seated != index]
        of_role = self._seated_of_role[snapshot.role]
        self._seated_of_role[snapshot.role] = of_role[of_role != index]

    def withdraw(self, bot: str) -> None:
        """Stop seating this bot; it keeps its index. Raise ValueError for anything else."""
        found = self._members[self.index(bot)]
        if not isinstance(found, Bot) or found not in self._bots:
            raise ValueError(f"roster: '{bot}' is not a bot that is seated; only those can be withdrawn")
        self._retired.add(self.index(bot))
        self._bots.remove(found)

    def remove(self, player: str) -> None:
        """Stop training this player; it keeps its index. Raise ValueError for anything else."""
        index = self.index(player)
        found = self._members[index]
        if not isinstance(found, LivePlayer) or index in self._retired:
            raise ValueError(f"roster: '{player}' is not a player in training; only those can be removed")
        self._retired.add(index)
        self._players.remove(found)
        of_role = self._live_of_role[found.role]
        self._live_of_role[found.role] = of_role[of_role != index]

    def is_retired(self, competitor: str) -> bool:
        """Return whether the competitor is no longer seated: a snapshot, a player or a bot that was."""
        return self.index(competitor) in self._retired

    @property
    def players(self) -> tuple[LivePlayer, ...]:
        """Live players, in order of admission."""
        return tuple(self._players)

    @property
    def bots(self) -> tuple[Bot, ...]:
        """Bots that are seated, in order of admission."""
        return tuple(self._bots)

    def players_of(self, role: Role) -> Indices:
        """Return the live players of a role: [n]."""
        return self._live_of_role.get(role, _EMPTY)

    def mains(self) -> Indices:
        """Return the live main players: [n]."""
        return self.players_of(MAIN)

    def snapshots(self, role: Role | None = None) -> Indices:
        """Return the seated snapshots of players of one role, or of all roles [n], the oldest first."""
        return self._seated if role is None else self._seated_of_role.get(role, _EMPTY)

    def targets_of(self, player: str) -> Indices:
        """Return the newest seated snapshot of each live main from before the player's own newest one [n]."""
        own, targets = self.snapshots_of(player), list[int]()
        for main in self.mains().tolist():
            past = self.snapshots_of(self.id(main))
            past = past[: np.searchsorted(past, own[-1] if len(own) else 0)]
            seated = (int(index) for index in reversed(past) if int(index) not in self._retired)
            targets += islice(seated, 1)
        return np.array(targets, dtype=np.int64)

    def snapshots_of(self, player: str) -> Indices:
        """Return every snapshot of a player, retired ones too; the first is its initial one: [n]."""
        return self._of_player.get(player, _EMPTY)


def _with(indices: Indices, index: int) -> Indices:
    return np.append(indices, np.int64(index))


R = TypeVar("R")


class Rules(Mapping[Role, R]):
    """Rules by role, as any mapping has them, and by player with `of`."""

    def __init__(self, roles: Mapping[Role, R], members: Mapping[str, R] | None = None) -> None:
        """`members`: the rules of those players that differ from others of their role, by name."""
        self._roles = dict(roles)
        self.members = dict(members or {})

    def __getitem__(self, role: Role) -> R:
        """Return the rules of a role. Raise KeyError for a role that has none."""
        return self._roles[role]

    def __iter__(self) -> Iterator[Role]:
        """Yield the roles in order."""
        return iter(self._roles)

    def __len__(self) -> int:
        """Return the number of roles."""
        return len(self._roles)

    def of(self, player: LivePlayer) -> R:
        """Return the rules of `player`: its own, else its role's. Raise KeyError for a role without rules."""
        own = self.members.get(player.player)
        return self._roles[player.role] if own is None else own

    def places(self) -> dict[str, R]:
        """Return all rules by their place in a config: `roles.main`, ..., `members.main-1`, ..."""
        by_role = {f"roles.{role}": rules for role, rules in self._roles.items()}
        return by_role | {f"members.{name}": rules for name, rules in self.members.items()}


def rules_of(rules: Mapping[Role, R]) -> Rules[R]:
    """Return `rules` with rules by player; a plain mapping has none that differ from those of the role."""
    return rules if isinstance(rules, Rules) else Rules(rules)
