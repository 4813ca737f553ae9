"""Settings of a tournament: entrants, schedule, play and rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from blake3 import blake3
from pydantic import (
    AfterValidator,
    Field,
    field_validator,
    model_validator,
)

from analysis.gates.gates import parse_gate
from analysis.statistics.games import Rule
from league.cluster.runtime import ResourceSettings
from league.competitors.modes import temperature_of
from league.config.file import ConfigError, fields_of, parse, to_yaml
from league.models.bots.scripted import Bots
from league.models.bots.settings import NO_LIMITS, Limits
from league.moved_keys import bots_of, ratings_of
from league.rollout.openings import Openings
from league.rollout.settings import MOST_AT_ONCE, RolloutSettings
from league.rules.rating.anchors import AnchorSettings
from league.rules.rating.rating import RatingSettings
from league.section import FOLDER_NAME, SettingsGroup
from league.tournament.schedules.settings import ScheduleSettings
from storage.errors import Mistake
from storage.remote.remote import is_url

MANY_GAMES = 20_000  # with more, starting one process per core saves time


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


class GameSettings(SettingsGroup):
    """Game of the tournament, if it is not that of the runs."""

    id: str = Field(description="Id of a game of `league envs list`, or module:Class")
    options: dict[str, Any] = Field(default_factory=dict, description="Options of the game")


def _whole_path(text: str) -> str:
    """Return the absolute path, so that a tournament resumed in another folder finds the file."""
    return str(Path(text).expanduser().resolve())


class OpeningSettings(SettingsGroup):
    """Opening moves: the same in all games of a pair, different between pairs."""

    plies: int = Field(
        default=0, ge=0, le=2**32, description="Number of random legal actions at the beginning"
    )
    book: Annotated[str, AfterValidator(_whole_path)] | None = Field(
        default=None,
        description="Text file, one opening on each line: actions with blanks between; taken in turn",
    )
    book_per: Literal["pairing", "tournament"] = Field(
        default="pairing",
        description="Whose pairs take the lines in turn: those of each pairing, so that each goes through "
        "the whole book; or all of the tournament, as those of older versions do",
    )
    book_hash: str | None = Field(
        default=None,
        description="BLAKE3 hash that the book must have; none: its hash when the tournament begins",
    )

    def openings(self) -> Openings | None:
        """Return the openings for runners; read the book. Raise Mistake for an invalid or changed one."""
        if self.book is None:
            return Openings(self.plies) if self.plies else None
        return Openings(self.plies, tuple(_read_book(Path(self.book), self.book_hash)))

    def with_hash(self) -> Self:
        """Return these settings with the present hash of the book. Raise Mistake if it cannot be read."""
        if self.book is None or self.book_hash is not None:
            return self
        return self.model_copy(update={"book_hash": _hash(_read_bytes(Path(self.book)))})


class RuleSettings(SettingsGroup):
    """Scoring of matches that did not end in the ordinary way."""

    forfeit: Literal["loss", "left_out"] = Field(
        default="loss", description="Match with an illegal action: lost, or the whole pair is left out"
    )
    step_limit: Literal["as_scored", "draw", "left_out"] = Field(
        default="as_scored",
        description="Match that was truncated: by the scores so far, a draw, or the whole pair is left out",
    )
    crash: Literal["as_scored", "left_out"] = Field(
        default="left_out",
        description="Match in which the game failed: by the scores so far, or the whole pair is left out",
    )

    def rule(self) -> Rule:
        """Return the rules in the form that the statistics use."""
        return Rule(self.forfeit, self.step_limit, self.crash)


class PlaySettings(RolloutSettings):
    """Settings of the play of matches. The results of a request are saved together."""

    slots: int = Field(
        default=2048,
        ge=1,
        le=MOST_AT_ONCE,
        description="Number of matches that one runner plays at the same time",
    )
    matches_per_request: int = Field(
        default=2048, ge=1, le=MOST_AT_ONCE, description="Number of matches in one request to a runner"
    )


class TournamentRatings(RatingSettings):
    """TrueSkill ratings, recorded beside those of the verdict. All games count, as entrants never change."""

    placement_games: int = Field(
        default=2**40, ge=1, description="Number of games after which a rating is fixed: never, by default"
    )


class TournamentSettings(SettingsGroup):
    """All settings of a tournament. The config.yaml of its run folder holds them, resolved."""

    name: str = Field(
        default="tournament",
        pattern=FOLDER_NAME,
        description="Name of the tournament and its folder",
    )
    seed: int = Field(default=0, ge=0, lt=2**63, description="Seed of all random draws")
    competitors: tuple[EntrantSource, ...] = Field(
        min_length=1, description="Entrants: of runs, exported folders, or bots"
    )
    leave_out_damaged: bool = Field(
        default=False, description="Play without snapshots that are missing or damaged"
    )
    env: GameSettings | None = Field(default=None, description="Game; none: that of the runs")
    seat_envs: dict[str, GameSettings] = Field(
        default_factory=dict,
        description="Envs that entrants bring to their seats, by entrant; left out: those of their roles",
    )
    teams: Annotated[tuple[int, ...], Field(min_length=1)] | None = Field(
        default=None, description="Number of seats of each team; none: those of the runs"
    )
    bots: Bots = Field(default_factory=dict, description="Settings of bots, by the name of the bot")
    limits: Limits = Field(default=NO_LIMITS, description="Limits of all bots whose code is not ours")
    schedule: ScheduleSettings = ScheduleSettings()
    opening: OpeningSettings = OpeningSettings()
    rules: RuleSettings = RuleSettings()
    rollout: PlaySettings = PlaySettings()
    ratings: TournamentRatings = TournamentRatings()
    anchors: dict[str, AnchorSettings] = Field(
        default_factory=dict,
        description="Entrants whose ratings are given: {stockfish_1320: 1320, random: {elo: 0, error: 30}}; "
        "none: the mean of all ratings is 0. `anchor: random` is short for one with Elo 0",
    )
    trust: tuple[str, ...] = Field(
        default=(), description="Custom networks (module:Class) that snapshots may be built from"
    )
    gates: tuple[str, ...] = Field(
        default=(), description='Conditions on the result, such as "elo > 20 against main-0@0"'
    )
    runners: int | None = Field(
        default=None,
        ge=0,
        description="Number of Ray actors that play; 0: the driver process plays, without Ray; none: one per "
        f"core in tournaments of over {MANY_GAMES} games, else 0. Results do not depend on it",
    )
    resources: ResourceSettings = ResourceSettings()
    log_seconds: float = Field(default=10.0, gt=0, description="Seconds between two plain lines of progress")

    @model_validator(mode="before")
    @classmethod
    def _one_anchor_is_short_for_several(cls, given: Any) -> Any:
        if not isinstance(given, Mapping) or "anchor" not in given:
            return given
        anchor = given["anchor"]
        others = {key: value for key, value in given.items() if key != "anchor"}
        if anchor is None:
            return others
        return others | {"anchors": {anchor: 0.0} if isinstance(anchor, str) else anchor}

    @field_validator("name")
    @classmethod
    def _name_is_of_a_folder(cls, name: str) -> str:
        if not name.strip("."):
            raise ValueError(f"found '{name}', expected letters or digits in the name of a folder")
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
        """Return the settings as the text of a YAML file."""
        return to_yaml(self.model_dump(mode="json"))


class Resolved(TournamentSettings):
    """Settings of a tournament with everything filled in that the runs of its entrants decide."""

    env: GameSettings = Field(description="Game")


def load(
    source: str | Path | Mapping[str, Any],
    overrides: Sequence[str] = (),
    changes: Mapping[str, Any] | None = None,
) -> TournamentSettings:
    """Return the settings of a YAML file or a mapping, with `changes` and then `a.b=value` overrides on top.

    Raise ConfigError for anything that is wrong.
    """
    where, fields = fields_of(source, overrides, changes, name="tournament")
    if league := fields.keys() & {"league", "learner", "policy"}:
        raise ConfigError(
            f"{where}: found {min(league)}, which a league has, expected the settings of a tournament; train "
            f"it: league train {where}, then play its snapshots: league tournament RUN"
        )
    return parse(TournamentSettings, where, fields)


def load_resolved(recorded: Mapping[str, Any], changes: Mapping[str, Any]) -> Resolved:
    """Return the settings that a tournament recorded, with `changes` on top.

    Raise ConfigError for anything that is wrong.
    """
    opening = {"book_per": "tournament"} | (recorded.get("opening") or {})  # before there was a choice
    ratings, bots = ratings_of(recorded.get("ratings") or {}), bots_of(recorded.get("bots") or {})
    recorded = {**recorded, "ratings": ratings, "bots": bots, "opening": opening}
    return parse(Resolved, *fields_of(recorded, changes=changes, name="tournament"))


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
            f"opening.book {path}: cannot be read ({error.strerror}), expected a text file; if it has moved, "
            "give --book its present place"
        ) from None


def _hash(data: bytes) -> str:
    return blake3(data).hexdigest()
