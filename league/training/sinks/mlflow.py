"""Sink of MLflow tracking, in a database file or on a server."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from league.config.sinks import MlflowSettings
from league.training.sinks.base import folder_of, remember, remembered

_LONGEST = 500  # characters of a parameter's value that every server of MLflow takes
_AT_ONCE = 100  # parameters in one request


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
