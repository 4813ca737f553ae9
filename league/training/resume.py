"""Open a run to train it: a new folder, an existing one that fits the settings, or a branch of one.

A branch is a new run folder from any past moment of a recorded run, with other settings if wanted.
"""

from __future__ import annotations

import contextlib
import math
import re
import secrets
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from league.cluster.cards import require_precision
from league.cluster.runtime import check_resources
from league.config.file import ConfigError, as_read_now, parse
from league.config.loading import load
from league.config.sections import StopSettings
from league.config.settings import Settings
from league.envs.spaces import ObservationSpec
from league.envs.trial.matches import Cost
from league.envs.trial.trial import Endless, GameBroken, require_sound
from league.models.spec import PolicySettings
from league.rollout.runner_group import check_play
from league.section import leaves, on_top
from league.training.sources import load_initial
from storage.archive import Archive, open_reader
from storage.cache.node_cache import NodeCache
from storage.disk import Progress, remove_tree
from storage.ends import span
from storage.errors import DiskFailed, Mistake
from storage.layout import CONFIG, LEDGER, origin, require_new, require_run
from storage.ledger.ledger import read_tables
from storage.records import IMPORTED, BranchPoint, Role
from storage.tables.moments import Moment
from storage.upkeep.branches import FileReplaced, find_moment, make_branch

LONG_TRIAL = 20.0  # seconds of a game's trial, after which a line says that it goes on
LOOKS = 10  # at a run in training that is branched: it replaces its learners' states now and then
_FREE = "seed"  # of what a resumed run keeps, the part that a branch may change: other games from there on


class ResumeRefused(Mistake):
    """Settings that do not fit the run to resume."""


def check(settings: Settings, run: Path, resume: bool, progress: Progress | None = None) -> None:
    """Check that the run can be trained, before anything is started or written.

    A run to resume is restored from its remote if it exists only there. Raise Mistake for missing
    resources and for first weights that do not fit, GameBroken for a game with a fault, StorageError for a
    folder or a remote that cannot be used.
    """
    check_resources(settings.resources, settings.most_runners)
    check_play(settings.rollout.device, settings.resources, settings.most_runners, settings.precision_of_play)
    if settings.resources.gpus and settings.resources.address is None:
        for role, player in settings.league.different_players():
            precision = settings.learner_of(player, role).precision
            require_precision("learner.precision", precision, "cuda")
    cache = settings.storage.cache()
    try:
        NodeCache(cache.folder, cache.max_bytes, cache.verify).check()
    except DiskFailed as error:
        raise Mistake(str(error)) from None
    remote = settings.storage.remote
    if resume and remote is not None and not run.exists():
        from storage.remote.restore import restore  # needs the extra `remote`

        restore(remote, run, progress)
    elif resume:
        require_run(run)
    else:
        require_new(run)
        if remote is not None:
            require_empty(remote)
        load_initial(settings.init_from, settings.policy_specs())


def try_games(settings: Settings) -> Cost | None:
    """Play every game of the run for a second; return what play of its own one costs, if that was tried.

    Raise GameBroken for a fault, or print it, as settings say.

    That random play is never paid is printed in any case: a game in which it is rarely paid is no broken one.
    """
    mode, costs = settings.rollout.check, list[Cost | None]()
    fragments = settings.rollout.fragment_steps
    endless: Endless = "refused" if fragments is None else "doubtful" if fragments == "auto" else "taken"
    envs = [(settings.env.id, settings.env.options)]
    envs += [
        (e.id, e.options) for rules in settings.league.resolve().values() if (e := rules.env) is not None
    ]
    for env_id, options in envs if mode != "none" else ():
        try:
            with _said_if_long(env_id):
                cost = require_sound(
                    env_id,
                    options,
                    step_limit=settings.rollout.step_limit,
                    endless=endless,
                    most_seconds=60.0 * (settings.stop.minutes or math.inf),
                )
            costs.append(cost)
        except GameBroken as fault:
            if mode == "refuse" and fault.certain:
                remedy = "correct the game, or set rollout.check to print"
                raise GameBroken(f"{fault}. Nothing was trained: {remedy}") from None
            print(f"league: warning: {fault}", file=sys.stderr)
            costs.append(fault.cost)
    return costs[0] if costs else None


