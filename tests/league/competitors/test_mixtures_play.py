"""Mixtures wherever a competitor is named: exact values, comparisons, tournaments, exports, bots, play."""

import json

import numpy as np
import pytest

import analysis
import league
from analysis.diagnostics.cycles import find_circling
from analysis.diagnostics.record import Record
from analysis.exploitability import values
from league.arena.matches import MeasureTable
from league.competitors.names import Names
from league.envs.trees.trees import tree_of
from league.exploit.exact import exact, strategy_of
from league.exploit.measure import exploit
from league.models.bots.settings import ExportSettings
from league.rollout.env_runner import EnvRunner
from league.rollout.requests import BotSource, PlayRequest, PlaySetup
from league.rollout.settings import RolloutSettings
from league.tournament.entrants import gather, sources_of
from league.tournament.settings import EntrantSource, TournamentSettings
from storage.archive import open_reader
from storage.snapshots import figures

PAIRS = 4000
LIST = "0.2*main-0@0+0.8*main-0@3:greedy"


@pytest.fixture(scope="module")
def kuhn(make_run, tmp_path_factory):
    """Four snapshots far from one another."""
    return make_run(tmp_path_factory.mktemp("kuhn") / "run", env="kuhn_poker", snapshots=4, hidden=(16, 16))


def scores(run, a, b):
    """Scores of a in the first and in the second seat, means over PAIRS deals each, and their errors."""
    sources = tuple(Names(open_reader(run)).source(name) for name in (a, b))
    return played(sources, PlaySetup("kuhn_poker", {}, RolloutSettings(slots=PAIRS)))


def played(sources, setup):
    table = MeasureTable("kuhn_poker", np.arange(2), "test", seed=3)
    matches = table.pairs(["a", "b"], np.tile([0, 1], (PAIRS, 1)), 0)
    batch = EnvRunner(setup).play(PlayRequest(matches, sources, learners=(), seed=1), {})[0]
    seats = batch.score[0::2, 0], batch.score[1::2, 1]
    return [(own.mean(), own.std() / np.sqrt(PAIRS)) for own in seats]


@pytest.mark.parametrize("name", ["main-0:average", LIST])
def test_it_plays_what_the_exact_value_is_of(kuhn, name):
    tree = tree_of("kuhn_poker")
    mixture = strategy_of(tree, league.load_policy(kuhn, name))
    other = strategy_of(tree, league.load_policy(kuhn, "main-0@1"))
    expected = values(tree, (mixture[0], other[1]))[0], values(tree, (other[0], mixture[1]))[1]
    for (mean, error), value in zip(scores(kuhn, name, "main-0@1"), expected, strict=True):
        assert abs(mean - value) < 4 * error


def test_the_exact_value_of_an_average_is_no_more_than_the_worst_of_its_members(kuhn):
    each = [exact(kuhn, f"main-0@{n}").nash_conv for n in (2, 3)]
    mixture = exact(kuhn, "main-0:average")
    assert mixture.nash_conv <= max(each)
    assert (mixture.snapshot_id, mixture.player) == ("main-0@3", "main-0")


@pytest.mark.slow
def test_measurements_of_averages_make_a_curve_of_their_own(kuhn):
    found = [one.measurement for one in exploit(kuhn, player="main-0", every=1, average=True)]
    assert [one.snapshot_id for one in found] == [f"main-0@{n}:average" for n in range(4)]
    assert {one.player for one in found} == {"main-0:average"}
    assert [one.env_steps for one in found] == [0, 1, 2, 3]
    assert set(found) <= set(figures.measurements(kuhn))
    (listed,) = exploit(kuhn, [LIST])
    assert (listed.measurement.snapshot_id, listed.measurement.player) == (LIST, LIST)


def test_it_enters_a_tournament_with_the_members_that_it_has_then(kuhn):
    entries = gather(
        TournamentSettings(
            competitors=[EntrantSource(run=str(kuhn), names=("main-0:average", "main-0@0", LIST))]
        )
    )
    average = entries.entrants[0]
    assert (average.competitor, average.kind, average.player) == ("main-0:average", "mixture", None)
    assert average.snapshot_id == "0.5*main-0@2+0.5*main-0@3"
    assert [source.name for source in entries.sources if hasattr(source, "members")] == [
        "main-0:average",
        LIST,
    ]
    assert sources_of(entries.entrants) == entries.sources  # as a tournament that is resumed finds them


