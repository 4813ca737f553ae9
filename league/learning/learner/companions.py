"""Companions: networks beside the one that learns. They have no gradients and follow it by fixed rules.

    target      a copy after every `target_updates` updates (IMPACT, arXiv 1912.00167)
    reference   the weights that the player began with, or was last reset to
    magnet      a copy after every `magnet.every` updates, or a moving average: the player is held to it
    teacher     a magnet that never changes, whatever happens to the player
    average     a moving average of the weights, which snapshots may store

A copy keeps the statistics of observations that it was copied with; averages have the live ones. Networks
with memory begin a sequence that was cut from an episode with the live network's memory, a teacher with an
empty one.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from league.learning.learner.forward import Forward
from league.learning.settings import CopyMagnet, EmaMagnet, InitialMagnet, LearnerSettings, SnapshotMagnet
from league.models.networks.networks import Network
from storage.errors import Mistake

AGED = ("magnet", "average")  # parts that count the updates since they began
Parts = Mapping[str, Mapping[str, Tensor]]


def wanted(settings: LearnerSettings) -> list[str]:
    """Return the names of the companions that the settings ask for."""
    magnet = settings.magnet
    asked = {
        "target": settings.target_updates > 0,
        "reference": settings.needs_reference,
        "magnet": isinstance(magnet, CopyMagnet | EmaMagnet),
        "teacher": isinstance(magnet, SnapshotMagnet),
        "average": settings.ema is not None,
    }
    return [part for part, is_asked in asked.items() if is_asked]


class Companions:
    """Companions that the settings of one learner ask for, of its `live` network."""

    def __init__(
        self,
        live: Network,
        settings: LearnerSettings,
        player: str = "",
        teacher: Mapping[str, Tensor] | None = None,
    ) -> None:
        """Let all begin as `live`, but for the magnet of kind `snapshot`, which is `teacher`."""
        magnet = settings.magnet
        self._live = live
        self._settings = settings
        self._networks: dict[str, Forward] = {}
        for part in wanted(settings):
            network = copy.deepcopy(live).requires_grad_(False)
            # a teacher's memory is of another kind than the live network's
            self._networks[part] = Forward(
                network, settings.precision == "bfloat16", forgets=part == "teacher"
            )
        self._ages = {part: 0 for part in AGED if part in self._networks}
        self._decays = {"magnet": magnet.decay} if isinstance(magnet, EmaMagnet) else {}
        if settings.ema is not None:
            self._decays["average"] = settings.ema.decay
        if "teacher" in self._networks:
            if teacher is None:
                raise Mistake(f"learner.magnet of {player}: its kind is snapshot, but no weights were given")
            load_weights(self._networks["teacher"].network, teacher)

    @property
    def target(self) -> Forward | None:
        """The target network."""
        return self._networks.get("target")

    @property
    def reference(self) -> Forward | None:
        """The network that terms of the loss compare with."""
        return self._networks.get("reference")

    @property
    def magnet(self) -> Forward | None:
        """The network that the player is held to."""
        if isinstance(self._settings.magnet, InitialMagnet):
            return self.reference
        return self._networks.get("teacher", self._networks.get("magnet"))

    def after_update(self, updates: int) -> None:
        """Follow the live network, after it was changed by the update of that number, counted from 1."""
        settings, magnet = self._settings, self._settings.magnet
        if self.target is not None and updates % settings.target_updates == 0:
            load_weights(self.target.network, self._live.state_dict())
        for part in self._ages:
            self._ages[part] += 1
        if isinstance(magnet, CopyMagnet) and self._ages["magnet"] % magnet.every == 0:
            load_weights(self._networks["magnet"].network, self._live.state_dict())
        for part, decay in self._decays.items():
            self._average(part, decay)
        self.follow_buffers()

    @torch.no_grad()
    def _average(self, part: str, decay: float) -> None:
        """Let `part` go on as the average of all weights since it began, older ones counting less.

        The rate makes the weights of all updates sum to 1 from the first on, so that what the player began
        with does not count: the correction of Adam's averages (arXiv 1412.6980, section 3).
        """
        rate = (1.0 - decay) / (1.0 - decay ** self._ages[part])
        for own, live in zip(self._networks[part].network.parameters(), self._live.parameters(), strict=True):
            own.lerp_(live, rate)

    @torch.no_grad()
    def follow_buffers(self) -> None:
        """Give averages the live network's buffers, as they are now."""
        for part in self._decays:
            for own, live in zip(self._networks[part].network.buffers(), self._live.buffers(), strict=True):
                own.copy_(live)

    def start(self, weights: Mapping[str, Tensor], parts: Parts) -> None:
        """Begin as saved in `parts`, copies of what `live` returned.

        Parts that are missing begin as `weights`; a teacher that is missing stays as it is.
        """
        for part, forward in self._networks.items():
            saved = parts.get(part) or (None if part == "teacher" else weights)
            if saved is not None:
                load_weights(forward.network, saved)
        for part in self._ages:
            age = parts.get("ages", {}).get(part)
            self._ages[part] = int(age) if age is not None and parts.get(part) else 0

    def live(self) -> dict[str, dict[str, Tensor]]:
        """Return the tensors of all parts, not copied, and "ages": the updates that each has followed."""
        found = {part: forward.network.state_dict() for part, forward in self._networks.items()}
        return found | {"ages": {part: torch.tensor(age) for part, age in self._ages.items()}}


@torch.no_grad()
def load_weights(network: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy `weights` into the network."""
    for name, tensor in network.state_dict().items():
        tensor.copy_(weights[name])
