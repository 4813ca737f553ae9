"""The commands `league tournament` and `league compare`."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from league.commands.console import JsonOption, RunArgument, print_rows

if TYPE_CHECKING:
    from league.tournament.comparison import Comparison
    from league.tournament.settings import TournamentSettings

TrustOption = Annotated[
    list[str] | None,
    typer.Option(metavar="MODULE:CLASS", help="A network of your own that snapshots may be built from"),
]


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
            metavar="SQL", help="Which snapshots of the runs, such as \"role = 'main' AND games > 100\""
        ),
    ] = None,
    names: Annotated[
        list[str] | None,
        typer.Option("--name", help="A snapshot or player of the (one) run; may be repeated; `name:greedy`"),
    ] = None,
    bots: Annotated[list[str] | None, typer.Option("--bot", help="A bot; may be repeated")] = None,
    modes: Annotated[
        list[str] | None,
        typer.Option("--mode", help="How snapshots play: sample, greedy, t=0.5; may be repeated"),
    ] = None,
    schedule: Annotated[
        str | None, typer.Option(help="round_robin, gauntlet, swiss, adaptive or top_k")
    ] = None,
    pairs: Annotated[int | None, typer.Option(help="Pairs of each pairing")] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="A,B", help="gauntlet: who meets everybody else")
    ] = None,
    opening_plies: Annotated[
        int | None, typer.Option(help="Random moves that both games of a pair begin with")
    ] = None,
    book: Annotated[str | None, typer.Option(metavar="FILE", help="Openings, one on each line")] = None,
    anchor: Annotated[str | None, typer.Option(help="Whose rating is 0; default: the mean of all is")] = None,
    gates: Annotated[
        list[str] | None,
        typer.Option("--gate", help='What must hold, such as "elo > 20 against main-0@0"; else exit code 1'),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Run folder of the tournament; default runs/<name>")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with one that was stopped or killed; show one that is over"),
    ] = False,
    seed: Annotated[int | None, typer.Option(min=0, help="Of deals, openings, sampled actions")] = None,
    runners: Annotated[int | None, typer.Option(min=0, help="Processes that play; 0: this one")] = None,
    leave_out_damaged: Annotated[
        bool, typer.Option("--leave-out-damaged", help="Go on without snapshots that are missing or damaged")
    ] = False,
    table_file: Annotated[
        Path | None,
        typer.Option("--export", metavar="FILE", help="Write the table to .csv, .parquet or .json"),
    ] = None,
    matches_file: Annotated[
        Path | None,
        typer.Option("--export-matches", metavar="FILE", help="Write every match to .csv, .parquet or .json"),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="A.B=VALUE", help="Override a setting; may be repeated"),
    ] = None,
    trust: TrustOption = None,
    as_json: JsonOption = False,
) -> None:
    """Which of these is best, and how sure is that? Plays them against each other, seats swapped."""
    from rich.console import Console

    from analysis.gates.gates import parse_gate
    from analysis.tournaments import wording
    from analysis.tournaments.exports import check_path, export, match_records
    from analysis.tournaments.tournament import verdict
    from league.commands.progress import progress_bars
    from league.tournament.play import play
    from league.tournament.view import TournamentView
    from storage.errors import Mistake

    for file in filter(None, (table_file, matches_file)):
        check_path(file)
    if table_file is not None and matches_file is not None and table_file.resolve() == matches_file.resolve():
        raise Mistake(f"--export and --export-matches: found {table_file} twice, expected a file for each")
    for gate in gates or ():
        parse_gate(gate)
    changes = {
        "seed": seed,
        "anchor": anchor,
        "runners": runners,
        "gates": gates,
        "trust": trust,
        "leave_out_damaged": leave_out_damaged or None,
        "schedule": {"kind": schedule, "pairs": pairs, "seeds": _split(seeds)},
        "opening": {"plies": opening_plies, "book": book},
    }
    field = {"select": select, "names": names, "modes": modes}
    said = _given(field), bots or [], _given(changes), set_ or []
    if sources:
        settings = _settings(sources, *said)
    elif resume and out is not None:
        settings = _begun(out, *said)
    else:
        raise Mistake(
            "tournament: found no CONFIG and no RUN, expected who is to play; or --out OUT --resume, to go "
            "on with a tournament"
        )
    folder = out or Path("runs") / settings.name
    console = Console(stderr=True)
    with progress_bars() as progress, TournamentView(console, settings.log_seconds) as view:
        play(settings, folder, resume=resume, observe=view.show, tell=view.tell, progress=progress)
    found = verdict(folder, anchor=settings.anchor)
    results = [parse_gate(gate).check(found) for gate in settings.gates]
    if table_file is not None:
        export(found.table, table_file)
    if matches_file is not None:
        export(match_records(folder), matches_file)
    if as_json:
        told = [dataclasses.asdict(result) for result in results]
        print(json.dumps({"run": str(folder), **wording.as_json(found), "gates": told}))
    else:
        print_rows(wording.HEADER, wording.rows(found), as_json=False)
        for line in (
            wording.summary(found),
            wording.headline(found),
            *wording.warnings(found),
            *(r.sentence for r in results),
        ):
            print(line)
    if not all(result.passed for result in results):
        raise typer.Exit(1)


def compare(
    run: RunArgument,
    a: Annotated[
        str, typer.Argument(help="Snapshot, player or bot; `name:greedy` plays its likeliest action")
    ],
    b: Annotated[str, typer.Argument(help="Its opponent")],
    pairs: Annotated[
        int, typer.Option(min=1, help="Pairs of games, seats swapped within each; at most")
    ] = 500,
    seed: Annotated[int, typer.Option(min=0, help="Of deals and sampled actions")] = 0,
    sprt: Annotated[
        tuple[float, float] | None,
        typer.Option(
            metavar="ELO0 ELO1", help="Stop as soon as it is clear which: at most ELO0, or at least ELO1"
        ),
    ] = None,
    normalized: Annotated[
        bool, typer.Option("--normalized", help="ELO0 and ELO1 are normalized Elo")
    ] = False,
    opening_plies: Annotated[
        int, typer.Option(min=0, help="Random moves that both games of a pair begin with")
    ] = 0,
    trust: TrustOption = None,
    as_json: JsonOption = False,
) -> None:
    """Play A against B and say which is stronger, and how sure that is."""
    from analysis.statistics.sprt import Sprt
    from league.models.networks.networks import trust_network
    from league.tournament.comparison import compare as play

    for path in trust or ():
        trust_network(path)
    test = None if sprt is None else Sprt(*sprt, model="normalized" if normalized else "logistic")
    result = play(run, a, b, pairs=pairs, seed=seed, sprt=test, opening_plies=opening_plies)
    if as_json:
        print(json.dumps(_as_json(result)))
    else:
        _print(result)


def _print(result: Comparison) -> None:
    """For people."""
    from storage.errors import Failure

    wins, draws, losses = result.wins_draws_losses
    games = sum(map(len, result.results))
    print(f"{result.a} against {result.b}: {result.played_pairs} pairs, {games} games, seats swapped")
    if result.repeated_pairs:
        print(
            f"{result.repeated_pairs} pairs repeat an earlier one move by move and are counted once: nobody "
            "drew anything at random (--opening-plies makes them differ)"
        )
    if result.ruled_out_pairs:
        print(f"{result.ruled_out_pairs} pairs count for nobody: the game crashed in one of them")
    if not len(result.pair_scores):
        raise Failure("no pair counts, so nothing can be said")
    estimate, normal = result.estimate, result.normalized
    print(f"W-D-L {wins}-{draws}-{losses}, score {result.pair_scores.mean():.4f}")
    print(
        f"Elo {estimate.elo:+.0f} [{estimate.low:+.0f}, {estimate.high:+.0f}] (95 %), LOS {estimate.los:.1%}"
    )
    print(f"normalized Elo {normal.elo:+.0f} [{normal.low:+.0f}, {normal.high:+.0f}]")
    counts = ", ".join(str(count) for count in result.pentanomial)
    print(f"pairs that scored 0, 1/2, 1, 3/2, 2 points: {counts}")
    if result.sprt is not None:
        low, high = result.sprt.bounds
        meaning = {
            "H0": f"accepted H0: at most {result.sprt.elo0:g} Elo",
            "H1": f"accepted H1: at least {result.sprt.elo1:g} Elo",
            None: "no answer yet: play more --pairs",
        }
        print(f"SPRT {meaning[result.answer]}; LLR {result.llr:+.2f} of [{low:.2f}, {high:.2f}]")


def _as_json(result: Comparison) -> dict[str, Any]:
    wins, draws, losses = result.wins_draws_losses
    counted = len(result.pair_scores) > 0
    estimate = dataclasses.astuple(result.estimate) if counted else (None,) * 4
    normalized = dataclasses.astuple(result.normalized) if counted else (None,) * 4
    elo = zip(("elo", "elo_low", "elo_high", "los"), estimate, strict=True)
    normalized_elo = zip(
        ("normalized_elo", "normalized_elo_low", "normalized_elo_high"), normalized, strict=False
    )
    fields: dict[str, Any] = {
        "a": result.a,
        "b": result.b,
        "pairs": result.played_pairs,
        "games": sum(map(len, result.results)),
        "wins": wins,
        "draws": draws,
        "losses": losses,
        "score": float(result.pair_scores.mean()) if counted else None,
        **{name: _finite(value) for name, value in (*elo, *normalized_elo)},
        "pentanomial": result.pentanomial.tolist(),
        "repeated_pairs": result.repeated_pairs,
        "ruled_out_pairs": result.ruled_out_pairs,
    }
    if result.sprt is not None:
        fields["sprt"] = {
            "elo0": result.sprt.elo0,
            "elo1": result.sprt.elo1,
            "model": result.sprt.model,
            "llr": result.llr,
            "bounds": list(result.sprt.bounds),
            "answer": result.answer,
        }
    return fields


def _settings(
    sources: list[str],
    field: dict[str, Any],
    bots: list[str],
    changes: dict[str, Any],
    overrides: list[str],
) -> TournamentSettings:
    """The settings that the command line means. Raises ConfigError, Mistake."""
    from league.tournament.settings import load
    from storage.errors import Mistake

    if len(sources) == 1 and Path(sources[0]).suffix in (".yaml", ".yml"):
        if field or bots:
            raise Mistake(
                f"{sources[0]}: found --{_option(field)} beside a config, expected it for runs alone; "
                "write it under competitors"
            )
        return load(sources[0], overrides, changes)
    names = {"name": re.sub(r"[^A-Za-z0-9._-]", "-", Path(sources[0]).name) + "-tournament"}
    competitors: list[dict[str, Any]] = [_competitor(source, field) for source in sources]
    asked = {name: value for name, value in field.items() if name != "modes"}
    if asked and not any("run" in competitor for competitor in competitors):
        raise Mistake(
            f"{sources[0]}: found --{_option(asked)} beside exported folders, which hold one snapshot each, "
            "expected it for runs; leave it out"
        )
    if bots:
        competitors.append({"bots": bots})
    return load(names | {"competitors": competitors} | changes, overrides)


def _option(field: dict[str, Any]) -> str:
    """The first option that says who takes part."""
    return [*field, "bot"][0].removesuffix("s")


def _competitor(source: str, field: dict[str, Any]) -> dict[str, Any]:
    """A run, or an exported folder, as an entry of `competitors`."""
    from storage.upkeep.exports import MANIFEST

    if "://" not in source and (Path(source) / MANIFEST).is_file():
        return {"folder": source} | {name: field[name] for name in ("modes",) if name in field}
    return {"run": source} | field


def _begun(
    out: Path, field: dict[str, Any], bots: list[str], changes: dict[str, Any], overrides: list[str]
) -> TournamentSettings:
    """The settings of the tournament in `out`, changed as the command line says."""
    from league.tournament.folder import settings_of
    from league.tournament.settings import load
    from storage.errors import Mistake

    if field or bots:
        raise Mistake(f"{out}: its field is the one that it began with; leave out --{_option(field)}")
    return load(settings_of(out).model_dump(mode="json"), overrides, changes)


def _split(seeds: str | None) -> list[str] | None:
    """The names between the commas."""
    return None if seeds is None else [name for name in map(str.strip, seeds.split(",")) if name]


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """Those that were given, also of groups."""
    inner = {name: _given(value) if isinstance(value, dict) else value for name, value in options.items()}
    return {name: value for name, value in inner.items() if value is not None and value != {}}


def _finite(value: float | None) -> float | None:
    """JSON knows no infinity: an Elo without bound is null."""
    return value if value is not None and math.isfinite(value) else None
