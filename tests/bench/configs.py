"""Whether the shipped configs do what configs/README.md says of them.

    python -m tests.bench.configs [--configs recall whist] [--seeds 0 1 2]

Trains each config as it is, but for its seed, and prints a line for each figure that the README names: the
median of all seeds, their range, and whether each of them keeps to the limit. Runs are in a temporary folder.
Exits with 1 if a limit is not kept to.

Kuhn poker, Leduc poker and liar's dice are in `python -m tests.bench.strength`, Connect Four in
RESULTS.md beside this file.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import analysis
import league
from league.arena.comparison import compare
from league.exploit.exact import exact
from storage.archive import open_reader
from storage.records import Outcome
from tests.bench.shared import parser_of

CONFIGS = Path(__file__).parents[2] / "configs"

ROUNDING = 1e-3  # of a mean of scores
Figures = dict[str, float]


@dataclass(frozen=True)
class Case:
    """What one config promises: a function that measures a run, and a limit for each of its figures."""

    measure: Callable[[Path], Figures]
    limits: Mapping[str, tuple[float, float]]  # least and most

    def kept(self, name: str, values: Sequence[float]) -> bool:
        """Whether each of the values keeps to its limit."""
        least, most = self.limits[name]
        return all(least - ROUNDING <= value <= most + ROUNDING for value in values)


def frame(run: Path, query: str) -> list[tuple[object, ...]]:
    """The rows that a query on the run's history answers."""
    with analysis.open_run(run) as history:
        return [tuple(row) for row in history.sql(query).itertuples(index=False)]


def of_last(run: Path, part: float) -> str:
    """A condition: the seats of the last `part` of all matches."""
    return f"seq > {1.0 - part} * (SELECT max(seq) FROM seats)"


def right_answers(run: Path) -> Figures:
    """Share of the last 1,000 questions that were answered right."""
    (share,) = frame(
        run, "SELECT avg((score > 0)::INT) FROM (SELECT score FROM seats ORDER BY seq DESC LIMIT 1000)"
    )[0]
    return {"right": float(str(share))}


def steps_of_seats(run: Path) -> Figures:
    """Mean score of each learning seat in the last tenth of the matches."""
    query = (
        f"SELECT seat, avg(score) FROM seats WHERE learning AND {of_last(run, 0.1)} GROUP BY seat ORDER BY 1"
    )
    return {f"seat {seat}": float(str(score)) for seat, score in frame(run, query)}


def poles(run: Path) -> Figures:
    """The lowest and the second lowest of the seats' mean scores."""
    scores = sorted(steps_of_seats(run).values())
    return {"lowest": scores[0], **({"second lowest": scores[1]} if len(scores) > 1 else {})}


def champion(run: Path) -> Figures:
    """Mean scores of the poles and of the climber, in the last tenth."""
    seats = steps_of_seats(run)
    return {"poles": min(seats["seat 0"], seats["seat 1"]), "climber": seats["seat 2"]}


def climber(run: Path) -> Figures:
    """Mean score of the climber in its own env, in the last fifth."""
    (score,) = frame(
        run,
        "SELECT avg(score) FROM seats WHERE learning AND split_part(competitor, '@', 1) = 'climber-0' "
        f"AND {of_last(run, 0.2)}",
    )[0]
    return {"climber": float(str(score))}


def against_bots(run: Path) -> Figures:
    """How often main-0 ends ahead of each bot, ties as halves, in the last fifth."""
    query = f"""
        SELECT b.competitor, avg((a.rank < b.rank)::INT + 0.5 * (a.rank = b.rank)::INT)
        FROM seats a JOIN seats b USING (seq)
        WHERE a.competitor = 'main-0' AND b.competitor IN ('random', 'roomy', 'thrifty')
          AND {of_last(run, 0.2)}
        GROUP BY ALL ORDER BY 1"""
    return {str(bot): float(str(share)) for bot, share in frame(run, query)}


