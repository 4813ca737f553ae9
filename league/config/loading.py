"""Load settings from YAML or a mapping, and check what involves several sections of them or the game.

Each mistake becomes one `ConfigError`: where, what was found, what was expected, what to do.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from league.config.file import ConfigError, fields_of, parse
from league.config.settings import Settings
from league.envs import registry
from league.envs.base import BatchedGame
from league.learning.data.columns import check_learner_connectors
from league.learning.maths.losses import check_actions
from league.learning.settings import LearnerSettings
from league.mistakes import explain
from league.models.bots.scripted import seated_bot
from league.models.spec import PolicySettings, PolicySpec
from league.rollout.settings import check_play_of_runners
from league.rules.building.resets import OF_LEARNER
from league.rules.matchmaking.branches import open_branch
from league.rules.presets import LeagueSettings
from league.rules.roles import RoleSettings
from league.yardsticks.positions import STORED
from league.yardsticks.settings import STORED_POSITIONS
from storage.arrays import Indices
from storage.errors import Mistake
from storage.records import MAIN
from storage.suggestions import did_you_mean

RUNNERS_PER_PROCESSOR = 8  # on this machine: each is a process with 200 MiB
FEWEST_RUNNERS = 64  # that are never refused
IMAGES = 8  # matches played at random to try a mirror, each beside its mirror image
MOST_STEPS = 200  # of these matches
ALONE = {"preset": "none"}  # league of a game in which no seat has an opponent
# Of a game that is named in place of a config; games that no config was tuned for learn by them
# (tests/bench/defaults.py). One player has all the matches, and learns four times from small batches. The
# magnet, which follows, keeps games of mixing from going round in circles.
UNTUNED_LEAGUE = {"preset": "self_play", "freeze_every": 500_000}
UNTUNED_LEARNER: dict[str, Any] = {
    "loss": "ppo",
    "batch_steps": 1024,  # at most
    "epochs": 4,
    "lr": {"start": 2e-3, "end": 1e-5},
    "entropy": {"start": 0.02, "end": 0.001},
    "magnet": {"kind": "ema", "decay": 0.99, "weight": 0.2},
}
# In a game for one there is nothing to mix, and a magnet only holds the policy back: after 40 s of a core
# LunarLander paid -740 with it and -57 without, Acrobot -500 and -140.
ALONE_LEARNER = {"magnet": None, "discount": 0.99, "entropy": {"start": 0.05, "end": 0.01}}
BATCH_NUMBERS = 2**24  # that observations of a batch have, unless its steps are given: 512 frames of 84x84x4
BATCHES, FEWEST_STEPS = 128, 64  # of a run with few env steps, unless they are given: at least, and of each
SMALL_BATCH = 2**30  # bytes, for which every machine has memory
MOST_THREADS = 64  # of one process on a machine with fewer processors


def load(
    source: str | Path | Mapping[str, Any] | Settings, overrides: Sequence[str] = (), *, name: str = "config"
) -> Settings:
    """Return the settings in a YAML file or a mapping, with `a.b=value` overrides on top.

    The id of a game in place of a file is a league in it with default settings. Messages call a mapping
    `name`. Raise ConfigError for every mistake in them.
    """
    batch: int | None = None  # at most, unless one is given
    if isinstance(source, Settings):
        source = source.model_dump(mode="json")
    elif not isinstance(source, Mapping) and is_game(source):
        name, source = str(source), of_game(str(source))
        batch = source["learner"].pop("batch_steps")
    where, fields = fields_of(source, overrides, name=name)
    if "competitors" in fields:
        raise ConfigError(
            f"{where}: found competitors, which a tournament has, expected the settings of a league; to play "
            "it: league tournament"
        )
    settings = parse(Settings, where, fields)
    settings = _of_game(settings, batch or settings.learner.batch_steps)
    try:
        _check(settings)
    except (ValueError, Mistake) as error:
        raise ConfigError(f"{where}: {error}") from None
    return settings


def is_game(source: str | Path) -> bool:
    """Return whether this is the id of a game, and no file."""
    return not Path(source).exists() and (":" in str(source) or str(source) in registry.ids())


def of_game(env_id: str) -> dict[str, Any]:
    """Return a config for this game, as if untuned. Raise ConfigError for a game that cannot be made."""
    try:
        game = registry.make(env_id, 1)
    except Mistake as error:
        raise ConfigError(str(error)) from None
    found = {"name": re.sub(r"[^A-Za-z0-9._-]+", "-", env_id).strip("-"), "env": {"id": env_id}}
    learner = UNTUNED_LEARNER | {"batch_steps": _batch_of(game, UNTUNED_LEARNER["batch_steps"])}
    if game.num_seats == 1:
        return found | {"league": ALONE, "learner": learner | ALONE_LEARNER}
    return found | {"league": UNTUNED_LEAGUE, "learner": learner}


def _batch_of(game: BatchedGame, most: int) -> int:
    """Return the steps of a batch: `most`, or fewer in a game with large observations."""
    fits = max(1, BATCH_NUMBERS // max(spec.size for spec in game.observation_specs))
    return most if fits >= most else 2 ** (fits.bit_length() - 1)


def _of_game(settings: Settings, batch: int) -> Settings:
    """Return `settings` with what follows from the game where they leave it out.

    These are teams, opponents, and a batch of at most `batch` steps, which fits large observations and is
    filled often before the `stop`.
    In a game of one team no seat has an opponent, so the preset is `none` there.
    """
    game, league, changes = settings.game, settings.league, dict[str, Any]()
    learner, matchmaking = settings.learner, settings.matchmaking
    if "batch_steps" not in learner.model_fields_set:
        often = (settings.stop.env_steps or sys.maxsize) // BATCHES
        most = min(batch, max(FEWEST_STEPS, 2 ** (often.bit_length() - 1) if often else 0))
        changes["learner"] = learner.model_copy(update={"batch_steps": _batch_of(game, most)})
    if game.teams is not None and matchmaking.teams is None:
        changes["matchmaking"] = matchmaking = matchmaking.model_copy(update={"teams": game.teams})
    alone = game.num_seats == 1 or (matchmaking.teams is not None and len(matchmaking.teams) == 1)
    if alone and "preset" not in league.model_fields_set:
        with contextlib.suppress(ValidationError):  # players or roles of the usual preset: those are refused
            changes["league"] = LeagueSettings.model_validate(league.model_dump(exclude_unset=True) | ALONE)
    return settings.model_copy(update=changes) if changes else settings


def _check(settings: Settings) -> None:
    """Raise ValueError or Mistake for the first contradiction."""
    _check_machine(settings)
    game = settings.game
    _check_following(settings, game)
    _check_shown(settings, game)
    if settings.storage.remote is not None:
        from storage.remote.remote import check_url  # needs the extra `remote`

        check_url(settings.storage.remote)
    if settings.most_runners == 0 and settings.evaluation.runners:
        raise ValueError(
            f"evaluation.runners is {settings.evaluation.runners}, but runners is 0: without Ray one process "
            "plays; set runners to 1 or more, or give roles a share of evaluation (opponents.evaluation)"
        )
    if settings.most_runners == 0 and settings.resources.address is not None:
        raise ValueError(
            "resources.address is set but runners is 0, expected runners of 1 or more on a cluster"
        )
    _check_learner(settings)
    _check_devices(settings)
    known, named = settings.players(), [entry.player for entry in settings.init_from]
    for name in named:
        if name not in known:
            raise ValueError(
                f"init_from: '{name}' is no player of this league, expected one of {', '.join(known)}"
            )
        if named.count(name) > 1:
            raise ValueError(f"init_from: player '{name}' is named twice, expected one source for each")
    _check_league(settings, game)
    if game.draw_possible and settings.ratings.draw_probability == 0.0:
        raise ValueError(
            f"ratings.draw_probability is 0, but matches of '{settings.env.id}' can be drawn; raise it"
        )
    first = [*settings.league.bots(), *(f"{name}@0" for name in known)]
    for anchor in settings.ratings.anchors:
        if anchor not in first:
            raise ValueError(
                f"ratings.anchors: found '{anchor}', expected snapshots of this league that are there from "
                f"the beginning, and bots that it plays; {did_you_mean(anchor, first)}"
            )
    check_yardsticks(settings, game)


def _check_machine(settings: Settings) -> None:
    """Raise ValueError for more runners or torch threads than any use of this machine asks for.

    A cluster may have any number.
    """
    resources, processors = settings.resources, os.cpu_count() or 1
    if resources.address is not None:
        if settings.runners == "auto":
            raise ValueError(
                "runners: found auto with resources.address, but it counts the cores of this machine alone; "
                "give a number, or {min: 4, max: 64}: as many as the nodes have room for"
            )
        return
    runners, threads = settings.most_runners + settings.evaluation.runners, resources.threads
    most_runners, most_threads = RUNNERS_PER_PROCESSOR * processors, max(MOST_THREADS, processors)
    of_runners, join = f"runners: found {runners:,} in all", ", or join a cluster (resources.address)"
    for given, found, most, remedy in (
        (of_runners, runners, max(FEWEST_RUNNERS, most_runners), join),
        (f"resources.threads: found {threads:,}", threads, most_threads, ""),
    ):
        if found > most:
            raise ValueError(
                f"{given}, but this machine has {processors:,} processor{'' if processors == 1 else 's'}, "
                f"expected at most {most:,}; lower it{remedy}"
            )


def _check_shown(settings: Settings, game: BatchedGame) -> None:
    """Raise ValueError or Mistake unless each player's network takes what the game shows, or its flat rows.

    Boards were flat rows once: networks of the user's own that take only those are still shown them.
    """
    try:
        _check_policies(settings, game)
    except (ValueError, Mistake):
        shown = game.observation_specs
        flat = tuple(spec if spec.parts else replace(spec, shape=(spec.size,)) for spec in shown)
        if flat == shown or not settings.own_code():
            raise
        game.observation_specs = flat
        try:
            _check_policies(settings, game)
        except (ValueError, Mistake):
            flat = shown
        game.observation_specs = flat
        if flat is shown:
            raise


def _check_policies(settings: Settings, game: BatchedGame) -> None:
    """Raise ValueError unless each player's network can be built, for seats that the game has."""
    for role, player in settings.league.different_players():
        seats = settings.league.seats_of(player, role) or ()
        if max(seats, default=0) >= game.num_seats:
            raise ValueError(
                f"league: seats of {player}: found {list(seats)}, but '{settings.env.id}' has "
                f"{game.num_seats} seats, numbered from 0"
            )
        try:
            spec = settings.policy_spec(player, role)
        except ValidationError as error:
            raise ValueError(f"league: policy of {player}: {explain(error, PolicySettings)}") from None
        spec.trust()  # named by the author of the config
        attempt = _try_network if spec.own_code else _try_once  # the user's may change between two configs
        memory_size = 0 if spec.plain else attempt(spec)
        check_learner_connectors(spec)
        env, mirror = settings.env, spec.settings.mirror
        if mirror is not None and not is_mirrored(
            env.id, env.options, mirror.observation_order, mirror.action_order
        ):
            raise ValueError(
                f"policy.mirror of {player}: after mirrored moves, a match of '{env.id}' is not the mirror "
                "image of the other, expected a symmetry of the game; correct shape and axes, or set mirror "
                "to null"
            )
        if settings.opening.share and memory_size:
            raise ValueError(
                f"opening.share is {settings.opening.share:g}, but the network of "
                f"{player} has a memory, and what it would remember of moves that it "
                "has not made is not learned from; set policy.memory to none, or the share to 0"
            )


