"""Seating: teams, seats taken in turn, and the seeds of matches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, PositiveInt

from league.hashing import GAMMA, mix
from league.section import SettingsGroup
from storage.arrays import Bools, Indices


class MatchmakingSettings(SettingsGroup):
    """Settings of the matches of every role."""

    distinct_opponents: int = Field(
        default=8,
        ge=1,
        description="Most different snapshots in one request, but at least one for each branch drawn",
    )
    seats: Literal["balanced", "random"] = Field(
        default="balanced",
        description="The player's seat: balanced takes all seats equally often against every opponent, "
        "random draws it",
    )
    teams: tuple[PositiveInt, ...] | None = Field(
        default=None,
        description="Number of seats of each team, such as [2, 2], in order of the seats; none: each seat is "
        "a team. One competitor plays all seats of a team",
    )

    def team_of_seat(self, num_seats: int) -> Indices:
        """Return the team of each seat [num_seats]. Raise ValueError for teams that do not fill the seats."""
        sizes = (1,) * num_seats if self.teams is None else self.teams
        if sum(sizes) != num_seats:
            raise ValueError(
                f"matchmaking.teams: found {list(sizes)}, {sum(sizes)} seats in all, but the game has "
                f"{num_seats}; expected sizes that sum to {num_seats}, or none"
            )
        return np.repeat(np.arange(len(sizes)), sizes)


@dataclass(frozen=True, slots=True)
class Tables:
    """Competitor of each team in M matches."""

    by_team: Indices  # [M, T], indices of competitors
    learning: Bools  # [M, T]
    match_type: npt.NDArray[np.int16]  # [M], indices into the match types


def arrange(
    home: int,
    opponent: Indices,
    match_type: npt.NDArray[np.int16],
    self_play: int,
    rng: np.random.Generator,
    *,
    learning: bool,
    balanced: bool,
) -> Tables:
    """Return the teams of the home player and its opponents [M, T - 1], by match type [M].

    With `balanced`, home takes the teams in turn against each opponent; otherwise its team is drawn.
    With `learning` home's seats learn; those of matches of type `self_play` all do.
    """
    rows, others = np.arange(len(opponent)), opponent.shape[1]
    if balanced:  # alternate along the matches, sorted so that those of one opponent are neighbours
        home_team = np.empty(len(rows), dtype=np.int64)
        along = np.lexsort((*opponent.T[:1], match_type))  # in a game for one there is no opponent
        home_team[along] = (rows + rng.integers(others + 1)) % (others + 1)
    else:
        home_team = rng.integers(others + 1, size=len(rows))
    by_team = np.empty((len(rows), others + 1), dtype=np.int64)
    by_team[rows, home_team] = home
    elsewhere = np.arange(others + 1) != home_team[:, None]
    by_team[elsewhere] = opponent.ravel()
    learns = (~elsewhere & learning) | (match_type == self_play)[:, None]
    return Tables(by_team, learns, match_type)


def match_seeds(run_seed: int, match_id: Indices) -> Indices:
    """Return the seed of each match [M], in [0, 2^63), from the run's seed and the match id alone.

    It is splitmix64 (`league.hashing`) with the mixed run seed as its state, advanced by the match id.
    """
    state = mix(np.array([run_seed % 2**64], dtype=np.uint64) + GAMMA)
    return (mix(state + match_id.astype(np.uint64) * GAMMA + GAMMA) >> np.uint64(1)).astype(np.int64)
