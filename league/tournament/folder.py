"""Run folder of a tournament: its settings, and the check that a resumed tournament plays the same games."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from league.tournament.settings import Resolved, TournamentSettings, load_resolved
from league.training.resume import ResumeRefused
from storage.archive import open_reader
from storage.errors import NotARun
from storage.layout import CONFIG, require_run

DECIDING = (
    "seed",
    "competitors",
    "schedule",
    "opening.plies",
    "opening.book",
    "rules",
    "leave_out_damaged",
    "ratings",
    "rollout.slots",
    "rollout.matches_per_request",
    "rollout.record",
    "rollout.device",
)
"""Settings that determine the games and their records."""
RESOLVED = ("env", "teams", "rollout.step_limit", "ratings.anchor", "opening.book_hash", "bots", "seat_envs")
"""Settings that were filled in if they were not given."""


def settings_of(out: Path) -> Resolved:
    """Return the settings of the tournament in `out`, without its trusted networks. Raise NotARun.

    Trust is never taken from a folder: only the user can give it.
    """
    require_run(out)
    config = open_reader(out).config()
    if not isinstance(config, dict) or "competitors" not in config:
        raise NotARun(
            f"{out}: found the run of a league, expected that of a tournament; choose another --out"
        )
    return load_resolved(out / CONFIG, {"trust": ()})


def going_on(settings: TournamentSettings, begun: Resolved, out: Path) -> Resolved:
    """Return `settings`, with those that were not given taken from `begun`, of the tournament in `out`.

    Raise ResumeRefused for settings that would lead to other games.
    """
    now, before = _flat(settings), _flat(begun)
    for name in dict.fromkeys([*now, *before]):
        decides = any(f"{name}.".startswith(f"{deciding}.") for deciding in DECIDING)
        found = any(f"{name}.".startswith(f"{resolved}.") for resolved in RESOLVED)
        if found and (now.get(name) is None or (name in ("bots", "seat_envs") and not now[name])):
            continue
        if (decides or found) and now.get(name) != before.get(name):
            raise ResumeRefused(
                f"{out}: {name} is {_to_text(now.get(name))}, the tournament was begun with "
                f"{_to_text(before.get(name))}; give the old settings, or start a new one with another --out"
            )
    rollout = settings.rollout.model_copy(update={"step_limit": begun.rollout.step_limit})
    kept = {
        name: getattr(begun, name) for name in ("env", "seat_envs", "teams", "bots", "ratings", "opening")
    }
    return Resolved(**(dict(settings) | kept | {"rollout": rollout}))


def _flat(settings: TournamentSettings) -> dict[str, Any]:
    """Return all settings by their full names, such as `schedule.pairs`."""
    flat: dict[str, Any] = {}

    def add(prefix: str, fields: dict[str, Any]) -> None:
        for name, value in fields.items():
            if isinstance(value, dict) and value:
                add(f"{prefix}{name}.", value)
            else:
                flat[f"{prefix}{name}"] = value

    add("", settings.model_dump(mode="json"))
    return flat


def _to_text(value: Any) -> str:
    """Return a value on one line, without entries that are `None` or empty."""
    if isinstance(value, list):
        return f"[{', '.join(map(_to_text, value))}]"
    if isinstance(value, dict):
        return (
            f"{{{', '.join(f'{name}: {_to_text(v)}' for name, v in value.items() if v not in (None, []))}}}"
        )
    return "none" if value is None else str(value)
