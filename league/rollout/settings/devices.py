"""The GPUs on which runners play, as settings give them."""

from __future__ import annotations

from league.runtime import ResourceSettings
from storage.errors import Mistake


def check_play_of_runners(device: str, resources: ResourceSettings, runners: int) -> None:
    """Raise Mistake if these `runners` are to play on GPUs and ask Ray for none.

    Whether a runner finds the device is checked where it runs.
    """
    if device == "cuda" and not resources.gpus_per_runner:
        raise Mistake(
            f"rollout.device is cuda with runners {runners}, but resources.gpus_per_runner is 0, so that Ray "
            "would give runners no GPU; set it, to 0.25 if four are to share a card, or rollout.device to cpu"
        )
