"""A run that lies in a remote, as a folder here that goes on: everything, verified, whole or not at all."""

from __future__ import annotations

import json
import re
import secrets
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from storage.disk import disk, make_folder, remove_tree, sync_folder, whole, write_whole
from storage.errors import CorruptBlob, StorageError
from storage.layout import LEARNERS, LEDGER, MANIFESTS, OBJECTS, require_new
from storage.mirror import LOOKS, bring_facts, fetch_into, require
from storage.progress import Progress
from storage.remote import Remote, RemoteMissing

_HEAD = re.compile(rf"{LEARNERS}/[^/]+\.json")
_TENSORS = re.compile(rf"{LEARNERS}/[^/]+\.safetensors")
_PARALLEL = 8


def restore(url: str, run: str | Path, progress: Progress | None = None) -> None:
    """Make the run folder `run`, absent or empty until now, of what the remote at `url` holds. It appears
    whole and verified, or not at all.

    Raises RunExists, NotARun when no run is there, CorruptLedger, CorruptBlob, RemoteFailed.
    """
    run, remote = Path(run), Remote(url)
    require_new(run)
    make_folder(run.parent)
    fresh = run.with_name(f".{run.name}.{secrets.token_hex(4)}.creating")
    try:
        for folder in (LEDGER, OBJECTS, MANIFESTS, LEARNERS):
            make_folder(fresh / folder)
        snapshots = bring_facts(remote, fresh, progress)
        _bring_blobs(remote, fresh, snapshots, progress)
        _bring_learners(remote, fresh)
        try:
            disk().rename(fresh, run)
        except OSError as error:
            raise StorageError(f"{run} cannot be made: {error.strerror}; choose another folder") from None
    except BaseException:
        remove_tree(fresh)
        raise
    sync_folder(run.parent)


def _bring_blobs(
    remote: Remote, run: Path, snapshots: list[dict[str, Any]], progress: Progress | None
) -> None:
    wanted = sorted({row["blob_hash"] for row in snapshots})
    with ThreadPoolExecutor(_PARALLEL) as pool:
        brought = [pool.submit(fetch_into, remote, run, blob_hash) for blob_hash in wanted]
        try:
            for done, future in enumerate(as_completed(brought), start=1):
                future.result()
                if progress is not None:
                    progress("fetching snapshots", done, len(wanted))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _bring_learners(remote: Remote, run: Path) -> None:
    for name in remote.list(LEARNERS):
        if _HEAD.fullmatch(name):
            _bring_learner(remote, run, name)


def _bring_learner(remote: Remote, run: Path, name: str) -> None:
    """The state that the head `name` names, then the head."""
    for look in range(1, LOOKS + 1):
        head = require(remote, name)
        try:
            saved = json.loads(head)
            tensors, expected = f"{LEARNERS}/{saved['file']}", saved["hash"]
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptBlob(f"{remote.url}/{name}: no head of a learner's state: {error}") from None
        if not _TENSORS.fullmatch(tensors):
            raise CorruptBlob(
                f"{remote.url}/{name}: names the file '{saved['file']}', expected one beside it"
            )
        try:
            with whole(run / tensors) as file:
                remote.fetch(tensors, expected, file.write)
        except RemoteMissing:  # replaced by a newer state since the head was read
            if look == LOOKS:
                raise
            continue
        write_whole(run / name, [head])
        return
