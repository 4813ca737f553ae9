"""Tournaments that travel: entrants are found by the hashes of their weights, wherever they are now."""

import shutil

import pytest

from league.tournament.folder import settings_of
from league.tournament.options import GivenOptions, settled
from league.tournament.places import pack
from league.tournament.play import play
from league.tournament.settings import load
from storage import query
from storage.archive import open_reader
from storage.errors import Mistake
from storage.upkeep.exports import export_snapshot
from tests.steps import flip_bit

pytestmark = pytest.mark.slow


@pytest.fixture
def moved(make_run, tmp_path):
    """A run, and a tournament of some of its snapshots, a mixture and a bot: both have moved."""
    run = make_run(tmp_path / "old" / "run", snapshots=4)
    book = tmp_path / "old" / "book.txt"
    book.write_text("0 4\n8 4\n")
    names = ["main-0@0", "main-0@1:greedy", "main-0@0+main-0@2"]
    play(settings(run, names=names, opening={"book": str(book)}), tmp_path / "old" / "cup")
    (tmp_path / "old").rename(tmp_path / "new")
    return tmp_path / "new"


def settings(run, names=(), pairs=1, **changes):
    schedule = {"kind": "round_robin", "pairs": pairs}
    sources = [{"run": str(run), "names": list(names)}, {"bots": ["random"]}]
    return load({"competitors": sources, "schedule": schedule, "runners": 0} | changes)


def more(cup, *runs, pairs, **field):
    """Does what `league tournament RUN... --run CUP --resume --pairs N` does."""
    options = GivenOptions(field, [], {"schedule": {"pairs": pairs}}, [])
    given, out, _ = settled([str(run) for run in runs], options, cup, resume=True)
    play(given, out, resume=True)


def games(cup):
    return query(cup, "SELECT count(*) AS n FROM matches")["n"].to_pylist()


def test_a_tournament_that_moved_with_its_run_goes_on(moved):
    more(moved / "cup", pairs=2)
    assert games(moved / "cup") == [6 * 2 * 2]


def test_a_run_that_is_named_is_where_entrants_are_and_lets_no_other_join(moved, tmp_path):
    cup, run = moved / "cup", tmp_path / "far" / "away" / "renamed"
    run.parent.mkdir(parents=True)
    (moved / "run").rename(run)
    with pytest.raises(Mistake, match="3 missing or damaged") as refused:
        more(cup, pairs=2)
    weights = open_reader(cup).entrants()[0].blob_hash[:12]
    for part in (
        "/old/run: nothing is there",
        f"its weights are {weights}",
        f"is in {moved} has",
        f"--run {cup}",
    ):
        assert part in str(refused.value)
    more(cup, run, pairs=2)
    assert games(cup) == [6 * 2 * 2]
    more(cup, pairs=3)  # the place is remembered
    more(cup, run, pairs=3, names=["main-0@3"])
    names = [entrant.competitor for entrant in open_reader(cup).entrants()]
    assert names == ["main-0@0", "main-0@1:greedy", "main-0@0+main-0@2", "random", "main-0@3"]
    assert games(cup) == [10 * 3 * 2]


def test_one_that_is_packed_needs_nothing_else(moved, tmp_path):
    reader = open_reader(moved / "run")
    export_snapshot(reader, reader.snapshots()[3], moved / "exported")
    more(moved / "cup", moved / "exported", pairs=1)
    pack(moved / "cup", settings_of(moved / "cup"))
    pack(moved / "cup", settings_of(moved / "cup"))  # a second time changes nothing
    cup = (moved / "cup").rename(tmp_path / "cup")
    shutil.rmtree(moved)
    more(cup, pairs=2)
    assert games(cup) == [10 * 2 * 2]
    for blob in (cup / "entrants").glob("*/*/weights.safetensors"):
        flip_bit(blob, -1)
    with pytest.raises(Mistake, match="4 missing or damaged"):
        more(cup, pairs=3)
