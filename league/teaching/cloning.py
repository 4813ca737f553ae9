"""Cloning: a policy that plays as stored games were played, by maximum likelihood (behaviour cloning).

It is learned by the learner of the league, so networks, memories, connectors, mirrors and optimizers are
those of training. The value is learned beside it, from what each seat got. Now and then the policy is tried
on matches that it does not learn from; the weights that made these the likeliest are the snapshot.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from torch import Tensor

from league.cluster.cards import TO_LEARN, card_errors
from league.cluster.runtime import check_resources, prepare_process
from league.config.settings import Settings
from league.episode import Episodes
from league.import_paths import trust
from league.interrupts import interrupts
from league.learning.data.batching import tensor_of
from league.learning.learner.learner import Learner
from league.learning.maths.advantages import advantages
from league.learning.maths.losses import Loss
from league.learning.maths.terms import LogProbs
from league.models.connectors import Connectors
from league.models.networks.distributions import distribution
from league.models.spec import PolicySpec
from league.teaching.games import GamesFile
from league.training.reporting import make_sink
from league.training.resume import run_row
from league.training.sources import load_initial
from league.training.state.state import player_seed
from storage.archive import Archive
from storage.ends import End, Ending
from storage.errors import Mistake
from storage.layout import require_new
from storage.records import MAIN, Freeze, LivePlayer, RatingChange, Snapshot, UpdateRecord
from storage.tables.database_file import DatabaseFile

MOST_VALIDATED = 100_000  # decisions, about
LOOKS = 4  # at the matches that validate, in each pass over the games


def likelihood(log_probs: LogProbs, advantage: Tensor, clip: float) -> Tensor:
    """Return the negative log-likelihoods [N] of the actions taken."""
    return -log_probs.now


LIKELIHOOD = Loss(likelihood, "gae")
"""The loss of cloning. With lambda 1 the value's targets are what each seat got, discounted."""


@dataclass(frozen=True, slots=True)
class CloneSettings:
    """How a policy is learned from games."""

    epochs: float = 5.0  # passes over the games, at most
    patience: int = LOOKS  # looks without a greater likelihood, after which it ends
    validation: float = 0.05  # share of the matches that are not learned from
    lr: float = 2e-3  # falls to 0 along a cosine
    batch_steps: int = 1024
    where: str | None = None  # an SQL condition on what is known of the seats


class Look(NamedTuple):
    """How well weights fit the matches that they were not learned from."""

    env_steps: int  # learned from so far
    loss: float  # mean negative log-likelihood, in nats
    accuracy: float  # share of actions that were the likeliest ones; NaN for real numbers
    value_loss: float


class Cloned(NamedTuple):
    """A policy learned from games."""

    snapshot: Snapshot
    games: int  # learned from
    decisions: int
    best: Look  # at the weights that are stored


def clone(
    games: GamesFile, settings: Settings, run: Path, how: CloneSettings, say: Callable[[str], None]
) -> Cloned:
    """Learn the policy of the first main of `settings` from `games`; store it as a snapshot in the new `run`.

    `say` gets a line for each look. Raise RunExists, and Mistake for games of another env, for none that are
    left, for a policy that cannot be learned from what seats see, and for a GPU that is missing.
    """
    require_new(run, resumes=False)
    if settings.storage.remote is not None:
        raise Mistake("storage.remote: found it for a clone, which stays in its folder; leave it out")
    player = _player(settings)
    spec = settings.policy_spec(player.player, player.role)
    _check_fit(games, settings, spec)
    check_resources(settings.resources.model_copy(update={"address": None}), 0)  # it learns here
    games.choose(how.where, how.validation, settings.seed)
    prepare_process(settings.resources.threads)
    trust(*settings.own_code())
    with card_errors(f"player {player.player}", TO_LEARN):
        return _store_clone(_Cloner(games, settings, player, spec, how), settings, run, say)


