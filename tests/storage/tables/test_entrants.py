"""A tournament remembers who takes part, how each plays, and which of its matches were the same."""

import dataclasses

import numpy as np
import pytest

from storage import query
from storage.archive import Archive, open_reader
from storage.errors import StorageError
from storage.layout import LEDGER
from storage.ledger.ledger import Ledger, read_frames
from storage.records import MAIN, Bot, Entrant, Purpose, RatingChange
from storage.upkeep.garbage import collect
from storage.upkeep.verification import verify_snapshots

MAIN_GREEDY = Entrant(
    competitor="main-0@10:greedy",
    kind="snapshot",
    role=MAIN,
    player="main-0",
    run="runs/cup",
    snapshot_id="main-0@10",
    blob_hash="ab" * 32,
    env_steps=10,
    created_at=1.7e9 + 0.123456789,
    architecture="mlp",
    temperature=0.0,
)
MAIN_SAMPLED = dataclasses.replace(MAIN_GREEDY, competitor="main-0@10", temperature=1.0)
NOTHING = dict.fromkeys(
    ("role", "player", "run", "snapshot_id", "blob_hash", "env_steps", "created_at", "architecture")
)
RANDOM = Entrant(competitor="random", kind="bot", **NOTHING)
FIELD = (MAIN_GREEDY, RANDOM, MAIN_SAMPLED)
ROW = {"name": "cup", "env": "connect_four", "seed": 3}


@pytest.fixture
def cup(tmp_path):
    """The run of a tournament before its first match, closed."""
    folder = tmp_path / "cup"
    Archive.create(folder, "env: {id: connect_four}\n", ROW, entrants=FIELD).close()
    return folder


@pytest.fixture
def make_games(make_results):
    """M games of the field, some of which were the same."""

    def make(num_matches, first_match_id=0, seed=0):
        names = tuple(entrant.competitor for entrant in FIELD)
        results = make_results(num_matches, first_match_id, seed=seed, competitors=names)
        learning = np.zeros_like(results.matches.learning)
        matches = dataclasses.replace(results.matches, purpose=Purpose.TOURNAMENT, learning=learning)
        digest = np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, size=num_matches)
        digest[::4] = 0
        digest[1::4] = -(2**63)
        return dataclasses.replace(results, matches=matches, digest=digest)

    return make


def rated(results):
    """Everyone's rating after them, as if it were as good as its place in the field."""
    return [RatingChange(e.competitor, 30.0 - i, 1.0, len(results)) for i, e in enumerate(FIELD)]


def compact(run):
    """Turn the journal into Parquet."""
    with Ledger(run / LEDGER, "test", segment_frames=1) as ledger:
        ledger.append({})
        assert ledger.compact() == 1


def test_the_field_of_a_tournament_is_there_with_its_folder(cup):
    reader = open_reader(cup)
    assert tuple(reader.entrants()) == FIELD
    assert reader.bots() == reader.snapshots() == reader.players() == []
    assert reader.find("main-0@10:greedy") == MAIN_GREEDY
    (frame,) = read_frames(cup / LEDGER)
    assert set(frame.tables) == {"runs", "entrants", "competitors"}


def test_a_field_with_a_name_twice_makes_no_run(tmp_path):
    with pytest.raises(StorageError, match="2 have 1 names between them"):
        Archive.create(tmp_path / "cup", "env: {id: connect_four}\n", ROW, entrants=[RANDOM, RANDOM])
    assert not (tmp_path / "cup").exists()


@pytest.mark.slow
def test_entrants_come_back_as_they_joined_also_after_compaction(cup, make_games):
    results = make_games(8)
    with Archive.open(cup) as archive:
        archive.append_results(results, rated(results))
        archive.add_bot(Bot("beside them"))
        told = list(archive.history())
    assert told[:3] == list(FIELD)
    assert told[4:] == [Bot("beside them")]
    compact(cup)
    with Archive.open(cup) as archive:
        assert archive.entrants() == list(FIELD)
        assert archive.bots() == [Bot("beside them")]
        again = list(archive.history())
    assert again[:3] + again[4:] == told[:3] + told[4:]
    np.testing.assert_array_equal(again[3].digest, results.digest)


@pytest.mark.slow
@pytest.mark.parametrize("compacted", [False, True])
def test_tables_show_who_took_part_and_how_they_stand(cup, make_games, compacted):
    results = make_games(40)
    with Archive.open(cup) as archive:
        archive.append_results(results, rated(results))
    if compacted:
        compact(cup)
    entrants = query(cup, "SELECT competitor, kind, temperature, env_steps FROM entrants")
    assert [tuple(row.values()) for row in entrants.to_pylist()] == [
        ("main-0@10:greedy", "snapshot", 0.0, 10),
        ("random", "bot", 1.0, None),
        ("main-0@10", "snapshot", 1.0, 10),
    ]
    kinds = query(cup, "SELECT competitor, kind, role, player FROM competitors ORDER BY competitor")
    assert [tuple(row.values()) for row in kinds.to_pylist()] == [
        ("main-0@10", "snapshot", "main", "main-0"),
        ("main-0@10:greedy", "snapshot", "main", "main-0"),
        ("random", "bot", None, None),
    ]
    payoff = query(cup, "SELECT home, sum(games)::INT AS games FROM payoff GROUP BY home").to_pylist()
    met = {row["home"]: row["games"] for row in payoff}
    board = query(cup, "SELECT competitor, role, kind, games FROM leaderboard").to_pylist()
    assert [tuple(row.values()) for row in board] == [
        ("main-0@10:greedy", "main", "snapshot", met["main-0@10:greedy"]),
        ("random", None, "bot", met["random"]),
        ("main-0@10", "main", "snapshot", met["main-0@10"]),
    ]
    digests = query(cup, "SELECT digest FROM matches ORDER BY seq")["digest"].to_pylist()
    assert digests == [None if digest == 0 else digest for digest in results.digest.tolist()]


@pytest.mark.slow
def test_frames_with_and_without_digests_lie_in_one_segment(run, make_results, make_games):
    batches = [make_results(6), make_games(6, 6), make_results(6, 12)]
    with Archive.open(run) as archive:
        for batch in batches:
            archive.append_results(batch, [])
    compact(run)
    with Archive.open(run) as archive:
        first, second, third = archive.results()
    assert first.digest is None
    assert third.digest is None
    np.testing.assert_array_equal(second.digest, batches[1].digest)
    counted = query(run, "SELECT count(*) AS all, count(digest) AS told FROM matches").to_pylist()
    assert counted == [{"all": 18, "told": 4}]


def test_a_run_without_snapshots_is_nothing_to_verify_and_nothing_to_collect(cup):
    assert verify_snapshots(open_reader(cup)) == []
    assert collect(cup, delete=True).files == []
