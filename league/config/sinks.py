"""The config's list `log.sinks`: which tools are told how a run goes, and where they keep it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from league.section import Section
from storage.errors import Mistake


class TensorBoardSettings(Section):
    """Event files for TensorBoard."""

    kind: Literal["tensorboard"]
    folder: str | None = Field(default=None, description="Default: sinks/tensorboard in the run folder")


class WandbSettings(Section):
    """A run of Weights & Biases. Who it belongs to is said by its own environment variables."""

    kind: Literal["wandb"]
    project: str = Field(default="checkpoint-league", description="The project it appears in")
    mode: Literal["online", "offline"] = Field(
        default="online", description="offline: kept in the run folder until `wandb sync` brings it up"
    )


class MlflowSettings(Section):
    """A run of MLflow's tracking."""

    kind: Literal["mlflow"]
    uri: str | None = Field(
        default=None,
        description="sqlite:///mlflow.db, http://...; default: sinks/mlflow.db in the run folder",
    )
    experiment: str = Field(default="checkpoint-league", description="The experiment it appears in")


def _by_name(given: Any) -> Any:
    """A sink without settings may be just its name."""
    return {"kind": given} if isinstance(given, str) else given


SinkSettings = Annotated[
    TensorBoardSettings | WandbSettings | MlflowSettings,
    Field(discriminator="kind"),
    BeforeValidator(_by_name),
]

EXTRAS = ("tensorboard", "wandb", "mlflow")
"""Kinds of sinks; each is also the name of its library, and of the extra that installs it."""


def require_installed(sinks: Iterable[SinkSettings]) -> None:
    """Raises Mistake unless the libraries of all `sinks` are there: before anything is trained."""
    for sink in sinks:
        if importlib.util.find_spec(sink.kind) is None:
            raise Mistake(
                f"log.sinks: {sink.kind} is not installed; pip install 'checkpoint-league[{sink.kind}]', "
                "or leave it out"
            )
