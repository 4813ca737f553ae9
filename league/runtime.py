"""Start and stop Ray; what this machine has. Ray is imported only by runs that have runners."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
from collections.abc import Iterator

import psutil
from pydantic import BaseModel, ConfigDict, Field

from storage.errors import Mistake

OBJECT_STORE_BYTES = 2**30  # experience in flight is tens of megabytes; Ray's own default takes 30 % of RAM


class ResourceSettings(BaseModel):
    """What the run may use."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    gpus: int = Field(default=0, ge=0, description="GPUs for learners")
    threads: int = Field(
        default=1, ge=1, description="Torch threads of each process; more than 1 spins on busy cores"
    )
    address: str | None = Field(
        default=None, description="A running Ray cluster to join; none: a cluster of this machine alone"
    )


def available_cpus() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_resources(settings: ResourceSettings, runners: int) -> None:
    """Raise Mistake for what this machine cannot give. A cluster that is joined answers for itself."""
    if runners and importlib.util.find_spec("ray") is None:
        raise Mistake(f"runners is {runners}, but ray is not installed; install ray, or set runners to 0")
    if settings.gpus and settings.address is None:
        import torch

        found = torch.cuda.device_count()
        if found < settings.gpus:
            raise Mistake(
                f"resources.gpus is {settings.gpus}, but torch sees {found} here, expected no more "
                "than that; lower it, or join a cluster that has them (resources.address)"
            )


@contextlib.contextmanager
def ray_session(settings: ResourceSettings, num_actors: int) -> Iterator[None]:
    """A Ray session with room for `num_actors` one-CPU actors, shut down at the end.

    On a cluster of our own the CPUs are counted as actors want them: a runner and a learner may
    well share a core. A cluster that is joined keeps its own count.
    """
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # its warning of a coming default
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # a failure reaches the user once, through whoever asks for the result; Ray would print the others' too
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    import ray

    if settings.address is not None:
        ray.init(address=settings.address, logging_level=logging.ERROR, log_to_driver=False)
    else:
        ray.init(
            num_cpus=max(available_cpus(), num_actors),
            num_gpus=settings.gpus,
            include_dashboard=False,
            object_store_memory=min(OBJECT_STORE_BYTES, psutil.virtual_memory().available // 4),
            logging_level=logging.ERROR,
            log_to_driver=False,
        )
    try:
        yield
    finally:
        ray.shutdown()
