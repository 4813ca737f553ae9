"""The league gets strong: the examples of `configs/`, cut short, measured against exact truths."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

import analysis
import league
from league.arena.comparison import compare
from league.envs import registry
from league.exploit.exact import exact
from storage.archive import open_reader
from storage.records import Outcome
from tests.parameters import VARIANTS

CONFIGS = Path(__file__).parents[4] / "configs"
JACK, QUEEN, KING = range(3)
PASS, BET = 0, 1


def kuhn_bet_probabilities(policy):
    """P(bet) at the twelve information sets of Kuhn poker, by (card, history)."""
    found = {}
    for history in ("", "p", "b", "pb"):
        for card in (JACK, QUEEN, KING):
            observation = np.zeros((1, 11), np.int8)
            observation[0, len(history) % 2] = 1
            observation[0, 2 + card] = 1
            for i, action in enumerate(history):
                observation[0, 5 + 2 * i + (action == "b")] = 1
            probability, _ = policy.evaluate(observation, np.ones((1, 2), bool))
            found[card, history] = float(probability[0, BET])
    return found


def kuhn_value(bets):
    """Exact expected chips of the first seat when `bets` gives P(bet) at each (card, history)."""

    def play(cards, history):
        if history in ("pp", "bp", "bb", "pbp", "pbb"):
            if history == "bp":
                return 1.0
            if history == "pbp":
                return -1.0
            stake = 2.0 if history.endswith("bb") else 1.0
            return stake if cards[0] > cards[1] else -stake
        p = bets[cards[len(history) % 2], history]
        return p * play(cards, history + "b") + (1 - p) * play(cards, history + "p")

    deals = list(itertools.permutations((JACK, QUEEN, KING), 2))
    return sum(play(cards, "") for cards in deals) / len(deals)


def kuhn_nash_conv(bets):
    """What both seats together could gain by best responses: the best of all 64 pure strategies of each."""
    best = []
    for histories, sign in ((("", "pb"), 1.0), (("p", "b"), -1.0)):
        sets = list(itertools.product((JACK, QUEEN, KING), histories))
        best.append(
            max(
                sign * kuhn_value({**bets, **dict(zip(sets, pure, strict=True))})
                for pure in itertools.product((0.0, 1.0), repeat=len(sets))
            )
        )
    return sum(best)


def test_the_exact_computation_knows_kuhns_own_numbers():
    alpha = 0.2  # any in [0, 1/3]: one of Kuhn's equilibria, worth -1/18 to the first seat
    equilibrium = {
        (JACK, ""): alpha,
        (QUEEN, ""): 0.0,
        (KING, ""): 3 * alpha,
        (JACK, "pb"): 0.0,
        (QUEEN, "pb"): alpha + 1 / 3,
        (KING, "pb"): 1.0,
        (JACK, "p"): 1 / 3,
        (QUEEN, "p"): 0.0,
        (KING, "p"): 1.0,
        (JACK, "b"): 0.0,
        (QUEEN, "b"): 1 / 3,
        (KING, "b"): 1.0,
    }
    assert kuhn_value(equilibrium) == pytest.approx(-1 / 18)
    assert kuhn_nash_conv(equilibrium) == pytest.approx(0.0, abs=1e-12)
    uniform = dict.fromkeys(equilibrium, 0.5)
    assert kuhn_nash_conv(uniform) == pytest.approx(11 / 12)


def test_the_exact_computation_sees_what_the_game_shows():
    game = registry.make("kuhn_poker", 200)
    game.reset(np.arange(200), np.arange(200))
    (block,) = game.due()
    for card in (JACK, QUEEN, KING):
        seen = np.zeros(11, np.int8)
        seen[[0, 2 + card]] = 1
        assert (block.observation == seen).all(axis=1).any()
    game.step([np.full(200, PASS)])
    (block,) = game.due()
    game.step([np.full(200, BET)])
    (block,) = game.due()
    expected = np.zeros(11, np.int8)
    expected[[0, 2 + KING, 5, 8]] = 1  # first seat, a king, it passed, then the other bet
    assert (block.observation == expected).all(axis=1).any()


def trained(name, folder, env_steps, runners):
    """The run of a shipped config, cut short; with `runners` of 0 it is the same run each time."""
    overrides = [f"stop={{env_steps: {env_steps}}}", f"runners={runners}"]
    return league.train(CONFIGS / f"{name}.yaml", folder / "run", overrides=overrides)


SELF_PLAY_IN_SECONDS = """\
env: {id: tic_tac_toe}
seed: 1
runners: 0
league:
  preset: self_play
  players: {main: 1}
  freeze_every: 37_500