def _check_batch(settings: Settings, steps: int, spec: PolicySpec) -> None:
    """Raise ValueError for a batch of so many steps that this machine has no memory for."""
    decision = spec.bytes_of_decision
    if settings.resources.address is not None or steps * decision < SMALL_BATCH:
        return
    import psutil

    memory = psutil.virtual_memory().total
    if steps * decision > memory:
        raise ValueError(
            f"learner.batch_steps is {steps:,}, and a decision in '{settings.env.id}' has "
            f"{decision / 2**20:,.1f} MiB, so a batch takes {steps * decision / 2**30:,.1f} GiB, but this "
            f"machine has {memory / 2**30:,.1f} GiB; lower it, or make the game show less"
        )


def _try_network(spec: PolicySpec) -> int:
    """Build and run a network; return the size of its memory. Raise Mistake if it does not fit."""
    from league.models.networks.networks import check_network  # torch: two seconds of imports

    return check_network(spec)


_try_once = functools.lru_cache(maxsize=64)(_try_network)  # a large network takes seconds of each player


def is_mirrored(
    env_id: str, options: Mapping[str, Any], observation_order: Indices, action_order: Indices
) -> bool:
    """Return whether mirrored moves lead to mirrored positions with equal rewards, in a few random matches.

    `observation_order` [size]: order of an observation's numbers in its mirror image; `action_order` [A]:
    mirror image of each action. Both matches have one seed, so games of chance have no mirror unless their
    chance is mirrored too.
    """
    game = registry.make(env_id, 2 * IMAGES, **options)
    rng = np.random.default_rng(0)
    game.reset(np.arange(2 * IMAGES), np.tile(np.arange(IMAGES), 2))  # the second half are the images
    for _ in range(MOST_STEPS):
        if not game.active.any():
            break
        actions = []
        for block in game.due():
            order = np.lexsort((block.seat, block.slot))
            rows, images = (order[block.slot[order] < IMAGES], order[block.slot[order] >= IMAGES])
            seen = block.observation.reshape(len(block), -1)
            if not (
                np.array_equal(block.slot[rows] + IMAGES, block.slot[images])
                and np.array_equal(block.seat[rows], block.seat[images])
                and np.array_equal(seen[rows][:, observation_order], seen[images])
                and np.array_equal(block.mask[rows][:, action_order], block.mask[images])
            ):
                return False
            action = np.zeros(len(block), dtype=np.int64)
            action[rows] = np.where(block.mask[rows], rng.random(block.mask[rows].shape), -1.0).argmax(axis=1)
            action[images] = action_order[action[rows]]
            actions.append(action)
        rewards = game.step(actions).rewards
        if not (
            np.array_equal(rewards[:IMAGES], rewards[IMAGES:])
            and np.array_equal(game.active[:IMAGES], game.active[IMAGES:])
        ):
            return False
    return True


