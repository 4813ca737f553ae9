"""Views of a run: a live page on a terminal, or else one plain line per interval."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Mapping
from datetime import timedelta

import psutil
from rich import box
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from league.config.settings import Settings
from league.learning.data.joining import MOST_BYTES
from league.learning.groups.shards import describe
from league.models.policies import dense
from league.rollout.traces.recorder import COPIES
from league.training.freeze_yardsticks import FreezeYardsticks
from league.training.reporting import Rates, folder_of
from league.training.session import Session
from league.training.state.reports import SPENT
from league.training.state.session_sums import Course
from storage.ends import span
from storage.records import UpdateRecord

REFRESH_SECONDS = 0.5
MANY_FRAMES = 64  # of a stack, beyond which a line says how much a network sees
LEADERBOARD_ROWS = 14
LESSONS_ROWS = 6
ROLES_ROWS, ROLES_IN_SHORT = 8, 2
REASON_CHARACTERS = 36
WINDOW_SECONDS = 15.0  # rates are means over this period
MOST_COURSES = 4  # players whose scores are shown


class Lately:
    """Match types of the last `WINDOW_SECONDS`."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, Counter[str]]] = deque()

    def mix(self, session: Session) -> Counter[str]:
        """Return the number of matches of each match type since the window began."""
        now = time.monotonic()
        self._seen.append((now, session.state.match_mix.copy()))
        while len(self._seen) > 2 and now - self._seen[0][0] > WINDOW_SECONDS:
            self._seen.popleft()
        return session.state.match_mix - self._seen[0][1]


