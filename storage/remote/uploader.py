"""The uploader: a thread of the training process that keeps a remote level with its run.

Every few seconds it sends what is missing there. Nothing waits for it and nothing is handed to it, so a
remote that is slow or away costs training neither time nor memory.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
from dataclasses import dataclass

from storage.archive import Archive
from storage.errors import RunTaken, StorageError
from storage.remote.claims import Claim
from storage.remote.remote import Remote, RemoteFailed, RemoteTaken
from storage.remote.shipper import Shipper, require_own

MAX_PAUSE_SECONDS = 30.0  # between two looks at a remote that fails
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RemoteStatus:
    """The state of the remote relative to its run."""

    behind_snapshots: int
    behind_bytes: int  # of the ledger, at the last look
    uploaded_bytes: int  # by this process
    retries: int
    last_error: str  # empty when the last look went well
    last_success: float | None  # seconds since the epoch


class Uploader:
    """A thread that sends what the remote at `url` lacks of the run of `archive`, at most every `seconds`.

    Raise Mistake for a remote that holds another run, RemoteLocked if another process writes it,
    RemoteFailed.
    """

    def __init__(
        self, archive: Archive, url: str, seconds: float = 5.0, remote: Remote | None = None
    ) -> None:
        self._archive = archive
        self._remote = remote or Remote(url, make=True)
        self._seconds = seconds
        self._behind_bytes = 0
        self._last_error = ""
        self._last_success: float | None = None
        self._lost: StorageError | None = None
        self._ending, self._given_up = threading.Event(), threading.Event()
        require_own(self._remote, archive.run)
        self._claim = Claim(self._remote, archive.run)
        self._shipper = Shipper(archive.run, self._remote, self._claim)
        try:
            snapshots = [snapshot.snapshot_id for snapshot in archive.snapshots()]
            self._shipper.begin(archive.ledger_extent(), snapshots)
        except BaseException:
            with contextlib.suppress(RemoteFailed):  # else the lease ends by itself
                self._claim.release()
            raise
        self._thread = threading.Thread(target=self._work, name="uploader", daemon=True)
        self._thread.start()

    def status(self) -> RemoteStatus:
        """Return the state as it is known now; for the thread that owns the archive."""
        return RemoteStatus(
            behind_snapshots=len(self._archive.snapshots()) - self._shipper.num_snapshots(),
            behind_bytes=self._behind_bytes,
            uploaded_bytes=self._shipper.sent_bytes,
            retries=self._remote.retries,
            last_error=self._last_error,
            last_success=self._last_success,
        )

    def check(self) -> None:
        """Raise what ended the uploading: RemoteTaken or RunTaken if another process writes now."""
        if self._lost is not None:
            raise self._lost

    def close(self, timeout_seconds: float = 60.0) -> None:
        """Send what is missing, then let the next writer in; call it before the archive is closed.

        Raise RemoteFailed if that takes too long, RemoteTaken.
        """
        self._ending.set()
        self._thread.join(timeout_seconds)
        if self._thread.is_alive():
            self._given_up.set()
            self._claim.stop()
            status = self.status()
            raise RemoteFailed(
                f"{self._remote.url}: {status.behind_snapshots} snapshots and {status.behind_bytes} bytes of "
                f"the ledger are not there yet ({self._last_error or 'it is slow'}); all facts are in "
                f"{self._archive.run}, and going on with the run uploads the rest"
            )
        self.check()

    def _work(self) -> None:
        failures = 0
        while not self._given_up.is_set():
            ending = self._ending.is_set()
            try:
                self._claim.require()
                self._ship()
                if ending:
                    self._claim.release()
                    return
                failures, pause = 0, self._seconds
            except (RemoteTaken, RunTaken) as error:
                self._lost = error
                self._claim.stop()
                return
            except (StorageError, OSError) as error:
                if str(error) != self._last_error:
                    _log.warning("%s", error)
                self._last_error = str(error)
                failures += 1
                pause = random.uniform(0.5, 1.0) * min(0.5 * 2**failures, MAX_PAUSE_SECONDS)
            except BaseException as error:  # a fault of ours: it ends the run, and shows its traceback
                self._lost = RemoteFailed(
                    f"{self._remote.url}: uploading ended: {error!r}; all facts are in {self._archive.run}"
                )
                raise
            (self._given_up if ending else self._ending).wait(pause)

    def _ship(self) -> None:
        extent = self._archive.ledger_extent()
        try:
            self._behind_bytes = self._shipper.missing_bytes(extent)
            self._shipper.ship(extent)
        finally:
            self._behind_bytes = self._shipper.missing_bytes(extent)
        self._last_error, self._last_success = "", time.time()
