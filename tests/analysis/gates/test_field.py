import pytest

from analysis.gates.field import as_it_samples, find, newest
from storage.errors import Mistake
from storage.records import MAIN, Entrant


def snapshot(competitor: str, created_at: float, temperature: float = 1.0, run: str = "runs/a") -> Entrant:
    """As `gather` makes them: the id holds the run where two runs share ids, and the mode."""
    snapshot_id = competitor.rpartition("/")[2].partition(":")[0]
    return Entrant(
        competitor=competitor,
        kind="snapshot",
        role=MAIN,
        player=snapshot_id.partition("@")[0],
        run=run,
        snapshot_id=snapshot_id,
        blob_hash="0" * 64,
        env_steps=int(snapshot_id.partition("@")[2]),
        created_at=created_at,
        architecture="mlp",
        temperature=temperature,
    )


def bot(name: str) -> Entrant:
    return Entrant(name, "bot", None, None, None, None, None, None, None, None)


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
