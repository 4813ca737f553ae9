"""Settings of a tournament: who takes part, who meets whom, how it is played and judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from blake3 import blake3
from pydantic import (
    AfterValidator,
    Field,
    field_validator,
    model_validator,
)

from analysis.gates.gates import parse_gate
from analysis.statistics.games import Rule
from league.config.file import fields_of, parse
from league.models.bots.scripted import Bots
from league.rollout.openings import Openings
from league.rollout.requests import MOST_AT_ONCE, RolloutSettings
from league.rules.rating.rating import RatingSettings
from league.runtime import ResourceSettings
from league.section import Section
from league.tournament.entry.entrants import EntrantSource
from league.tournament.schedules.settings import ScheduleSettings
from storage.errors import Mistake

MANY_GAMES = 20_000  # from here on it pays to start a process for each core


class GameSettings(Section):
    """The game, where it is not to be that of the runs."""

    id: str = Field(description="A game of `league envs list`, or module:Class")
    options: dict[str, Any] = Field(default_factory=dict, description="Passed to the game")


def _whole_path(text: str) -> str:
    """So that a tournament that goes on from another folder finds it."""
    return str(Path(text).expanduser().resolve())


class OpeningSettings(Section):
    """How the games of a pair begin: alike, and differently from those of other pairs."""

    plies: int = Field(default=0, ge=0, le=2**32, description="Random legal actions at the beginning")
    book: Annotated[str, AfterValidator(_whole_path)] | None = Field(
        default=None,
        description="A text file, an opening on each line: actions with blanks between; taken in turn",
    )
    book_hash: str | None = Field(
        default=None,
        description="BLAKE3 that the book must have; none: that which it has when the tournament begins",
    )

    def openings(self) -> Openings | None:
        """As runners take them, the book read. Raises Mistake for a book that is none, or another one."""
        if self.book is None:
            return Openings(self.plies) if self.plies else None
        return Openings(self.plies, tuple(_read_book(Path(self.book), self.book_hash)))

    def with_hash(self) -> Self:
        """The same, with the hash of the book as it is now. Raises Mistake."""
        if self.book is None or self.book_hash is not None:
            return self
        return self.model_copy(update={"book_hash": _hash(_read_bytes(Path(self.book)))})


class RuleSettings(Section):
    """What counts for what, where a match did not come to its ordinary end."""

    forfeit: Literal["loss", "left_out"] = Field(
        default="loss", description="Of an illegal action: it is lost, or its whole pair does not count"
    )
    step_limit: Literal["as_scored", "draw", "left_out"] = Field(
        default="as_scored",
        description="Of a match that was cut: by the scores so far, a draw, or not at all",
    )
    crash: Literal["as_scored", "left_out"] = Field(
        default="left_out", description="Of a match that the game could not go on with"
    )

    def rule(self) -> Rule:
        """As the statistics take it."""
        return Rule(self.forfeit, self.step_limit, self.crash)


class PlaySettings(RolloutSettings):
    """How matches are played. A request is what is acknowledged, and saved, at once."""

    slots: int = Field(
        default=2048, ge=1, le=MOST_AT_ONCE, description="Matches that one runner plays at the same time"
    )
    matches_per_request: int = Field(
        default=2048, ge=1, le=MOST_AT_ONCE, description="Matches asked of a runner at once"
    )


class TournamentRatings(RatingSettings):
    """TrueSkill, beside the ratings that a tournament is judged by. Nobody here ever changes: every game
    counts."""

    placement_games: int = Field(
        default=2**40, ge=1, description="Games after which a rating is fixed: never, by default"
    )


class TournamentSettings(Section):
    """Everything a tournament is made from. Its run folder's config.yaml holds all of it, resolved."""

    name: str = Field(
        default="tournament",
        pattern=r"^[A-Za-z0-9._-]+$",
        description="Name of the tournament and its folder",
    )
    seed: int = Field(default=0, ge=0, lt=2**63, description="Everything random is drawn from it")
    competitors: tuple[EntrantSource, ...] = Field(min_length=1, description="Who takes part")
    leave_out_damaged: bool = Field(
        default=False, description="Go on without snapshots that are missing or damaged"
    )
    env: GameSettings | None = Field(default=None, description="The game; none: that of the runs")
    teams: Annotated[tuple[int, ...], Field(min_length=1)] | None = Field(
        default=None, description="Seats of each team; none: as the runs have it"
    )
    bots: Bots = Field(
        default_factory=dict, description="Bots that need settings, by the names that they go by"
    )
    schedule: ScheduleSettings = ScheduleSettings()
    opening: OpeningSettings = OpeningSettings()
    rules: RuleSettings = RuleSettings()
    rollout: PlaySettings = PlaySettings()
    ratings: TournamentRatings = TournamentRatings()
    anchor: str | None = Field(default=None, description="Whose rating is 0; none: the mean of all is")
    trust: tuple[str, ...] = Field(
        default=(), description="Networks of your own (module:Class) that snapshots may be built from"
    )
    gates: tuple[str, ...] = Field(
        default=(), description='What must hold in the end, such as "elo > 20 against main-0@0"'
    )
    runners: int | None = Field(
        default=None,
        ge=0,
        description="Ray actors that play; 0: the driver plays, without Ray; none: one for each core, in "
        f"tournaments of over {MANY_GAMES} games. What comes out is the same",
    )
    resources: ResourceSettings = ResourceSettings()
    log_seconds: float = Field(default=10.0, gt=0, description="Time between two plain lines of progress")

    @field_validator("name")
    @classmethod
    def _name_is_of_a_folder(cls, name: str) -> str:
        if not name.strip("."):
            raise ValueError(f"found '{name}', expected letters or digits in it: a folder is named so")
        return name

    @field_validator("gates")
    @classmethod
    def _gates_parse(cls, gates: tuple[str, ...]) -> tuple[str, ...]:
        for gate in gates:
            parse_gate(gate)
        return gates

    @model_validator(mode="after")
    def _only_the_driver_without_a_cluster(self) -> Self:
        if self.runners == 0 and self.resources.address is not None:
            raise ValueError("resources.address is set but runners is 0, expected runners of 1 or more")
        return self

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)


