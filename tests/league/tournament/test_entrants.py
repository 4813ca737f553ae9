"""Who takes part: from runs, exported folders and bots, in one game, whole, under names of their own."""

import itertools
import shutil

import numpy as np
import pytest
from pydantic import ValidationError

from league.arena.matches import MeasureTable
from league.arena.selection import BadSelection
from league.competitors.names import UnknownCompetitor
from league.models.bots.settings import OwnBotSettings
from league.rollout.env_runner import EnvRunner
from league.rollout.requests import BotSource, PlayRequest, PlaySetup
from league.rollout.settings import RolloutSettings
from league.tournament.entrants import gather, sources_of
from league.tournament.settings import EntrantSource, TournamentSettings
from league.tournament.soundness import DamagedCompetitors
from storage.archive import Archive, open_reader
from storage.errors import Mistake, NotARun
from storage.records import MAIN, EndReason, LivePlayer
from storage.upkeep.exports import export_snapshot
from tests.steps import flip_bit

FIRST = OwnBotSettings(use="tests.league.tournament.test_entrants:first_legal")


def first_legal(observation, mask, rng):
    return mask.argmax(axis=1)


def last_legal(observation, mask, rng):
    return mask.shape[1] - 1 - mask[:, ::-1].argmax(axis=1)


@pytest.fixture
def run(make_run, tmp_path):
    """`main-0@0` to `main-0@3` of tic-tac-toe, to be damaged as one likes."""
    return make_run(tmp_path / "run")


@pytest.fixture
def exported(tmp_path):
    """Exports a run's snapshot to a folder of that name."""

    def export(run, snapshot_id, name="exported"):
        reader = open_reader(run)
        export_snapshot(reader, reader.resolve(snapshot_id), tmp_path / name)
        return tmp_path / name

    return export


def gathered(competitors, progress=None, **settings):
    return gather(TournamentSettings(competitors=competitors, **settings), progress=progress)


def ids(entries):
    return [entrant.competitor for entrant in entries.entrants]


def blob(run, snapshot_id):
    reader = open_reader(run)
    return reader.blob_path(reader.resolve(snapshot_id))


# ---------------------------------------------------------------- who is named


def test_a_run_alone_enters_all_of_its_snapshots_in_the_order_of_freezing(snapshots_run):
    entries = gathered([EntrantSource(run=str(snapshots_run))])
    assert ids(entries) == [f"main-0@{number}" for number in range(5)]
    game = entries.agreed
    assert (game.env_id, game.step_limit, game.teams) == ("tic_tac_toe", None, None)
    assert (entries.bots, entries.left_out) == ({}, ())
    first, snapshot = entries.entrants[0], open_reader(snapshots_run).snapshots()[0]
    for field in ("snapshot_id", "player", "role", "env_steps", "blob_hash", "created_at", "architecture"):
        assert getattr(first, field) == getattr(snapshot, field)
    assert (first.kind, first.run) == ("snapshot", str(snapshots_run))
    assert [source.snapshot_id for source in entries.sources] == ids(entries)


@pytest.mark.slow
def test_snapshots_are_selected_by_sql_over_several_runs(make_run, tmp_path):
    runs = [make_run(tmp_path / name, player=name, snapshots=3) for name in ("adam", "eve")]
    entries = gathered([EntrantSource(run=str(run), select="env_steps > 0") for run in runs])
    assert ids(entries) == ["adam/adam@1", "adam/adam@2", "eve/eve@1", "eve/eve@2"]


def test_names_are_ids_prefixes_players_and_bots_of_the_run(run):
    source = EntrantSource(run=str(run), names=("main-0", "main-0@1", "random"))
    entries = gathered([source])
    assert ids(entries) == ["main-0@3", "main-0@1", "random"]
    assert entries.sources[2] == BotSource("random")
    assert entries.entrants[2].kind == "bot"
    assert entries.entrants[2].run is None


def test_modes_make_other_competitors_of_one_snapshot(run):
    source = EntrantSource(
        run=str(run), names=("main-0@1", "main-0@2:t=0.50", "one_ply"), modes=("sample", "greedy")
    )
    entries = gathered([source])
    assert ids(entries) == ["main-0@1", "main-0@1:greedy", "main-0@2:t=0.5", "one_ply"]
    assert [entrant.temperature for entrant in entries.entrants] == [1.0, 0.0, 0.5, 1.0]
    assert [source.temperature for source in entries.sources[:3]] == [1.0, 0.0, 0.5]


@pytest.mark.slow
def test_whoever_is_named_twice_enters_once(run):
    entries = gathered(
        [
            EntrantSource(run=str(run), names=("main-0@1", "main-0@1:sample", "main-0@1:t=1.0")),
            EntrantSource(run=f"{run}/../run", select="env_steps < 2"),
            EntrantSource(bots=("random", "random:sample")),
        ]
    )
    assert ids(entries) == ["main-0@1", "main-0@0", "random"]


