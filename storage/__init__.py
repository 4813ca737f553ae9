"""The memory of a run.

Readers need four functions, which take a run folder or the address of its remote:

storage.connect(run)          a DuckDB connection with the run's tables, always fresh, also while it trains
storage.query(run, sql)       one question, one Arrow table; reaches no file and no setting
storage.open_reader(run)      competitors, settings, manifests and paths of weights
storage.run_folder(run)       the folder itself; of an address, the folder of its mirror here

Addresses are resolved here. The modules that read a folder never import `storage.remote`. DuckDB and tables
are loaded when they are first used: a process that only plays imports `storage.records` and needs neither.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from storage.disk import Progress
from storage.layout import origin

if TYPE_CHECKING:  # they load torch, DuckDB and pandas
    import pyarrow as pa

    from storage.reader import ArchiveReader
    from storage.tables.live import LiveConnection
    from storage.tables.moments import Moment

__all__ = ["LiveConnection", "connect", "open_reader", "query", "run_folder"]


def __getattr__(name: str) -> Any:
    """Return `LiveConnection`, loaded when it is first used. Raise AttributeError for other names."""
    if name != "LiveConnection":
        raise AttributeError(f"module 'storage' has no attribute '{name}'")
    from storage.tables.live import LiveConnection

    return LiveConnection


def run_folder(run: str | Path, progress: Progress | None = None) -> Path:
    """Return the folder of `run`; of the address of a remote, its mirror here, brought up to date.

    Raise NotARun, CorruptLedger or RemoteFailed for an address.
    """
    if not isinstance(run, str) or "://" not in run:
        return Path(run)
    from storage.remote.mirror import local_mirror  # readers of folders need no object store

    return local_mirror(run, progress)


def connect(*runs: str | Path, as_of: Moment | None = None, native: bool = True) -> LiveConnection:
    """Open all tables and views of `runs`, folders or addresses, as `storage.tables.live.connect` does.

    Raise NotARun, CorruptLedger, RemoteFailed, Mistake.
    """
    from storage.tables import live

    return live.connect(*(run_folder(run) for run in runs), as_of=as_of, native=native)


def query(
    run: str | Path,
    sql: str,
    *,
    timeout_seconds: float = 60.0,
    max_rows: int | None = None,
    as_of: Moment | None = None,
) -> pa.Table:
    """Answer one SQL question about `run`, a folder or an address, as `storage.tables.questions.query` does.

    Raise BadQuery, NotARun, CorruptLedger, RemoteFailed.
    """
    from storage.tables import questions

    return questions.query(
        run_folder(run), sql, timeout_seconds=timeout_seconds, max_rows=max_rows, as_of=as_of
    )


def open_reader(run: str | Path) -> ArchiveReader:
    """Open `run`, a folder or an address, for reading; a mirror fetches manifests when they are needed.

    Raise NotARun, CorruptLedger, RemoteFailed.
    """
    from storage.reader import open_reader as open_folder

    folder = run_folder(run)
    if origin(folder) is None:
        return open_folder(folder)
    from storage.remote.mirror import open_mirror  # readers of folders need no object store

    return open_mirror(folder)
