"""A league builder of your own: freeze a player when its rating has risen enough, whatever the clock says.

league train configs/rock_paper_scissors.yaml --set league.builder=configs.own_builder:ByProgress
"""

from league.rules.building.builder import LeagueBuilder
from storage.records import Freeze

RISE = 3.0  # of mu, above the player's newest snapshot


class ByProgress(LeagueBuilder):
    """What the config says, and a Freeze as soon as a player is rated `RISE` above its newest snapshot.

    `decide` is asked again and again; it must do nothing but look, and return what it wants done:
    Freeze (a Reset right behind it), Retire, Add, Remove. The numbers behind a decision are its evidence.
    """

    def decide(self, roster, standings, clocks, rng):
        decisions = super().decide(roster, standings, clocks, rng)
        busy = {decision.player for decision in decisions}
        ratings = standings.ratings  # of everyone, by index
        for player in roster.players:
            newest = roster.snapshots_of(player.player)[-1]
            learned = clocks[player.player].since_freeze > 0
            if player.player not in busy and learned and ratings.fixed[newest]:  # it has been placed
                rise = float(ratings.mu[roster.index(player.player)] - ratings.mu[newest])
                if rise >= RISE:
                    evidence = {"rise": rise, "least_rise": RISE}
                    decisions.append(Freeze(player=player.player, reason="progress", evidence=evidence))
        return decisions
