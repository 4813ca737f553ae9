"""Experiment trackers that a run logs to: TensorBoard, Weights & Biases, MLflow.

Each keeps its id of the run in the run folder, so that a resumed run continues the same series. Only the
library of a tracker that the config names is imported.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import yaml

from league.config.sections import MlflowSettings, SinkSettings, TensorBoardSettings, WandbSettings

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


class TensorBoard:
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
        """Log `values` at `env_steps`."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, env_steps)
        self._writer.flush()  # for a TensorBoard that is open

    def close(self) -> None:
        """Close the event files."""
        self._writer.close()


class Wandb:
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
        """Log `values` at `env_steps`."""
        self._run.log({"env_steps": env_steps, **values})

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()


class Mlflow:
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
        experiment_id = experiment.experiment_id if experiment else self._create(settings, run)
        self._id = self._client.create_run(experiment_id, run_name=run.name).info.run_id
        remember(run, "mlflow", self._id)
        parameters = [Param(key, value[:_LONGEST]) for key, value in flat(config)]
        for first in range(0, len(parameters), _AT_ONCE):
            self._client.log_batch(self._id, params=parameters[first : first + _AT_ONCE])

    def _create(self, settings: MlflowSettings, run: Path) -> str:
        """Create the experiment; if the run has its own database, artifacts are kept beside it."""
        place = None if settings.uri else (folder_of(run) / "mlflow").resolve().as_uri()
        return self._client.create_experiment(settings.experiment, artifact_location=place)

    def log(self, env_steps: int, values: Mapping[str, float]) -> None:
        """Log `values` at `env_steps`."""
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        metrics = [Metric(name, value, now, env_steps) for name, value in values.items()]
        for first in range(0, len(metrics), 1000):
            self._client.log_batch(self._id, metrics=metrics[first : first + 1000])

    def close(self) -> None:
        """End the MLflow run."""
        self._client.set_terminated(self._id)


def flat(config: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Yield the settings as pairs of key and value, such as ("learner.lr", "0.001")."""
    for key, value in config.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{name}.")
        else:
            yield name, str(value)


def make_sink(settings: SinkSettings, run: Path, config: Mapping[str, Any], env_steps: int) -> Sink:
    """Return the sink of `settings`; only its own library is imported."""
    match settings.kind:
        case "tensorboard":
            return TensorBoard(settings, run, config, env_steps)
        case "wandb":
            return Wandb(settings, run, config, env_steps)
        case "mlflow":
            return Mlflow(settings, run, config, env_steps)
