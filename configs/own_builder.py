"""A league builder of your own: freeze a player as soon as its rating has risen enough.

league train configs/own_builder.yaml
"""

from league.extend import Freeze, LeagueBuilder


class ByProgress(LeagueBuilder):
    """The builder of the config, plus a Freeze when a player is rated `rise` above its newest snapshot.

    `rise` is in the config, in `league.builder`. `decide` is called once per turn of the loop. It changes
    nothing; it returns decisions: Freeze (with `reset=Reset(...)` to reset the player then), Retire, Add,
    Remove. `evidence` holds the numbers behind a decision.
    """

    def __init__(self, roles, rise=3.0):
        super().__init__(roles)
        self.rise = rise  # of mu, above the player's newest snapshot

    def decide(self, roster, standings, clocks, rng):
        decisions = super().decide(roster, standings, clocks, rng)
        busy = {decision.player for decision in decisions}
        ratings = standings.ratings  # of all competitors, by index
        for player in roster.players:
            newest = roster.snapshots_of(player.player)[-1]
            learned = clocks[player.player].since_freeze > 0
            if player.player not in busy and learned and ratings.fixed[newest]:  # it has been placed
                rise = float(ratings.mu[roster.index(player.player)] - ratings.mu[newest])
                if rise >= self.rise:
                    evidence = {"rise": rise, "least_rise": self.rise}
                    decisions.append(Freeze(player=player.player, reason="progress", evidence=evidence))
        return decisions
