"""Frames as History gives them, of leagues of any size that were never played: what they hold is known."""

from __future__ import annotations

import numpy as np
import pandas as pd

PLAYERS = {"main-0": "main", "main_exploiter-0": "main_exploiter", "league_exploiter-0": "league_exploiter"}
BOTS = {"random": 20.0, "one_ply": 29.0}
TYPES = {"main": ("pfsp", "self_play"), "main_exploiter": ("current_main",), "league_exploiter": ("pfsp",)}
ENV_STEPS = 60_000_000


def league(snapshots: int, seed: int = 0) -> dict[str, pd.DataFrame]:
    """The frames of a league of so many snapshots, by the names of History's methods; each met some 30
    others. A main exploiter is reset after every snapshot, a league exploiter now and then."""
    rng = np.random.default_rng(seed)
    frozen = _snapshots(snapshots, rng)
    board = _leaderboard(frozen, rng)
    return {
        "snapshots": frozen,
        "leaderboard": board,
        "ratings": _ratings(frozen, board, rng),
        "payoff": _payoff(board, rng),
        "match_mix": _match_mix(rng, 90 if snapshots > 10 else 3),
        "exploitability": _exploitability(frozen, rng),
        "yardsticks": _yardsticks(frozen, rng),
        "curves": curves_of(rng),
    }


