"""How far a run's main is from an equilibrium, as it learned: exact NashConv of its snapshots.

    python -m tests.bench.nash_conv RUN [--every 1]

For runs of a two-seat, turn-based game of OpenSpiel whose whole tree can be walked
(configs/openspiel_leduc.yaml). NashConv is what both seats together could still gain by playing a
best response, in the game's own units: 0 in an equilibrium. The algorithm is OpenSpiel's own, and it
asks a snapshot through OpenSpiel's policy interface.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from open_spiel.python.algorithms.exploitability import nash_conv
from open_spiel.python.policy import UniformRandomPolicy

import analysis
import league
from league.config import load
from league.envs.openspiel_policy import as_openspiel_policy


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("--every", type=int, default=1, help="of so many snapshots one; the newest always")
    arguments = parser.parse_args()
    env = load(arguments.run / "config.yaml").env
    snapshots = analysis.open_run(arguments.run).snapshots()
    mains = snapshots[snapshots["role"] == "main"]
    curve = mains[mains["player"] == mains["player"].iloc[-1]].iloc[:: -arguments.every].iloc[::-1]
    print(f"{'snapshot':<24}  {'env steps':>12}  {'NashConv':>8}")
    for row in curve.itertuples():
        actor = league.load_policy(arguments.run, row.snapshot_id)
        policy = as_openspiel_policy(env.id, actor, env.options.get("observation", "auto"))
        print(f"{row.snapshot_id:<24}  {row.env_steps:>12,}  {nash_conv(policy.game, policy):>8.3f}")
    uniform = nash_conv(policy.game, UniformRandomPolicy(policy.game))
    print(f"{'a uniform player':<24}  {'':>12}  {uniform:>8.3f}")


if __name__ == "__main__":
    main()