def test_a_copy_of_a_snapshot_is_a_competitor_of_its_own(run, exported):
    folder = exported(run, "main-0@1")
    entries = gathered([EntrantSource(run=str(run), names=("main-0@1",)), EntrantSource(folder=str(folder))])
    assert ids(entries) == ["run/main-0@1", "exported/main-0@1"]
    assert entries.sources[0] == entries.sources[1]  # one policy in memory
    assert entries.entrants[0].blob_hash == entries.entrants[1].blob_hash


def test_an_exported_folder_enters_its_snapshot_in_each_mode(run, exported):
    folder = exported(run, "main-0@2")
    entries = gathered(
        [EntrantSource(folder=str(folder), modes=("greedy", "t=2")), EntrantSource(bots=("random",))]
    )
    assert ids(entries) == ["main-0@2:greedy", "main-0@2:t=2", "random"]
    assert entries.agreed.env_id == "tic_tac_toe"
    assert entries.entrants[0].run == str(folder)
    assert entries.entrants[0].player == "main-0"


def test_networks_of_other_shapes_meet_if_they_see_and_do_the_same(make_run, tmp_path):
    runs = [make_run(tmp_path / str(width), hidden=(width,), snapshots=1) for width in (4, 16)]
    entries = gathered([EntrantSource(run=str(run)) for run in runs])
    assert ids(entries) == ["4/main-0@0", "16/main-0@0"]
    assert entries.sources[0].spec != entries.sources[1].spec


def test_whoever_is_gathered_can_be_played(make_run, tmp_path, exported):
    """Of several networks and modes, from runs and folders: all in the same matches."""
    runs = [make_run(tmp_path / str(width), hidden=(width,), snapshots=1) for width in (4, 16)]
    entries = gathered(
        [EntrantSource(run=str(run), modes=("sample", "greedy", "t=0.5")) for run in runs]
        + [EntrantSource(folder=str(exported(runs[0], "main-0@0"))), EntrantSource(bots=("left", "random"))],
        bots={"left": FIRST},
    )
    field = range(len(entries.entrants))
    pairings = np.array(list(itertools.combinations(field, 2)))
    matches = MeasureTable("tic_tac_toe", np.arange(2), "test", 0).pairs(ids(entries), pairings, 0)
    runner = EnvRunner(PlaySetup("tic_tac_toe", {}, RolloutSettings(slots=64), bots=entries.bots))
    source_of = dict(zip(ids(entries), entries.sources, strict=True))
    sources = tuple(source_of[competitor] for competitor in matches.competitors)
    results, info, _ = runner.play(PlayRequest(matches, sources, learners=(), seed=0), {})
    assert len(results) == 2 * len(pairings) == 9 * 8
    assert (results.reason == EndReason.FINISHED).all()
    mapped = next(tier for tier in info.tiers if tier.tier == "mapped")
    assert mapped.resident == 2  # weights: seven snapshots in their modes share them


def test_it_is_gathered_from_a_run_while_that_is_written(run):
    with Archive.open(run) as archive:
        archive.add_player(LivePlayer("main-1", MAIN))
        assert len(gathered([EntrantSource(run=str(run))]).entrants) == 4


# ---------------------------------------------------------------- bots


def test_bots_alone_need_to_be_told_the_game():
    bots = EntrantSource(bots=("random", "one_ply"))
    with pytest.raises(Mistake, match=r"no run or exported folder says which game is played.*set env.id"):
        gathered([bots])
    entries = gathered([bots], env={"id": "connect_four", "options": {}})
    assert entries.sources == (BotSource("random"), BotSource("one_ply"))


def test_settings_of_bots_come_from_the_runs_unless_they_are_given(make_run, tmp_path):
    run = make_run(tmp_path / "run", bots={"left": FIRST.model_dump(), "right": FIRST.model_dump()})
    other = FIRST.model_copy(update={"use": f"{FIRST.use[:-11]}last_legal"})
    sources = [EntrantSource(run=str(run), names=("left",)), EntrantSource(bots=("random",))]
    assert gathered(sources).bots == {"left": FIRST}
    assert gathered(sources, bots={"left": other}).bots == {"left": other}


def test_runs_that_mean_different_bots_by_one_name_are_refused_if_it_takes_part(make_run, tmp_path):
    other = FIRST.model_copy(update={"use": f"{FIRST.use[:-11]}last_legal"})
    runs = [
        make_run(tmp_path / str(number), bots={"left": settings.model_dump()}, snapshots=1)
        for number, settings in enumerate((FIRST, other))
    ]
    sources = [EntrantSource(run=str(run)) for run in runs]
    assert gathered(sources).bots == {}
    with pytest.raises(
        Mistake, match=rf"{runs[1]}: bots.left: found .*, expected .* as in {runs[0]}.*set bots.left"
    ):
        gathered([*sources, EntrantSource(bots=("left",))])