class News:
    """Lines that are printed once: the processes, precisions, sizes of play, placement of players and which
    have stopped, errors of the remote.

    Each incident is one more line, whatever it says: who died, where, what it cost, what took its place.

    At the end: what the players score on yardsticks.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._printed: set[str] = set()

    def print_new(self, session: Session) -> None:
        """Print the lines that have not been printed yet."""
        for line in session.incidents.unread():
            self._say(line)
        stopped = [f"{name} has stopped. {m.stopped}" for name, m in session.members.items() if m.stopped]
        trouble = [] if session.uploader is None else [session.uploader.status().last_error]
        changed = [f"changed: {line}" for line in session.changed]
        if not self._printed:
            if session.settings.most_runners:
                changed.append(session.settings.processes.sentence())
            settings = session.settings
            changed += [_precision_of_play(settings), _memory_of_fragments(settings), _stacked(settings)]
            changed += [
                "to watch it: tensorboard --logdir "
                f"{sink.folder or folder_of(session.archive.run) / sink.kind}"
                for sink in session.settings.log.sinks
                if sink.kind == "tensorboard"
            ]
        newest = session.log.newest.values()
        changed += session.matches.pace.sentences()
        changed += [*map(_precision_of_learning, newest), *map(_cut_early, newest)]
        for line in filter(None, [*changed, *describe(session.learners.plan()), *stopped, *trouble]):
            if line not in self._printed:
                self._printed.add(line)
                self._say(line)

    def print_last(self, session: Session, course: Course | None) -> None:
        """Print the first and the newest figures of the players: what they score, and on each yardstick."""
        if course is not None:
            for name in list(session.members)[:MOST_COURSES]:
                if line := course.sentence(name, bots_of(session)):
                    self._say(line)
        for line in summary(session.yardsticks):
            self._say(line)

    def _say(self, line: str) -> None:
        self._console.print(line, highlight=False, soft_wrap=True, markup=False)


def _precision_of_play(settings: Settings) -> str:
    """Return in which precision policies play, by that of the first player."""
    spec = next(iter(settings.policy_specs().values()))
    rollout = settings.rollout_of_runners
    rows = min(rollout.slots, rollout.matches_per_request)
    return dense.describe(spec, settings.precision_of_play, rows, rollout.device)


def _memory_of_fragments(settings: Settings) -> str:
    """Return what the experience of one request may take, if that is more than this machine has."""
    rollout = settings.rollout
    if rollout.fragment is None:
        return ""
    steps = min(rollout.fragment, rollout.step_limit or rollout.fragment)
    decision = max(spec.bytes_of_decision for spec in settings.policy_specs().values())
    most = COPIES * settings.rollout_of_runners.slots * steps * decision
    memory = psutil.virtual_memory().total
    if most <= memory:
        return ""
    return (
        f"rollout.fragment_steps is {steps:,}: if matches are so long, the experience of one request takes "
        f"{most / 2**30:,.1f} GiB, and this machine has {memory / 2**30:,.1f} GiB"
    )


def _stacked(settings: Settings) -> str:
    """Return how much a network sees whose connectors stack many frames."""
    frames = math.prod(getattr(connector, "frames", 1) for connector in settings.policy.connectors)
    if frames <= MANY_FRAMES:
        return ""
    shown = math.prod(settings.game.observation_specs[0].shape)
    return (
        f"policy.connectors stack {frames:,} frames: of each decision a network sees {frames * shown:,} "
        f"numbers, where the game shows {shown:,}; policy.memory looks back with fewer"
    )


def _cut_early(record: UpdateRecord) -> str:
    """Return that a player learns from steps of matches too early, if it does."""
    if not record.metrics.get("cut_early"):
        return ""
    return (
        f"{record.player} learns from some matches before enough of what follows is known: more than "
        f"{MOST_BYTES / 2**20:.0f} MiB would wait; lower rollout.slots, runners or gae_lambda"
    )


def _precision_of_learning(record: UpdateRecord) -> str:
    """Return in which precision a player learns, if that was tried."""
    gain = record.metrics.get("bfloat16_speedup")
    if not gain:  # not tried, or the processor has none
        return ""
    chosen = "bfloat16" if record.metrics.get("bfloat16") else "float32"
    return f"policies learn in {chosen}: bfloat16 is {gain:.1f} times as fast as float32 there"


def summary(measuring: FreezeYardsticks) -> list[str]:
    """Return a line for each player and yardstick: its newest snapshot, and its first one for comparison."""
    lines = []
    for player, newest in measuring.newest.items():
        for name, (snapshot, record) in newest.items():
            first = measuring.first[player][name]
            before = (
                ""
                if first.snapshot is snapshot
                else f", {first.snapshot.snapshot_id} {first.record.value:.2f}"
            )
            yardstick, measure = name.split("/")
            lines.append(
                f"{player} on {yardstick}: {measure.replace('_', ', ')} {record.value:.2f} "
                f"[{record.low:.2f}, {record.high:.2f}], {snapshot.snapshot_id}{before}"
            )
    return lines


def bots_of(session: Session) -> list[str]:
    """Return the names of the scripted bots in the league."""
    return [each.name for each in session.roster.bots]


def left(session: Session, steps_a_second: float) -> str:
    """Return the time that is left until `stop`, such as "4 min left"; nothing if that is not known."""
    stop, found = session.settings.stop, []
    if stop.minutes is not None:
        found.append(60.0 * stop.minutes - session.clock.seconds())
    if stop.env_steps is not None and steps_a_second > 0.0:
        found.append((stop.env_steps - session.totals.played_steps) / steps_a_second)
    return f"{span(float(round(max(min(found), 0.0))))} left" if found else ""


class View(ABC):
    """Display of a session, which it never changes."""

    def __init__(self, console: Console, every_seconds: float) -> None:
        self._console = console
        self._every = every_seconds
        self._rates = Rates(WINDOW_SECONDS)
        self._news = News(console)
        self._course: Course | None = None
        self._shown = -float("inf")

    def show(self, session: Session) -> None:
        """Update the display, if it is time."""
        now = time.monotonic()
        if now - self._shown >= self._every:
            self._shown = now
            self._update(session)

    def close(self, session: Session) -> None:
        """Show the last state, then what the players scored at first and at last, and on yardsticks."""
        self._update(session)
        self._news.print_last(session, self._course)

    @abstractmethod
    def _update(self, session: Session) -> None:
        """Show the session as it is now."""


class PlainView(View):
    """Plain view: one line per interval, for logs and pipes."""

    def _update(self, session: Session) -> None:
        self._news.print_new(session)
        env_steps, trained, matches = self._rates.update(session)
        self._course = self._course or Course(session.played)
        self._course.note()
        remaining = left(session, env_steps)
        rated = [*session.members][:1] if session.settings.game.num_seats > 1 else []
        first = map(session.standings.rating, rated)
        lag = max((record.lag for record in session.log.newest.values()), default=0.0)
        played = session.totals.played_steps
        self._console.print(
            f"{session.clock.seconds():7.0f} s  {played:>12,} env steps  {env_steps:>9,.0f} /s  "
            f"trained {trained:>9,.0f} /s  {matches:>7,.0f} matches/s  lag {lag:5.1f}  "
            f"{len(session.roster.snapshots())} snapshots"
            + "".join(f"  TrueSkill of {own.competitor} {own.mu - 3 * own.sigma:.1f}" for own in first)
            + self._lately(session)
            + _roles_in_short(session)
            + (f"  {remaining}" if remaining else ""),
            highlight=False,
            soft_wrap=True,
        )

    def _lately(self, session: Session) -> str:
        """Return what the first player scored lately: in a game for one, or against bots."""
        name = next(iter(session.members), None)
        if name is None or self._course is None:
            return ""
        rows = self._course.figures_of(name, bots_of(session))
        shown = rows if session.settings.game.num_seats == 1 else rows[2:]
        return "".join(f"  {name} {figure} {last}" for figure, _, last in shown[:2])


class LiveView(View):
    """Live view: a page on the terminal that redraws itself."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, REFRESH_SECONDS)
        self._lately = Lately()
        self._noted = -float("inf")
        self._live = Live(console=console, refresh_per_second=1 / REFRESH_SECONDS, auto_refresh=False)
        self._live.start()

    def close(self, session: Session) -> None:
        """Draw the page a last time, stop drawing, and print what the players scored."""
        self._update(session)
        self._live.stop()
        if self._course is not None:
            self._course.note()
        self._news.print_last(session, self._course)

    def _update(self, session: Session) -> None:
        self._live.update(self._page(session), refresh=True)

    def _page(self, session: Session) -> RenderableType:
        self._news.print_new(session)
        env_steps, trained, matches = self._rates.update(session)
        self._course = self._course or Course(session.played)
        if time.monotonic() - self._noted > WINDOW_SECONDS or not self._course.last:
            self._noted = time.monotonic()
            self._course.note()
        totals = session.totals
        head = Table.grid(padding=(0, 3))
        head.add_row(
            f"[bold]{session.settings.name}[/]: {session.settings.env.id}",
            f"{timedelta(seconds=int(session.clock.seconds()))} {left(session, env_steps)}".rstrip(),
            f"{totals.played_steps:,} env steps",
            f"[bold]{env_steps:,.0f}[/] env steps/s",
            f"{trained:,.0f} trained/s",
            f"{matches:,.0f} matches/s",
            f"{totals.dropped_matches:,} matches dropped",
        )
        first = Group(_leaderboard(session), *_courses(session, self._course), _lessons(session))
        middle = Group(_learners(session), _seconds(session), _decisions(session))
        mix = _mix(session, self._lately.mix(session))
        kinds = mix, _roles(session), *_yardsticks(session)
        right = Group(*kinds, _caches(session), *_remote(session), *_incidents(session))
        return Group(Panel(head), Columns([first, middle, right], padding=(0, 2)))


