"""Results of several requests as one batch."""

from dataclasses import replace

import numpy as np

from storage.ledger.merge import MOST_MATCHES, together
from storage.records import Purpose, Recordings
from tests import made_up

NAMES = (("main-0", "main-0@0"), ("main-0@7", "main-0"), ("main-0@0", "main-0@9", "main-0"))


def played(number, matches=5, **more):
    rng = np.random.default_rng(number)
    names = NAMES[number % 3]
    seat = rng.integers(len(names), size=(matches, 2))
    drawn = made_up.matches(
        names,
        seat,
        match_id=rng.integers(2**40, size=matches),
        seed=rng.integers(2**62, size=matches),
        **more,
    )
    results = made_up.results(drawn, rng.integers(3, size=(matches, 2)), score=rng.random((matches, 2)))
    return replace(results, recordings=recordings(number, matches), digest=rng.integers(2**62, size=matches))


def recordings(number, matches):
    """Every other batch has two recordings, of number + 1 and 2 actions."""
    if number % 2:
        return None
    offset = np.array([0, number + 1, number + 3])
    return Recordings(np.array([1, matches - 1]), offset, np.arange(number + 3, dtype=np.float32))


def recorded(results):
    own = results.recordings
    return [own.action[a:b].tolist() for a, b in zip(own.offset, own.offset[1:], strict=False)]


def test_joined_batches_hold_the_same_matches_in_the_same_order():
    batches = [played(n) for n in range(4)]
    (joined,) = together(batches)
    assert list(joined.matches) == [match for batch in batches for match in batch.matches]
    for name in ("outcome", "score", "rank", "env_steps", "reason", "started_at", "seconds"):
        assert np.array_equal(getattr(joined, name), np.concatenate([getattr(b, name) for b in batches]))
    assert joined.matches.competitors == ("main-0", "main-0@0", "main-0@7", "main-0@9")
    assert joined.digest.tolist() == [n for batch in batches for n in batch.digest.tolist()]
    assert joined.recordings.row.tolist() == [1, 4, 11, 14]
    assert recorded(joined) == [actions for batch in batches[::2] for actions in recorded(batch)]


def test_only_neighbours_of_one_kind_are_joined_and_a_lone_batch_stays_itself():
    training, other = [played(n) for n in range(2)], played(2, purpose=Purpose.EVALUATION)
    several = replace(played(0).matches, match_types=("pfsp", "self_play"))
    found = together([*training, other, training[0], replace(training[0], matches=several)])
    assert [len(batch) for batch in found] == [10, 5, 5, 5]
    assert found[1] is other
    assert found[2] is training[0]
    assert together([]) == []


def test_a_joined_batch_has_a_bound():
    large = played(1, MOST_MATCHES // 2)
    assert list(map(len, together([large, large, large, played(1)]))) == [MOST_MATCHES, MOST_MATCHES // 2 + 5]