def _store_clone(cloner: _Cloner, settings: Settings, run: Path, say: Callable[[str], None]) -> Cloned:
    """Learn, and store the policy in the new `run`."""
    player, began = cloner.player, time.monotonic()

    def end(state: Ending, reason: str = "") -> End:
        seconds = time.monotonic() - began
        return End(state=state, reason=reason, seconds=seconds, env_steps=0, ended_at=time.time())

    with (
        Archive.create(run, settings.to_yaml(), run_row(settings)) as archive,
        DatabaseFile(run, lambda: archive.num_changes, settings.storage.database, say) as database,
        interrupts() as interrupted,
        contextlib.ExitStack() as stack,
    ):
        sinks = []
        for each in settings.log.sinks:
            sinks.append(make_sink(each, run, settings.model_dump(mode="json"), 0))
            stack.callback(sinks[-1].close)
        try:
            archive.add_player(player)
            for look, record in cloner.looks(interrupted.is_set):
                archive.append_updates([record])
                figures = {f"learning/{player.player}/{key}": v for key, v in record.metrics.items()}
                for sink in sinks:
                    sink.log(look.env_steps, figures)
                say(
                    f"{look.env_steps:,} decisions: {record.metrics['policy_loss']:.4f} nats a decision; of "
                    f"matches not learned from {look.loss:.4f}, {look.accuracy:.1%} of actions its likeliest"
                )
            best, snapshot = cloner.store(archive)
            mu, sigma = settings.ratings.mu, settings.ratings.sigma
            archive.append_ratings([RatingChange(snapshot.snapshot_id, mu, sigma, 0)])
        except BaseException as error:
            archive.append_end(end("failed", str(error) or type(error).__name__))
            raise
        archive.append_end(end("stopped" if interrupted.is_set() else "trained"))
        database.finish()
    return Cloned(snapshot, *cloner.games.count(validates=False), best)


def _player(settings: Settings) -> LivePlayer:
    """Return the first main; the first player where there is no main."""
    players = [LivePlayer(name, role) for name, role in settings.players().items()]
    return next((player for player in players if player.role == MAIN), players[0])


def _check_fit(games: GamesFile, settings: Settings, spec: PolicySpec) -> None:
    """Raise Mistake unless the games are of this env, and hold all that the policy learns from."""
    env, theirs = settings.env.id, games.spaces
    if theirs.env["id"] != env:
        raise Mistake(f"{games.path}: games of '{theirs.env['id']}', expected those of '{env}'")
    for what, found, wanted in (
        ("observations", theirs.observation, spec.observation),
        ("actions", theirs.action, spec.action),
    ):
        if found != wanted:
            raise Mistake(
                f"{games.path}: {what} are {found}, those of '{env}' here {wanted}; do env.options differ?"
            )
    if spec.others:
        raise Mistake("policy.value_sees: found all, but games hold what the seat itself saw, expected seat")
    if spec.action.low:
        raise Mistake(
            f"clone: actions of '{env}' are {spec.action}, expected choices; real numbers cannot be cloned"
        )


