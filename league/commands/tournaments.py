"""The commands `league tournament` and `league compare`."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from league.commands.console import (
    AnchorOption,
    ExportOption,
    GateOption,
    JsonOption,
    SetOption,
    TrustOption,
    forfeits,
    named_anchors,
    print_rows,
    progress_bars,
    run_folder,
    working,
)
from league.commands.sprt import (
    AlphaOption,
    BetaOption,
    Elo0Option,
    Elo1Option,
    ModelOption,
    fields_of,
    sentence,
    test_of,
)
from league.commands.sprt import estimate as sprt_estimate
from storage.errors import printable

if TYPE_CHECKING:
    from analysis.gates.gates import GateResult
    from analysis.tournaments.tournament import Verdict
    from league.arena.comparison import Comparison
    from league.tournament.settings import TournamentSettings

MOST_UNTIL = 100_000  # pairs that are played until an interval is narrow, unless --pairs is given


def tournament(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CONFIG | RUN...",
            help="A tournament's YAML file; or run folders, addresses of remotes, exported folders",
        ),
    ] = None,
    select: Annotated[
        str | None,
        typer.Option(
            metavar="SQL", help="Snapshots of the runs to select, such as \"role = 'main' AND games > 100\""
        ),
    ] = None,
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--name",
            help="A snapshot, player or mixture of the (one) run, such as main-0, main-0:greedy or "
            "main-0:average; may be repeated",
        ),
    ] = None,
    bots: Annotated[list[str] | None, typer.Option("--bot", help="A bot; may be repeated")] = None,
    modes: Annotated[
        list[str] | None,
        typer.Option("--mode", help="Mode in which snapshots play: sample, greedy, t=0.5; may be repeated"),
    ] = None,
    schedule: Annotated[
        str | None, typer.Option(help="Schedule: round_robin, gauntlet, swiss, adaptive or top_k")
    ] = None,
    pairs: Annotated[int | None, typer.Option(help="Number of pairs of games for each pairing")] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="A,B", help="gauntlet: competitors that play against all others")
    ] = None,
    opening_plies: Annotated[
        int | None, typer.Option(help="Random moves that both games of a pair begin with")
    ] = None,
    book: Annotated[
        str | None, typer.Option(metavar="FILE", help="File of openings, one on each line")
    ] = None,
    anchors: AnchorOption = None,
    gates: GateOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--run",
            "--out",
            metavar="DIR",
            help="Run folder of the tournament; default runs/<name>. A tournament that is there goes on: it "
            "plays what is still missing",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on with the tournament of --run, also without CONFIG or RUN: finish what was stopped "
            "or killed, play more pairs or competitors, check other gates",
        ),
    ] = False,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**63 - 1, help="Seed of deals, openings and sampled actions")
    ] = None,
    runners: Annotated[
        int | None, typer.Option(min=0, help="Number of processes that play; 0: play in this process")
    ] = None,
    leave_out_damaged: Annotated[
        bool,
        typer.Option("--leave-out-damaged", help="Continue without snapshots that are missing or damaged"),
    ] = False,
    table_file: ExportOption = None,
    matches_file: Annotated[
        Path | None,
        typer.Option(
            "--export-matches", metavar="FILE", help="Write every match to a .csv, .parquet or .json file"
        ),
    ] = None,
    pack_: Annotated[
        bool,
        typer.Option(
            "--pack",
            help="Copy its snapshots and its book into the tournament's folder, which then can be played on "
            "anywhere",
        ),
    ] = False,
    set_: SetOption = None,
    trust: TrustOption = None,
    as_json: JsonOption = False,
) -> None:
    """Play competitors against each other, seats swapped, and rank them with confidence intervals."""
    from analysis.gates.gates import parse_gate
    from analysis.tournaments.exports import check_path, export, match_records
    from analysis.tournaments.tournament import verdict
    from league.tournament.options import GivenOptions, more_pairs, settled
    from storage.errors import Mistake

    for file in filter(None, (table_file, matches_file)):
        check_path(file)
    if table_file is not None and matches_file is not None and table_file.resolve() == matches_file.resolve():
        raise Mistake(f"--export and --export-matches: found {table_file} twice, expected a file for each")
    for gate in gates or ():
        parse_gate(gate)
    against_all = None if seeds is None else [name for name in map(str.strip, seeds.split(",")) if name]
    changes = {
        "seed": seed,
        "anchor": named_anchors(anchors),
        "runners": runners,
        "gates": gates,
        "trust": trust,
        "leave_out_damaged": leave_out_damaged or None,
        "schedule": {"kind": schedule, "pairs": pairs, "seeds": against_all},
        "opening": {"plies": opening_plies, "book": book},
    }
    field = {"select": select, "names": names, "modes": modes}
    options = GivenOptions(_given(field), bots or [], _given(changes), set_ or [])
    settings, folder, goes_on = settled(sources or (), options, out, resume)
    _play(settings, folder, goes_on, resume, packs=pack_)
    found = verdict(folder, anchor={name: given.anchor() for name, given in settings.anchors.items()})
    results = [parse_gate(gate).check(found) for gate in settings.gates]
    if table_file is not None:
        export(found.table, table_file)
    if matches_file is not None:
        export(match_records(folder), matches_file)
    print_verdict(found, results, folder, as_json)
    if any(result.unsure for result in results) and not as_json:
        print(f"To play more pairs: {more_pairs(folder, settings)}")
    if not all(result.passed for result in results):
        raise typer.Exit(1)


def _play(settings: TournamentSettings, folder: Path, goes_on: bool, resume: bool, *, packs: bool) -> None:
    """Play what is missing of the tournament in `folder`, and show how it goes; in the end pack it."""
    from rich.console import Console

    from league.tournament.folder import settings_of
    from league.tournament.places import pack
    from league.tournament.play import play
    from league.tournament.view import TournamentView

    console = Console(stderr=True)
    with progress_bars() as progress, TournamentView(console, settings.log_seconds) as view:
        if goes_on and not resume:
            view.tell(f"{folder}: a tournament is there and goes on (--run names another folder)")
        play(
            settings,
            folder,
            resume=goes_on,
            regather=not resume,
            observe=view.show,
            tell=view.tell,
            progress=progress,
        )
        if packs:
            view.tell(pack(folder, settings_of(folder), progress))


def print_verdict(found: Verdict, results: Sequence[GateResult], run: Path | None, as_json: bool) -> None:
    """Print the table of a tournament, what it means, and which gates passed."""
    from analysis.tournaments import wording

    if as_json:
        checked = [dataclasses.asdict(result) for result in results]
        shown = None if run is None else str(run)
        print(json.dumps({"run": shown, **wording.as_json(found), "gates": checked}))
        return
    print_rows(wording.HEADER, wording.rows(found), as_json=False)
    lines = [wording.summary(found), wording.headline(found), *wording.warnings(found)]
    print("\n".join(map(printable, [*lines, *(result.sentence for result in results)])))


def compare(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN A B | RUN:A RUN:B",
            help="A run and two of its competitors, or one competitor of each of two runs. A competitor: a "
            "snapshot, player, mixture (main-0:average) or bot; name:greedy plays its likeliest action",
        ),
    ],
    pairs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Largest number of pairs of games, in which seats are swapped; default 500, or 100000 with "
            "--until",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed of deals and sampled actions")] = 0,
    sprt: Annotated[
        tuple[float, float] | None,
        typer.Option(
            metavar="ELO0 ELO1",
            help="Stop as soon as a sequential test accepts one: at most ELO0, or at least ELO1",
        ),
    ] = None,
    elo0: Elo0Option = None,
    elo1: Elo1Option = None,
    alpha: AlphaOption = None,
    beta: BetaOption = None,
    model: ModelOption = None,
    normalized: Annotated[bool, typer.Option("--normalized", help="Short for --model normalized")] = False,
    until: Annotated[
        float | None,
        typer.Option(metavar="ELO", help="Stop as soon as the 95 % interval is at most +-ELO wide"),
    ] = None,
    opening_plies: Annotated[
        int, typer.Option(min=0, help="Random moves that both games of a pair begin with")
    ] = 0,
    trust: TrustOption = None,
    as_json: JsonOption = False,
) -> None:
    """Play A against B, and estimate which is stronger and how certain that is."""
    from league.arena.comparison import compare as play
    from storage.errors import Mistake

    run, a, b, other = _sides(words)
    if sprt is not None:
        if elo0 is not None or elo1 is not None:
            raise Mistake("compare: found --sprt beside --elo0 or --elo1, expected the bounds once")
        elo0, elo1 = sprt
    test = test_of(elo0, elo1, alpha, beta, "normalized" if normalized else model)
    with working(f"playing {a} against {b}"):
        result = play(
            run,
            a,
            b,
            pairs=pairs or (MOST_UNTIL if until is not None else 500),
            seed=seed,
            sprt=test,
            until=until,
            opening_plies=opening_plies,
            other=other,
        )
    if as_json:
        print(json.dumps(_as_json(result)))
    else:
        _print(result)


def _sides(words: Sequence[str]) -> tuple[Path, str, str, Path | None]:
    """Return the run, its competitors A and B, and the run of B if it is another. Raise Mistake, NotARun."""
    from storage.errors import Mistake
    from storage.layout import FORMAT

    if len(words) == 3:
        return run_folder(words[0]), words[1], words[2], None
    if len(words) != 2:
        raise Mistake(
            f"compare: found {len(words)} words, expected RUN A B, or RUN:A RUN:B: league compare runs/a "
            "main-0 main-0@0, or league compare runs/a:main-0 runs/b:main-0"
        )
    if (Path(words[0]) / FORMAT).exists() and ":" not in words[1]:
        raise Mistake(
            f"compare: found the run {words[0]} and one competitor, '{words[1]}', expected two: league "
            f"compare {words[0]} {words[1]} B"
        )
    (run, a), (other, b) = map(_of_a_run, words)
    return run, a, b, other


def _of_a_run(text: str) -> tuple[Path, str]:
    """Return the run and the competitor of "RUN:COMPETITOR". Raise Mistake, NotARun."""
    from storage.errors import Mistake
    from storage.layout import FORMAT, require_run

    folder, slash, rest = text.rpartition("/") if "://" in text else ("", "", text)
    name = rest.partition(":")[0]
    for end in () if slash else [at for at, letter in enumerate(rest) if letter == ":"]:
        if (Path(rest[:end]) / FORMAT).exists():  # a folder's name may have a colon, and a competitor's
            name = rest[:end]
    competitor = rest[len(name) + 1 :]
    if not name or not competitor:
        raise Mistake(
            f"compare: found '{text}', expected RUN:COMPETITOR, such as runs/a:main-0; or a run and two of "
            "its competitors: league compare RUN A B"
        )
    if not slash:
        require_run(Path(name))
    return run_folder(f"{folder}{slash}{name}"), competitor


def _print(result: Comparison) -> None:
    """Print the comparison as text."""
    wins, draws, losses = result.wins_draws_losses
    games = sum(map(len, result.results))
    print(f"{result.a} against {result.b}: {result.played_pairs} pairs, {games} games, seats swapped")
    if result.b == f"{result.a}#2":
        print("Both are the same competitor: what differs between them is chance")
    if result.repeated_pairs:
        print(
            f"{result.repeated_pairs} pairs repeat an earlier one move by move and are counted once: nothing "
            "in them was drawn at random (--opening-plies makes them differ)"
        )
    if result.ruled_out_pairs:
        print(f"{result.ruled_out_pairs} pairs are left out: the game crashed in one of them")
    for line in forfeits(result.failures):
        print(line)
    estimate, normal = result.estimate, result.normalized
    print(f"W-D-L {wins}-{draws}-{losses}, score {result.pair_scores.mean():.4f}")
    print(
        f"Elo {estimate.elo:+.0f} [{estimate.low:+.0f}, {estimate.high:+.0f}] (95 %), LOS {estimate.los:.1%}"
    )
    print(f"normalized Elo {normal.elo:+.0f} [{normal.low:+.0f}, {normal.high:+.0f}]")
    counts = ", ".join(str(count) for count in result.pentanomial)
    print(f"pairs that scored 0, 1/2, 1, 3/2, 2 points: {counts}")
    if result.sprt is not None and result.llr is not None:
        print(sentence(result.sprt, result.llr, result.exhausted))
        print(sprt_estimate(result.sprt, result.tested))
    if result.until is not None and not result.narrow:
        more = "" if result.exhausted else f" after {result.played_pairs:,} pairs: play more --pairs"
        print(f"the interval is wider than +-{result.until:g} Elo{more}")
    if result.exhausted and not (result.narrow or result.answer):
        print(
            "Stopped: a whole batch repeated earlier games. To draw something at random: --opening-plies 4, "
            f"or a mode that samples in place of :greedy (such as {result.a.partition(':')[0]}:t=0.5)"
        )


def _as_json(result: Comparison) -> dict[str, Any]:
    """Return the comparison as JSON fields; infinite values are null, as JSON has no infinity."""
    wins, draws, losses = result.wins_draws_losses
    estimate, normalized = result.estimate, result.normalized
    elo = {
        "elo": estimate.elo,
        "elo_low": estimate.low,
        "elo_high": estimate.high,
        "los": estimate.los,
        "normalized_elo": normalized.elo,
        "normalized_elo_low": normalized.low,
        "normalized_elo_high": normalized.high,
    }
    fields: dict[str, Any] = {
        "a": result.a,
        "b": result.b,
        "pairs": result.played_pairs,
        "games": sum(map(len, result.results)),
        "wins": wins,
        "draws": draws,
        "losses": losses,
        "score": float(result.pair_scores.mean()),
        **{name: value if math.isfinite(value) else None for name, value in elo.items()},
        "pentanomial": result.pentanomial.tolist(),
        "repeated_pairs": result.repeated_pairs,
        "ruled_out_pairs": result.ruled_out_pairs,
        "failures": dict(result.failures),
    }
    if result.sprt is not None and result.llr is not None:
        fields["sprt"] = fields_of(result.sprt, result.llr, result.tested)
    if result.until is not None:
        fields["until"] = {"elo": result.until, "reached": result.narrow}
    return fields | {"games_repeat": result.exhausted}


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given, without empty groups."""
    inner = {name: _given(value) if isinstance(value, dict) else value for name, value in options.items()}
    return {name: value for name, value in inner.items() if value is not None and value != {}}