policy: {hidden: [64, 64]}
rollout: {slots: 256, matches_per_request: 256}
learner: {batch_steps: 512, lr: 3.0e-3, entropy: 0.02, epochs: 1}
stop: {env_steps: 150_000}
"""


@pytest.mark.slow
def test_a_few_seconds_of_self_play_beat_random_play(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(SELF_PLAY_IN_SECONDS)
    run = league.train(config, tmp_path / "run")
    before, after = (
        compare(run, snapshot, "random", pairs=200).pair_scores.mean() for snapshot in ("main-0@0", "main-0")
    )
    assert before < 0.6
    assert after > 0.68  # seeds 0, 1 and 2: 0.76 to 0.78


@pytest.mark.long
@pytest.mark.slow
def test_kuhn_poker_comes_close_to_equilibrium(tmp_path):
    run = trained("kuhn_poker", tmp_path, 1_500_000, runners=0)
    snapshots = [s.snapshot_id for s in open_reader(run).snapshots() if s.player == "main-0"]
    first, last = (
        kuhn_nash_conv(kuhn_bet_probabilities(league.load_policy(run, snapshot)))
        for snapshot in (snapshots[0], snapshots[-1])
    )
    assert first > 0.8
    assert last < 0.1


@pytest.mark.long
@pytest.mark.slow
def test_the_mixture_of_psro_comes_close_to_equilibrium_in_kuhn_poker(tmp_path):
    run = trained("psro", tmp_path, 450_000, runners=0)
    sixth = open_reader(run).snapshots()[5].snapshot_id
    assert exact(run, f"{sixth}:nash").nash_conv < 0.35  # seeds 0, 1 and 2: 0.24, 0.26 and 0.21


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.variant
def test_tic_tac_toe_hardly_ever_loses_to_perfect_play(tmp_path):
    run = trained("tic_tac_toe", tmp_path, 8_000_000, runners=0)
    outcome = compare(run, "main-0:greedy", "perfect", pairs=500).outcome_of_a
    assert (outcome == Outcome.LOSS).mean() <= 0.02
    outcome = compare(run, "main-0:greedy", "random", pairs=500).outcome_of_a
    assert (outcome == Outcome.WIN).mean() > 0.8


@pytest.mark.long
@pytest.mark.alone
def test_connect_four_soon_beats_random_play(tmp_path):
    run = trained("connect_four", tmp_path, 3_000_000, runners=2)
    assert compare(run, "main-0", "random", pairs=250).pair_scores.mean() > 0.8
    assert compare(run, "main-0", "main-0@0", pairs=250).pair_scores.mean() > 0.8


def max_entropy_nash(payoff):
    """The equilibrium of a symmetric zero-sum game [n, n] with the largest entropy: weights [n]."""
    n = len(payoff)
    # any equilibrium to start from, by linear programming: w >= 0, sum 1, w A >= 0 (the value is 0)
    start = linprog(np.zeros(n), A_ub=-payoff.T, b_ub=np.full(n, 1e-9), A_eq=np.ones((1, n)), b_eq=[1.0]).x
    result = minimize(
        lambda w: float(np.sum(w * np.log(np.maximum(w, 1e-12)))),
        start,
        jac=lambda w: np.log(np.maximum(w, 1e-12)) + 1.0,
        bounds=[(0.0, 1.0)] * n,
        constraints=[
            {"type": "eq", "fun": lambda w: w.sum() - 1.0, "jac": lambda w: np.ones(n)},
            {"type": "ineq", "fun": lambda w: w @ payoff + 1e-9, "jac": lambda w: payoff.T},
        ],
        method="SLSQP",
        options={"maxiter": 300},
    )
    weights = np.clip(result.x, 0.0, None)
    return weights / weights.sum()


def test_max_entropy_nash_of_rock_paper_scissors_with_a_double_is_spread_evenly():
    game = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])
    np.testing.assert_allclose(max_entropy_nash(game), [1 / 3] * 3, atol=1e-4)
    doubled = game[np.ix_([0, 0, 1, 2], [0, 0, 1, 2])]
    np.testing.assert_allclose(max_entropy_nash(doubled), [1 / 6, 1 / 6, 1 / 3, 1 / 3], atol=1e-3)


@pytest.mark.long
def test_rock_paper_scissors_fills_a_pool_that_nobody_can_exploit(tmp_path):
    run = league.train(CONFIGS / "rock_paper_scissors.yaml", tmp_path / "run")
    game = registry.make("rock_paper_scissors", 1)
    game.reset(np.arange(1), np.arange(1))
    (block,) = game.due()
    loaded = [league.load_policy(run, snapshot.snapshot_id) for snapshot in open_reader(run).snapshots()]
    policies = np.array([p.evaluate(block.observation, block.mask)[0].mean(axis=0) for p in loaded])
    beats = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])  # rock, paper, scissors
    payoff = policies @ beats @ policies.T
    assert len(policies) >= 10
    others = payoff + np.where(np.eye(len(payoff), dtype=bool), np.inf, 0.0)
    assert (0.5 + 0.5 * others.min(axis=1) <= 0.6).all()  # no player wins over 60 % against every other
    mixture = max_entropy_nash(payoff) @ policies
    assert (beats @ mixture).max() < 0.1

    with analysis.open_run(run) as history:  # and what was played agrees with what was computed
        played = history.payoff().set_index(["home", "away"])
    ids = [snapshot.snapshot_id for snapshot in open_reader(run).snapshots()]
    assert set(played.index.get_level_values("away")) >= set(ids[:3])
    assert played["win_rate"].between(0.0, 1.0).all()


def returns(run):
    """Scores of the training matches of a game for one, in the order in which they were recorded."""
    with analysis.open_run(run) as history:
        return history.sql("SELECT score FROM seats ORDER BY seq")["score"].to_numpy()


CARTPOLE = {
    "ppo": [],  # as shipped
    "appo": ["learner.loss=appo", "learner.shuffle=false"],
    "impala": ["learner.loss=impala", "learner.shuffle=false", "learner.epochs=1", "learner.batch_steps=128"],
}


@pytest.mark.variant
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2] if VARIANTS else [0])
@pytest.mark.parametrize("loss", CARTPOLE if VARIANTS else ["ppo"])  # the others learn other games here
def test_cartpole_is_balanced_within_200_000_steps(loss, seed, tmp_path):
    overrides = [f"seed={seed}", "stop.env_steps=200_000", *CARTPOLE[loss]]
    run = league.train(CONFIGS / "cartpole.yaml", tmp_path / "run", overrides=overrides)
    mean_of_20 = np.convolve(returns(run), np.full(20, 1 / 20), mode="valid")
    assert mean_of_20.max() >= 4.5  # hundreds of steps
    if loss == "ppo":  # as the config has it: what was learned stays
        assert mean_of_20[-1] >= 4.5


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    ("memory", "solved"), [("gru", True), *([("lstm", True)] if VARIANTS else []), ("none", False)]
)
def test_recall_is_solved_by_memory_and_not_without(memory, solved, tmp_path):
    overrides = [f"policy.memory={memory}", "stop.env_steps=250_000"]
    run = league.train(CONFIGS / "recall.yaml", tmp_path / "run", overrides=overrides)
    last = returns(run)[-1000:]  # 1 for the right answer, -1 for another
    assert ((last > 0).mean() > 0.95) == solved