def mixture(run: Path) -> Figures:
    """What all seats could gain against the mixture of the pool."""
    return {"NashConv of :nash": exact(run, ":nash").nash_conv}


def pools(run: Path) -> Figures:
    """NashConv of the mixture of the pool, by its size."""
    ids = [snapshot.snapshot_id for snapshot in open_reader(run).snapshots()]
    sizes = {"6": 5, "10": 9, "all": len(ids) - 1}
    return {f"pool of {size}": exact(run, f"{ids[i]}:nash").nash_conv for size, i in sizes.items()}


def newest(run: Path) -> Figures:
    """NashConv of the newest snapshot of main-0."""
    return {"NashConv": exact(run, "main-0").nash_conv}


def perfect(run: Path) -> Figures:
    """Share of 1,000 games that the newest snapshot loses to perfect play, greedy."""
    outcome = compare(run, "main-0:greedy", "perfect", pairs=500).outcome_of_a
    return {"lost": float((outcome == Outcome.LOSS).mean())}


ANY = float("inf")
CASES = {
    "recall": Case(right_answers, {"right": (0.95, 1.0)}),
    "cartpole": Case(poles, {"lowest": (4.5, 5.0)}),
    "magnet": Case(newest, {"NashConv": (0.0, 0.2)}),
    "rock_paper_scissors": Case(mixture, {"NashConv of :nash": (0.0, 0.2)}),
    "whist": Case(against_bots, {"random": (0.62, 1.0), "thrifty": (0.47, 1.0)}),
    "tron": Case(against_bots, {"random": (0.95, 1.0), "roomy": (0.5, 1.0)}),
    "four_cartpoles": Case(poles, {"lowest": (4.0, 5.0), "second lowest": (4.8, 5.0)}),
    "challengers": Case(climber, {"climber": (4.5, ANY)}),
    "champion": Case(champion, {"poles": (4.8, 5.0), "climber": (4.5, ANY)}),
    "psro": Case(pools, {"pool of 6": (0.0, 0.3), "pool of 10": (0.0, 0.15), "pool of all": (0.0, 0.12)}),
    "tic_tac_toe": Case(perfect, {"lost": (0.0, 0.01)}),
}


def trained(name: str, seed: int, folder: Path) -> tuple[Path, float]:
    """The run of a config from this seed, and its minutes."""
    began = time.monotonic()
    run = league.train(CONFIGS / f"{name}.yaml", folder / "run", overrides=[f"seed={seed}"])
    return run, (time.monotonic() - began) / 60.0


def shown(values: Sequence[float]) -> str:
    """Median and range."""
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def lines(name: str, case: Case, seeds: Sequence[int]) -> list[tuple[str, bool]]:
    """The lines of one config, and whether its limits are kept to."""
    figures, minutes = [], []
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            run, took = trained(name, seed, Path(folder))
            figures.append(case.measure(run))
            minutes.append(took)
    found = []
    for figure, (least, most) in case.limits.items():
        values = [each[figure] for each in figures]
        bounds = f"{least:g} to {most:g}" if most < ANY else f"at least {least:g}"
        kept = case.kept(figure, values)
        found.append(
            (
                f"{name:<20}  {len(seeds):>5}  {statistics.median(minutes):>7.1f}  {figure:<18}  "
                f"{shown(values):<24}  {bounds:<14}  {'kept' if kept else 'NOT KEPT'}",
                kept,
            )
        )
    return found


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--configs", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    arguments = parser.parse_args()
    print(f"{'config':<20}  {'seeds':>5}  {'minutes':>7}  {'figure':<18}  {'found':<24}  {'limit':<14}")
    all_kept = True
    for name in arguments.configs:
        for line, kept in lines(name, CASES[name], arguments.seeds):
            print(line, flush=True)
            all_kept &= kept
    sys.exit(0 if all_kept else 1)


if __name__ == "__main__":
    main()
