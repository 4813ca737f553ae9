"""Config list `log.sinks`: experiment trackers that a run logs to, and where they keep their data."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from league.section import Section
from storage.errors import Mistake


class TensorBoardSettings(Section):
    """TensorBoard: event files."""

    kind: Literal["tensorboard"]
    folder: str | None = Field(
        default=None, description="Folder of the event files; `null`: sinks/tensorboard in the run folder"
    )


class WandbSettings(Section):
    """Weights & Biases. The account comes from its own environment variables."""

    kind: Literal["wandb"]
    project: str = Field(default="checkpoint-league", description="Project of the run")
    mode: Literal["online", "offline"] = Field(
        default="online", description="offline: data stays in the run folder until `wandb sync` uploads it"
    )


class MlflowSettings(Section):
    """MLflow tracking."""

    kind: Literal["mlflow"]
    uri: str | None = Field(
        default=None,
        description="Store: sqlite:///mlflow.db or http://...; `null`: sinks/mlflow.db in the run folder",
    )
    experiment: str = Field(default="checkpoint-league", description="Experiment of the run")


def _by_name(given: Any) -> Any:
    """Return a sink that is only a name as a mapping with its `kind`."""
    return {"kind": given} if isinstance(given, str) else given


SinkSettings = Annotated[
    TensorBoardSettings | WandbSettings | MlflowSettings,
    Field(discriminator="kind"),
    BeforeValidator(_by_name),
]

EXTRAS = ("tensorboard", "wandb", "mlflow")
"""Kinds of sinks; each is also the name of its library and of the extra that installs it."""


def require_installed(sinks: Iterable[SinkSettings]) -> None:
    """Raise Mistake unless the libraries of all `sinks` are installed."""
    for sink in sinks:
        if importlib.util.find_spec(sink.kind) is None:
            raise Mistake(
                f"log.sinks: {sink.kind} is not installed; pip install '.[{sink.kind}]', or leave it out"
            )
