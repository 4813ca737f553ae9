"""Searches: sweeps whose next settings are chosen by the scores of those before, with Optuna.

A trial is a run of a sweep. Its score is the mean of its points per game against fixed opponents, the
yardsticks of its config, which its mains' snapshots play when they are frozen. A trial is stopped early once
its interval is below those of most others at as many env steps.

What is chosen depends on the trials in `sweep.json` alone and on their number. So a search goes on after a
kill with the settings that it would have had, if trials come one at a time.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from league.config.loading import check_yardsticks, load
from league.models.bots.scripted import bots_for
from league.training.sweeps import Grid, Plan, Planned, base_path, begin_run, save, values_of
from storage import query
from storage.ends import RunState
from storage.errors import Mistake
from storage.layout import FORMAT
from storage.suggestions import did_you_mean

KINDS = {"log": float, "linear": float, "int": int, "choice": str}  # of values, by the form of their axis
RIVALS = 4  # other trials that a trial is compared with, at least, before it is stopped
LOOK_SECONDS = 2.0  # between two looks at the scores of a run
DIGITS = 3  # significant ones of numbers that are tried

SCORES = """
SELECT s.env_steps, s.player, avg(y.value) AS value,
    sqrt(sum((y.value - y.low) ** 2)) / count(*) AS below,
    sqrt(sum((y.high - y.value) ** 2)) / count(*) AS above
FROM yardsticks y JOIN snapshots s ON s.snapshot_id = y.competitor
WHERE y.kind = 'games' AND y.part = 'all'
GROUP BY ALL HAVING count(*) = $1 ORDER BY ALL
"""
"""Query of the mean score of each snapshot that has met all of $1 opponents, and of its interval."""


class Axis(NamedTuple):
    """A setting to search, and its values."""

    key: str  # such as learner.lr
    form: str  # of KINDS
    values: tuple[str, ...]  # both ends, or the choices, as YAML

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends of a range."""
        return float(self.values[0]), float(self.values[1])

    def text(self, value: float | str) -> str:
        """Return a value as it is written in a config, within the ends."""
        if isinstance(value, str):
            return value
        low, high = self.ends
        return f"{min(max(float(f'{value:.{DIGITS}g}'), low), high):.12g}"


class Score(NamedTuple):
    """Points per game of a trial after some env steps, in [0, 1], with the ends of its 95 % interval."""

    env_steps: int
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Trial:
    """A run of a search."""

    run: Planned
    chosen: tuple[str, ...]  # its value on each axis
    scores: tuple[Score, ...]  # by env steps
    ended: str  # trained, stopped, failed; "" if it is not over

    @property
    def last(self) -> Score | None:
        """The newest score."""
        return self.scores[-1] if self.scores else None

    def at(self, env_steps: int) -> Score | None:
        """Return the newest score that was reached within `env_steps`."""
        return next((score for score in reversed(self.scores) if score.env_steps <= env_steps), None)


def parse_space(text: str) -> tuple[Axis, ...]:
    """Return the axes of `A.B=log(low,high), C=choice(x,y)`. Raise Mistake for any other text."""
    axes: list[Axis] = []
    for part in filter(None, values_of(text)):
        found = re.fullmatch(r"([\w.\-]+)\s*=\s*(\w+)\s*\((.*)\)", part, re.DOTALL)
        if found is None:
            raise Mistake(
                f"--search: found '{part}', expected A.B=log(low,high), linear(low,high), int(low,high) or "
                "choice(x,y,...), with commas between settings"
            )
        key, form, inside = found.groups()
        if form not in KINDS:
            raise Mistake(f"--search {key}: found '{form}(...)'; {did_you_mean(form, KINDS)}")
        if key in {axis.key for axis in axes}:
            raise Mistake(f"--search {key}: the setting is given twice, expected once")
        axis = Axis(key, form, tuple(values_of(inside)))
        _check_axis(axis)
        axes.append(axis)
    if not axes:
        raise Mistake("--search: found no setting, expected such as 'learner.lr=log(1e-4,1e-2)'")
    return tuple(axes)