def _check_learner(settings: Settings) -> None:
    """Raise ValueError for learner settings that do not fit the rest of the run."""
    learners, runners = settings.learners, settings.most_runners
    if learners.aggregators > runners:
        raise ValueError(
            f"learners.aggregators is {learners.aggregators}, more than the {runners} runners that they "
            "would serve; lower it, or raise runners"
        )
    if learners.processes > 1 and runners == 0:
        raise ValueError(
            f"learners.processes is {learners.processes}, but runners is 0: without Ray one process learns; "
            "set runners to 1 or more, or processes to 1"
        )
    _check_shards(settings)
    for place, rules in settings.league.resolve().places().items():
        try:
            settings.learner.changed(rules.learner)
        except ValidationError as error:
            raise ValueError(explain(error, LearnerSettings, f"league.{place}.learner")) from None
        _check_perturbed(settings, place, rules)
    for role, player in settings.league.different_players():
        learner, spec = settings.learner_of(player, role), settings.policy_spec(player, role)
        check_actions(learner.loss.kind, spec, player)
        _check_batch(settings, learner.batch_steps, spec)
        if learner.has_own_parts:
            from league.learning.learner.learner import check_own_parts  # torch: two seconds of imports

            check_own_parts(spec, learner)


def _check_perturbed(settings: Settings, place: str, rules: RoleSettings) -> None:
    """Raise ValueError for a reset that perturbs what is no number, or a number within bounds."""
    learner = settings.learner.changed(rules.learner)
    numbers = {f"{OF_LEARNER}{key}": value for key, value in learner.numbers().items()}
    for key in rules.reset.perturb:
        where = f"league.{place}.reset.perturb"
        if key not in numbers:
            raise ValueError(f"{where}: '{key}' is no number with a fraction; {did_you_mean(key, numbers)}")
        try:
            for factor in (1e-3, 1e3):
                learner.with_numbers({key.removeprefix(OF_LEARNER): numbers[key] * factor})
        except ValidationError:
            raise ValueError(
                f"{where}: '{key}' is within bounds, expected a number that may be multiplied again and "
                "again, such as learner.lr"
            ) from None