@contextlib.contextmanager
def _said_if_long(env_id: str) -> Iterator[None]:
    """Print a line if the block takes over LONG_TRIAL seconds: nothing else says that a step never ends."""
    line = (
        f"league: the trial of env '{env_id}' takes over {LONG_TRIAL:g} s: it is slow to make or to step, or "
        "a step never ends; Ctrl-C stops it, and rollout.check: none leaves it out"
    )
    timer = threading.Timer(LONG_TRIAL, print, [line], {"file": sys.stderr, "flush": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def changed_settings(run: Path) -> list[str]:
    """Return what the newest session has set otherwise than the one before: "learner.lr 0.01 -> 0.002"."""
    tables = read_tables(run / LEDGER, ("runs",))
    configs = [yaml.safe_load(text or "") for text in tables["runs"]["config"].to_pylist()[-2:]]
    if len(configs) < 2 or not all(isinstance(config, dict) for config in configs):
        return []
    before, now = (leaves(as_read_now(config)) for config in configs)
    return [
        f"{key} {_shown(before.get(key))} -> {_shown(now.get(key))}"
        for key in dict.fromkeys([*now, *before])
        if (key in before and before[key] != now.get(key)) or (key not in before and now[key])
    ]


def _shown(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True).removesuffix("\n...\n").strip()
    return text if len(text) <= 80 else f"{text[:77]}..."


def _check_player(run: Path, settings: Settings, config: Mapping[str, Any], player: str, role: Role) -> None:
    """Raise ResumeRefused if the network or the seats of `player` have changed."""
    before = config.get("league", {})
    own, of_role = before.get("members", {}).get(player, {}), before.get("roles", {}).get(role, {})
    was: dict[str, Any] = {
        "policy": on_top(of_role.get("policy", {}), own.get("policy", {})),
        "seats": own.get("seats") or of_role.get("seats"),
        "env": of_role.get("env"),
    }
    seats = settings.league.seats_of(player, role)
    now: dict[str, Any] = {
        "policy": settings.league.policy_of(player, role),
        "seats": None if seats is None else list(seats),
        "env": settings.league.roles.get(role, {}).get("env"),
    }
    base = config.get("policy") or {}
    whole = [PolicySettings.model_validate(on_top(base, changes["policy"])) for changes in (was, now)]
    for part in ("policy", "seats", "env"):
        if (whole[0] != whole[1]) if part == "policy" else (now[part] != was[part]):
            raise ResumeRefused(
                f"{run}: {part} of {player} is {now[part]}, the run was begun with {was[part]}; a player "
                f"keeps its {part}: start a new run, or give the old settings"
            )


def require_empty(remote: str) -> None:
    from storage.remote.remote import holds_run  # needs the extra `remote`

    if holds_run(remote):
        raise Mistake(
            f"storage.remote {remote}: a run is there already, expected an empty place; choose another, "
            "or give --resume to go on with it"
        )


def run_row(settings: Settings) -> dict[str, Any]:
    """Return what the table `runs` says of a session with these settings."""
    row: dict[str, Any] = {"name": settings.name, "env": settings.env.id, "seed": settings.seed}
    row["most_lead"] = None if settings.payoff_scale is None else settings.game.most_lead
    return row


KEPT = {"env": "game", "policy": "network", "seed": "seed"}
"""Settings that a run keeps, and what messages call them."""


def check_fits(
    settings: Settings, before: Mapping[str, Any], run: Path, kept: Mapping[str, str] = KEPT
) -> None:
    """Raise ResumeRefused unless `settings` may go on with a run that was begun with those `before`."""
    before = as_read_now(before, str(run))
    now = settings.model_dump(mode="json")
    for part, remedy in kept.items():
        was = before.get(part)
        if part == "policy":  # settings that came later have their defaults, as if the config had named them
            was = parse(PolicySettings, f"{run}/{CONFIG}: policy", was or {}).model_dump(mode="json")
        if was != now[part]:
            raise ResumeRefused(
                f"{run}: '{part}' is {now[part]}, the run was begun with {before.get(part)}; "
                f"a run keeps its {remedy}: start a new run, or give the old settings"
            )
    league = before.get("league", {})
    if league.get("players") != now["league"]["players"]:
        raise ResumeRefused(
            f"{run}: league.players is {now['league']['players']}, the run was begun with "
            f"{league.get('players')}; a run keeps its players"
        )
    for player, role in settings.players().items():
        _check_player(run, settings, before, player, role)


def _check_stop(stop: StopSettings, run: Path) -> None:
    """Raise ResumeRefused if the run has trained as long as `stop` asks for already."""
    ends = read_tables(run / LEDGER, ("ends",)).get("ends")
    if ends is None:
        return
    newest = ends.sort_by("ended_at").slice(len(ends) - 1).to_pylist()[0]
    seconds, by_steps = newest["seconds"], newest["env_steps"] >= (newest["of_env_steps"] or math.inf)
    if newest["state"] in ("trained", "untrained") and not by_steps:
        seconds = max(seconds, newest["of_seconds"] or 0.0)  # it ended a little before
    if stop.minutes is not None and seconds >= 60.0 * stop.minutes:
        found, wanted, key = span(newest["seconds"]), span(60.0 * stop.minutes), "stop.minutes"
    elif stop.env_steps is not None and newest["env_steps"] >= stop.env_steps:
        found, wanted, key = f"{newest['env_steps']:,}", f"{stop.env_steps:,} env steps", "stop.env_steps"
    else:
        return
    raise ResumeRefused(f"{run}: already trained for {found} of {wanted}; raise {key} to train on")


def open_archive(settings: Settings, run: Path, resume: bool) -> Archive:
    """Return a new archive at `run`, or with `resume` the existing one.

    Raise StorageError if the folder cannot be used, ResumeRefused if the settings have another game,
    network or set of players than those that the run was begun with, or a `stop` that was reached before.
    """
    row = run_row(settings)
    if not resume:
        return Archive.create(run, settings.to_yaml(), row, keep=settings.storage.retention.keep())
    archive = Archive.open(run, settings.storage.retention.keep())
    try:
        check_fits(settings, archive.config(), run)
        _check_stop(settings.stop, run)
        if settings.storage.remote is not None and archive.summed_until:
            raise Mistake(
                f"{run}: found storage.remote beside matches that were summed up (storage.retention), which "
                "no remote takes; leave storage.remote out, or copy the run folder by other means"
            )
        archive.begin_session(row, settings.to_yaml())
    except BaseException:
        archive.close()
        raise
    return archive


def branch(
    run: Path,
    new: Path,
    as_of: Moment | None = None,
    overrides: Sequence[str] = (),
    progress: Progress | None = None,
) -> BranchPoint:
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
            except FileReplaced:
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
) -> BranchPoint:
    past = find_moment(run, as_of)
    before = _parsed(past.config, run)
    fields = before | {"name": re.sub(r"[^A-Za-z0-9._-]", "-", new.resolve().name) or "branch"}
    fields["storage"] = {**(before.get("storage") or {}), "remote": None}  # one run writes a remote
    settings = load(fields, overrides, name=f"{run}/{CONFIG}")
    check_fits(settings, before, run, {part: why for part, why in KEPT.items() if part != _FREE})
    if settings.storage.remote is not None:
        require_empty(settings.storage.remote)
    return make_branch(past, new, parent, settings.to_yaml(), run_row(settings), overrides, progress)


def keep_shapes(settings: Settings, run: Path) -> Settings:
    """Return `settings` in which players of a resumed run see what they saw as it began.

    Boards are flat rows, and masks of legal actions observations, if its snapshots saw such.
    """
    reader = open_reader(run)
    recorded = reader.env()["options"]
    if recorded == {"mask": "none"} | settings.env.options != settings.env.options:
        settings = load(settings, ["env.options.mask=none"])
    for snapshot in [own for own in reader.snapshots() if own.role != IMPORTED][:1]:
        seen = ObservationSpec.from_json(reader.manifest(snapshot.snapshot_id)["spec"]["observation"])
        shown = settings.game.observation_specs
        settings.game.observation_specs = tuple(seen if seen.fits(own) else own for own in shown)
    return settings


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
