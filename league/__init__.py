"""Train and evaluate leagues of game-playing policies, with immutable snapshots at the centre.

run = league.train("configs/connect_four.yaml")      trains a league and returns its run folder
league.branch(run, "runs/other", as_of=2_000_000)    makes a run that goes on from a past moment of another
league.play_tournament("configs/tournament.yaml")    plays a tournament and returns its run folder
policy = league.load_policy(run, "main-0")           loads a policy that acts on observations
policy = league.load_export("folder")                the same of an exported folder

For programs that learn without a config or a game: `league.policy_spec`, `league.Learner`,
`league.LearnerGroup` and `league.LearnerSettings` (`league/learning/groups/learner_group.py`).
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # `import league` loads nothing of it
    from league.learning.groups.learner_group import LearnerGroup
    from league.learning.learner.learner import Learner
    from league.learning.settings import LearnerSettings
    from league.models.actor import Actor
    from league.models.spec import PolicySpec
    from storage.tables.moments import Moment

__all__ = [
    "Learner",
    "LearnerGroup",
    "LearnerSettings",
    "branch",
    "load_export",
    "load_policy",
    "play_tournament",
    "policy_spec",
    "train",
]

_HOMES = {
    "Learner": "league.learning.learner.learner",
    "LearnerGroup": "league.learning.groups.learner_group",
    "LearnerSettings": "league.learning.settings",
}


def __getattr__(name: str) -> Any:
    """Return the class of that name, loaded when it is first used. Raise AttributeError if there is none."""
    if name not in _HOMES:
        raise AttributeError(f"module 'league' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)


def train(
    config: str | Path | Mapping[str, Any],
    run: str | Path | None = None,
    *,
    overrides: Sequence[str] = (),
    resume: bool = False,
) -> Path:
    """Train the league of `config` (a YAML file or a mapping) and return its run folder.

    `run` defaults to runs/<name>. Raise league.config.file.ConfigError and storage.errors.StorageError.
    """
    from league.config.loading import load
    from league.training.loop import train as train_settings

    settings = load(config, overrides)
    return train_settings(settings, Path(run or Path("runs") / settings.name), resume=resume)


def branch(
    run: str | Path,
    new: str | Path,
    *,
    as_of: Moment | None = None,
    overrides: Sequence[str] = (),
) -> Path:
    """Make the run folder `new`, which goes on from `run` as it was at a moment, and return it.

    `as_of`: env steps of the league, or a time (a datetime or ISO text); `None`: now. `run` is only read.
    `league.train(config, new, resume=True)` continues the new run. Raise
    league.config.file.ConfigError, storage.errors.Mistake and StorageError; nothing is left behind then.
    """
    from league.training.resume import branch as make
    from storage import run_folder

    make(run_folder(run), Path(new), as_of, overrides)
    return Path(new)


def play_tournament(
    config: str | Path | Mapping[str, Any],
    out: str | Path | None = None,
    *,
    overrides: Sequence[str] = (),
    resume: bool = False,
) -> Path:
    """Play the tournament of `config` (a YAML file or a mapping) and return its run folder.

    `analysis.verdict` judges that run. `out` defaults to runs/<name>. With `resume` the tournament that is
    there goes on: what it played counts, and more pairs, competitors and other gates may be asked for. Raise
    league.config.file.ConfigError, storage.errors.Mistake if it cannot be played,
    league.tournament.loop.Interrupted after Ctrl-C.
    """
    from league.tournament.play import play
    from league.tournament.settings import load

    settings = load(config, overrides)
    return play(settings, Path(out or Path("runs") / settings.name), resume=resume)


def load_policy(run: str | Path, competitor: str) -> Actor:
    """Return the policy of a snapshot (id or unique prefix), a player (its newest snapshot) or a bot.

    `run` is a run folder or the address of its remote. The policy's `act(observation, mask, rng,
    greedy=False)` takes observations [n, *shape] and masks [n, num_actions]; `temperature=` is optional.
    A mixture ("main-0:average") draws a member for each row of `memory=` [n, memory_size] that is all zeros.
    """
    from league.competitors.names import load_actor
    from storage import run_folder

    return load_actor(run_folder(run), competitor)


def load_export(folder: str | Path) -> Actor:
    """Return the policy or mixture in a folder made by `league snapshots RUN export`, to `act` as above.

    Raise storage.upkeep.exports.NotAnExport, storage.errors.StorageError.
    """
    from league.models.bots.kinds.exported import load_export as load

    return load(Path(folder))


def policy_spec(observation_space: Any, action_space: Any, **settings: Any) -> PolicySpec:
    """Return a policy without its weights, for spaces of gymnasium; `settings` as in the section `policy`.

    Code of your own that it names (network, connectors) may be imported from then on. Raise
    storage.errors.Mistake for settings or spaces that do not fit.
    """
    from pydantic import ValidationError

    from league.mistakes import explain
    from league.models.networks.networks import check_network
    from league.models.spec import PolicySettings, PolicySpec
    from storage.errors import Mistake

    try:
        chosen = PolicySettings.model_validate(settings)
        spec = PolicySpec.for_spaces(observation_space, action_space, chosen)
    except ValidationError as error:
        raise Mistake(f"policy: {explain(error, PolicySettings)}") from None
    except ValueError as error:
        raise Mistake(f"policy: {error}") from None
    check_network(spec)
    return spec