def _table(title: str, name: str, *numbers: str) -> Table:
    """Return a table of named rows; names are never cut, numbers are right-aligned."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(name, no_wrap=True)
    for number in numbers:
        table.add_column(number, justify="right", no_wrap=True)
    return table


def _leaderboard(session: Session) -> Table:
    counted = "win rate" if session.standings.scale is None else "lead"
    title = "Leaderboard, by TrueSkill: mu - 3 sigma"
    table = _table(title, "competitor", "mu", "sigma", "rated games", counted)
    for row in session.standings.leaderboard()[:LEADERBOARD_ROWS]:
        rate = "" if row.win_rate is None else f"{row.win_rate:.2f}"
        if row.lead is not None:
            rate = f"{row.lead:+.3f}"
        learns = row.competitor in session.members
        style = "bold" if learns else "dim" if row.apart else None
        table.add_row(
            row.competitor, f"{row.mu:.1f}", f"{row.sigma:.1f}", f"{row.games:,}", rate, style=style
        )
    return table


def _courses(session: Session, course: Course) -> list[RenderableType]:
    """Return the table of scores, lengths and points against bots, if anything was played."""
    table = _table("Learning curves", "player", "figure", "first", "lately")
    for name in list(session.members)[:MOST_COURSES]:
        for figure, first, last in course.figures_of(name, bots_of(session)):
            table.add_row(name, figure, first, last)
    return [table] if table.row_count else []


def _learners(session: Session) -> Table:
    table = _table("Learners", "player", "updates", "lag", "entropy", "value", "queue", "waits")
    queues = session.learners.queues()
    for name, member in session.members.items():
        record, queue = session.log.newest.get(name), queues[name]
        row = [f"{member.updates:,}", "", "", "", f"{queue.depth}/{queue.bound}", f"{queue.waits:,}"]
        if record is not None:
            row[1:4] = f"{record.lag:.1f}", *(_shown(record.metrics, k) for k in ("entropy", "value_loss"))
        table.add_row(name, *row, style="dim" if member.stopped else None)
    return table


def _shown(metrics: Mapping[str, float], name: str) -> str:
    """Return the figure, or nothing if the loss has none of this name."""
    return f"{metrics[name]:.3f}" if name in metrics else ""


def _seconds(session: Session) -> Table:
    """Return the table of what each player's time was spent on, in the last interval of the log."""
    table = _table("Seconds, lately", "player", *SPENT)
    for name in session.members:
        own = session.log.spent.get(name, {})
        if own:
            table.add_row(name, *(f"{own[f'seconds_{what}']:.1f}" for what in SPENT))
    return table


