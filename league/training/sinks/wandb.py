"""Sink of Weights & Biases, online or offline."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from league.config.sinks import WandbSettings
from league.training.sinks.base import folder_of, remember, remembered


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
