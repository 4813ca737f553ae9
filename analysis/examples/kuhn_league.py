# %% [markdown]
# # A league of Kuhn poker, taken apart
#
# `kuhn_league` is a small run beside this file: a main agent, a main exploiter and a league
# exploiter learned the three-card poker for a few seconds (`league train
# analysis/examples/kuhn_league.yaml`), and `league exploit RUN --every 1` measured how far each snapshot of
# the main is from an equilibrium. All that follows works on any run, also on one that trains meanwhile. The
# cells run in any editor that supports `# %%`, or all at once:
#
#     python analysis/examples/kuhn_league.py

# %%
from pathlib import Path

import numpy as np

import analysis
from analysis import plots
from analysis.solution import Payoffs, alpha_rank, nash_averaging, unexplained_share, with_interval

HERE = Path(__file__).parent
PICTURES = Path("pictures")
PICTURES.mkdir(exist_ok=True)
history = analysis.open_run(HERE / "kuhn_league")

# %% [markdown]
# ## What happened?
#
# Frames are tidy: one row per player, snapshot, match, seat or rating. `sql` answers all else.

# %%
players, snapshots = history.players(), history.snapshots()
print(players[["player", "role", "env_steps", "updates", "snapshots"]].to_string(index=False))
played = history.sql("SELECT purpose, count(*) AS matches FROM matches GROUP BY purpose ORDER BY purpose")
print(played.to_string(index=False))
print(history.match_mix().head(6).to_string(index=False))

# %% [markdown]
# ## Which competitor is best, by the ratings?
#
# TrueSkill orders by `mu - 3 sigma`. `as_of` is the same question at another time: nothing that came later
# is in it.

# %%
leaderboard = history.leaderboard()
halfway = history.as_of(60_000).leaderboard()
print(leaderboard[["competitor", "mu", "sigma", "games", "win_rate"]].head(5).round(2).to_string(index=False))
print(f"after 60,000 env steps the best was {halfway['competitor'].iloc[0]}")
plots.save(plots.ratings(history.ratings(), leaderboard), PICTURES / "ratings.svg")

# %% [markdown]
# ## Does one number do these players justice?
#
# A rating hides the results of single pairings. The Nash average weights each competitor by how much an
# equilibrium of the league needs it. The unexplained share is the part of the payoff that strengths do not
# explain: cycles, and luck. Games hold luck, so both have an interval, from resampled games. It is wide
# here: these games do not decide which competitor is best. The mean over resamples is printed for the share.

# %%
payoff = history.payoff()
frozen = tuple(snapshots["snapshot_id"])
payoffs = Payoffs.from_frame(payoff, frozen)
rng = np.random.default_rng(0)
nash = with_interval(payoffs, lambda payoff: nash_averaging(payoff).mixture, rng, samples=100)
share = with_interval(payoffs, lambda payoff: np.array([unexplained_share(payoff)]), rng, samples=100)
evolution = alpha_rank(payoffs.matrix(), alpha=10.0)
for i in np.argsort(-nash.value)[:5]:
    print(
        f"{frozen[i]:<26} Nash {nash.value[i]:.2f} ({nash.low[i]:.2f} to {nash.high[i]:.2f}), "
        f"alpha-rank {evolution[i]:.2f}"
    )
print(f"unexplained share {share.mean[0]:.2f} ({share.low[0]:.2f} to {share.high[0]:.2f})")
plots.save(plots.payoff_heatmap(payoff, leaderboard, order="nash_cluster"), PICTURES / "payoff.svg")
plots.save(plots.cyclic_plane(payoff, leaderboard), PICTURES / "cyclic_plane.svg")

# %% [markdown]
# ## Is it still improving?
#
# Ratings are relative to the league. Exploitability is not: it is what a perfect opponent would win per
# hand, and 0 in an equilibrium. Ratings count hands won, of which main-0 wins hardly more than early on. But
# in poker one wins chips, by losing little with bad cards.

# %%
curve = history.exploitability().sort_values("env_steps")
curve = curve[(curve["player"] == "main-0") & (curve["kind"] == "exact")]
print(curve[["snapshot_id", "value"]].round(3).to_string(index=False))
plots.save(plots.exploitability(history.exploitability()), PICTURES / "exploitability.svg")
first, last = curve["value"].iloc[0], curve["value"].iloc[-1]
print(f"main-0 went from {first:.2f} to {last:.2f} chips a hand")

# %% [markdown]
# ## What went wrong?
#
# The diagnostics look for forgetting, cycles, stagnation, regressions, lag, starvation and drift, each
# beyond what chance would show. They, too, count hands won, so read a finding of stagnation
# together with the curve above.

# %%
findings = analysis.diagnose(history)
for finding in findings:
    print(f"{finding.severity}: {finding.sentence}")

# %% [markdown]
# ## All of it on one page
#
# `league report analysis/examples/kuhn_league` writes the same and more; `league serve` shows it live.

# %%
history.close()
