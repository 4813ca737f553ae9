"""THE LOOP: how a league trains.

    measure   snapshots of mains play a few games against fixed yardsticks, if there are any: not recorded
              as matches, not rated, not learned from. Now and then the newest snapshots play a round robin,
              which is recorded, and not rated or learned from
    ask       the matchmaker draws whole matches for the player that is furthest behind its share;
              a runner plays them with the players' newest weights: to their end, or a fragment of them,
              and then the others go on in its next request
    evaluate  evaluation runners, if there are any, play matches that are recorded but not learned from
    take      results update the standings, then both are stored in one frame of the ledger before
              anything acts on them; episodes go straight from the runner to the player's learner. On a
              cluster, runners and learners then follow the nodes that join, are gone or are about to leave
    learn     learners report updates; their new weights play from the next request on
    decide    the league builder decides from roster, standings and clocks which players are frozen
              and reset, which snapshots retire; the session carries that out
    save      learner states reach the disk now and then; a kill costs at most that much learning

Words: a *player* learns and has a *role*; its policy is frozen as *snapshots*, which never change;
players, snapshots and scripted bots are *competitors*; those now in the league are the *roster*;
ratings and payoffs are the *standings*, a fold of all recorded results. `env_steps` are decisions
taken in the environment, `updates` are optimizer steps.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from league.cluster.elastic import Elastic
from league.cluster.joining import own_modules
from league.cluster.nodes import Watch, gpus_of_nodes
from league.config.placement import place
from league.config.settings import Settings
from league.config.sinks import require_installed
from league.interrupts import interrupts
from league.learning.groups.learner_group import LearnerGroup
from league.learning.groups.local_learners import LocalLearnerGroup
from league.learning.groups.ray_learners import RayLearnerGroup
from league.learning.groups.shards import num_cpus
from league.learning.recruits import Recruits
from league.rollout.requests import PlaySetup
from league.rollout.runner_group import LocalRunnerGroup, RayRunnerGroup, RunnerGroup
from league.rollout.supply import start_peers
from league.runtime import over_nodes, ray_session
from league.training.deeds import no_progress
from league.training.initial import recruit_of
from league.training.remote import uploading
from league.training.resume import changed_settings, check, open_archive
from league.training.session import Session
from league.training.sinks.reporting import Reporting
from league.training.state.members import player_seed
from league.training.view import View
from league.yardsticks.opened import open_yardsticks
from storage.disk import Progress
from storage.ends import End
from storage.tables.database_file import DatabaseFile


def train(
    settings: Settings,
    run: Path,
    *,
    resume: bool = False,
    make_view: Callable[[], View] | None = None,
    progress: Progress | None = None,
    on_end: Callable[[End], None] | None = None,
) -> Path:
    """Train the league of `settings` into the folder `run` and return that folder.

    `resume` goes on with what the folder holds or, if there is no folder, with what the remote holds;
    without `resume` the folder must not exist yet. The first Ctrl-C stops cleanly with everything saved.
    `make_view` makes the page or the lines that show the session; `progress` is called during long
    preparations, `on_end` with how it ended. Raise StorageError for a folder or a remote that cannot be used,
    ResumeRefused for settings that do not fit what it holds, Mistake for missing resources, GameBroken for a
    game with a fault; nothing is written then. Too many crashes raise GameBroken, with everything saved.
    """
    require_installed(settings.log.sinks)
    check(settings, run, resume, progress)
    yardsticks = open_yardsticks(
        settings.evaluation.yardsticks, settings.game, settings.env.id, settings.env.options
    )
    with (
        _engine(settings) as engine,
        open_archive(settings, run, resume, _say) as archive,
        DatabaseFile(run, lambda: archive.num_changes, settings.storage.database, _say) as database,
        uploading(settings.storage, archive) as uploader,
        interrupts() as interrupted,
    ):
        runners, learners, evaluators, elastic = engine
        session = Session(settings, archive, runners, learners, uploader, evaluators, yardsticks, elastic)
        session.changed = changed_settings(run) if resume else []
        with _recorded(session, on_end):
            session.begin(progress or no_progress)
            with _showing(make_view, session) as show:
                runners.until(lambda steps: session.overdue(steps, show))
                session.placing.until(lambda steps: session.overdue(steps, show))
                while not (session.finished() or interrupted.is_set()):
                    session.measure()
                    session.ask()
                    session.evaluate()
                    session.take()
                    session.learn()
                    session.decide()
                    session.save()
                    show(session)
                session.end()
        database.finish(progress)
    return run


def _say(line: str) -> None:
    print(line, file=sys.stderr)


@contextlib.contextmanager
def _recorded(session: Session, on_end: Callable[[End], None] | None) -> Iterator[None]:
    """Record how the session ends: trained, stopped, or failed with the error that is raised."""
    try:
        yield
    except BaseException as error:
        with contextlib.suppress(Exception):  # the error that ended the session matters
            session.archive.append_end(session.how_it_ends(error))
        raise
    end = session.how_it_ends()
    session.archive.append_end(end)
    if on_end is not None:
        on_end(end)


@contextlib.contextmanager
def _showing(make_view: Callable[[], View] | None, session: Session) -> Iterator[Callable[[Session], None]]:
    """Yield a function that shows the session to the user and to the sinks.

    Both are closed in any case, so that the terminal is left in order and no figure is lost.
    """
    log = session.settings.log
    with contextlib.ExitStack() as stack:
        reporting = Reporting(log.sinks, log.seconds, say=_say)
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


class Engine(NamedTuple):
    """What plays and learns."""

    runners: RunnerGroup
    learners: LearnerGroup
    evaluators: RunnerGroup | None = None
    elastic: Elastic | None = None  # where nodes may come and go


@contextlib.contextmanager
def _engine(settings: Settings) -> Iterator[Engine]:
    """Yield runners, learners and evaluation runners, if there are any: in this process or on Ray."""
    players, resources = settings.players(), settings.resources
    gpus, threads = resources.gpus, resources.threads
    specs = settings.policy_specs()
    roles = {player: role for role, names in settings.league.player_names().items() for player in names}
    recruits = Recruits(
        tuple(
            recruit_of(
                player,
                specs[player],
                settings.learner_of(player, roles[player]),
                player_seed(settings.seed, i),
            )
            for i, player in enumerate(players)
        ),
        "cuda" if gpus else "cpu",
        settings.processes.threads if settings.most_runners else threads,
    )
    cache = settings.storage.cache()
    own = settings.own_code()
    rollout = settings.rollout_of_runners
    evaluating = PlaySetup(
        settings.env.id, settings.env.options, rollout, threads, cache, settings.bots, trust=own
    )
    here = resources.address is None  # where the cores are counted
    crowded = bool(settings.most_runners) and here and settings.processes.crowded
    playing = replace(evaluating, precision=settings.precision_of_play, gives_way=crowded)
    with contextlib.ExitStack() as stack:
        if settings.most_runners == 0:
            engine = Engine(LocalRunnerGroup(playing), LocalLearnerGroup(place(settings).shards, recruits))
        else:
            # there must be room for these; others wait for it
            num_runners = settings.least_runners + settings.evaluation.runners
            num_actors = num_cpus(place(settings).shards, settings.learner.aggregators)
            stack.enter_context(
                ray_session(resources, num_actors, num_runners, own_modules(settings.model_dump()))
            )
            playing = replace(playing, peers=start_peers(resources, cache))
            known = resources.address is not None and resources.wait_seconds is None
            learners = RayLearnerGroup(
                place(settings, gpus_of_nodes() if known else None).shards,
                recruits,
                num_runners=num_runners,
                of_runner=resources.of_runner,
                wait_seconds=resources.wait_seconds,
                share=resources.share_of_learners(num_runners),
                placement=resources.placement,
            )
            n, of_runner = settings.least_runners, resources.of_runner
            evaluators: RayRunnerGroup | None = None
            if settings.evaluation.runners:
                seats = learners.seats[n:]
                calm = replace(playing, precision=evaluating.precision)
                evaluators = RayRunnerGroup(num_runners - n, calm, of_runner, seats, "evaluation_runner")
                stack.callback(evaluators.close)
            most, as_room = settings.most_runners, settings.most_runners > n
            runners = RayRunnerGroup(most, playing, of_runner, learners.seats[:n], as_room=as_room)
            elastic = None
            if over_nodes(resources):
                watch = Watch()
                stack.callback(watch.close)
                elastic = Elastic(watch, learners, [runners] if evaluators is None else [runners, evaluators])
            engine = Engine(runners, learners, evaluators, elastic)
        stack.callback(engine.runners.close)
        stack.callback(engine.learners.close)
        yield engine
