"""Where entrants come from, as the config of a tournament says it. Nothing is opened here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from league.competitors.modes import temperature_of
from league.section import SettingsGroup
from storage.remote.remote import is_url


def address_of(text: str) -> str:
    """Return the address of a run or an exported folder, given a user's path or URL."""
    return text.rstrip("/") if is_url(text) else str(Path(text).expanduser().resolve())


_Address = Annotated[str, Field(min_length=1), AfterValidator(address_of)]
"""Absolute address, so that a tournament resumed in another folder finds it."""


def _checked(modes: tuple[str, ...]) -> tuple[str, ...]:
    for mode in modes:
        temperature_of(mode)
    return modes


class EntrantSource(SettingsGroup):
    """Some entrants: snapshots of a run, the snapshot in a folder, or bots."""

    run: _Address | None = Field(default=None, description="Run folder, or the address of its remote")
    select: str | None = Field(
        default=None,
        description="SQL condition for snapshots of the run, on the columns of `snapshots` and mu, sigma, "
        "skill, games, win_rate of the leaderboard; without it and `names`: all snapshots",
    )
    names: tuple[str, ...] = Field(
        default=(),
        description="Competitors of the run: ids or unique prefixes, players (their newest snapshot), bots, "
        "mixtures (`main-0:average`, `:nash`, `0.3*A+0.7*B`); "
        "with `:greedy` or `:t=0.5` at the end in that mode alone",
    )
    folder: _Address | None = Field(
        default=None, description="Folder made by: league snapshots RUN export ID DIR"
    )
    bots: tuple[str, ...] = Field(
        default=(), description="Bots: of the game, of the table `bots`, or module:Class"
    )
    modes: Annotated[tuple[str, ...], AfterValidator(_checked)] = Field(
        default=("sample",),
        min_length=1,
        description="Modes of the snapshots, each in all of these: sample, greedy, t=0.5 (a temperature)",
    )

    @model_validator(mode="after")
    def _of_one_kind(self) -> Self:
        given = [name for name in ("run", "folder", "bots") if getattr(self, name)]
        if len(given) != 1:
            raise ValueError(f"found {' and '.join(given) or 'nothing'}, expected one of: run, folder, bots")
        for name in ("select", "names"):
            if getattr(self, name) and self.run is None:
                raise ValueError(f"{name}: found beside {given[0]}, expected beside a run")
        if self.select is not None and self.names:
            raise ValueError("found select and names, expected one of the two; make two entries")
        if self.bots and self.modes != ("sample",):
            raise ValueError("modes: found beside bots, which have no modes; leave modes out")
        return self