def test_in_several_modes_it_is_several_competitors(kuhn):
    source = EntrantSource(run=str(kuhn), names=("main-0:average", "main-0@0"), modes=("sample", "greedy"))
    entries = gather(TournamentSettings(competitors=[source]))
    assert [entrant.competitor for entrant in entries.entrants[:2]] == [
        "main-0:average",
        "main-0:average:greedy",
    ]
    assert {member.temperature for member in entries.sources[1].members} == {0.0}


@pytest.mark.slow
def test_an_exported_mixture_is_a_bot_that_plays_the_same(kuhn, tmp_path, league_here):
    folder = tmp_path / "mixture"
    done = league_here("snapshots", kuhn, "export", LIST, folder)
    assert done.returncode == 0
    assert done.stdout.startswith(f"{LIST} exported to {folder}\n")
    tree = tree_of("kuhn_poker")
    own, exported = (
        strategy_of(tree, actor) for actor in (league.load_policy(kuhn, LIST), league.load_export(folder))
    )
    for ours, theirs in zip(own, exported, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    bots = {"mixed": ExportSettings(kind="export", folder=str(folder))}
    setup = PlaySetup("kuhn_poker", {}, RolloutSettings(slots=PAIRS), bots=bots)
    other = Names(open_reader(kuhn)).source("main-0@1")
    first = values(tree, (own[0], strategy_of(tree, league.load_policy(kuhn, "main-0@1"))[1]))[0]
    mean, error = played((BotSource("mixed"), other), setup)[0]
    assert abs(mean - first) < 4 * error


def test_the_readmes_of_exports_say_what_works(kuhn, tmp_path, league_here):
    for name, folder in (("main-0@3", tmp_path / "one"), ("main-0:average", tmp_path / "mixture")):
        assert league_here("snapshots", kuhn, "export", name, folder).returncode == 0
        code = (folder / "README.md").read_text().partition("In Python")[2].partition("\n\n")[2]
        code = "\n".join(line[4:] for line in code.splitlines()).replace('"FOLDER"', repr(str(folder)))
        names = {"n": 3, "observations": np.zeros((3, 11), np.int8), "masks": np.ones((3, 2), np.bool_)}
        exec(code, names)  # documentation is executed
        assert names["actions"].shape == (3,)


@pytest.mark.slow
def test_commands_take_its_name_and_refuse_a_wrong_one(kuhn, league_here):
    done = league_here("exploit", kuhn, "main-0:average", ":nash", "--json")
    assert done.returncode == 2
    assert "none of 4 snapshots has met another" in done.stderr
    done = league_here("exploit", kuhn, "main-0", "--average", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)[0]["snapshot"] == "main-0@3:average"
    done = league_here("play", kuhn, "main-0:average", "random")
    assert done.returncode == 0
    assert "main-0:average" in done.stdout


def test_first_weights_are_never_those_of_a_mixture(kuhn, tmp_path, league_here):
    config = tmp_path / "config.yaml"
    config.write_text(
        "env: {id: kuhn_poker}\npolicy: {hidden: [16, 16]}\nrunners: 0\nstop: {env_steps: 100}\n"
        f"init_from:\n- {{player: main-0, run: {kuhn}, snapshot: 'main-0:average'}}\n"
    )
    done = league_here("train", config, "--run", tmp_path / "new")
    assert done.returncode == 2
    assert "is a mixture of 2 snapshots, expected one" in done.stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_a_trained_response_is_measured_against_all_of_it(kuhn):
    from league.exploit.settings import TrainingOptions

    training = TrainingOptions(env_steps=4_000, pairs=200, overrides=("policy.hidden=[8]",))
    (found,) = exploit(kuhn, ["main-0:average"], training=training)
    assert found.measurement.kind == "lower_bound"
    assert found.measurement.snapshot_id == "main-0@3:average"
    assert found.measurement.value <= exact(kuhn, "main-0:average").exploitability + 0.2


def test_a_diagnosis_names_an_average_that_is_less_exploitable(kuhn):
    list(exploit(kuhn, ["main-0", "main-0:average"]))
    with analysis.open_run(kuhn) as history:
        found = find_circling(Record(history))
    alone, mixed = (exact(kuhn, name).exploitability for name in ("main-0", "main-0:average"))
    assert [finding.subject for finding in found] == (["main-0"] if 1.5 * mixed <= alone else [])
