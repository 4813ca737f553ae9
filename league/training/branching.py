"""Branch a run: a new run folder from any past moment of a recorded one, with other settings if wanted."""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from league.config.file import ConfigError, as_read_now
from league.config.loading import load
from league.config.settings import Settings
from league.training.resume import KEPT, check_fits, require_empty, run_row
from storage.disk import Progress, remove_tree
from storage.layout import CONFIG, LEDGER, origin, require_new, require_run
from storage.ledger.ledger import read_tables
from storage.records import Branch
from storage.tables.moments import Moment
from storage.upkeep.branches import Moved, find_moment, make_branch

LOOKS = 10  # at a run in training, which replaces its learners' states now and then
_FREE = "seed"  # of what a resumed run keeps, the part that a branch may change: other games from there on


def branch(
    run: Path,
    new: Path,
    as_of: Moment | None = None,
    overrides: Sequence[str] = (),
    progress: Progress | None = None,
) -> Branch:
    """Make the run folder `new`, which goes on from `run` as it was at a moment; return what is common.

    `run` is only read, and may be training. `as_of`: env steps of the league, or a time; `None`: now.
    `overrides` change settings of the new run, which has no remote unless they name one. Raise RunExists,
    NotARun, ConfigError, ResumeRefused for a setting that a run keeps, Mistake as `find_moment` does,
    StorageError. Nothing is left behind then.
    """
    require_new(new, resumes=False)
    parent = origin(run) or str(run.resolve())
    with _whole(run, new, progress) as run:
        for look in range(1, LOOKS + 1):
            try:
                return _branch(run, new, parent, as_of, overrides, progress)
            except Moved:
                if look == LOOKS:
                    raise
    raise AssertionError


@contextlib.contextmanager
def _whole(run: Path, new: Path, progress: Progress | None) -> Iterator[Path]:
    """Yield `run`; of a mirror, a folder beside `new` with all that the remote has, until the block ends."""
    url = origin(run)
    if url is None:
        yield run
        return
    from storage.remote.restore import restore  # needs the extra `remote`

    brought = new.with_name(f".{new.name[:80]}.{secrets.token_hex(4)}.parent")
    try:
        restore(url, brought, progress)
        yield brought
    finally:
        remove_tree(brought)


def _branch(
    run: Path,
    new: Path,
    parent: str,
    as_of: Moment | None,
    overrides: Sequence[str],
    progress: Progress | None,
) -> Branch:
    past = find_moment(run, as_of)
    before = _parsed(past.config, run)
    fields = before | {"name": re.sub(r"[^A-Za-z0-9._-]", "-", new.resolve().name) or "branch"}
    fields["storage"] = {**(before.get("storage") or {}), "remote": None}  # one run writes a remote
    settings = load(fields, overrides, name=f"{run}/{CONFIG}")
    check_fits(settings, before, run, {part: why for part, why in KEPT.items() if part != _FREE})
    if settings.storage.remote is not None:
        require_empty(settings.storage.remote)
    return make_branch(past, new, parent, settings.to_yaml(), run_row(settings), overrides, progress)


def newest_settings(run: Path, overrides: Sequence[str] = ()) -> Settings:
    """Return the settings of the newest session of `run`, with `overrides` on top.

    Raise NotARun, ConfigError, CorruptLedger.
    """
    require_run(run)
    rows = read_tables(run / LEDGER, ("runs",))
    config = rows["runs"]["config"][-1].as_py() if rows else ""
    return load(_parsed(config, run), overrides, name=f"{run}/{CONFIG}")


def _parsed(config: str, run: Path) -> dict[str, Any]:
    """Return the settings that a run has recorded. Raise ConfigError."""
    try:
        fields = yaml.safe_load(config)
    except yaml.YAMLError:
        fields = None
    if not isinstance(fields, dict):
        raise ConfigError(f"{run}: its recorded settings cannot be read, expected those of a league")
    return as_read_now(fields, str(run))
