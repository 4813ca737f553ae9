"""The writer of a remote: at most one process at a time.

Any store will do that can create an object conditionally.

A claim is an object `writers/<epoch, 8 digits>`; the highest epoch holds. It is created on the condition
that its name is free, so of two who want one epoch one gets it; it is renewed by writing it again, which
its owner alone does; it is lost when a higher one appears.

A claim that was not given back is taken over at once by the same run folder: who asks holds that folder's
lock, so the process before is dead, or cut off and kept out. Others take it over when it was not renewed for
LEASE_SECONDS by the store's clock. Its owner creates nothing once it could not renew it for FRESH_SECONDS,
and gives up a small request before the rest of the lease is over. A large one may outlive it: then the names
decide, which are taken once.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
import time
from pathlib import Path
from typing import Any

from storage.errors import Mistake, StorageError
from storage.ledger.lock import machine
from storage.remote.remote import TIMEOUT_SECONDS, Remote, RemoteFailed, RemoteTaken

RENEW_SECONDS = 5.0
FRESH_SECONDS = 15.0
LEASE_SECONDS = FRESH_SECONDS + 4 * TIMEOUT_SECONDS + 5.0
_FOLDER, _PROBES = "writers", "probes"


class RemoteLocked(StorageError, Mistake):
    """Another process is writing this remote."""


class Claim:
    """The right to write `remote`, which holds a copy of the run at `run`; a thread renews it until release.

    The caller holds the lock of `run`. Raise RemoteLocked, RemoteFailed.
    """

    def __init__(self, remote: Remote, run: Path) -> None:
        self._remote = remote
        self._text = {
            "run": str(run.resolve()),
            "place": _place(run),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "token": secrets.token_hex(8),  # two claims are never the same bytes
            "released": False,
        }
        self._epoch, self._renewed = self._take()
        self._lost: RemoteTaken | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="claim", daemon=True)
        self._thread.start()

    def require(self) -> None:
        """Check the claim before something is created.

        Raise RemoteTaken if the claim is lost, RemoteFailed if it could not be renewed lately.
        """
        if self._lost is not None:
            raise self._lost
        age = time.monotonic() - self._renewed
        if age > FRESH_SECONDS:
            raise RemoteFailed(
                f"{self._remote.url}: the claim to write it could not be renewed for {age:.0f} s"
            )

    def stop(self) -> None:
        """Stop renewing: the next writer gets in when the lease is over."""
        self._stopped.set()
        self._thread.join()

    def release(self) -> None:
        """Let the next writer in at once. Raise RemoteFailed."""
        self.stop()
        if self._lost is None:
            self._remote.put(_name(self._epoch), _encode(self._text | {"released": True}))

    def _take(self) -> tuple[int, float]:
        """Take a claim; return the epoch, and the time from which it holds by our clock."""
        _require_conditions(self._remote)
        while True:
            newest = _newest(self._remote)
            if newest:
                _require_free(self._remote, newest, self._text["place"])
            since, mine = time.monotonic(), newest + 1
            created = self._remote.create(_name(mine), _encode(self._text))
            if created and _newest(self._remote) == mine:
                break  # else another process was faster and removed the names below its own
        for name in self._remote.list(_FOLDER):
            if name < _name(mine):
                self._remote.delete(name)
        return mine, since

    def _keep(self) -> None:
        while not self._stopped.wait(RENEW_SECONDS):
            since = time.monotonic()
            try:
                newest = _newest(self._remote)
                if newest > self._epoch:
                    who = _who(_read(self._remote, newest))
                    self._lost = RemoteTaken(
                        f"{self._remote.url}: {who} writes it now; nothing more is uploaded from here, "
                        f"all facts are in {self._text['run']}"
                    )
                    return
                self._remote.put(_name(self._epoch), _encode(self._text))
                self._renewed = since
            except RemoteFailed:
                continue  # `require` reports it


def _require_conditions(remote: Remote) -> None:
    """Raise Mistake for a store that overwrites existing objects on creation: nothing would be safe in it."""
    probe = f"{_PROBES}/{secrets.token_hex(8)}"
    remote.create(probe, b"first")
    taken_twice = remote.create(probe, b"second")
    remote.delete(probe)
    if taken_twice:
        raise Mistake(
            f"{remote.url}: the store overwrites what was to be created only if absent, expected one that "
            "honours If-None-Match; choose another store"
        )


def _require_free(remote: Remote, epoch: int, place: Any) -> None:
    """Raise RemoteLocked unless the claim of that epoch may be taken over."""
    text = _read(remote, epoch)
    if text.get("released") is True or text.get("place") == place:
        return
    idle = _seconds_since(remote, _name(epoch))
    if idle < LEASE_SECONDS:
        raise RemoteLocked(
            f"{remote.url}: {_who(text)} writes it, last heard of {idle:.0f} s ago; choose another remote, "
            f"or, if it is dead, wait until that was {LEASE_SECONDS:.0f} s ago"
        )


def _seconds_since(remote: Remote, name: str) -> float:
    """Return the seconds since the object was written, by the store's clock, read off a new object."""
    probe = f"{_PROBES}/{secrets.token_hex(8)}"
    remote.put(probe, b"now")
    now, then = remote.modified(probe), remote.modified(name)
    remote.delete(probe)
    if now is None:
        raise RemoteFailed(f"{remote.url}: {probe} is gone that was just written")
    return LEASE_SECONDS if then is None else (now - then).total_seconds()


def _newest(remote: Remote) -> int:
    """Return the highest epoch claimed; 0 if there is none."""
    return max((int(name.rpartition("/")[2]) for name in remote.list(_FOLDER)), default=0)


def _read(remote: Remote, epoch: int) -> dict[str, Any]:
    try:
        found = json.loads(remote.get(_name(epoch)) or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _who(text: dict[str, Any]) -> str:
    return f"pid {text.get('pid')} on {text.get('host')} with run {text.get('run')}"


def _name(epoch: int) -> str:
    return f"{_FOLDER}/{epoch:08d}"


def _encode(text: dict[str, Any]) -> bytes:
    return json.dumps(text).encode()


def _place(run: Path) -> str:
    """Return a text that identifies this folder, also among folders of other machines with the same path."""
    found = run.stat()
    return f"{machine()}:{found.st_dev}:{found.st_ino}"