def _decisions(session: Session) -> Table:
    table = _table("Latest decisions", "decision")
    table.add_column("reason", no_wrap=True)
    for what, why in session.state.news:
        table.add_row(what, why.partition(";")[0][:REASON_CHARACTERS])
    return table


def _lessons(session: Session) -> Table:
    table = _table("Learned most from", "player", "seats")
    table.add_column("opponent", no_wrap=True)
    for (player, opponent), games in session.state.tally.opponents.most_common(LESSONS_ROWS):
        table.add_row(player, f"{games:,}", "itself" if opponent == player else opponent)
    return table


def _roles(session: Session) -> Table:
    """Return the table of seats that players learned from, by the kinds of the two competitors."""
    table = _table("Played by role", "player", "seats", "share")
    table.add_column("opponent", no_wrap=True)
    counts = session.state.tally.by_role(session.roster)
    for (role, opponent), seats in counts.most_common(ROLES_ROWS):
        table.add_row(role, f"{seats:,}", f"{seats / counts.total():.1%}", opponent)
    return table


def _roles_in_short(session: Session) -> str:
    """Return the kinds of competitors that met most, such as "  main against past main 50 %"."""
    counts = session.state.tally.by_role(session.roster)
    return "".join(
        f"  {role} against {opponent} {seats / counts.total():.0%}".replace("%", " %")
        for (role, opponent), seats in counts.most_common(ROLES_IN_SHORT)
    )


def _mix(session: Session, lately: Counter[str]) -> Table:
    table = _table("Match mix", "match type", "share", "lately")
    total, recent = max(session.state.match_mix.total(), 1), max(lately.total(), 1)
    for match_type, count in session.state.match_mix.most_common():
        table.add_row(match_type, f"{count / total:.1%}", f"{lately[match_type] / recent:.1%}")
    return table


def _yardsticks(session: Session) -> list[RenderableType]:
    """Return the table of figures on yardsticks, if there are any: those of each main's newest snapshot."""
    if not session.yardsticks.newest:
        return []
    table = _table("Yardsticks", "measure", *session.yardsticks.newest)
    names = dict.fromkeys(name for own in session.yardsticks.newest.values() for name in own)
    for name in names:
        cells = [own.get(name) for own in session.yardsticks.newest.values()]
        table.add_row(
            name.replace("_", " "), *("" if cell is None else f"{cell.record.value:.2f}" for cell in cells)
        )
    return [table]


def _caches(session: Session) -> Table:
    """Return the table of caches: the tiers where weights of seated snapshots were found."""
    table = _table("Snapshots found", "tier", "found", "held", "MB", "evicted")
    total: dict[str, list[int]] = {}
    for record in session.caches.records():
        counts = (record.hits, record.misses, record.resident, record.bytes, sum(record.evictions.values()))
        so_far = total.get(record.tier, [0] * len(counts))
        total[record.tier] = [a + b for a, b in zip(so_far, counts, strict=True)]
    for tier, (hits, misses, resident, size, evicted) in total.items():
        if hits + misses:
            found = f"{hits / (hits + misses):.1%}"
            table.add_row(tier, found, f"{resident:,}", f"{size / 1e6:,.0f}", f"{evicted:,}")
    return table


def _incidents(session: Session) -> list[RenderableType]:
    """Return what was said last, and the table of what died in this session with the newest death."""
    log = session.incidents
    said: list[RenderableType] = [Text(log.said, style="dim")] if log.said else []
    if not log.newest:
        return said
    table = _table("Incidents", "kind", "times")
    for kind, count in log.counts.most_common():
        table.add_row(kind.replace("_", " "), f"{count:,}")
    table.add_row(Text(log.newest[0].who[:REASON_CHARACTERS]), "newest", style="dim")
    return [table, *said]


def _remote(session: Session) -> list[RenderableType]:
    """Return the table of what the remote still lacks, if there is a remote."""
    if session.uploader is None:
        return []
    status = session.uploader.status()
    table = _table("Remote", "behind by", "")
    table.add_row("snapshots", f"{status.behind_snapshots:,}")
    table.add_row("ledger, MB", f"{status.behind_bytes / 1e6:,.1f}")
    table.add_row("retries", f"{status.retries:,}", style="bold" if status.last_error else None)
    return [table]
