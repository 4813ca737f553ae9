"""Page of all config keys, `configs/REFERENCE.md`: settings of leagues and of tournaments."""

from __future__ import annotations

import functools
from typing import Any

from league.config.reference import Key, keys, reference
from league.config.settings import Settings
from league.rules.matchmaking import branches
from league.rules.roles import RoleSettings
from league.tournament.settings import TournamentSettings

_HEAD = """# All keys of a config

Made by `league config reference --out configs/REFERENCE.md`: do not edit. A key is written
`section.key` on the command line: `--set learner.lr=1e-3`. `[]` means each entry of a list, `<name>`
each key of a mapping. `null` means that the setting is off or is derived.
"""


def _inside() -> dict[str, Any]:
    """Return the classes in a league's config that its annotations do not show."""
    return {
        "league.roles": RoleSettings,
        "league.roles.<name>.opponents.branches": branches.BRANCHES,
    }


@functools.cache
def all_keys() -> tuple[Key, ...]:
    """Return all keys of a league's config, then those of a tournament's that it does not have."""
    found = list(keys(Settings, _inside()))
    known = {key.path for key in found}
    return (*found, *(key for key in keys(TournamentSettings) if key.path not in known))


def page() -> str:
    """Return the Markdown of all keys of a league's and of a tournament's config."""
    return "\n".join(
        [
            _HEAD,
            "## League: `league train CONFIG`\n",
            reference(Settings, _inside()),
            "## Tournament: `league tournament CONFIG`\n",
            reference(TournamentSettings),
        ]
    )