def test_an_unknown_bot_is_told_which_there_are(run):
    with pytest.raises(
        Mistake, match="no bot 'randm'; for 'tic_tac_toe' there are: one_ply, perfect, random"
    ):
        gathered([EntrantSource(run=str(run)), EntrantSource(bots=("randm",))])


# ---------------------------------------------------------------- what is refused


def test_an_unknown_name_is_told_with_its_run_and_the_nearest(run):
    with pytest.raises(UnknownCompetitor, match=rf"^{run}: 'mian-0@1' is no snapshot.*nearest: main-0@1"):
        gathered([EntrantSource(run=str(run), names=("mian-0@1",))])


def test_a_wrong_condition_is_told_with_its_run(run):
    with pytest.raises(BadSelection, match=rf"^{run}: select: .* at character 1 "):
        gathered([EntrantSource(run=str(run), select="step > 3")])


@pytest.mark.slow
def test_where_nobody_fits_it_is_told_how_many_there_are_and_what_may_be_asked(run):
    with pytest.raises(
        BadSelection, match=rf"^{run}: select: none of 4 snapshots fits mu > 99; columns .* win_rate"
    ):
        gathered([EntrantSource(run=str(run), select="mu >\n 99")])


def test_a_field_of_one_is_no_tournament(run):
    with pytest.raises(Mistake, match="found main-0@1, expected at least 2: a match of"):
        gathered([EntrantSource(run=str(run), names=("main-0@1", "main-0@1"))])


def test_a_folder_without_a_run_or_an_export_is_told(tmp_path):
    with pytest.raises(NotARun, match="no file FORMAT there"):
        gathered([EntrantSource(run=str(tmp_path))])
    with pytest.raises(Mistake, match="expected a folder made by: league snapshots RUN export"):
        gathered([EntrantSource(folder=str(tmp_path))])


def test_snapshots_that_cannot_play_the_game_that_is_given_are_refused(run):
    with pytest.raises(Mistake, match="'main-0@0' cannot take seat 0 of 'connect_four'"):
        gathered([EntrantSource(run=str(run))], env={"id": "connect_four", "options": {}})


def test_the_run_of_a_tournament_has_no_snapshots_to_enter(make_run, tmp_path):
    run = make_run(tmp_path / "run", competitors=[], snapshots=0)
    with pytest.raises(
        NotARun, match=r"found the run of a tournament.*name the runs that its entrants come from"
    ):
        gathered([EntrantSource(run=str(run))])


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, "found nothing, expected one of: run, folder, bots"),
        ({"run": "a", "bots": ["random"]}, "found run and bots, expected one of"),
        ({"folder": "a", "select": "true"}, "select: found beside folder, expected beside a run"),
        ({"bots": ["random"], "names": ["main-0"]}, "names: found beside bots"),
        ({"run": "a", "select": "true", "names": ["main-0"]}, "found select and names"),
        ({"bots": ["random"], "modes": ["greedy"]}, "modes: found beside bots"),
        ({"run": "a", "modes": ["best"]}, "mode 'best', expected one of"),
        ({"run": "a", "modes": []}, "at least 1 item"),
        ({"run": ""}, "at least 1 character"),
    ],
)
def test_an_entry_says_one_thing(fields, told):
    with pytest.raises(ValidationError, match=told):
        EntrantSource(**fields)


def test_an_entry_remembers_where_its_folder_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert EntrantSource(run="runs/a/").run == str(tmp_path / "runs" / "a")
    assert EntrantSource(run="s3://bucket/runs/a/").run == "s3://bucket/runs/a"


# ---------------------------------------------------------------- the missing and the damaged


@pytest.fixture
def damaged(run, exported):
    """The run and two exported folders, all but main-0@0 and main-0@3 damaged: sources, and who is."""
    torn, unreadable = exported(run, "main-0@1", "torn"), exported(run, "main-0@1", "unreadable")
    flip_bit(torn / "weights.safetensors")
    (unreadable / "manifest.json").write_text("{}")
    blob(run, "main-0@1").unlink()
    manifest = open_reader(run).manifest_path("main-0@2")
    manifest.write_text(manifest.read_text()[:-1])
    sources = [EntrantSource(run=str(run)), *(EntrantSource(folder=str(f)) for f in (torn, unreadable))]
    return sources, ["run/main-0@1", "run/main-0@2", "torn/main-0@1", str(unreadable)]


