"""Settings of the yardsticks that a run measures its mains' snapshots on."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, model_validator

from league.section import SettingsGroup

STORED_POSITIONS = "positions"  # the name of the positions that are in this package


class YardstickSettings(SettingsGroup):
    """A fixed measure: positions with known best moves, a bot, or a snapshot of another run.

    A name alone is `positions`, for the positions that are stored for the game, or else a bot.
    """

    positions: str | None = Field(
        default=None,
        description="Text file of positions: actions, a colon and a score for each action on a line; "
        "positions: those that are stored for the game",
    )
    bot: str | None = Field(
        default=None,
        description="Bot to play against: one without settings, one of the table `bots`, or module:name",
    )
    run: str | None = Field(
        default=None, description="Run folder, with a snapshot to play against, in the same game"
    )
    snapshot: str | None = Field(
        default=None,
        description="Snapshot in that run (id or unique prefix), or a player, for its newest snapshot when "
        "this run begins",
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = [name for name in ("positions", "bot", "run", "snapshot") if getattr(self, name) is not None]
        if given not in (["positions"], ["bot"], ["run", "snapshot"]):
            raise ValueError(
                f"found {' and '.join(given) or 'nothing'}, expected positions, or bot, or run and snapshot"
            )
        return self

    @property
    def label(self) -> str:
        """The yardstick as messages show it."""
        return self.positions or self.bot or f"{self.snapshot} of {self.run}"

    @property
    def plays(self) -> bool:
        """Whether games are played: the yardstick is an opponent."""
        return self.positions is None


def by_name(given: Any) -> Any:
    """Return a list of yardsticks in which each that is only a name is a mapping."""
    listed = [given] if isinstance(given, str | dict) else given
    if not isinstance(listed, list | tuple):
        return given
    return [
        {"positions" if each == STORED_POSITIONS else "bot": each} if isinstance(each, str) else each
        for each in listed
    ]


def each_once(yardsticks: tuple[YardstickSettings, ...]) -> tuple[YardstickSettings, ...]:
    """Return the yardsticks. Raise ValueError if one is there twice."""
    for number, yardstick in enumerate(yardsticks):
        if yardstick in yardsticks[:number]:
            raise ValueError(f"found {yardstick.label} twice, expected each yardstick once")
    return yardsticks
