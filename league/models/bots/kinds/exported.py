"""An exported snapshot or mixture as a bot. Nothing in its folder is executed."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import numpy.typing as npt

from league.envs.spaces import ActionSpec, ObservationSpec
from league.models.actor import Actor, Chosen, Look
from league.models.bots.bot import UnknownBot
from league.models.bots.settings import ExportSettings
from league.models.policies.mixture import MixtureActor, MixtureMember
from league.models.policies.policy import Policy
from league.models.spec import PolicySpec
from storage.arrays import Floats32
from storage.errors import Mistake, StorageError, WeightsMismatch
from storage.upkeep.exported_mixtures import is_mixture, read_mixture
from storage.upkeep.exports import read_export


class Greedy(Actor):
    """Actor that always takes the likeliest action of another, at any temperature."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self.memory_size = actor.memory_size
        self.wants_reward = actor.wants_reward

    def decide(self, look: Look, rng: np.random.Generator, temperature: float = 1.0) -> Chosen:
        return self._actor.decide(look, rng, 0.0)

    def see(
        self, observation: npt.NDArray, memory: Floats32 | None = None, reward: Floats32 | None = None
    ) -> npt.NDArray:
        return self._actor.see(observation, memory, reward)


def exported_bot(
    name: str, settings: ExportSettings, observation: ObservationSpec, action: ActionSpec
) -> Actor:
    """Return the policy or mixture in `settings.folder`, with verified weights.

    Raise UnknownBot if there is none, if it was trained for other spaces, or if its network is custom code
    that `league.import_paths.trust` has not admitted.
    """
    try:
        actor = load_export(Path(settings.folder))
        for policy in (
            [member.actor for member in actor.members] if isinstance(actor, MixtureActor) else [actor]
        ):
            assert isinstance(policy, Policy)
            if not policy.spec.observation.fits(observation):
                _check_spaces(settings.folder, "observation", policy.spec.observation, observation)
            _check_spaces(settings.folder, "action", policy.spec.action, action)
    except (StorageError, Mistake) as error:
        raise UnknownBot(f"bot '{name}': {error}") from error
    return Greedy(actor) if settings.mode == "greedy" else actor


def load_export(folder: Path) -> Policy | MixtureActor:
    """Return the policy in an exported folder, or the mixture, with verified weights.

    Raise NotAnExport, CorruptBlob, WeightsMismatch.
    """
    if not is_mixture(folder):
        return _policy(folder)
    fields, members = read_mixture(folder)
    return MixtureActor(
        [MixtureMember(_policy(one.folder), one.weight, one.temperature) for one in members],
        str(fields.get("name")),
    )


def _policy(folder: Path) -> Policy:
    manifest, tensors = read_export(folder)
    return Policy(PolicySpec.from_json(manifest.get("spec") or {}), tensors, manifest["snapshot_id"])


def _check_spaces(
    folder: str, part: str, found: ObservationSpec | ActionSpec, wanted: ObservationSpec | ActionSpec
) -> None:
    """Raise WeightsMismatch, naming the first field that differs."""
    theirs = asdict(found)
    for field, ours in asdict(wanted).items():
        if theirs[field] != ours:
            raise WeightsMismatch(
                f"{folder}: {part} {field} is {theirs[field]}, expected {ours}; is it of another game?"
            )
