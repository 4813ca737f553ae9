"""Adaptive schedule: competitors meet if their order is uncertain."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from analysis.statistics.ratings import Ratings
from league.tournament.schedules.base import Pairings, pairs_until_all_met
from league.tournament.schedules.pairing.order import misorder_stakes
from league.tournament.schedules.pairing.rated import Rated
from league.tournament.schedules.settings import ScheduleSettings


class Adaptive(Rated):
    """Pairs whose games are expected to correct the ranking most, until the budget is used up."""

    def __init__(
        self, field: int, num_teams: int, settings: ScheduleSettings, before: Sequence[Pairings] = ()
    ) -> None:
        half = math.ceil(settings.pairs * pairs_until_all_met(field, num_teams) / 2)
        super().__init__(field, num_teams, settings, settings.budget or max(field, half), before)

    def stakes(self, ratings: Ratings) -> npt.NDArray[np.float64]:
        """Return [N, N] the stakes of a wrong order of any two."""
        return misorder_stakes(ratings)
