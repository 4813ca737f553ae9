"""Games of competitors whose strengths are known."""

import itertools

import numpy as np

from analysis.statistics.games import Games, games_of

ELO = 400.0 / np.log(10.0)  # of one unit of log-odds
ROCK_PAPER_SCISSORS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])  # row against column


def antisymmetric(matrix):
    """The matrix above its diagonal, and minus it below."""
    return np.triu(matrix, 1) - np.triu(matrix, 1).T


def names(n):
    return tuple(f"c{i}" for i in range(n))


def games_from(n, home, away, points, pair=None, home_place=0, away_place=1):
    """Games [g] of n competitors; without `pair` each is a pair of its own."""
    g = len(home)
    return Games(
        competitors=names(n),
        home=np.array(home, dtype=np.int64),
        away=np.array(away, dtype=np.int64),
        home_place=np.full(g, home_place),
        away_place=np.full(g, away_place),
        points=np.array(points, dtype=np.float64),
        pair=np.arange(g) if pair is None else np.array(pair),
        match=np.arange(g),
        lead=2.0 * np.array(points, dtype=np.float64) - 1.0,
    )


def games_of_table(rows, n):
    """Games from rows (home, away, wins of home, draws, losses)."""
    home, away, points = [], [], []
    for a, b, wins, draws, losses in rows:
        home += [a] * (wins + draws + losses)
        away += [b] * (wins + draws + losses)
        points += [1.0] * wins + [0.5] * draws + [0.0] * losses
    return games_from(n, home, away, points)


def davidson(d, nu):
    """Chances of a win and of a draw at log-odds d."""
    total = np.exp(d / 2) + np.exp(-d / 2) + nu
    return np.exp(d / 2) / total, nu / total


def played(n, chances, pairs, rng, *, same_winner=0.0, same_place=0.0):
    """A round robin of `pairs` pairs per pairing. `chances(home, away)` gives those of a win and of a draw.

    In a share `same_winner` of the pairs one draw of luck decides both games for the same competitor,
    in a share `same_place` for the same place, whoever sits there; each game alone has the chances given.
    """
    i, j = (np.repeat(index, pairs) for index in np.triu_indices(n, 1))
    home, away = np.stack([i, j], axis=1).ravel(), np.stack([j, i], axis=1).ravel()
    win, draw = chances(home, away)
    luck, kind = rng.random((len(i), 2)), rng.random(len(i))
    luck[:, 1] = np.where(kind < same_winner, 1 - luck[:, 0], luck[:, 1])
    luck[:, 1] = np.where(kind >= 1 - same_place, luck[:, 0], luck[:, 1])
    luck = luck.ravel()
    points = np.where(luck < win, 1.0, np.where(luck < win + draw, 0.5, 0.0))
    return games_from(n, home, away, points, np.repeat(np.arange(len(i)), 2))


def transitive(elo, pairs, rng, *, advantage=0.0, nu=0.0, **shared):
    """A round robin of strengths [n] in Elo; `advantage`: the first mover's."""

    def chances(home, away):
        return davidson((elo[home] - elo[away] + advantage) / ELO, nu)

    return played(len(elo), chances, pairs, rng, **shared)


def free_for_all(elo, pairs, rng):
    """Three at a table, ranked as R. L. Plackett (1975) and R. D. Luce (1959) have it, where any two compare
    by Bradley and Terry. Every three meet `pairs` times in all six seatings."""
    n, columns = len(elo), {"home": [], "away": [], "points": [], "pair": [], "place": []}
    tables = [three for three in itertools.combinations(range(n), 3) for _ in range(pairs)]
    for pair, three in enumerate(tables):
        for seats in itertools.permutations(three):
            result = np.array(elo)[list(seats)] / ELO + rng.gumbel(size=3)
            for a, b in ((0, 1), (0, 2), (1, 2)):
                columns["home"].append(seats[a])
                columns["away"].append(seats[b])
                columns["points"].append(float(result[a] > result[b]))
                columns["pair"].append(pair)
                columns["place"].append((a, b))
    home_place, away_place = np.array(columns["place"]).T
    return games_from(
        n, columns["home"], columns["away"], columns["points"], columns["pair"], home_place, away_place
    )


def next_pairs(schedule, history, games, rng):
    """The pairs of the next round alone; `None` after the last one."""
    drawn = schedule.next_round(history, games, rng)
    return None if drawn is None else drawn.pairings


def by_round(schedule, field, seed, play):
    """All games of a field so far, after each round; `play(pairings)` gives those of a round."""
    history, games = [], games_of([], names(field))
    while True:
        pairings = next_pairs(schedule, history, games, np.random.default_rng([seed, len(history)]))
        if pairings is None:
            return
        games = join([games, play(pairings)]) if history else play(pairings)
        history.append(pairings)
        yield games


def join(parts):
    """Games of different pairs of the same competitors, one part after the other."""
    assert len({part.competitors for part in parts}) == 1
    before = np.cumsum([0, *(part.num_pairs for part in parts[:-1])])
    return Games(
        competitors=parts[0].competitors,
        home=np.concatenate([part.home for part in parts]),
        away=np.concatenate([part.away for part in parts]),
        home_place=np.concatenate([part.home_place for part in parts]),
        away_place=np.concatenate([part.away_place for part in parts]),
        points=np.concatenate([part.points for part in parts]),
        pair=np.concatenate([part.pair + start for part, start in zip(parts, before, strict=True)]),
        match=np.concatenate([part.match for part in parts]),
        lead=2.0 * np.concatenate([part.points for part in parts]) - 1.0,
    )
