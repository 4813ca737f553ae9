"""THE LOOP: how a league trains.

    ask       the matchmaker draws whole matches for the player that is furthest behind its share;
              a runner plays them with the players' newest weights
    evaluate  runners of evaluation, if there are any, play for the record only
    take      results go to the ledger, then into the standings; episodes go from the runner
              straight to the player's learner
    learn     learners report updates; their new weights play from the next request on
    decide    the league builder looks at roster, standings and clocks; it freezes and resets
    save      optimizer states reach the disk now and then; a kill costs at most that much learning

Words: a *player* learns and has a *role*; it freezes *snapshots* of its policy, which never
change; players, snapshots and scripted bots are *competitors*; those now in the league are the
*roster*; ratings and payoffs are the *standings*, a fold of all recorded results. `env_steps`
are decisions taken in the environment, `updates` optimizer steps. The README has them all.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from league.config.sections import StorageSettings
from league.config.settings import Settings
from league.config.sinks import require_installed
from league.interrupts import interrupts
from league.learning.groups.learner_group import LearnerGroup, LocalLearnerGroup, RayLearnerGroup
from league.learning.groups.shards import num_cpus, plan_shards
from league.rollout.runner_group import LocalRunnerGroup, RayRunnerGroup, RunnerGroup
from league.runtime import ray_session
from league.training.session import Session
from league.training.sinks.reporting import Reporting
from league.training.state.members import player_seed
from league.training.view import View
from storage.archive import Archive
from storage.disk import Progress
from storage.errors import StorageError

if TYPE_CHECKING:  # needs the extra `remote`
    from storage.remote.uploader import Uploader


def train(
    settings: Settings,
    run: Path,
    *,
    resume: bool = False,
    make_view: Callable[[], View] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Train the league of `settings` into the folder `run`, which is returned.

    `resume` goes on with what the folder holds, or, if there is none, with what the remote holds;
    without it the folder must not exist yet. Ctrl-C once stops cleanly with everything saved. Raises
    StorageError for a folder or a remote that cannot be used, ResumeRefused for settings that do not
    fit what it holds, Mistake for resources that are not there; nothing is written then.
    `progress` is told of what takes long before training begins.
    """
    from league.training.resume import check, open_archive
    from league.training.session import Session

    require_installed(settings.log.sinks)
    check(settings, run, resume, progress)
    with (
        _engine(settings) as (runners, learners, evaluators),
        open_archive(settings, run, resume, progress) as archive,
        _uploading(settings.storage, archive) as uploader,
        interrupts() as interrupted,
    ):
        session = Session(settings, archive, runners, learners, uploader, evaluators)
        session.begin()
        with _showing(make_view, session) as show:
            while not (session.finished() or interrupted.is_set()):
                session.ask()
                session.evaluate()
                session.take()
                session.learn()
                session.decide()
                session.save()
                show(session)
            session.end()
    return run


@contextlib.contextmanager
def _showing(make_view: Callable[[], View] | None, session: Session) -> Iterator[Callable[[Session], None]]:
    """How to show the session, to a person and to the sinks; both are closed in any case, so that a terminal
    is left in order and no figure is lost."""
    log = session.settings.log
    with contextlib.ExitStack() as stack:
        reporting = Reporting(log.sinks, log.seconds, say=lambda line: print(line, file=sys.stderr))
        stack.callback(reporting.close)
        reporting.begin(session)
        view = make_view() if make_view else None
        if view is not None:
            stack.callback(view.close, session)

        def show(session: Session) -> None:
            if view is not None:
                view.show(session)
            reporting.show(session)

        yield show
        reporting.end(session)


@contextlib.contextmanager
def _engine(settings: Settings) -> Iterator[tuple[RunnerGroup, LearnerGroup, RunnerGroup | None]]:
    """Runners and learners: in this process, or on Ray; and runners for evaluation, if there are to be."""
    players = settings.players()
    gpus, threads = settings.resources.gpus, settings.resources.threads
    shards = plan_shards(gpus, players, settings.learner.processes)
    seeds = {player: player_seed(settings.seed, i) for i, player in enumerate(players)}
    specs = settings.policy_specs()
    most = specs[players[0]]
    others = {player: spec for player, spec in specs.items() if spec != most}
    learning = (shards, most, settings.learner, seeds)
    own = {
        player: settings.learner_of(role)
        for role, names in settings.league.player_names().items()
        for player in names
        if settings.learner_of(role) != settings.learner
    }
    device = "cuda" if gpus else "cpu"
    cache = settings.storage.cache()
    playing = (settings.env.id, settings.env.options, settings.rollout, threads, cache, settings.bots)
    with contextlib.ExitStack() as stack:
        runners: RunnerGroup
        learners: LearnerGroup
        evaluators: RunnerGroup | None = None
        if settings.runners == 0:
            runners = LocalRunnerGroup(*playing)
            learners = LocalLearnerGroup(*learning, device=device, threads=threads, own=own, own_specs=others)
        else:
            num_runners = settings.runners + settings.evaluation.runners
            num_actors = num_runners + num_cpus(shards, settings.learner.aggregators)
            stack.enter_context(ray_session(settings.resources, num_actors))
            learners = RayLearnerGroup(
                *learning, device=device, threads=threads, num_runners=num_runners, own=own, own_specs=others
            )
            runners = RayRunnerGroup(settings.runners, *playing)
            if settings.evaluation.runners:
                evaluators = RayRunnerGroup(settings.evaluation.runners, *playing)
                stack.callback(evaluators.close)
        stack.callback(runners.close)
        stack.callback(learners.close)
        yield runners, learners, evaluators


@contextlib.contextmanager
def _uploading(settings: StorageSettings, archive: Archive) -> Iterator[Uploader | None]:
    """Keeps the remote level with the run, if there is one; waits at the end until it is."""
    if settings.remote is None:
        yield None
        return
    from storage.remote.uploader import Uploader  # needs what a run without a remote does not

    uploader = Uploader(archive, settings.remote, settings.upload_seconds)
    try:
        yield uploader
    except BaseException:
        with contextlib.suppress(StorageError):  # what broke off the run is what has to be said
            uploader.close(timeout_seconds=10.0)
        raise
    uploader.close()
