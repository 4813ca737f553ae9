"""Reporting: log the figures of a session to experiment trackers at the interval of the log.

TensorBoard, Weights & Biases and MLflow each keep their id of the run in the run folder, so that a resumed
run continues the same series. Only the library of a tracker that the config names is imported.
"""

from __future__ import annotations

import json
import math
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import yaml

from league.config.sections import MlflowSettings, SinkSettings, TensorBoardSettings, WandbSettings
from league.section import leaves
from league.training.session import Session
from league.training.state.session_sums import Means
from storage.errors import Failure

_LONGEST = 500  # characters of a parameter's value that every server of MLflow takes
_AT_ONCE = 100  # parameters in one request
FOLDER = "sinks"  # in the run folder


class Sink(Protocol):
    """An experiment tracker."""

    def log(self, env_steps: int, values: Mapping[str, float]) -> None:
        """Log `values` at `env_steps` of the league; the parts of a name are divided by slashes."""

    def close(self) -> None:
        """Write all that is buffered and close the tracker."""


def folder_of(run: Path) -> Path:
    """Return the folder of `run` in which sinks keep their data."""
    return run / FOLDER


def remembered(run: Path, kind: str) -> str | None:
    """Return the tracker's own id of this run from an earlier session, `None` if there is none yet."""
    try:
        found: Any = json.loads((folder_of(run) / f"{kind}.json").read_text())
    except (OSError, ValueError):
        return None
    return found.get("id") if isinstance(found, dict) else None


def remember(run: Path, kind: str, name: str) -> None:
    """Store the tracker's id of this run, so that a resumed run continues the same series."""
    folder_of(run).mkdir(exist_ok=True)
    (folder_of(run) / f"{kind}.json").write_text(json.dumps({"id": name}) + "\n")


class TensorBoard(Sink):
    """Event files with scalars by env_steps and the config as text."""

    def __init__(
        self, settings: TensorBoardSettings, run: Path, config: Mapping[str, Any], env_steps: int
    ) -> None:
        from torch.utils.tensorboard import SummaryWriter

        folder = Path(settings.folder) if settings.folder else folder_of(run) / "tensorboard"
        # Purge what a killed session wrote beyond the point where this one continues.
        self._writer: Any = SummaryWriter(str(folder), purge_step=env_steps + 1)
        text = yaml.safe_dump(dict(config), sort_keys=False)
        self._writer.add_text("config", "    " + text.replace("\n", "\n    "), env_steps)

    def log(self, env_steps: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, env_steps)
        self._writer.flush()  # for a TensorBoard that is open

    def close(self) -> None:
        """Close the event files."""
        self._writer.close()


class Wandb(Sink):
    """One W&B run, which a resumed session continues; `env_steps` is the axis of all series."""

    def __init__(self, settings: WandbSettings, run: Path, config: Mapping[str, Any], env_steps: int) -> None:
        import wandb

        name = remembered(run, "wandb") or secrets.token_hex(4)
        remember(run, "wandb", name)
        self._run: Any = wandb.init(
            project=settings.project,
            name=run.name,
            id=name,
            resume="allow",
            mode=settings.mode,
            dir=str(folder_of(run)),
            config=dict(config),
            settings=wandb.Settings(silent=True),
        )
        self._run.define_metric("env_steps")
        self._run.define_metric("*", step_metric="env_steps")

    def log(self, env_steps: int, values: Mapping[str, float]) -> None:
        self._run.log({"env_steps": env_steps, **values})

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()


