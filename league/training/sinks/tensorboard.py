"""Sink of TensorBoard event files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from league.config.sinks import TensorBoardSettings
from league.training.sinks.base import folder_of


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
