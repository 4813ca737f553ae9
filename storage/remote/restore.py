"""Restoring a remote run as a folder here that can be continued: verified, whole or not at all."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from storage.disk import Progress, make_folder, whole, whole_folder, write_whole
from storage.errors import CorruptBlob
from storage.layout import LEARNERS, LEDGER, MANIFESTS, OBJECTS, require_new
from storage.ledger.ledger import read_tables
from storage.remote.mirror import LOOKS, bring_facts, fetch_into, fetch_manifest, require
from storage.remote.remote import Remote, RemoteMissing

_HEAD = re.compile(rf"{LEARNERS}/[^/]+\.json")
_TENSORS = re.compile(rf"{LEARNERS}/[^/]+\.safetensors")
_PARALLEL = 8


def restore(url: str, run: str | Path, progress: Progress | None = None) -> None:
    """Make the run folder `run`, absent or empty until now, from what the remote at `url` holds.

    It appears whole and verified, or not at all. Raise RunExists, Mistake where no folder can be, NotARun if
    no run is there, CorruptLedger, CorruptManifest, CorruptBlob, RemoteFailed.
    """
    run, remote = Path(run), Remote(url)
    require_new(run)
    with whole_folder(run) as fresh:
        for folder in (LEDGER, OBJECTS, MANIFESTS, LEARNERS):
            make_folder(fresh / folder)
        bring_facts(remote, fresh, progress)
        _bring_snapshots(remote, fresh, progress)
        for name in filter(_HEAD.fullmatch, remote.list(LEARNERS)):
            _bring_learner(remote, fresh, name)


def _bring_snapshots(remote: Remote, run: Path, progress: Progress | None) -> None:
    """Fetch the manifests and blobs of all snapshots that the ledger in `run` names."""
    rows = read_tables(run / LEDGER, ("snapshots",)).get("snapshots")
    if rows is None:
        return
    names, hashes = rows["snapshot_id"].to_pylist(), rows["blob_hash"].unique().to_pylist()
    wanted = [*((fetch_manifest, name) for name in names), *((fetch_into, blob) for blob in hashes)]
    with ThreadPoolExecutor(_PARALLEL) as pool:
        brought = [pool.submit(fetch, remote, run, name) for fetch, name in wanted]
        try:
            for done, future in enumerate(as_completed(brought), start=1):
                future.result()
                if progress is not None:
                    progress("fetching snapshots", done, len(wanted))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _bring_learner(remote: Remote, run: Path, name: str) -> None:
    """Fetch the state that the head `name` names, then the head."""
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