class _Cloner:
    """A learner, the games that it learns from, and the weights that were best so far."""

    def __init__(
        self, games: GamesFile, settings: Settings, player: LivePlayer, spec: PolicySpec, how: CloneSettings
    ) -> None:
        self.player, self.games, self._how, self._spec = player, games, how, spec
        own = settings.learner_of(player.player, player.role)
        loss = {"use": f"{__name__}:LIKELIHOOD", "gae_lambda": 1.0, "normalise_advantage": False}
        changes = {
            "loss": loss,
            "terms": {},
            "lr": {"start": how.lr, "end": 0.0, "shape": "cosine"},
            "batch_steps": min(how.batch_steps, games.count(validates=False)[1]),  # at least one in a pass
            "epochs": 1,
            "shuffle": True,
            "entropy": 0.0,
            "replay": {},
            "target_updates": 0,
            "magnet": None,
            "ema": None,
            "freeze": "live",
            "after_update": None,
        }
        settled = own.model_validate({**own.model_dump(), **changes})
        device = "cuda" if settings.resources.gpus else "cpu"
        seed = player_seed(settings.seed, 0)
        self.learner = Learner(player.player, spec, settled, seed, device)
        entries = [entry for entry in settings.init_from if entry.player == player.player]
        for given in load_initial(entries, {player.player: spec}).values():
            self.learner.reset(given.tensors)
        self._rng = np.random.default_rng([seed, 1])
        self._actions = distribution(spec.action, spec.squash)
        self._best: tuple[Look, dict[str, Tensor], int] | None = None

    def looks(self, stopped: Callable[[], bool]) -> Iterator[tuple[Look, UpdateRecord]]:
        """Learn; yield each look at the matches that validate, and the report of the learning before it."""
        how, learner = self._how, self.learner
        _, decisions = self.games.count(validates=False)
        total, between = math.ceil(how.epochs * decisions), max(decisions // LOOKS, how.batch_steps)
        metrics: list[dict[str, float]] = []
        due, worse = between, 0
        validation: list[Episodes] = []
        for block in self.games.blocks(True, None, how.batch_steps):
            validation.append(self._shown(block))
            if sum(each.num_steps for each in validation) >= MOST_VALIDATED:
                break
        while learner.env_steps < total and worse < how.patience and not stopped():
            steps = max(2 * how.batch_steps, min(between, total, 2**17))
            for block in self.games.blocks(False, self._rng, steps):
                version = np.full(len(block), learner.updates)
                own = replace(self._shown(block), version=version)
                found = learner.learn_from(own, min(1.0, learner.env_steps / total))
                metrics += [] if found is None else [found]
                over = learner.env_steps >= total or stopped()
                if metrics and (learner.env_steps >= due or over):
                    due += between
                    look = self._look(validation)
                    worse = 0 if self._keep(look) else worse + 1
                    yield look, self._report(look, metrics)
                    metrics = []
                    over = over or worse >= how.patience
                if over:
                    return

    def _look(self, validation: list[Episodes]) -> Look:
        sums, n = np.zeros(3), 0
        for block in validation:
            parameters, value = self.learner.outputs(block)
            log_prob, _ = self._actions.evaluate(parameters, tensor_of(block.mask), tensor_of(block.action))
            likeliest, _ = self._actions.sample(parameters, block.mask, self._rng, 0.0)
            same = (likeliest == block.action).reshape(block.num_steps, -1).all(axis=1)
            nothing, discount = np.zeros(block.num_steps, np.float32), self.learner.settings.discount
            got = advantages(block, nothing, discount=discount, lambda_=1.0).value_target
            error = 0.5 * (value.numpy() - got) ** 2
            sums += [-float(log_prob.sum()), float(same.sum()), float(error.sum())]
            n += block.num_steps
        return Look(self.learner.env_steps, *(sums / n).tolist())

    def _keep(self, look: Look) -> bool:
        """Keep the present weights if they are the best so far; return whether they are."""
        if self._best is not None and look.loss >= self._best[0].loss:
            return False
        self._best = look, self.learner.weights(), self.learner.updates
        return True

    def _report(self, look: Look, metrics: list[dict[str, float]]) -> UpdateRecord:
        means = {key: float(np.mean([each[key] for each in metrics])) for key in metrics[0]}
        lag = means.pop("lag")
        means |= {
            "validation_loss": look.loss,
            "accuracy": look.accuracy,
            "validation_value": look.value_loss,
        }
        return UpdateRecord(self.player.player, self.learner.updates, look.env_steps, lag, means)

    def store(self, archive: Archive) -> tuple[Look, Snapshot]:
        """Store the best weights as a snapshot."""
        if self._best is None:  # before the first look
            raise KeyboardInterrupt
        look, weights, updates = self._best
        card, (games, decisions) = self.games.card, self.games.count(validates=False)
        freeze = Freeze(
            player=self.player.player,
            reason=f"cloned from {games:,} games of {card['source'][:80]} ({card['hash'][:16]})",
            evidence={"games": games, "decisions": decisions, "loss": look.loss, "accuracy": look.accuracy},
        )
        return look, archive.add_snapshot(
            player=self.player.player,
            role=self.player.role,
            env_steps=look.env_steps,
            updates=updates,
            parent_id=None,
            tensors=weights,
            spec=self._spec.to_json(),
            architecture=self._spec.architecture,
            reason=freeze.reason,
            decisions=[freeze],
        )

    def _shown(self, block: Episodes) -> Episodes:
        """Return the games as the network is shown them, after the connectors."""
        spec = self._spec
        connectors = Connectors(spec.settings.connectors, spec.observation, spec.action)
        block = replace(block, player=self.player.player)
        if not (connectors.memory_size or connectors.wants_reward):
            seen = connectors.apply(block.observation, np.zeros((block.num_steps, 0), np.float32), None)
            return replace(block, observation=seen, bootstrap=seen[:0])
        seen = np.empty((block.num_steps, *connectors.seen.shape), connectors.seen.dtype)
        length = np.diff(block.offset)
        memory = np.zeros((len(block), connectors.memory_size), np.float32)
        reward = np.zeros(len(block), np.float32)
        for t in range(int(length.max())):  # as in play: all episodes side by side, step by step
            at = np.flatnonzero(length > t)
            rows, own = block.offset[at] + t, memory[at]
            seen[rows] = connectors.apply(block.observation[rows], own, reward[at])
            connectors.acted(own, block.action[rows])
            memory[at], reward[at] = own, block.reward[rows]
        return replace(block, observation=seen, bootstrap=seen[:0])
