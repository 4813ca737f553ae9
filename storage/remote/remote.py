"""The remote: an object store that holds a copy of a run, laid out as the run's folder is.

    config.yaml  FORMAT  manifests/<id>.json  objects/ab/<hash>.safetensors  learners/...
    ledger/00000001.<table>.parquet  ledger/00000001.json    a compacted segment, its JSON written last
    ledger/00000002.journal.<offset, 20 digits>              whole frames of a segment, from that byte on
    writers/00000001                                         the writer, see storage/remote/claims.py

Objects in `manifests` and `ledger` are created on the condition that the name is free, which every store
can do (S3, GCS, a folder), and not changed while the ledger names them: of two processes that publish under
one name, one wins and the other gets an error. A blob is there before its manifest, the manifest before the
piece of the ledger that names it, so a reader that reads the ledger first finds all that it names.

A remote of `file://` is as durable as its file system makes it: nothing is synced there.
"""

from __future__ import annotations

import functools
import os
import random
import re
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from blake3 import blake3

from storage.errors import CorruptBlob, Mistake, NotARun, StorageError
from storage.layout import CONFIG, OBJECTS, blob_path

SCHEMES = ("s3", "gs", "file")
TRIES = 5  # of one request, beyond the store's own
TIMEOUT_SECONDS = 10.0
BULK_SECONDS = 600.0  # for a request that carries more than BULK_BYTES
BULK_BYTES = PIECE_BYTES = 2**20
_METADATA_HOST = "169.254.169.254"  # queried for credentials when the environment has none
_T = TypeVar("_T")


class RemoteFailed(StorageError):
    """A request to the object store failed, after several tries."""


class RemoteMissing(RemoteFailed):
    """An object that must exist is missing."""


class RemoteTaken(StorageError):
    """Another process writes this remote now; nothing more is uploaded."""


def is_url(text: str) -> bool:
    """Return True if `text` names a remote rather than a folder."""
    return "://" in text


