"""A matchmaking branch of your own: play the snapshots that the player beats least often.

league train configs/own_branch.yaml
"""

import numpy as np
from pydantic import Field

from league.rules.matchmaking.branches import Branch


class Nemesis(Branch):
    """The `most` snapshots that the player has its lowest win rates against, all equally likely.

    The fields are the branch's settings in a config, beside `share`. `candidates` gets a `LeagueView`
    and returns indices into its roster; where it returns none, the match is played by `fallback`. Derive
    from `WeightedBranch` instead to draw candidates by a function of the player's win rates.
    """

    most: int = Field(default=3, ge=1, description="Number of snapshots to play")

    def candidates(self, view):
        snapshots = view.roster.snapshots()  # of all players; view.snapshots_of(name) has those of one
        return snapshots[np.argsort(view.rates(snapshots), kind="stable")[: self.most]]