def _check_shards(settings: Settings) -> None:
    """Raise ValueError for shards that there are no players, GPUs or processes for."""
    shards, runners, gpus = settings.learners.shards, settings.most_runners, settings.resources.gpus
    players = len(settings.players())
    if shards is not None and shards > players:
        raise ValueError(
            f"learners.shards is {shards}, but the league begins with {players} "
            f"player{'' if players == 1 else 's'}, expected no more shards than those; lower it"
        )
    if shards is not None and 0 < gpus < shards:
        raise ValueError(
            f"learners.shards is {shards}, but resources.gpus is {gpus}, expected a GPU for each shard; "
            "lower it, or set resources.gpus to 0 to learn on CPUs"
        )
    if runners:
        return
    if shards is not None and shards != max(1, min(gpus, players)):
        raise ValueError(
            f"learners.shards is {shards}, but runners is 0: without Ray one process learns"
            f"{', each GPU being a shard' if gpus else ''}; set runners to 1 or more, or shards to null"
        )
    if gpus > players:
        raise ValueError(
            f"resources.gpus is {gpus}, but runners is 0 and the league begins with {players} "
            f"player{'' if players == 1 else 's'}: without Ray each player learns on one GPU; set runners to "
            f"1 or more, for a process on each GPU, or resources.gpus to {players}"
        )