def check_url(url: str) -> None:
    """Raise Mistake unless `url` can name a remote."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        fits = not parts.netloc and parts.path.strip("/")
    else:
        fits = parts.scheme in SCHEMES and parts.netloc
    if not fits or parts.query or parts.fragment:
        raise Mistake(f"remote '{url}': expected s3://bucket/prefix, gs://bucket/prefix or file:///folder")


def holds_run(url: str) -> bool:
    """Return True if a run was begun there. Raise Mistake, RemoteFailed."""
    try:
        return Remote(url).get(CONFIG) is not None
    except NotARun:
        return False


def fetch_blob(url: str, blob_hash: str, write: Callable[[bytes], Any]) -> None:
    """Pass the bytes of a blob to `write`, piece by piece.

    Raise CorruptBlob, behind the last piece, if they do not hash to `blob_hash`; RemoteMissing if it is not
    there; RemoteFailed.
    """
    name = object_name(blob_hash)
    Remote(url).fetch(name, blob_hash, write)


def object_name(blob_hash: str) -> str:
    """Return the object name of the blob of that hash. Raise CorruptBlob for a text that is not a hash."""
    if not re.fullmatch("[0-9a-f]{64}", blob_hash):
        raise CorruptBlob(f"blob '{blob_hash}': expected a hash of 64 hexadecimal digits")
    return blob_path(Path(OBJECTS), blob_hash).as_posix()


class Remote:
    """The objects under a URL, by name. For any number of threads.

    A request that fails is tried again, each time after a longer random pause. None begins later than twice
    `timeout_seconds` after the first, and none takes longer than that, unless it carries more than
    BULK_BYTES. Credentials and endpoint come from the environment: AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL,
    GOOGLE_APPLICATION_CREDENTIALS, ... All methods raise RemoteFailed.
    """

    def __init__(self, url: str, *, timeout_seconds: float = TIMEOUT_SECONDS, make: bool = False) -> None:
        """Open the remote; `make` makes a folder that does not exist yet.

        Raise Mistake, NotARun for such a folder.
        """
        check_url(url)
        try:
            import obstore
        except ImportError:
            raise Mistake(f"remote {url}: the package obstore is missing; pip install '.[remote]'") from None
        self.url = url.rstrip("/")
        self.retries = 0
        self._timeout = timeout_seconds
        self._obstore = obstore
        # obstore also raises OSError (FileNotFoundError among them) and ValueError
        self._errors = (obstore.exceptions.BaseError, OSError, ValueError)
        self._final = (
            FileNotFoundError,
            obstore.exceptions.PermissionDeniedError,
            obstore.exceptions.UnauthenticatedError,
        )
        parts = urlsplit(url)
        if parts.scheme == "file" and not make and not Path(unquote(parts.path)).is_dir():
            raise NotARun(f"{url}: no such folder, expected what a run has as its storage.remote")
        try:
            self._store = _open_store(obstore, self.url, timeout_seconds, make)
        except self._errors as error:
            raise RemoteFailed(f"{self.url}: cannot be opened: {_one_line(error)}") from None

    def get(self, name: str) -> bytes | None:
        """Return the object's bytes; `None` if there is no such object."""
        try:
            return b"".join(self.pieces(name))
        except FileNotFoundError:
            return None

    def pieces(self, name: str) -> Iterator[bytes]:
        """Yield the object's bytes piece by piece, continuing behind the last piece if reading is cut short.

        Raise FileNotFoundError if there is no such object.
        """
        done, size, failures = 0, None, 0
        while size is None or done < size:
            options = {"range": {"offset": done}} if done else None
            get = functools.partial(self._obstore.get, self._store, name, options=options)  # type: ignore[arg-type]
            found = self._try(f"reading {name}", get, may_miss=True)
            size = found.meta["size"]
            try:
                for piece in found.stream(min_chunk_size=PIECE_BYTES):
                    yield bytes(piece)
                    done, failures = done + len(piece), 0
            except self._errors as error:
                self.retries, failures = self.retries + 1, failures + 1
                if failures == TRIES:
                    raise RemoteFailed(f"{self.url}: reading {name} failed: {_one_line(error)}") from None

    def fetch(self, name: str, expected_hash: str, write: Callable[[bytes], Any]) -> None:
        """Pass the object's bytes to `write`, piece by piece.

        Raise RemoteMissing, and CorruptBlob if their blake3 hash is another one.
        """
        hasher = blake3()
        try:
            for piece in self.pieces(name):
                hasher.update(piece)
                write(piece)
        except FileNotFoundError:
            raise RemoteMissing(f"{self.url}: {name} is not there, expected it from what names it") from None
        if hasher.hexdigest() != expected_hash:
            raise CorruptBlob(
                f"{self.url}/{name}: its bytes hash to {hasher.hexdigest()}, expected {expected_hash}; "
                "delete it there and upload it again from a copy"
            )

    def size(self, name: str) -> int | None:
        """Return the bytes of the object; `None` if there is no such object."""
        return self._head(name).get("size")

    def modified(self, name: str) -> datetime | None:
        """Return the time of the last write by the store's clock; `None` if there is no such object."""
        return self._head(name).get("last_modified")

    def list(self, folder: str) -> dict[str, int]:
        """Return name -> bytes of the objects in `folder` and below it."""
        listed = self._try(
            f"listing {folder}", lambda: self._obstore.list(self._store, folder, chunk_size=1000).collect()
        )
        return {meta["path"]: meta["size"] for meta in listed}

    def create(self, name: str, data: bytes) -> bool:
        """Publish `data` under a free name; return False if other bytes are there.

        A reply that was lost looks like a taken name that holds our own bytes, so that is success.
        """
        store = self._bulk if len(data) > BULK_BYTES else self._store
        for _ in range(TRIES):
            try:
                self._try(f"creating {name}", lambda: self._obstore.put(store, name, data, mode="create"))
                return True
            except self._obstore.exceptions.AlreadyExistsError:
                found = self.get(name)
            if found is not None:  # None: who held the name a moment ago gave up
                return found == data
        raise RemoteFailed(f"{self.url}: creating {name} failed: it comes and goes")

    def put(self, name: str, source: bytes | Path) -> None:
        """Write the object, replacing what was there; a file is read piece by piece."""
        store = self._bulk if isinstance(source, Path) else self._store
        self._try(f"writing {name}", lambda: self._obstore.put(store, name, source, max_concurrency=2))

    def delete(self, name: str) -> None:
        """Delete the object; do nothing if there is none."""
        try:
            self._try(f"deleting {name}", lambda: self._obstore.delete(self._store, name), may_miss=True)
        except FileNotFoundError:
            return

    @functools.cached_property
    def _bulk(self) -> Any:
        """Return the store for requests that carry much."""
        return _open_store(self._obstore, self.url, max(BULK_SECONDS, self._timeout), make=False)

    def _head(self, name: str) -> dict[str, Any]:
        """Return what the store knows of the object; {} if there is no such object."""
        try:
            return self._try(
                f"asking for {name}", lambda: self._obstore.head(self._store, name), may_miss=True
            )
        except FileNotFoundError:
            return {}

    def _try(self, what: str, call: Callable[[], _T], *, may_miss: bool = False) -> _T:
        """Call `call`, again unless its failure is an answer; FileNotFoundError is one if it `may_miss`."""
        deadline = time.monotonic() + 2 * self._timeout
        for attempt in range(1, TRIES + 1):
            try:
                return call()
            except self._obstore.exceptions.AlreadyExistsError:
                raise
            except self._errors as error:
                if may_miss and isinstance(error, FileNotFoundError):
                    raise
                pause = random.uniform(0.0, 0.1 * 2**attempt)
                last = attempt == TRIES or time.monotonic() + pause > deadline
                if last or isinstance(error, self._final):
                    raise RemoteFailed(f"{self.url}: {what} failed: {_one_line(error)}") from None
            self.retries += 1
            time.sleep(pause)
        raise AssertionError("the last try returns or raises")


def _open_store(obstore: Any, url: str, timeout_seconds: float, make: bool) -> Any:
    if url.startswith("file:"):
        return obstore.store.from_url(url, mkdir=make)
    timeout = timedelta(seconds=timeout_seconds)
    endpoint = os.environ.get("AWS_ENDPOINT_URL", os.environ.get("AWS_ENDPOINT", ""))
    plain = endpoint.startswith("http://") or os.environ.get("AWS_ALLOW_HTTP", "").lower() == "true"
    return obstore.store.from_url(
        url,
        client_options={"timeout": timeout, "allow_http": plain},
        retry_config={"max_retries": 2, "retry_timeout": timeout},
    )


def _one_line(error: Exception) -> str:
    """Return obstore's message in one line; the same failure always gives the same text."""
    text = " ".join(str(error).split("\n\nDebug source")[0].split())
    text = re.sub(r" in [\d.]+[nµm]?s\b|, after \d+ retries, max_retries: \d+, retry_timeout: \w+", "", text)
    answer = re.search(r"<Code>(\w+)</Code>", text)
    if answer:
        text = f"{text.partition('<')[0].rstrip(': ')} ({answer[1]})"
    if _METADATA_HOST in text:
        text += "; no credentials were found: set AWS_ACCESS_KEY_ID or GOOGLE_APPLICATION_CREDENTIALS, ..."
    return text
