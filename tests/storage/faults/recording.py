"""A seeded stretch of writing on a disk that remembers, with deaths of the process and failing calls."""

from __future__ import annotations

import random

from storage.archive import Archive
from storage.disk import using
from storage.errors import StorageError
from tests.storage.faults.faulty_disk import DEATHS, FAILURES, Fault, FaultyDisk, Killed
from tests.storage.faults.power import PowerDisk
from tests.storage.faults.workload import any_kind, create, write

FAULT_SHARE = 0.12  # of the steps


class Recording:
    """`steps` items written to a run at `disk.root / "run"`; calls and promises are in `disk.calls`."""

    def __init__(self, disk: PowerDisk, seed: int, steps: int) -> None:
        self.run = disk.root / "run"
        self._disk = disk
        self._faulty = FaultyDisk(disk)
        self._rng = random.Random(seed)
        self._archive: Archive | None = None
        with using(self._faulty):
            for number in range(1, steps + 1):
                self._step(number)
            self._close()

    def _step(self, number: int) -> None:
        if self._rng.random() < FAULT_SHARE:
            effect = self._rng.choice((*DEATHS, *FAILURES))
            self._faulty.plan(Fault(self._rng.randrange(12), effect))
        try:
            if self._archive is None:
                self._archive = (
                    Archive.open(self.run) if self.run.exists() else create(self.run, self._disk.note)
                )
            write(self._archive, any_kind(self._rng), number, self._disk.note)
        except (StorageError, Killed):
            self._close()
        if self._rng.random() < 0.04:
            self._close()

    def _close(self) -> None:
        """Leave the run, dead or alive."""
        try:
            if self._archive is not None:
                self._archive.close()
        except (StorageError, Killed):
            pass  # what is lost by that, if anything, is what is looked for
        self._archive = None
        self._faulty.revive()
