"""The remote of a run in training: what the session needs of an uploader, and how long one runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Protocol

from league.config.sections import StorageSettings
from storage.archive import Archive
from storage.errors import StorageError


class UploadStatus(Protocol):
    """How far the remote is behind its run."""

    @property
    def behind_snapshots(self) -> int: ...
    @property
    def behind_bytes(self) -> int: ...
    @property
    def retries(self) -> int: ...
    @property
    def last_error(self) -> str: ...


class Upload(Protocol):
    """An upload under way: `storage.remote.uploader.Uploader`, which needs the extra `remote`."""

    def check(self) -> None:
        """Raise what ended the upload, if anything did."""

    def status(self) -> UploadStatus:
        """Return how far the remote is behind."""


@contextlib.contextmanager
def uploading(settings: StorageSettings, archive: Archive) -> Iterator[Upload | None]:
    """Keep the remote level with the run, if there is one; wait at the end until it is."""
    if settings.remote is None:
        yield None
        return
    from storage.remote.uploader import Uploader  # needs the extra `remote`

    uploader = Uploader(archive, settings.remote, settings.upload_seconds)
    try:
        yield uploader
    except BaseException:
        with contextlib.suppress(StorageError):  # the error that ended the run is the one to show
            uploader.close(timeout_seconds=10.0)
        raise
    uploader.close()