def _check_devices(settings: Settings) -> None:
    """Raise ValueError or Mistake unless runners that play on GPUs ask for them, and only those."""
    device, each, runners = settings.rollout.device, settings.resources.gpus_per_runner, settings.most_runners
    if runners:
        check_play_of_runners(device, settings.resources, runners)
    if settings.resources.share_cards:
        _check_sharing(settings)
    if device != "cpu" and (most := settings.rollout.policy_map_bytes) is not None:
        from league.config.card_memory import sizes_of  # torch: two seconds of imports

        for player, spec in settings.policy_specs().items():
            if (found := sizes_of(spec).weights) > most:
                raise ValueError(
                    f"rollout.policy_map_bytes: found {most:,}, but a snapshot of {player} has {found:,} "
                    "bytes, which a GPU that it plays on must hold; set it to that or more, or to null"
                )
    if each and (device == "cpu" or not runners):
        reason = "rollout.device is cpu" if runners else "runners is 0"
        raise ValueError(
            f"resources.gpus_per_runner is {each:g}, but {reason}: nothing would play on these GPUs; set "
            f"{'rollout.device to cuda' if runners else 'runners to 1 or more'}, or gpus_per_runner to 0"
        )


def _check_sharing(settings: Settings) -> None:
    """Raise ValueError unless there are cards to share, of which the learners keep more than half."""
    resources, num_runners = settings.resources, settings.most_runners + settings.evaluation.runners
    if settings.most_runners > settings.least_runners:
        raise ValueError(
            f"resources.share_cards is true with runners from {settings.least_runners} to "
            f"{settings.most_runners}, expected one number: each has its place on a card; give a number, or "
            "set share_cards to false"
        )
    if not (resources.gpus and resources.gpus_per_runner and settings.most_runners):
        raise ValueError(
            f"resources.share_cards is true with gpus {resources.gpus}, gpus_per_runner "
            f"{resources.gpus_per_runner:g} and runners {settings.most_runners}, expected each of them to be "
            "more than 0; set them, or share_cards to false"
        )
    kept = resources.share_of_learners(num_runners)
    if kept <= 0.5:
        raise ValueError(
            f"resources.share_cards: {num_runners} runners with gpus_per_runner "
            f"{resources.gpus_per_runner:g} take {1 - kept:.3g} of a card of {resources.gpus}, "
            "expected less than half; lower gpus_per_runner or runners"
        )


def check_yardsticks(settings: Settings, game: BatchedGame) -> None:
    """Raise ValueError or Mistake for yardsticks that do not suit the game. No file or run is read."""
    where, yardsticks = "evaluation.yardsticks", settings.evaluation.yardsticks
    opponents = [yardstick for yardstick in yardsticks if yardstick.plays]
    if opponents:
        teams = int(settings.matchmaking.team_of_seat(game.num_seats)[-1]) + 1
        if teams < 2 or not game.shared_spaces or settings.league.seats_by_competitor() is not None:
            raise ValueError(
                f"{where}: found the opponent {opponents[0].label}, expected a game of several teams in "
                "which every player can take every seat, as seats are swapped"
            )
    for yardstick in yardsticks:
        if yardstick.bot is not None:
            try:
                seated_bot(yardstick.bot, settings.env.id, game, settings.bots)
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from None
        elif yardstick.positions == STORED_POSITIONS and settings.env.id not in STORED:
            raise ValueError(
                f"{where}: no positions are stored for '{settings.env.id}', only for {', '.join(STORED)}; "
                "give a file of your own, {positions: FILE}, or leave them out"
            )


