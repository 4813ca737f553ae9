"""What games count: outcomes or scores, of runs that counted either, and of runs before leads were stored."""

import numpy as np
import pytest
import torch

import analysis
import storage
from storage.archive import Archive
from storage.errors import Mistake
from storage.records import MAIN, Bot, LivePlayer, Outcome, RatingChange
from storage.tables import columns
from tests import made_up

pytestmark = pytest.mark.slow

WIN, DRAW, LOSS, FORFEIT = Outcome
LEADS = {("a", "b"): [1.0, 2.0, -5.0], ("b", "a"): [-1.0], ("a", "c"): [0.0, 3.0]}


def write(run, most_lead=None):
    """A run in which chips are paid, two batches of matches, one of them a self-play of `a`."""
    row = {"name": "chips", "env": "kuhn_poker", "seed": 0, "most_lead": most_lead}
    seats = [pair for pair, leads in LEADS.items() for _ in leads] + [("a", "a")]
    lead = np.array([x for leads in LEADS.values() for x in leads] + [4.0])
    home = np.select([lead > 0, lead < 0], [WIN, LOSS], DRAW)
    away = np.select([lead > 0, lead < 0], [LOSS, WIN], DRAW)
    names = ["a", "b", "c"]
    with Archive.create(run, "env: {id: kuhn_poker}\n", row) as archive:
        for name in names:
            archive.add_bot(Bot(name))
        for part in (slice(0, 3), slice(3, None)):
            batch = made_up.matches(
                names,
                [[names.index(x) for x in pair] for pair in seats[part]],
                match_id=np.arange(len(seats))[part],
            )
            archive.append_results(
                made_up.results(
                    batch,
                    np.stack([home, away], axis=1)[part],
                    score=np.stack([lead, -lead], axis=1)[part],
                ),
                [],
            )
    return run


def without_leads(monkeypatch):
    """Write as before leads were stored."""
    new_tables = columns.result_tables

    def result_tables(*arguments):
        tables = new_tables(*arguments)
        return tables | {"meetings": tables["meetings"].drop_columns(["lead", "squares"])}

    monkeypatch.setattr(columns, "result_tables", result_tables)


def payoff(run, **options):
    with analysis.open_run(run) as history:
        return history.payoff(**options).set_index(["home", "away"])


def test_a_run_that_counts_scores_shows_leads_and_points_of_them(tmp_path):
    frame = payoff(write(tmp_path / "run", most_lead=5.0))
    one = frame.loc[("a", "b")]
    assert (one["games"], one["wins"], one["losses"], one["unit"]) == (4, 3, 1, "score")
    leads = np.array([1.0, 2.0, -5.0, 1.0])
    assert one["lead"] == pytest.approx(leads.mean())
    assert one["points"] == pytest.approx((0.5 + leads / 10).mean())
    assert one["deviation"] == pytest.approx((0.5 + leads / 10).std())
    assert one["win_rate"] == 0.75
    other = frame.loc[("b", "a")]
    assert other["lead"] == -one["lead"]
    assert other["points"] == pytest.approx(1.0 - one["points"])
    assert ("a", "a") not in frame.index


def test_a_run_that_counts_outcomes_shows_points_of_them(tmp_path):
    one = payoff(write(tmp_path / "run")).loc[("a", "c")]
    assert (one["unit"], one["points"], one["lead"]) == ("outcome", 0.75, 1.5)
    assert one["deviation"] == pytest.approx(np.std([0.5, 1.0]))


def test_the_view_of_the_same_name_shows_the_same(tmp_path):
    for most_lead in (None, 5.0):
        run = write(tmp_path / str(most_lead), most_lead)
        frame = payoff(run)
        view = storage.query(run, "FROM payoff ORDER BY home, away").to_pandas().set_index(["home", "away"])
        assert view["unit"].tolist() == frame["unit"].tolist()
        for column in ("games", "wins", "draws", "losses", "win_rate", "lead", "points", "deviation"):
            np.testing.assert_allclose(view[column], frame[column], atol=1e-12)


