"""What a mixture's name stands for: averages, equilibria and lists of a run's snapshots."""

import itertools

import numpy as np
import pytest

import league
from league.competitors.mixtures import NamedMixture
from league.competitors.names import Names, UnknownCompetitor
from league.exploit.targets import chosen
from league.models.policies.mixture import MixtureActor
from league.rollout.requests import MixtureSource
from storage.archive import Archive, open_reader
from storage.records import Outcome, Purpose
from tests import made_up


@pytest.fixture(scope="module")
def reader(make_run, tmp_path_factory):
    return open_reader(make_run(tmp_path_factory.mktemp("mixtures") / "run", snapshots=7))


def found(reader, text):
    return Names(reader).find(text).who


def members(mixture):
    return {part.snapshot.snapshot_id: part.weight for part in mixture.parts}


def test_the_average_is_the_newest_half_all_alike(reader):
    assert members(found(reader, "main-0:average")) == {
        f"main-0@{n}": pytest.approx(0.25) for n in (3, 4, 5, 6)
    }


def test_the_average_at_a_snapshot_is_what_it_was_then(reader):
    assert list(members(found(reader, "main-0@4:average"))) == ["main-0@2", "main-0@3", "main-0@4"]
    assert list(members(found(reader, "main-0@0:average"))) == ["main-0@0"]


def test_a_list_is_all_alike_or_has_weights_that_sum_to_one(reader):
    assert members(found(reader, "main-0@1+main-0")) == {"main-0@1": 0.5, "main-0@6": 0.5}
    assert members(found(reader, "0.25*main-0@1+0.75*main-0@2")) == {"main-0@1": 0.25, "main-0@2": 0.75}
    assert members(found(reader, "main-0@1+main-0@1+main-0@2+main-0@3"))["main-0@1"] == pytest.approx(0.5)


def test_members_have_modes_of_their_own_and_an_average_one_for_all(reader):
    listed = found(reader, "main-0@1:greedy+main-0@2:t=0.5")
    assert [part.temperature for part in listed.parts] == [0.0, 0.5]
    average = found(reader, "main-0:average:greedy")
    assert {part.temperature for part in average.parts} == {0.0}
    source = Names(reader).source("main-0:average:greedy")
    assert isinstance(source, MixtureSource)
    assert source.name == "main-0:average:greedy"
    assert {member.temperature for member in source.members} == {0.0}


def test_its_members_written_out_name_the_same_mixture(reader):
    mixture = found(reader, "0.1*main-0@1:greedy+0.7*main-0@2+0.2*main-0@5")
    again = found(reader, mixture.listed)
    assert isinstance(again, NamedMixture)
    assert again.parts == mixture.parts
    assert again.digest == mixture.digest != found(reader, "main-0:average").digest


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (":average", "found no player, expected one, such as main-0:average"),
        ("mian-0:average", "'mian-0:average'"),
        ("main-0:nash", "none of 7 snapshots has met another"),
        (":nash:best", "mode 'best', expected one of: sample, greedy"),
        ("main-0@1+", "found an empty name"),
        ("main-0@1+mian-0", "'mian-0' is no snapshot"),
        ("main-0@1+random", "'random' is a bot, expected a snapshot"),
        ("main-0@1+main-0:average", "is a mixture, expected a snapshot"),
        ("x*main-0@1+1*main-0@2", "found weight 'x', expected a number"),
        ("-1*main-0@1+1*main-0@2", "found weight -1, expected a positive number"),
        ("0*main-0@1+1*main-0@2", "found weight 0, expected a positive number"),
        ("inf*main-0@1+1*main-0@2", "found weight inf, expected a positive number"),
        ("0.5*main-0@1+main-0@2", "'main-0@2' has no weight, expected one for all or for none"),
    ],
)
def test_what_names_no_mixture_says_what_is_wrong(reader, text, message):
    with pytest.raises(UnknownCompetitor, match=message.replace("*", r"\*")):
        found(reader, text)


def played(run, wins):
    """Record games among snapshots: `wins` [n, n] of the row against the column, decisive games only."""
    games = [(i, j) for i, j in itertools.permutations(range(len(wins)), 2) for _ in range(wins[i][j])]
    names = [f"main-0@{n}" for n in range(len(wins))]
    matches = made_up.matches(names, games, env="tic_tac_toe", purpose=Purpose.EVALUATION)
    results = made_up.results(matches, [[Outcome.WIN, Outcome.LOSS]] * len(games), score=[1, -1])
    with Archive.open(run) as archive:
        archive.append_results(results, [])


@pytest.mark.slow
def test_the_nash_of_a_pool_is_the_equilibrium_of_what_was_recorded(make_run, tmp_path):
    run = make_run(tmp_path / "run", snapshots=5)
    # 1 beats 2 beats 3 beats 1, all three beat 0; 4 has met nobody
    played(run, [[0, 1, 1, 1], [9, 0, 9, 1], [9, 1, 0, 9], [9, 9, 1, 0]])
    mixture = found(open_reader(run), ":nash")
    assert members(mixture) == {f"main-0@{n}": pytest.approx(1 / 3, abs=1e-6) for n in (1, 2, 3)}
    assert members(found(open_reader(run), "main-0:nash")) == members(mixture)
    # as it was at a snapshot: of those up to it
    assert members(found(open_reader(run), "main-0@2:nash")) == {"main-0@1": pytest.approx(1.0)}
    assert members(found(open_reader(run), "main-0@0:nash")) == {"main-0@0": 1.0}
    assert list(members(found(open_reader(run), "main-0@4:nash"))) == list(members(mixture))
    targets = chosen(open_reader(run), player="main-0", every=2, nash=True)
    assert [(one.snapshot_id, one.player) for one in targets] == [
        (f"main-0@{n}:nash", "main-0:nash") for n in (0, 2, 4)
    ]
    assert [one.env_steps for one in targets] == [0, 2, 4]  # of the pool, not of the members with weight
    (newest,) = chosen(open_reader(run), ["main-0:nash"])
    assert newest.snapshot_id == "main-0@4:nash"


def test_a_mixture_is_loaded_as_an_actor_that_plays(reader):
    actor = league.load_policy(reader.run, "main-0:average")
    assert isinstance(actor, MixtureActor)
    assert len(actor.members) == 4
    memory = np.zeros((5, actor.memory_size), np.float32)
    observation, mask = np.zeros((5, 2, 9), np.float32), np.ones((5, 9), np.bool_)
    action, log_prob = actor.act(observation, mask, np.random.default_rng(0), memory=memory)
    assert action.shape == log_prob.shape == (5,)
    assert (memory[:, 0] > 0).all()
