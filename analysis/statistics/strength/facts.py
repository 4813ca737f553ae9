"""What is recorded of the strengths of a run's competitors."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunMember:
    """A competitor of a run."""

    competitor: str
    kind: str  # player, snapshot, bot
    role: str | None = None  # `None`: a bot
    player: str | None = None  # whose policy it is; `None`: a bot
    parent: str | None = None  # the snapshot that its weights were trained on from
    env_steps: int = 0  # of its player, when it was frozen
    untrained: bool = False  # first weights that no training has changed
    mu: float | None = None  # TrueSkill's


@dataclass(frozen=True, slots=True)
class Meeting:
    """All games of two competitors, a player that learns in one stage of its training."""

    home: str
    away: str
    games: float
    points: float  # of home; a draw is half a win
    home_until: str | None = None  # the snapshot that ended home's stage; `None`: no stage, or the last one
    away_until: str | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """The scores of a competitor in a game with one seat, a player that learns in one stage."""

    competitor: str
    games: int
    mean: float
    variance: float  # of one game
    until: str | None = None