def test_the_newest_session_decides_what_is_shown(tmp_path):
    run = write(tmp_path / "run", most_lead=5.0)
    with Archive.open(run) as archive:
        archive.begin_session({"name": "chips", "env": "kuhn_poker", "seed": 0}, "env: {id: kuhn_poker}\n")
    view = storage.query(run, "FROM payoff").to_pandas()
    assert set(payoff(run)["unit"]) == set(view["unit"]) == {"outcome"}


@pytest.mark.parametrize("unit", ["outcome", "score"])
def test_old_runs_and_new_ones_are_read_either_way_alike(tmp_path, monkeypatch, unit):
    new = payoff(write(tmp_path / "new" / "run", most_lead=5.0), unit=unit)
    without_leads(monkeypatch)
    old = payoff(write(tmp_path / "old" / "run"), unit=unit)
    shown = ["games", "wins", "draws", "losses", "win_rate", "unit", "points", "deviation"]
    if unit == "score":
        shown.append("lead")
    assert old["most_lead"].isna().all() == (unit == "outcome")
    # the largest lead of these games is the most that the new run declares
    for column in shown:
        if column == "unit":
            assert old[column].tolist() == new[column].tolist()
        else:
            np.testing.assert_allclose(old[column], new[column], atol=1e-7)


def test_leads_of_one_purpose_are_of_that_purpose(tmp_path):
    run = write(tmp_path / "run", most_lead=5.0)
    assert len(payoff(run, purpose="training", unit="score")) == 4
    assert len(payoff(run, purpose="tournament", unit="score")) == 0


def test_an_unknown_unit_is_refused(tmp_path):
    with pytest.raises(Mistake, match="unit 'chips', expected one of outcome, score"):
        payoff(write(tmp_path / "run"), unit="chips")


def test_the_leaderboard_has_the_lead_over_all_games(tmp_path):
    run = write(tmp_path / "run", most_lead=5.0)
    with Archive.open(run) as archive:
        archive.append_ratings([RatingChange("a", 25.0, 8.0, 7)])
    with analysis.open_run(run) as history:
        (row,) = history.leaderboard().to_dict("records")
    assert row["lead"] == pytest.approx((1.0 + 2.0 - 5.0 + 1.0 + 0.0 + 3.0) / 6)


NAMES = ("main-0", "random")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """main-0 loses 4 games to random before its snapshot at 40 steps, and wins 6 behind it."""
    folder = tmp_path_factory.mktemp("stages") / "run"
    with Archive.create(folder, "name: x\n", {"name": "x", "env": "x", "seed": 0}) as archive:
        archive.add_player(LivePlayer("main-0", MAIN))
        archive.add_bot(Bot("random"))
        for games, place, mu, steps in ((4, [2, 0], 20.0, 40), (6, [0, 2], 30.0, None)):
            seat = np.tile(np.array([[0, 1]], np.int32), (games, 1))
            played = made_up.results(made_up.matches(NAMES, seat), np.tile(place, (games, 1)))
            archive.append_results(played, [RatingChange("main-0", mu, 1.0, games)])
            if steps is not None:
                made_up.add_snapshot(archive, steps, {"w": torch.zeros(1)}, {}, updates=1, reason="schedule")
    return folder


def test_games_before_and_after_a_freeze_are_two_rows(run):
    with analysis.open_run(run) as history:
        together, apart = history.payoff(), history.payoff(stages=True)
    assert together.set_index("home")["games"].to_dict() == {"main-0": 10, "random": 10}
    own = apart[apart["away"] == "random"].set_index("home")
    assert own["games"].to_dict() == {"main-0 from 40": 6, "main-0 to 40": 4}
    assert own["win_rate"].to_dict() == {"main-0 from 40": 1.0, "main-0 to 40": 0.0}
    assert apart.columns.tolist() == together.columns.tolist()


def test_a_stage_has_the_rating_at_its_end(run):
    with analysis.open_run(run) as history:
        board, whole = history.leaderboard(stages=True), history.leaderboard()
    rated = board[board["kind"] == "player"].set_index("competitor")
    assert rated["mu"].to_dict() == {"main-0 from 40": 30.0, "main-0 to 40": 20.0}
    assert rated["role"].unique().tolist() == ["main"]
    assert rated["win_rate"].to_dict() == {"main-0 from 40": 1.0, "main-0 to 40": 0.0}
    assert board.columns.tolist() == whole.columns.tolist()
