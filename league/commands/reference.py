"""Page of all config keys, `configs/REFERENCE.md`: settings of leagues and of tournaments."""

from __future__ import annotations

from collections.abc import Mapping

from league.config.reference import reference
from league.config.settings import Settings
from league.rules.matchmaking import branches
from league.rules.roles import RoleSettings
from league.tournament.settings import TournamentSettings

_HEAD = """# All keys of a config

Made by `league config reference --out configs/REFERENCE.md`: do not edit. A key is written
`section.key` on the command line: `--set learner.lr=1e-3`. `[]` means each entry of a list, `<name>`
each key of a mapping. `null` means that the setting is off or is derived.
"""


def page() -> str:
    """Return the Markdown of all keys of a league's and of a tournament's config."""
    roles = {"league.roles": RoleSettings}
    kinds: object = branches.BRANCHES
    of_branches = {"league.roles.<name>.opponents.branches": kinds} if isinstance(kinds, Mapping) else {}
    league = reference(Settings, {**roles, **of_branches})
    tournament = reference(TournamentSettings)
    return "\n".join(
        [
            _HEAD,
            "## League: `league train CONFIG`\n",
            league,
            "## Tournament: `league tournament CONFIG`\n",
            tournament,
        ]
    )
