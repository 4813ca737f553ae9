"""The command `league runs`: the runs in a folder, and how each of them ended."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from league.commands.console import JsonOption, print_rows

HEADER = ("run", "game", "state", "env_steps", "matches", "snapshots", "began")
_FACTS = """
SELECT (SELECT arg_max(env, started_at) FROM runs) AS game,
    (SELECT min(started_at) FROM runs) AS began,
    (SELECT count(*) FROM matches) AS matches, (SELECT coalesce(sum(env_steps), 0) FROM matches) AS env_steps,
    (SELECT count(*) FROM snapshots) AS snapshots
"""


def runs(
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="A folder of runs")] = Path("runs"),
    as_json: JsonOption = False,
) -> None:
    """List the runs in a folder: trained, stopped before the end, failed, killed or training now."""
    from storage.errors import Mistake
    from storage.layout import FORMAT

    found = sorted(path.parent for path in folder.glob(f"*/{FORMAT}"))
    if (folder / FORMAT).exists():
        found = [folder]
    if not found:
        raise Mistake(f"{folder}: no run folder in it, expected some (made by: league train)")
    print_rows(HEADER, [row_of(run) for run in found], as_json)


def row_of(run: Path) -> tuple[Any, ...]:
    """Return what the table says of a run; of one that cannot be read, why."""
    from storage import query
    from storage.ends import FACTS, state_of
    from storage.errors import Failure, Mistake
    from storage.layout import LEDGER
    from storage.ledger.ledger import is_written

    try:
        (facts,) = query(run, _FACTS).to_pylist()
        (ended,) = query(run, FACTS).to_pylist()
        state = state_of(ended, is_written(run / LEDGER)).sentence
    except (Failure, Mistake) as error:
        return (str(run), "", " ".join(str(error).split()), None, None, None, None)
    numbers = (int(facts[name]) for name in ("env_steps", "matches", "snapshots"))
    return (str(run), facts["game"], state, *numbers, f"{facts['began']:%Y-%m-%d %H:%M}")
