"""Entrants are named with their runs, wherever two runs take part."""

import dataclasses
import itertools

import pytest

from analysis.gates.names import as_it_samples, find, labels_of, newest, with_runs
from storage.errors import Mistake
from storage.records import MAIN, Entrant
from tests.analysis.played_tournaments import bot, snapshot


def entrant(run, snapshot_id="main-0@5", temperature=1.0):
    mode = {0.0: ":greedy", 1.0: ""}.get(temperature, f":t={temperature}")
    return Entrant(
        f"{snapshot_id}{mode}", "snapshot", MAIN, "main-0", run, snapshot_id, "b", 5, 1.0, "mlp", temperature
    )


def ids(*entrants):
    return [found.competitor for found in with_runs(entrants)]


def test_those_of_one_run_keep_their_ids():
    found = ids(entrant("/runs/a"), entrant("/runs/a", "main-1@5"), bot("random"))
    assert found == ["main-0@5", "main-1@5", "random"]


def test_where_two_runs_take_part_each_is_named_even_if_no_two_ids_are_equal():
    found = ids(entrant("/runs/a"), entrant("/runs/b", "main-1@5"), bot("random"))
    assert found == ["a/main-0@5", "b/main-1@5", "random"]
    labelled = with_runs([entrant("/runs/a"), entrant("/runs/b", temperature=0.0)])
    assert with_runs(labelled) == labelled


def test_a_run_that_joins_later_gets_another_label_than_those_in_use():
    known = labels_of(with_runs([entrant("/x/a"), entrant("/x/b")]))
    (newcomer,) = with_runs([entrant("/y/a")], known)
    assert known == {"/x/a": "a", "/x/b": "b"}
    assert newcomer.competitor == "y/a/main-0@5"


def test_one_snapshot_in_two_modes_is_two_competitors():
    assert ids(entrant("/runs/a"), entrant("/runs/a", temperature=0.0)) == ["main-0@5", "main-0@5:greedy"]


def test_equal_ids_get_the_name_of_their_runs_and_so_do_all_others():
    found = ids(entrant("/runs/a"), entrant("/runs/b"), entrant("/runs/b", "main-1@5", 0.5), bot("random"))
    assert found == ["a/main-0@5", "b/main-0@5", "b/main-1@5:t=0.5", "random"]


def test_runs_of_equal_names_are_told_apart_by_the_folders_above_them():
    assert ids(entrant("/x/best"), entrant("/y/best"), entrant("s3://bucket/z/best")) == [
        "x/best/main-0@5",
        "y/best/main-0@5",
        "z/best/main-0@5",
    ]


def test_names_of_folders_are_written_so_that_gates_and_lists_of_seeds_can_say_them():
    assert ids(entrant("/my runs, [red]50%:x"), entrant("/runs/né")) == [
        "my-runs---red-50--x/main-0@5",
        "né/main-0@5",
    ]
    assert ids(entrant("/x/a b"), entrant("/y/a,b")) == ["x/a-b/main-0@5", "y/a-b/main-0@5"]
    assert ids(entrant("/x/a b"), entrant("/x/a,b")) == ["a b/main-0@5", "a,b/main-0@5"]


def test_a_snapshot_that_is_called_like_a_bot_gets_the_name_of_its_run():
    assert ids(bot("random"), entrant("/runs/a", "random")) == ["random", "a/random"]


def test_the_order_makes_no_difference():
    field = [entrant("/runs/a"), entrant("/runs/b"), entrant("/runs/b", temperature=0.0), entrant("/runs/c")]
    named = {dataclasses.replace(e, competitor=""): e.competitor for e in with_runs(field)}
    for order in itertools.permutations(field):
        again = {dataclasses.replace(e, competitor=""): e.competitor for e in with_runs(order)}
        assert again == named


FIELD = (
    snapshot("main-0@100", 1.0),
    snapshot("main-0@2000", 2.0),
    snapshot("main-0@2000:greedy", 2.0, 0.0),
    snapshot("main-1@300:greedy", 3.0, 0.0),
    snapshot("main-1@300:t=0.5", 3.0, 0.5),
    bot("random"),
)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("main-0@100", "main-0@100"),
        ("main-0@1", "main-0@100"),
        ("main-0@2000", "main-0@2000"),
        ("main-0@20", "main-0@2000"),
        ("main-0@20:greedy", "main-0@2000:greedy"),
        ("main-0@2000:sample", "main-0@2000"),
        ("main-0", "main-0@2000"),
        ("main-0:greedy", "main-0@2000:greedy"),
        ("main-1:t=0.5", "main-1@300:t=0.5"),
        ("random", "random"),
        ("rand", "random"),
    ],
)
def test_a_name_is_an_id_a_player_or_a_unique_prefix_with_a_mode_or_without(name, meant):
    assert find(name, FIELD).competitor == meant


def test_a_name_of_nobody_is_told_with_the_nearest():
    with pytest.raises(
        Mistake, match=r"'main-0@3000' takes no part in this tournament; nearest: main-0@2000"
    ):
        find("main-0@3000", FIELD)
    with pytest.raises(Mistake, match="'random:greedy' takes no part"):
        find("random:greedy", FIELD)


def test_a_prefix_of_several_is_told_with_all_of_them():
    with pytest.raises(Mistake, match=r"'main-0@' fits 3 competitors: main-0@100, main-0@2000, main-0"):
        find("main-0@", FIELD)


def test_a_snapshot_in_several_modes_none_of_which_samples_must_be_named_with_one():
    with pytest.raises(Mistake, match=r"'main-1' fits 2 competitors: main-1@300:greedy, main-1@300:t=0.5"):
        find("main-1", FIELD)


def test_ids_of_two_runs_are_told_apart_by_the_run():
    field = (snapshot("a/main-0@1", 1.0), snapshot("b/main-0@1", 2.0, run="runs/b"))
    assert find("b/main-0@1", field).run == "runs/b"
    assert find("main-0", field).run == "runs/b", "frozen later"
    with pytest.raises(Mistake, match="fits 2 competitors: a/main-0@1, b/main-0@1"):
        find("main-0@1", field)


def test_the_newest_snapshot_comes_in_all_of_its_modes_and_bots_have_no_age():
    assert [entrant.competitor for entrant in newest(FIELD)] == ["main-1@300:greedy", "main-1@300:t=0.5"]
    assert newest(FIELD[-1:]) == []
    assert [entrant.competitor for entrant in as_it_samples(newest(FIELD[:3]))] == ["main-0@2000"]
