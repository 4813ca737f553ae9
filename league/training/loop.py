"""THE LOOP: how a league trains.

    measure   snapshots of mains play a few games against fixed yardsticks, if there are any: not recorded
              as matches, not rated, not learned from. Now and then the newest snapshots play a round robin,
              which is recorded, and not rated or learned from
    ask       the matchmaker draws whole matches for the player that is furthest behind its share, or for the
              next one if its learner has no room; a runner plays them with the players' newest weights: to
              their end, or a fragment of them, and then the others go on in its next request
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
from pathlib import Path
from typing import TYPE_CHECKING

from league.config.sections import StorageSettings, require_installed
from league.config.settings import Settings
from league.interrupts import interrupts
from league.training.actions import no_progress
from league.training.engine import start_engine
from league.training.freeze_yardsticks import with_yardstick
from league.training.reporting import Reporting
from league.training.resume import changed_settings, check, keep_shapes, open_archive, try_games
from league.training.session import Session
from league.training.sizes import with_policies, with_recorded_sizes, with_sizes
from league.training.view import View
from league.yardsticks.prepared import open_yardsticks
from storage.archive import Archive
from storage.disk import Progress
from storage.ends import End
from storage.errors import Failure, StorageError
from storage.tables.database_file import DatabaseFile

if TYPE_CHECKING:
    from storage.remote.uploader import Uploader  # needs the extra `remote`


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
    cost = try_games(settings)
    check(settings, run, resume, progress)
    if resume:
        settings, sizes = with_recorded_sizes(settings, run)
        settings = keep_shapes(settings, run)
    else:
        cost = with_policies(cost, settings)
        settings, sizes = with_sizes(with_yardstick(settings, cost), cost)
    yardsticks = open_yardsticks(
        settings.evaluation.yardsticks, settings.game, settings.env.id, settings.env.options
    )
    with (
        start_engine(settings) as engine,
        open_archive(settings, run, resume) as archive,
        DatabaseFile(run, lambda: archive.num_changes, settings.storage.database, _say) as database,
        _uploading(settings.storage, archive) as uploader,
        interrupts() as interrupted,
    ):
        session = Session(settings, archive, engine, uploader, yardsticks)
        session.changed = changed_settings(run) if resume else []
        with _recorded(session, on_end):
            session.begin(progress or no_progress)
            if sizes:
                session.incidents.say(sizes)
            with _showing(make_view, session) as show:
                session.show_meanwhile(show)
                while not (session.clock.finished() or interrupted.is_set()):
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


@contextlib.contextmanager
def _uploading(settings: StorageSettings, archive: Archive) -> Iterator[Uploader | None]:
    """Keep the remote level with the run, if there is one; wait at the end until it is."""
    if settings.remote is None:
        yield None
        return
    from storage.remote.uploader import Uploader  # needs the extra `remote`

    uploader = Uploader(archive, settings.remote, settings.upload_seconds)
    try:
        yield uploader
    except BaseException:
        with contextlib.suppress(StorageError):  # the error that ended the run is the one to show
            uploader.close(timeout_seconds=10.0)
        raise
    uploader.close()


def _say(line: str) -> None:
    print(line, file=sys.stderr)


@contextlib.contextmanager
def _recorded(session: Session, on_end: Callable[[End], None] | None) -> Iterator[None]:
    """Record how the session ends: trained, stopped, or failed with the error that is raised."""
    try:
        with session.kept():
            yield
    except BaseException as error:
        with contextlib.suppress(Exception):  # the error that ended the session matters
            if isinstance(error, Failure) and not isinstance(error, StorageError):
                session.rescue()
            session.archive.append_end(session.clock.end(error))
        raise
    end = session.clock.end()
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