def test_all_who_are_missing_or_damaged_are_named_at_once(damaged):
    sources, names = damaged
    with pytest.raises(DamagedCompetitors, match=r"^competitors: 4 missing or damaged: ") as raised:
        gathered(sources)
    for told in (*names, "not on this node", "no manifest", "its bytes hash to", "leave_out_damaged"):
        assert told in str(raised.value)


def test_they_are_left_out_when_asked_and_said_to_be(damaged):
    sources, names = damaged
    entries = gathered(sources, leave_out_damaged=True)
    assert ids(entries) == ["run/main-0@0", "run/main-0@3"]
    assert len(entries.sources) == 2
    assert sorted(name for name, _ in entries.left_out) == sorted(names)
    assert all(why for _, why in entries.left_out)


def test_a_field_that_is_left_with_one_is_no_tournament(run):
    for number in (0, 1, 2):
        blob(run, f"main-0@{number}").unlink()
    with pytest.raises(Mistake, match=r"found main-0@3 \(3 were left out as damaged\), expected at least 2"):
        gathered([EntrantSource(run=str(run))], leave_out_damaged=True)


def test_a_flipped_bit_is_found_though_the_file_was_hashed_before(run):
    gathered([EntrantSource(run=str(run))])
    flip_bit(blob(run, "main-0@1"))
    with pytest.raises(DamagedCompetitors, match=r"^competitors: 1 missing or damaged: main-0@1 \("):
        gathered([EntrantSource(run=str(run))])


def test_of_many_the_first_five_are_shown(make_run, tmp_path):
    run = make_run(tmp_path / "many", snapshots=9)
    shutil.rmtree(run / "objects")
    with pytest.raises(
        DamagedCompetitors, match=r"^competitors: 9 missing .*main-0@4 .* and 4 more; "
    ) as raised:
        gathered([EntrantSource(run=str(run))])
    assert "main-0@5" not in str(raised.value)


def test_each_file_is_looked_at_once_and_progress_told_of_everybody(run):
    told = []
    gathered(
        [EntrantSource(run=str(run), modes=("sample", "greedy"))],
        progress=lambda what, done, of: told.append((what, done, of)),
    )
    assert told == [("verifying competitors", done, 8) for done in range(1, 9)]


# ---------------------------------------------------------------- going on


def test_entrants_are_found_again_where_they_came_from(run, exported):
    folder = exported(run, "main-0@1")
    entries = gathered(
        [
            EntrantSource(run=str(run), modes=("sample", "t=0.5")),
            EntrantSource(bots=("perfect",)),
            EntrantSource(folder=str(folder)),
        ]
    )
    again = sources_of(entries.entrants)
    assert again == entries.sources
    assert [getattr(s, "path", None) for s in again] == [getattr(s, "path", None) for s in entries.sources]
    assert [getattr(s, "temperature", 1.0) for s in again] == [e.temperature for e in entries.entrants]


def test_entrants_stay_who_they_were_though_the_run_goes_on(run):
    entries = gathered([EntrantSource(run=str(run), names=("main-0", "main-0@0"))])
    with Archive.open(run) as archive:
        source = archive.snapshots()[0]
        archive.add_snapshot(
            "main-0", MAIN, 99, 9, None, {}, archive.manifest(source.snapshot_id)["spec"], "mlp", "test"
        )
    assert sources_of(entries.entrants) == entries.sources


def test_entrants_that_are_gone_are_all_named(run, exported, make_run, tmp_path):
    folder, other = exported(run, "main-0@1"), make_run(tmp_path / "other", snapshots=1)
    entries = gathered(
        [EntrantSource(run=str(r)) for r in (run, other)] + [EntrantSource(folder=str(folder))]
    )
    flip_bit(blob(run, "main-0@2"))
    shutil.rmtree(folder)
    shutil.rmtree(other)
    with pytest.raises(
        DamagedCompetitors, match=r"^competitors: 3 missing .*; restore them from a copy$"
    ) as raised:
        sources_of(entries.entrants)
    for name in ("run/main-0@2", "exported/main-0@1", "other/main-0@0"):
        assert f"{name} (" in str(raised.value)


def test_another_snapshot_of_the_same_id_is_not_taken_for_the_entrant(make_run, run, exported, tmp_path):
    folder = exported(run, "main-0@1")
    entries = gathered([EntrantSource(run=str(run), names=("main-0@0",)), EntrantSource(folder=str(folder))])
    shutil.rmtree(run)
    shutil.rmtree(folder)
    make_run(tmp_path / "run", hidden=(4,))
    exported(tmp_path / "run", "main-0@1")
    with pytest.raises(DamagedCompetitors, match=r"'main-0@0' is missing or changed.*'main-0@1' is missing"):
        sources_of(entries.entrants)