def curves_of(rng: np.random.Generator, points: int = 60) -> pd.DataFrame:
    """Learning curves of the three players: of all measures, with opponents, reasons and seats."""
    series: dict[str, tuple[str | None, ...]] = {
        **dict.fromkeys(
            ("score", "length", "entropy", "policy_loss", "value_loss", "gradient_norm", "lag"), (None,)
        ),
        "win_rate": (*BOTS, *(f"snapshots of {name}" for name in PLAYERS)),
        "end": ("finished", "step_limit", "illegal_action"),
    }
    parts = []
    lines = [(m, player, one) for m, ones in series.items() for player in PLAYERS for one in ones]
    for measure, player, one in [*lines, ("seat", None, "0"), ("seat", None, "1")]:
        part = pd.DataFrame({"measure": measure, "player": player, "series": one}, index=range(points))
        part["value"] = np.clip(0.5 + np.cumsum(rng.normal(0, 0.03, points)), 0, 1)
        parts.append(part.assign(league_env_steps=ENV_STEPS * np.arange(1, points + 1) // points))
    frame = pd.concat(parts, ignore_index=True)
    frame = frame.assign(low=frame["value"] - 0.04, high=frame["value"] + 0.04, samples=1_000)
    return frame.assign(run="planted", minutes=frame["league_env_steps"] / 600_000)


def payoff_of(names: list[str], score: np.ndarray, games: int = 100) -> pd.DataFrame:
    """The frame of a payoff in which everybody met everybody; `score` [N, N]."""
    rows = [
        (names[i], names[j], games, games * score[i, j])
        for i in range(len(names))
        for j in range(len(names))
        if i != j
    ]
    frame = pd.DataFrame(rows, columns=["home", "away", "games", "wins"])
    frame["draws"], frame["losses"] = 0, frame["games"] - frame["wins"]
    return frame.assign(win_rate=frame["wins"] / frame["games"], run="planted")


def board_of(names: list[str]) -> pd.DataFrame:
    """A leaderboard in the order of `names`."""
    mu = 30.0 - np.arange(len(names))
    columns = {"run": "planted", "competitor": names, "role": "main", "kind": "snapshot"}
    return pd.DataFrame({**columns, "mu": mu, "sigma": 1.0, "games": 100, "win_rate": 0.5, "skill": mu - 3})


def _snapshots(count: int, rng: np.random.Generator) -> pd.DataFrame:
    newest: dict[str, str] = {}
    first: dict[str, str] = {}
    rows = []
    for place in range(count):
        names = list(PLAYERS)
        player = names[place] if place < 3 else str(rng.choice(names, p=(0.6, 0.2, 0.2)))
        step = 0 if place < 3 else ENV_STEPS * (place - 2) // (count - 2)
        role, parent = PLAYERS[player], newest.get(player)
        if parent and role == "main_exploiter":
            parent = first[player]
        if parent and role == "league_exploiter" and rng.random() < 0.3:
            parent = newest["main-0"] if rng.random() < 0.5 else first[player]
        name = newest[player] = f"{player}@{step}"
        first.setdefault(player, name)
        rows.append((name, player, role, step, parent))
    frame = pd.DataFrame(rows, columns=["snapshot_id", "player", "role", "league_env_steps", "parent_id"])
    clock = pd.Timestamp("2024-01-01") + pd.to_timedelta(frame["league_env_steps"] // 10_000, unit="s")
    return frame.assign(run="planted", created_at=clock, minutes=frame["league_env_steps"] / 600_000)


def _leaderboard(frozen: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    mu = 25 + 15 * (1 - np.exp(-frozen["league_env_steps"] / 2e7)) + rng.normal(0, 1, len(frozen))
    rows = [*zip(frozen["snapshot_id"], frozen["role"], ["snapshot"] * len(frozen), mu, strict=True)]
    rows += [(name, role, "player", 36.0 + place) for place, (name, role) in enumerate(PLAYERS.items())]
    rows += [(name, None, "bot", level) for name, level in BOTS.items()]
    frame = pd.DataFrame(rows, columns=["competitor", "role", "kind", "mu"]).assign(run="planted", sigma=0.8)
    frame = frame.assign(games=1_000, win_rate=0.5, skill=frame["mu"] - 3 * frame["sigma"])
    return frame.sort_values("skill", ascending=False, ignore_index=True)


def _ratings(frozen: pd.DataFrame, board: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    now = board.set_index("competitor")["mu"]
    steps = np.linspace(0, ENV_STEPS, 700)
    parts = [
        frozen[["snapshot_id", "league_env_steps"]]
        .rename(columns={"snapshot_id": "competitor"})
        .assign(mu=now[frozen["snapshot_id"]].to_numpy(), sigma=0.8)
    ]
    for player in PLAYERS:
        mu = 25 + (now[player] - 25) * (1 - np.exp(-steps / 1e7)) + rng.normal(0, 0.3, len(steps))
        mu[-1] = now[player]
        parts.append(pd.DataFrame({"competitor": player, "league_env_steps": steps, "mu": mu, "sigma": 0.8}))
    parts.append(pd.DataFrame({"competitor": list(BOTS), "league_env_steps": 0, "mu": list(BOTS.values())}))
    frame = pd.concat(parts, ignore_index=True).sort_values("league_env_steps", kind="stable")
    return frame.assign(run="planted", seq=range(len(frame)), minutes=0.0, games=10).fillna({"sigma": 0.8})


def _payoff(board: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    count, mu = len(board), board["mu"].to_numpy()
    met = np.triu(rng.random((count, count)) < 30 / count, 1)
    home, away = np.nonzero(met)
    games = rng.integers(5, 40, len(home))
    wins = rng.binomial(games, 1 / (1 + np.exp(-(mu[home] - mu[away]) / 5)))
    names = board["competitor"].to_numpy()
    one = {"home": names[home], "away": names[away], "games": games, "wins": wins, "losses": games - wins}
    other = {"home": one["away"], "away": one["home"], "games": games, "wins": games - wins, "losses": wins}
    frame = pd.concat([pd.DataFrame(one), pd.DataFrame(other)], ignore_index=True).assign(
        draws=0, run="planted"
    )
    return frame.assign(win_rate=frame["wins"] / frame["games"])


def _match_mix(rng: np.random.Generator, minutes: int) -> pd.DataFrame:
    rows = [
        (player, "training", kind, int(rng.integers(1, 400)), minute)
        for player, role in PLAYERS.items()
        for minute in range(minutes)
        for kind in TYPES[role]
        if minute != 1  # nothing was played then
    ]
    rows.append((None, "evaluation", "evaluation", 500, 1))
    frame = pd.DataFrame(rows, columns=["player", "purpose", "match_type", "matches", "minute"])
    total = frame.groupby(["player", "purpose", "minute"], dropna=False)["matches"].transform("sum")
    steps = 1_000 * (frame["minute"] + 1)
    return frame.assign(share=frame["matches"] / total, run="planted", league_env_steps=steps)


def _exploitability(frozen: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    main = frozen[frozen["role"] == "main"]
    value = 0.9 * np.exp(-main["league_env_steps"] / 1.5e7) + 0.01 + rng.uniform(0, 0.02, len(main))
    kept = ["snapshot_id", "player", "league_env_steps", "created_at"]
    exact = main[kept].assign(kind="exact", value=value, low=value, high=value)
    bound = exact.iloc[::3].assign(kind="lower_bound")
    bound = bound.assign(value=bound["value"] * 0.9, low=bound["value"] * 0.8, high=bound["value"] * 0.95)
    return pd.concat([exact, bound], ignore_index=True).assign(unit="score per seat", run="planted")


def _yardsticks(frozen: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    main = frozen[frozen["role"] == "main"]
    grown = 1 - np.exp(-main["league_env_steps"].to_numpy() / 2e7)
    kept = main[["snapshot_id", "player", "league_env_steps", "created_at"]].rename(
        columns={"snapshot_id": "competitor"}
    )
    parts = []
    for level, (measure, mode) in enumerate((m, o) for m in ("best", "kept") for o in ("greedy", "sample")):
        value = 0.2 + 0.1 * level + 0.4 * grown + rng.uniform(0, 0.01, len(main))
        parts.append(
            kept.assign(yardstick="positions", kind="positions", measure=measure, mode=mode, value=value)
        )
    games = kept.assign(kind="games", measure="score", mode="sample", value=0.5 + 0.4 * grown)
    parts += [games.assign(yardstick=opponent) for opponent in ("random", "one_ply")]
    bots = pd.DataFrame({"competitor": list(BOTS), "value": [0.25, 0.26]})
    start = pd.Timestamp("2024-01-01")
    bots = bots.assign(yardstick="positions", kind="positions", mode="sample", created_at=start)
    parts += [bots.assign(measure=measure) for measure in ("best", "kept")]
    frame = pd.concat(parts, ignore_index=True)
    frame = frame.assign(part="all", low=frame["value"] - 0.03, high=frame["value"] + 0.03, samples=1000)
    return frame.assign(run="planted", player=frame.get("player"))
