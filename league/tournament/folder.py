"""The run folder of a tournament: what it was begun with, and whether it may go on so."""

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
"""Settings that say which games are played, and what is recorded of them."""
RESOLVED = ("env", "teams", "rollout.step_limit", "ratings.anchor", "opening.book_hash", "bots")
"""Settings that were found when they were not given."""


def settings_of(out: Path) -> Resolved:
    """What the tournament in `out` was begun with. Whose code is trusted, no folder says.
    Raises NotARun."""
    require_run(out)
    config = open_reader(out).config()
    if not isinstance(config, dict) or "competitors" not in config:
        raise NotARun(
            f"{out}: found the run of a league, expected that of a tournament; choose another --out"
        )
    return load_resolved(out / CONFIG, {"trust": ()})


def going_on(settings: TournamentSettings, begun: Resolved, out: Path) -> Resolved:
    """`settings`, as far as they were left open as the tournament in `out` has them, which was `begun` so.
    Raises ResumeRefused where they would lead to other games."""
    now, before = _flat(settings), _flat(begun)
    for name in dict.fromkeys([*now, *before]):
        decides = any(f"{name}.".startswith(f"{deciding}.") for deciding in DECIDING)
        found = any(f"{name}.".startswith(f"{resolved}.") for resolved in RESOLVED)
        if found and (now.get(name) is None or (name == "bots" and not now[name])):
            continue
        if (decides or found) and now.get(name) != before.get(name):
            raise ResumeRefused(
                f"{out}: {name} is {_told(now.get(name))}, the tournament was begun with "
                f"{_told(before.get(name))}; give the old settings, or start a new one with another --out"
            )
    rollout = settings.rollout.model_copy(update={"step_limit": begun.rollout.step_limit})
    kept = {name: getattr(begun, name) for name in ("env", "teams", "bots", "ratings", "opening")}
    return Resolved(**(dict(settings) | kept | {"rollout": rollout}))


def _flat(settings: TournamentSettings) -> dict[str, Any]:
    """All settings, those in groups by the names of both, as `schedule.pairs`."""
    flat: dict[str, Any] = {}

    def add(prefix: str, fields: dict[str, Any]) -> None:
        for name, value in fields.items():
            if isinstance(value, dict) and value:
                add(f"{prefix}{name}.", value)
            else:
                flat[f"{prefix}{name}"] = value

    add("", settings.model_dump(mode="json"))
    return flat


def _told(value: Any) -> str:
    """On one line, without what goes without saying."""
    if isinstance(value, list):
        return f"[{', '.join(map(_told, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name}: {_told(v)}' for name, v in value.items() if v not in (None, []))}}}"
    return "none" if value is None else str(value)