class Resolved(TournamentSettings):
    """Settings of a tournament with everything filled in that the runs of its entrants decide."""

    env: GameSettings = Field(description="The game")


def load(
    source: str | Path | Mapping[str, Any],
    overrides: Sequence[str] = (),
    changes: Mapping[str, Any] | None = None,
) -> TournamentSettings:
    """Return the settings of a YAML file or a mapping, with `changes` and then `a.b=value` overrides on top.

    Raise ConfigError for anything that is wrong.
    """
    return parse(TournamentSettings, *fields_of(source, overrides, changes, name="tournament"))


def load_resolved(path: Path, changes: Mapping[str, Any]) -> Resolved:
    """Return the settings that a run folder's config.yaml holds, with `changes` on top.

    Raise ConfigError for anything that is wrong.
    """
    return parse(Resolved, *fields_of(path, changes=changes, name="tournament"))


def _read_book(path: Path, expected_hash: str | None) -> list[tuple[float, ...]]:
    data = _read_bytes(path)
    if expected_hash not in (None, _hash(data)):
        raise Mistake(
            f"opening.book {path}: it is no longer what it was when the tournament began; restore it, or "
            "start a new one"
        )
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError:
        raise Mistake(
            f"opening.book {path}: cannot be read (it is not UTF-8 text), expected a text file"
        ) from None
    book = []
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        try:
            actions = tuple(float(word) for word in words)
        except ValueError:
            raise Mistake(
                f"opening.book {path}: line {number}: found '{line.strip()[:60]}', expected actions as "
                "numbers with blanks between, such as: 3 3 2"
            ) from None
        if actions:
            book.append(actions)
    if not book:
        raise Mistake(f"opening.book {path}: found no opening, expected one on each line")
    return book


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Mistake(
            f"opening.book {path}: cannot be read ({error.strerror}), expected a text file"
        ) from None


def _hash(data: bytes) -> str:
    return blake3(data).hexdigest()