def _check_axis(axis: Axis) -> None:
    key, form, values = axis
    shown = f"--search {key}={form}({','.join(values)})"
    if form == "choice":
        if len({*values}) < max(2, len(values)):
            raise Mistake(f"{shown}: expected two values or more, each once")
        return
    try:
        low, high = axis.ends if len(values) == 2 else (math.nan, math.nan)
        whole = form != "int" or (low == int(low) and high == int(high))
    except (ValueError, OverflowError):
        low = high = math.nan
        whole = True
    if not (math.isfinite(low) and math.isfinite(high) and low < high and whole):
        kind = "whole numbers" if form == "int" else "numbers"
        raise Mistake(f"{shown}: expected two {kind}, the lower one first")
    if form == "log" and low <= 0:
        raise Mistake(f"{shown}: a logarithm has no end at {low:g}; raise it above 0, or write linear(...)")


def make_search(config: Path, overrides: Sequence[str], space: str, trials: int) -> Plan:
    """Return the plan of a search in `config`, which has no runs yet.

    Without an opponent among the yardsticks of the config, all bots of the game are. Raise Mistake for a
    space that has none, or values that the settings cannot have, and for a game without opponents.
    """
    _optuna()
    axes = parse_space(space)
    base = load(config, overrides)
    common = [*overrides]
    if not any(yardstick.plays for yardstick in base.evaluation.yardsticks):
        common.append(f"evaluation.yardsticks=[{', '.join(bots_for(base.env.id))}]")
        try:
            base = load(config, common)
        except Mistake as error:
            raise Mistake(f"--search scores games against bots: {error}") from None
    check_yardsticks(base, base.game)
    for axis in axes:
        if any(override.partition("=")[0].strip() == axis.key for override in overrides):
            raise Mistake(f"--set {axis.key}: the setting is searched, expected one of --set and --search")
        if axis.key in ("seed", "name"):
            raise Mistake(
                f"--search {axis.key}: found no setting that games could tell, expected others; seeds come "
                "after: --seeds N"
            )
        for value in axis.values:
            load(config, [*common, f"{axis.key}={value}"])
        if axis.form in ("log", "linear"):
            between = axis.text(axis.ends[0] + 0.37 * min(1.0, axis.ends[1] - axis.ends[0]))
            try:
                load(config, [*common, f"{axis.key}={between}"])
            except Mistake as error:
                raise Mistake(f"{error}; whole numbers are searched by: {axis.key}=int(low,high)") from None
    opponents = sum(yardstick.plays for yardstick in base.evaluation.yardsticks)
    search = {"space": space, "trials": trials, "common": common, "opponents": opponents}
    return Plan(str(config), (), search)


def scores_of(run: Path, opponents: int) -> tuple[Score, ...]:
    """Return the scores of a run by env steps: means over the newest snapshots of its players then."""
    newest: dict[str, tuple[float, float, float]] = {}
    found: dict[int, Score] = {}
    for row in query(run, SCORES.replace("$1", str(opponents))).to_pylist():
        newest[row["player"]] = (row["value"], row["below"], row["above"])
        n = len(newest)
        value, below, above = (
            sum(each[0] for each in newest.values()) / n,
            *(math.sqrt(sum(each[i] ** 2 for each in newest.values())) / n for i in (1, 2)),
        )
        found[row["env_steps"]] = Score(row["env_steps"], value, value - below, value + above)
    return tuple(found.values())


def surely_worse(trial: Trial, others: Sequence[Trial]) -> str:
    """Return why a trial is not worth more compute; "" if it may be.

    At as many env steps, more than half of the others, RIVALS or more, had intervals above its own.
    """
    own = trial.last
    if own is None or own.env_steps == 0:
        return ""
    then = [score for other in others if (score := other.at(own.env_steps)) and score.env_steps]
    above = sum(score.low > own.high for score in then)
    if len(then) < RIVALS or 2 * above <= len(then):
        return ""
    return (
        f"{own.value:.3f} [{own.low:.3f}, {own.high:.3f}] at {own.env_steps:,} env steps, surely below "
        f"{above} of {len(then)} others there"
    )


