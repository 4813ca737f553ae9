"""Options of `league tournament`: the parts of its settings that a command line names."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from league.tournament.folder import is_tournament, settings_of
from league.tournament.settings import TournamentSettings, load
from storage.errors import Mistake
from storage.upkeep.exports import MANIFEST


@dataclass(frozen=True, slots=True)
class GivenOptions:
    """Options that were given, as parts of the settings of a tournament."""

    field: dict[str, Any]  # `select`, `names` and `modes` of every run
    bots: list[str]
    changes: dict[str, Any]  # settings by key
    overrides: list[str]  # of --set

    @property
    def first_of_field(self) -> str:
        """Name of the first option that selects competitors."""
        return [*self.field, "bot"][0].removesuffix("s")


def settled(
    sources: Sequence[str], options: GivenOptions, out: Path | None, resume: bool
) -> tuple[TournamentSettings, Path, bool]:
    """Return the settings of a tournament, its folder, and whether it is there and goes on.

    `sources`: a config, or runs and exported folders; none to `resume` the tournament in `out`. Raise
    Mistake, ConfigError, NotARun.
    """
    if sources:
        settings = _new_settings(list(sources), options)
    elif resume and out is not None:
        settings = _resumed_settings(out, options)
    else:
        raise Mistake(
            "tournament: found no CONFIG and no RUN, expected a source of competitors; or --run DIR "
            "--resume, to continue a tournament"
        )
    folder = out or Path("runs") / settings.name
    goes_on = resume or is_tournament(folder)
    if goes_on and sources and not _is_config(list(sources)):
        settings = _resumed_settings(folder, options, sources)
    return settings, folder, goes_on


def _new_settings(sources: list[str], options: GivenOptions) -> TournamentSettings:
    """Return the settings of a new tournament. Raise ConfigError or Mistake."""
    if _is_config(sources):
        if options.field or options.bots:
            raise Mistake(
                f"{sources[0]}: found --{options.first_of_field} beside a config, expected it for runs "
                "alone; write it under competitors"
            )
        return load(sources[0], options.overrides, options.changes)
    configs = [source for source in sources if _is_file_of_yaml(source)]
    if configs:
        raise Mistake(
            f"tournament: found {configs[0]} beside {len(sources) - 1} other of CONFIG | RUN, expected a "
            "tournament's file alone, or run folders; --out names the folder of the tournament"
        )
    names = {"name": re.sub(r"[^A-Za-z0-9._-]", "-", Path(sources[0]).name) + "-tournament"}
    competitors = _competitors(sources, options)
    return load(names | {"competitors": competitors} | options.changes, options.overrides)


def _is_config(sources: list[str]) -> bool:
    return len(sources) == 1 and _is_file_of_yaml(sources[0])


def _is_file_of_yaml(source: str) -> bool:
    return Path(source).suffix in (".yaml", ".yml")


def _competitors(sources: list[str], options: GivenOptions) -> list[dict[str, Any]]:
    """Return the entries of `competitors` that the command line names. Raise Mistake."""
    competitors: list[dict[str, Any]] = [_competitor(source, options.field) for source in sources]
    chosen = [name for name in options.field if name != "modes"]
    if sources and chosen and not any("run" in competitor for competitor in competitors):
        raise Mistake(
            f"{sources[0]}: found --{chosen[0].removesuffix('s')} beside exported folders, which "
            "hold one snapshot each, expected it for runs; leave it out"
        )
    if options.bots:
        competitors.append({"bots": options.bots})
    return competitors


def _competitor(source: str, field: dict[str, Any]) -> dict[str, Any]:
    """Return a run or an exported folder as an entry of `competitors`."""
    if "://" not in source and (Path(source) / MANIFEST).is_file():
        return {"folder": source} | {name: field[name] for name in ("modes",) if name in field}
    return {"run": source} | field


def _resumed_settings(out: Path, options: GivenOptions, sources: Sequence[str] = ()) -> TournamentSettings:
    """Return the settings of the tournament in `out`, with the changes of the command line.

    Its competitors are those that the command line names, if any; those of before take part anyway.
    """
    if options.field and not sources:
        raise Mistake(
            f"{out}: found --{options.first_of_field} without a RUN, expected the run that they are of; "
            f"such as: league tournament RUN --{options.first_of_field} ... --run {out}"
        )
    settings = settings_of(out).model_dump(mode="json")
    if named := _competitors(list(sources), options):
        settings |= {"competitors": named, "env": None}
    return load(settings, options.overrides, options.changes)


def more_pairs(folder: Path, settings: TournamentSettings) -> str:
    """Return the command that plays twice as many pairs."""
    schedule = settings.schedule
    if schedule.budget is not None:
        more = f"--set schedule.budget={2 * schedule.budget}"
    elif schedule.rounds is not None:
        more = f"--set schedule.rounds={2 * schedule.rounds}"
    else:
        more = f"--pairs {2 * schedule.pairs}"
    return f"league tournament --run {shlex.quote(str(folder))} --resume {more}"
