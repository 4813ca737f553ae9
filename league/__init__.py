"""Train and evaluate leagues of game-playing policies, with immutable snapshots at the centre.

run = league.train("configs/connect_four.yaml")      train; returns the run folder
league.play_tournament("configs/tournament.yaml")    play one; returns its run folder
policy = league.load_policy(run, "main-0")           an object that acts on observations
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from league.models.policies.policy import Actor

__all__ = ["load_policy", "play_tournament", "train"]


def train(
    config: str | Path | Mapping[str, Any],
    run: str | Path | None = None,
    *,
    overrides: Sequence[str] = (),
    resume: bool = False,
) -> Path:
    """Train the league of `config` (a YAML file or a mapping) and return its run folder.

    `run` defaults to runs/<name>. Raises league.config.ConfigError and storage.errors.StorageError.
    """
    from league.config.loading import load
    from league.training.loop import train as train_settings

    settings = load(config, overrides)
    return train_settings(settings, Path(run or Path("runs") / settings.name), resume=resume)


def play_tournament(
    config: str | Path | Mapping[str, Any],
    out: str | Path | None = None,
    *,
    overrides: Sequence[str] = (),
    resume: bool = False,
) -> Path:
    """Play the tournament of `config` (a YAML file or a mapping) and return its run folder, for
    `analysis.verdict`.

    `out` defaults to runs/<name>. Raises league.config.file.ConfigError, storage.errors.Mistake for what
    cannot be played, and league.tournament.loop.Interrupted.
    """
    from league.tournament.play import play
    from league.tournament.settings import load

    settings = load(config, overrides)
    return play(settings, Path(out or Path("runs") / settings.name), resume=resume)


def load_policy(run: str | Path, competitor: str) -> Actor:
    """The policy of a snapshot (id or unique prefix), player (newest snapshot) or bot of a run, which is
    a folder or the address of its remote.

    Its `act(observation, mask, rng, greedy=False)` takes [n, *shape] and [n, num_actions], and a
    `temperature` by that name.
    """
    from league.competitors.names import load_actor
    from storage.remote.mirror import run_folder

    return load_actor(run_folder(run), competitor)
