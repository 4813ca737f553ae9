"""Stored games come back as they were, and no match that validates is learned from."""

import numpy as np
import pytest

from league.teaching import games as stored
from league.teaching.games import GamesFile, card_of, write_games
from league.teaching.played import played_games
from storage.errors import Mistake


@pytest.fixture(scope="module")
def written(snapshots_run, tmp_path_factory):
    """A file of 300 games of two bots in many row groups, and what was written to it."""
    path = tmp_path_factory.mktemp("games") / "games.parquet"
    spaces, found = played_games(snapshots_run, ["one_ply", "random"], 300)
    chunks = []

    def in_parts():
        for each in found:
            whole = np.flatnonzero(each.episodes.match_id < 300)
            for part in (
                np.array_split(whole, 1) if len(whole) < 8 else np.split(whole, range(0, len(whole), 40))
            ):
                own = {name: getattr(each, name)[part] for name in ("player", "rating", "outcome", "score")}
                chunks.append(stored.Games(each.episodes.take(part), **own))
                yield chunks[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored, "ROW_GROUP_BYTES", 10_000)
        write_games(path, spaces, in_parts(), "bots", most=300)
    return path, chunks


def test_games_come_back_as_they_were_from_any_number_of_row_groups(written):
    path, chunks = written
    games = GamesFile(path)
    games.choose(None, 0.2, 0)
    assert games._file.num_row_groups > 5
    found = {}
    for validates in (False, True):
        for block in games.blocks(validates, np.random.default_rng(0), 500):
            for e in range(len(block)):
                found[int(block.match_id[e]), int(block.seat[e])] = block[e]
    made = [chunk.episodes[e] for chunk in chunks for e in range(len(chunk.episodes))]
    assert len(found) == len(made) == 600
    for own in made:
        again = found[own.match_id, own.seat]
        for name in ("observation", "mask", "action", "reward"):
            np.testing.assert_array_equal(getattr(again, name), getattr(own, name))


def test_no_match_is_both_learned_from_and_validated_by(written):
    games = GamesFile(written[0])
    games.choose(None, 0.2, 0)
    learned, held = ({m for b in games.blocks(v) for m in b.match_id.tolist()} for v in (False, True))
    assert not learned & held
    assert len(learned | held) == 300
    assert 30 < len(held) < 90
    assert games.count(validates=True)[0] == len(held)


def test_seats_are_chosen_by_what_is_known_of_them(written):
    games = GamesFile(written[0])
    games.choose("player = 'one_ply' AND outcome = 'win' AND score > 0", 0.2, 0)
    blocks = list(games.blocks(validates=False))
    wins = sum(int(((c.player == "one_ply") & (c.outcome == "win")).sum()) for c in written[1])
    assert 0 < sum(map(len, blocks)) < wins < 300
    assert all(block.reward[block.offset[1:] - 1].min() == 1.0 for block in blocks)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("outcome = 'lost'", "is left to learn from"),
        ("elo > 3", "expected a condition on match, seat, player"),
    ],
)
def test_a_condition_that_chooses_nothing_is_one_clear_line(written, where, said):
    with pytest.raises(Mistake, match=said):
        GamesFile(written[0]).choose(where, 0.2, 0)


def test_the_card_says_what_is_in_the_file(written):
    card = card_of(written[0])
    assert card["games"] == 300
    assert card["decisions"] == sum(chunk.episodes.num_steps for chunk in written[1])
    assert set(card["players"]) == {"one_ply", "random"}
    assert card["env"] == {"id": "tic_tac_toe", "options": {}}
    assert len(card["hash"]) == 64
