"""Load settings from YAML or a mapping, and check them.

Each mistake becomes one `ConfigError`: where, what was found, what was expected, what to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from league.config.checks import check
from league.config.file import ConfigError, fields_of, parse
from league.config.settings import Settings
from storage.errors import Mistake


def load(
    source: str | Path | Mapping[str, Any] | Settings, overrides: Sequence[str] = (), *, name: str = "config"
) -> Settings:
    """Return the settings in a YAML file or a mapping, with `a.b=value` overrides on top.

    Messages call a mapping `name`. Raise ConfigError for every mistake in them.
    """
    if isinstance(source, Settings):
        source = source.model_dump(mode="json")
    where, fields = fields_of(source, overrides, name=name)
    settings = parse(Settings, where, fields)
    settings = _with_teams(settings)
    try:
        check(settings)
    except (ValueError, Mistake) as error:
        raise ConfigError(f"{where}: {error}") from None
    return settings


def _with_teams(settings: Settings) -> Settings:
    """Return `settings` with the game's own teams, unless they name others."""
    teams = settings.game.teams
    if teams is None or settings.matchmaking.teams is not None:
        return settings
    matchmaking = settings.matchmaking.model_copy(update={"teams": teams})
    return settings.model_copy(update={"matchmaking": matchmaking})