class Search(Grid):
    """The trials of a search in `folder`."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        super().__init__(plan)
        assert plan.search is not None
        self.axes = parse_space(plan.search["space"])
        self._folder = folder
        self._opponents = int(plan.search["opponents"])
        self._failed: set[str] = set()
        self._looked: dict[str, float] = {}

    @property
    def total(self) -> int:
        """Number of trials."""
        assert self.plan.search is not None
        return int(self.plan.search["trials"])

    @property
    def trials(self) -> list[Trial]:
        """All trials so far, in order."""
        return [self._trial(run) for run in self.plan.runs]

    def _trial(self, run: Planned) -> Trial:
        chosen = tuple(override.partition("=")[2] for override in run.overrides[:-1])  # the last is the seed
        result: Mapping[str, Any] = self.plan.results.get(run.name, {})
        scores = tuple(Score(*score) for score in result.get("scores", ()))
        ended = "failed" if run.name in self._failed else result.get("ended", "")
        return Trial(run, chosen, scores, ended)

    def next(self) -> Planned | None:
        """Return the next run; its settings are chosen, and written down, before it begins."""
        number = len(self.plan.runs)
        if self._waiting or number >= self.total:
            return super().next()
        params = self.study(number).ask(self._distributions()).params  # by the trials so far, and its number
        chosen = [f"{axis.key}={axis.text(params[axis.key])}" for axis in self.axes]
        base = base_path(self._folder)
        seed = load(base).seed + number
        run = Planned(f"trial-{number}", ", ".join(chosen), seed, (*chosen, f"seed={seed}"))
        begin_run(self._folder, run, base)
        self._save(replace(self.plan, runs=(*self.plan.runs, run)))
        return run

    def look(self, run: Planned) -> str:
        """Return why a run that is under way is to be stopped; "" if it goes on."""
        if time.monotonic() - self._looked.get(run.name, -math.inf) < LOOK_SECONDS:
            return ""
        self._looked[run.name] = time.monotonic()
        if not (self._folder / run.name / FORMAT).exists():
            return ""
        scores = scores_of(self._folder / run.name, self._opponents)
        others = [trial for trial in self.trials if trial.run.name != run.name]
        return surely_worse(replace(self._trial(run), scores=scores), others)

    def ended(self, run: Planned, state: RunState | None, stopped: str) -> bool:
        """Note the scores of a run that has ended; return whether it is over."""
        if state is None or not (stopped or state.kind == "trained"):
            self._failed.add(run.name)
            return False
        scores = scores_of(self._folder / run.name, self._opponents)
        result = {"ended": "stopped" if stopped else "trained", "why": stopped, "scores": scores}
        self._save(replace(self.plan, results={**self.plan.results, run.name: result}))
        return True

    def _save(self, plan: Plan) -> None:
        save(plan, self._folder)
        self.plan = plan

    def study(self, seed: int = 0) -> Any:
        """Return a study of Optuna with all trials so far, of which those without an end are under way."""
        optuna = _optuna()
        from optuna.trial import TrialState, create_trial

        states = {"trained": TrialState.COMPLETE, "stopped": TrialState.PRUNED, "failed": TrialState.FAIL}
        # constant_liar: trials under way count as bad, so that several at a time differ
        sampler = optuna.samplers.TPESampler(
            n_startup_trials=min(10, max(4, self.total // 4)),
            seed=seed,
            multivariate=True,
            constant_liar=True,
        )
        study = optuna.create_study(direction="maximize", sampler=sampler)
        for trial in self.trials:
            measured = trial.last is not None
            state = states.get(trial.ended, TrialState.RUNNING)
            if state is TrialState.COMPLETE and not measured:
                state = TrialState.FAIL
            study.add_trial(
                create_trial(
                    state=state,
                    value=trial.last.value if trial.last and trial.ended in ("trained", "stopped") else None,
                    params={
                        axis.key: KINDS[axis.form](text)
                        for axis, text in zip(self.axes, trial.chosen, strict=True)
                    },
                    distributions=self._distributions(),
                    intermediate_values={score.env_steps: score.value for score in trial.scores},
                )
            )
        return study

    def _distributions(self) -> dict[str, Any]:
        from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

        found: dict[str, Any] = {}
        for axis in self.axes:
            if axis.form == "choice":
                found[axis.key] = CategoricalDistribution(axis.values)
            elif axis.form == "int":
                found[axis.key] = IntDistribution(int(axis.ends[0]), int(axis.ends[1]))
            else:
                found[axis.key] = FloatDistribution(*axis.ends, log=axis.form == "log")
        return found

    def importance(self) -> dict[str, float]:
        """Return the share of each setting in what differs between trials; {} if they are few or alike."""
        finished = [trial.last.value for trial in self.trials if trial.ended == "trained" and trial.last]
        if len(finished) < 2 * RIVALS or len({*finished}) < 2:
            return {}
        if len(self.axes) == 1:
            return {self.axes[0].key: 1.0}
        import optuna

        found = optuna.importance.get_param_importances(self.study())
        return {key: float(share) for key, share in found.items()}


def _optuna() -> Any:
    """Return the module, silent but for errors. Raise Mistake if it is not installed."""
    try:
        import optuna
    except ImportError:
        raise Mistake("--search: Optuna is not installed; pip install '.[search]'") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna
