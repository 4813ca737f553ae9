"""Rules by player: those of its role, or those of its own where a config has some."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from storage.records import LivePlayer, Role

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