def _check_league(settings: Settings, game: BatchedGame) -> None:
    """Raise ValueError unless the rules of the league fit the game: seats, teams, bots."""
    league, num_seats = settings.league, game.num_seats
    try:
        _ = settings.payoff_scale
    except ValueError as error:
        raise ValueError(f"league.{error}") from None
    league.make_builder()
    for bot in settings.bots.keys() & settings.players().keys():
        raise ValueError(f"bots: '{bot}' is a player's name already; choose another name")
    for bot in dict.fromkeys([*league.bots(), *settings.bots]):
        try:
            seated_bot(bot, settings.env.id, game, settings.bots)
        except ValueError as error:
            place = "bots" if bot in settings.bots else "league.roles: bots"
            raise ValueError(f"{place}: {error}") from None
    teams = int(settings.matchmaking.team_of_seat(num_seats)[-1]) + 1
    uneven = league.seats_by_competitor() is not None
    if uneven:
        _check_uneven(settings, game)
    role_of = {f"members.{name}": role for name, role in settings.players().items()}
    for place, rules in () if uneven else league.resolve().places().items():
        role = role_of.get(place, place.removeprefix("roles."))
        # In branch current_main live mains fill all teams but one, each a different main. Snapshots may
        # fill several seats, and a player that plays itself fills all of them.
        others = league.players[MAIN] - (role == MAIN)
        needed = teams - 1
        if rules.opponents.share("current_main") > 0 and others < needed:
            raise ValueError(
                f"league.players: the game has {teams} {'seats' if teams == num_seats else 'teams'}, more "
                f"than players can fill: branch 'current_main' of {place} needs {needed} other mains, "
                f"found {others}; set main: {needed + (role == MAIN)} or give that share to another branch"
            )
    settings.make_matchmaker()


def _check_following(settings: Settings, game: BatchedGame) -> None:
    """Raise ValueError for roles whose env cannot be that of a seat in the matches of this run."""
    roles = [role for role, rules in settings.league.resolve().items() if rules.env is not None]
    if not roles:
        return
    where = f"league.roles.{roles[0]}.env"
    try:
        envs = settings.following()
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    if envs.num_seats < 2:
        raise ValueError(f"{where}: '{settings.env.id}' has one seat, expected matches of two or more")
    if settings.evaluation.yardsticks:
        raise ValueError(
            f"{where}: found evaluation.yardsticks as well, whose games are in the run's env; leave one out"
        )
    if settings.rollout.fragment is not None:
        raise ValueError(
            f"{where}: found rollout.fragment_steps as well, expected whole matches where envs differ from "
            "match to match; leave one out"
        )
    for role in roles:
        for seat in range(game.num_seats):
            keys = [role if seat == other else None for other in range(game.num_seats)]
            env_id = envs.env_id(keys)
            registry.make(env_id, 1, step_limit=settings.rollout.step_limit, **envs.options(env_id))


def _check_uneven(settings: Settings, game: BatchedGame) -> None:
    """Raise ValueError unless each team can be filled and each player can fill a team.

    For leagues in which not all players may take all seats.
    """
    team_of_seat = settings.matchmaking.team_of_seat(game.num_seats)
    filled: set[int] = set()
    for role, player in settings.league.different_players():
        seats = settings.league.seats_of(player, role) or range(game.num_seats)
        teams = {int(t) for t in team_of_seat if set(np.flatnonzero(team_of_seat == t)) <= set(seats)}
        if not teams:
            raise ValueError(
                f"league: seats of {player}: found {list(seats)}, expected those of a whole team"
            )
        filled |= teams
    open_seats = [s for s, t in enumerate(team_of_seat.tolist()) if t not in filled]
    if open_seats:
        raise ValueError(
            f"league: no player may take seats {open_seats} of '{settings.env.id}'; give them to a player by "
            "league.roles.<role>.seats or league.members.<player>.seats"
        )
    for place, rules in settings.league.resolve().places().items():
        for name, branch in rules.opponents.branches.items():
            opened = open_branch(branch)
            if branch.share > 0 and (opened.any_seat or opened.waits):
                remedy = "set its error to null, or " if opened.waits else ""
                raise ValueError(
                    f"league.{place}: branch '{name}' needs a league in which all players may take "
                    f"every seat; {remedy}give its share to current_main or pfsp"
                )
