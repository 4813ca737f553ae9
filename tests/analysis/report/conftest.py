"""Runs to report on, each made once, and a browser to look at pages with."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

import analysis
from analysis.report import report_page, sections
from storage.archive import Archive
from storage.records import (
    MAIN,
    Bot,
    EndReason,
    LivePlayer,
    RatingChange,
    Reset,
    ResultBatch,
    YardstickRecord,
)
from tests import made_up
from tests.analysis.planted_runs import Plan, plant
from tests.analysis.played_tournaments import bot, round_robin, snapshots, store

ATTACK = "</script></title></pre>\"'><img src=x onerror=hacked=1><script>hacked=1</script>${hacked=1}$x_"
PLAN = Plan(snapshots=5, batches=2, matches=120, exploiter_every=2)


def html_of(run: Path, *names: str) -> str:
    """These sections of the page on a run, with exact names and terms that are not explained."""
    with analysis.open_run(run) as history:
        shown = "".join(part.html for part in sections(history, only=names))
    return re.sub(r"</?abbr[^>]*>", "", re.sub(r'<span title="([^"]+)">[^<]*</span>', r"\1", shown))


@pytest.fixture(scope="session")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small league that improves."""
    return plant(tmp_path_factory.mktemp("report") / "planted", np.random.default_rng(3), PLAN)


@pytest.fixture(scope="session")
def tournament(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six snapshots and a bot of known strengths, the last snapshot 300 Elo ahead."""
    field = [*snapshots(6), bot("random")]
    elo = {entrant.competitor: 20.0 * place for place, entrant in enumerate(field)}
    elo |= {"main-0@5": 400.0, "random": -200.0}
    results = round_robin(elo, 12, np.random.default_rng(1), draws=0.1)
    return store(tmp_path_factory.mktemp("report") / "cup", field, [results])


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which everything that can be named is an attack."""
    folder = tmp_path_factory.mktemp("report") / "hostile<script>hacked=1<"
    player, opponent = f"player{ATTACK}", f"bot{ATTACK}"
    config = f"name: x\nleague:\n  preset: '{ATTACK.replace(chr(39), '')}'\n"
    with Archive.create(folder, config, {"name": ATTACK, "env": ATTACK, "seed": 0}) as archive:
        archive.add_player(LivePlayer(player, MAIN))
        archive.add_bot(Bot(opponent))
        frozen = archive.add_snapshot(
            player=player,
            role=MAIN,
            env_steps=0,
            updates=0,
            parent_id=None,
            tensors={"w": torch.zeros(1)},
            spec={},
            architecture=ATTACK,
            reason=ATTACK,
        ).snapshot_id
        evidence = {ATTACK: 1.0}
        archive.append_yardsticks([_figure(frozen, kind) for kind in ("positions", "games")])
        archive.append_decisions([Reset(player=player, reason=ATTACK, target=frozen, evidence=evidence)])
        seat = np.array([[0, 1], [1, 2], [2, 0]] * 20, np.int32)
        names = (player, opponent, frozen)
        archive.append_results(_played(names, seat), [RatingChange(name, 25.0, 3.0, 40) for name in names])
    return folder


def _figure(snapshot_id: str, kind: str) -> YardstickRecord:
    return YardstickRecord(
        competitor=snapshot_id,
        yardstick=ATTACK,
        kind=kind,
        measure=ATTACK,
        mode=ATTACK,
        part="all",
        value=0.5,
        low=0.4,
        high=0.6,
        samples=10,
    )


def _played(names: tuple[str, ...], seat: np.ndarray) -> ResultBatch:
    """Matches that whoever sits first wins."""
    count = len(seat)
    return made_up.results(
        made_up.matches(names, seat, env=ATTACK, match_types=(ATTACK,), learning=seat == 0),
        np.tile([0, 2], (count, 1)),
        score=[1.0, -1.0],
        started_at=1.7e9 + np.arange(count),
        seconds=0.25,
    )


@pytest.fixture(scope="session")
def solitary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A game for one, that main-0 learns: it scores 0, 1, ... 59, and lasts to the step limit at the end."""
    folder = tmp_path_factory.mktemp("report") / "solitary"
    results = made_up.results(
        made_up.matches(("main-0",), np.zeros((60, 1)), env=ATTACK, match_types=(ATTACK,), learning=True),
        np.zeros((60, 1)),
        score=np.arange(60)[:, None],
        reason=np.where(np.arange(60) < 50, EndReason.FINISHED, EndReason.STEP_LIMIT),
        started_at=1.7e9 + np.arange(60),
        seconds=0.25,
    )
    with Archive.create(folder, "name: x\n", {"name": "x", "env": "pole", "seed": 0}) as archive:
        archive.add_player(LivePlayer("main-0", MAIN))
        archive.append_results(results, [RatingChange("main-0", 25.0, 8.0, 0)])
    return folder


@pytest.fixture(scope="session")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which nothing has been played."""
    folder = tmp_path_factory.mktemp("report") / "begun"
    Archive.create(folder, "", {"name": "new", "env": "tic_tac_toe", "seed": 1}).close()
    return folder


@pytest.fixture(scope="session")
def planted_page(planted: Path) -> str:
    with analysis.open_run(planted) as history:
        return report_page(history)