class Mlflow(Sink):
    """One MLflow run, which a resumed session continues. No global state is set."""

    def __init__(
        self, settings: MlflowSettings, run: Path, config: Mapping[str, Any], env_steps: int
    ) -> None:
        import mlflow
        from mlflow.entities import Param

        folder_of(run).mkdir(exist_ok=True)
        uri = settings.uri or f"sqlite:///{(folder_of(run) / 'mlflow.db').resolve()}"
        self._client: Any = mlflow.MlflowClient(tracking_uri=uri)
        self._id = remembered(run, "mlflow")
        if self._id is not None:
            self._client.update_run(self._id, status="RUNNING")
            return
        experiment = self._client.get_experiment_by_name(settings.experiment)
        if experiment:
            experiment_id = experiment.experiment_id
        else:  # artifacts are beside the database, if the run has its own
            place = None if settings.uri else (folder_of(run) / "mlflow").resolve().as_uri()
            experiment_id = self._client.create_experiment(settings.experiment, artifact_location=place)
        self._id = self._client.create_run(experiment_id, run_name=run.name).info.run_id
        remember(run, "mlflow", self._id)
        parameters = [Param(key, str(value)[:_LONGEST]) for key, value in leaves(config).items()]
        for first in range(0, len(parameters), _AT_ONCE):
            self._client.log_batch(self._id, params=parameters[first : first + _AT_ONCE])

    def log(self, env_steps: int, values: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        metrics = [Metric(name, value, now, env_steps) for name, value in values.items()]
        for first in range(0, len(metrics), 1000):
            self._client.log_batch(self._id, metrics=metrics[first : first + 1000])

    def close(self) -> None:
        """End the MLflow run."""
        self._client.set_terminated(self._id)


def make_sink(settings: SinkSettings, run: Path, config: Mapping[str, Any], env_steps: int) -> Sink:
    """Return the sink of `settings`; only its own library is imported."""
    kinds: dict[str, Callable[..., Sink]] = {"tensorboard": TensorBoard, "wandb": Wandb, "mlflow": Mlflow}
    return kinds[settings.kind](settings, run, config, env_steps)


class Rates:
    """Decisions and matches per second over the last `seconds`, at least since the last call."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds = seconds
        self._seen: deque[tuple[float, int, int, int]] = deque()

    def update(self, session: Session) -> tuple[float, float, float]:
        """Return env steps/s, trained steps/s and matches/s."""
        trained = sum(member.env_steps for member in session.members.values())
        self._seen.append((time.monotonic(), session.totals.played_steps, trained, session.totals.matches))
        while len(self._seen) > 2 and self._seen[-1][0] - self._seen[0][0] > self._seconds:
            self._seen.popleft()
        first, last = self._seen[0], self._seen[-1]
        seconds = max(last[0] - first[0], 1e-9)
        env_steps, trained_steps, matches = (
            (b - a) / seconds for a, b in zip(first[1:], last[1:], strict=True)
        )
        return env_steps, trained_steps, matches


class Reporting:
    """Sinks of one session. One that fails is closed with a message, and training goes on without it."""

    def __init__(
        self, settings: tuple[SinkSettings, ...], every_seconds: float, say: Callable[[str], None]
    ) -> None:
        self._settings = settings
        self._every = every_seconds
        self._say = say
        self._sinks: dict[str, Sink] = {}
        self._logged: float | None = None
        self._rates = Rates()
        self._means: Means | None = None

    def begin(self, session: Session) -> None:
        """Open all sinks. Raise Failure for one that cannot be opened, before anything is trained."""
        config = session.settings.model_dump(mode="json")
        for settings in self._settings:
            try:
                sink = make_sink(settings, session.archive.run, config, session.totals.env_steps)
            except Exception as error:  # a third-party library may raise anything
                self.close()
                raise Failure(
                    f"log.sinks: {settings.kind} cannot be opened: {_first_line(error)}; mend that, or leave "
                    "it out by --set log.sinks=[], and go on with --resume"
                ) from error
            self._sinks[settings.kind] = sink
        self._means = Means(session.played)
        self._rates.update(session)
        self._logged = time.monotonic()

    def show(self, session: Session) -> None:
        """Log to all sinks, if it is time."""
        if self._sinks and self._logged is not None and time.monotonic() - self._logged >= self._every:
            self._log(session)

    def end(self, session: Session) -> None:
        """Log the last figures to all sinks."""
        if self._sinks:
            self._log(session)

    def close(self) -> None:
        """Close all sinks."""
        for kind in list(self._sinks):
            self._with(kind, lambda sink: sink.close())
        self._sinks.clear()

    def _log(self, session: Session) -> None:
        self._logged = time.monotonic()
        env_steps, trained, matches = self._rates.update(session)
        speed = {
            "speed/env_steps_per_second": env_steps,
            "speed/trained_steps_per_second": trained,
            "speed/matches_per_second": matches,
        }
        means = {} if self._means is None else self._means.new()
        values = {k: v for k, v in (figures(session) | means | speed).items() if math.isfinite(v)}
        for kind in list(self._sinks):
            self._with(kind, lambda sink: sink.log(session.totals.env_steps, values))

    def _with(self, kind: str, deed: Callable[[Sink], None]) -> None:
        try:
            deed(self._sinks[kind])
        except Exception as error:  # a full disk or a lost network: the run goes on
            del self._sinks[kind]
            self._say(f"log.sinks: {kind} failed and is no longer logged to: {_first_line(error)}")


def figures(session: Session) -> dict[str, float]:
    """Return the figures of a session: ratings and learning of each player, sizes, mix of match types.

    Of a player's newest snapshot that was measured: its figures on yardsticks.
    """
    found: dict[str, float] = {
        "league/snapshots": len(session.roster.snapshots()),
        "league/matches": session.totals.matches,
        "league/dropped_matches": session.totals.dropped_matches,
        "league/incidents": session.incidents.counts.total(),
    }
    for name, member in session.members.items():
        rating = session.standings.rating(name)
        found[f"rating/{name}/mu"], found[f"rating/{name}/sigma"] = rating.mu, rating.sigma
        found[f"learning/{name}/updates"] = member.updates
        found[f"learning/{name}/env_steps"] = member.env_steps
        record = session.log.newest.get(name)
        if record is not None:
            found[f"learning/{name}/lag"] = record.lag
            spent = session.log.spent.get(name, {})
            found |= {f"learning/{name}/{key}": value for key, value in {**record.metrics, **spent}.items()}
    for name, newest in session.yardsticks.newest.items():
        found |= {f"yardstick/{name}/{key}": shown.record.value for key, shown in newest.items()}
    played = sum(session.state.match_mix.values())
    found |= {f"mix/{kind}": count / played for kind, count in session.state.match_mix.items()}
    return found


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
