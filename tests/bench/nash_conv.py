"""How far a run's main is from an equilibrium, as it learned: exact NashConv of its snapshots.

    python -m tests.bench.nash_conv RUN [--every 1]

For runs of a game whose whole tree can be walked, such as kuhn_poker, leduc_poker, tic_tac_toe, and those of
OpenSpiel of that size (configs/openspiel_leduc.yaml). NashConv is what all seats together could still gain by
playing a best response, in the game's own units: 0 in an equilibrium.
"""

from __future__ import annotations

from pathlib import Path

import analysis
from league.exploit.exact import exact_each
from tests.bench.shared import parser_of


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--every", type=int, default=1, help="of so many snapshots one; the newest always")
    arguments = parser.parse_args()
    snapshots = analysis.open_run(arguments.run).snapshots()
    mains = snapshots[snapshots["role"] == "main"]
    curve = mains[mains["player"] == mains["player"].iloc[-1]].iloc[:: -arguments.every].iloc[::-1]
    print(f"{'snapshot':<24}  {'env steps':>12}  {'NashConv':>8}")
    for found in exact_each(arguments.run, [*curve["snapshot_id"], "random"]):
        if found.snapshot_id is None:
            print(f"{'a uniform player':<24}  {'':>12}  {found.nash_conv:>8.3f}")
        else:
            print(f"{found.snapshot_id:<24}  {found.env_steps:>12,}  {found.nash_conv:>8.3f}")


if __name__ == "__main__":
    main()
