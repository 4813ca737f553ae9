"""The fold of results: a state that was restored is the one that was folded from all facts."""

import shutil

import numpy as np
import pytest

from league.config.loading import load
from league.training.state import fold
from league.training.state.fold import folded, recall, restore
from league.training.state.state import LeagueState
from storage.archive import Archive
from storage.errors import Mistake
from storage.ledger.ledger import Ledger, last_frame, read_frames, summed_until
from storage.retention import retention
from storage.settings import Keep
from storage.tables.columns import folded_of, folded_table
from storage.upkeep.branches import find_moment, make_branch
from tests.bench import retention as bench


def state_of(settings):
    roles = settings.league.resolve()
    teams = settings.matchmaking.team_of_seat(settings.game.num_seats)
    return LeagueState(roles, settings.ratings, settings.league.decay, teams, settings.payoff_scale)


def same(a, b):
    (arrays, fields), (others, other_fields) = folded(a), folded(b)
    assert fields == other_fields
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, others[name], err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.3, 0.8])
def test_a_state_that_goes_on_from_a_fold_is_that_of_all_facts_to_the_bit(
    trained, tiny_config, tmp_path, share
):
    settings = load(tiny_config, ["ratings.draw_probability=estimated"])
    shutil.copytree(trained, tmp_path / "run")
    with Archive.open(tmp_path / "run") as archive:
        frames = [f.sequence for f in read_frames(archive.run / "ledger", tables=("matches",))]
        cut = frames[int(share * len(frames))] + 1
        whole, half, again = (state_of(settings) for _ in range(3))
        for event in archive.history():
            whole.apply(event)
        for event in archive.history(before=cut):
            half.apply(event)
        arrays, fields = folded_of(folded_table(*folded(half)))
        for event in archive.history(after=cut, before=cut):
            again.apply(event)
        restore(again, arrays, fields)
        same(again, half)
        for event in archive.history(since=cut - 1):
            again.apply(event)
    same(again, whole)


@pytest.fixture
def small(monkeypatch):
    """Return the size of a run with so many matches, of which each frame is a segment."""
    monkeypatch.setattr("storage.archive.Ledger", Ledger)  # bench.write replaces it
    monkeypatch.setattr(retention, "GRACE_SECONDS", 0.0)
    return lambda matches: bench.Size(matches // 60, 60, 3, 1, 28.0, 0.0)


def sum_up_all(run):
    """Sum up what can be, and return the number of the next fact."""
    with Archive.open(run, keep=Keep(bytes=1)) as archive:
        archive.rely_on_fold(archive.newest_fold()[0])
        archive._compaction.close()
        while archive._ledger.compact() or archive._compaction._step():
            pass
    with Archive.open(run) as archive:
        return archive.next_seq


@pytest.mark.slow
def test_a_run_that_is_summed_up_and_resumed_goes_on_as_one_that_kept_all(tmp_path, small):
    thin, whole, numbers = tmp_path / "thin", tmp_path / "whole", []
    for matches in (420, 900):
        bench.write(thin, Keep(bytes=1), small(matches))
        numbers.append(sum_up_all(thin))
        assert summed_until(thin / "ledger") > last_frame(thin / "ledger")[0] - 5
        bench.write(whole, None, small(matches))
        with Archive.open(whole) as archive:
            assert archive.next_seq == numbers[-1]
        assert bench.differences(bench.resumed(thin)[0], bench.resumed(whole)[0]) == []
    make_branch(find_moment(thin), tmp_path / "branch", str(thin), bench.CONFIG.read_text(), bench.ROW)
    assert bench.differences(bench.resumed(tmp_path / "branch")[0], bench.resumed(whole)[0]) == []
    with pytest.raises(Mistake, match="were summed up, so the run can be shown as"):
        find_moment(thin, as_of=100)


@pytest.mark.slow
def test_other_ratings_are_refused_once_matches_are_sums_and_applied_to_all_before(
    tmp_path, small, monkeypatch
):
    run = tmp_path / "run"
    bench.write(run, Keep(bytes=10**9), small(300))
    other = load(bench.CONFIG, ["ratings.beta=5.0"])
    with Archive.open(run) as archive:
        assert archive.newest_fold() is not None
        state = state_of(other)
        recall(state, archive)
        assert state.totals.matches == 300
        assert archive._folded == 0  # what the fold has is of other rules
    sum_up_all(run)
    with Archive.open(run) as archive, pytest.raises(Mistake, match=r"\(beta was .*\) than its old matches"):
        recall(state_of(other), archive)
    with Archive.open(run) as archive:
        sequence, arrays, fields = archive.newest_fold()
        ratings = fields["rules"]["ratings"]
        ratings["anchor"] = ratings.pop("anchors") or None  # as older versions recorded it
        monkeypatch.setattr(archive, "newest_fold", lambda: (sequence, arrays, fields))
        recall(state_of(load(bench.CONFIG)), archive)


def resumed(run, settings=None):
    """Return the state that a resume reaches, and the numbers of matches that it applied."""
    state = state_of(settings or load(bench.CONFIG))
    applied, apply = [], state.apply

    def counted(event):
        if hasattr(event, "matches"):
            applied.append(len(event))
        return apply(event)

    state.apply = counted
    with Archive.open(run) as archive:
        recall(state, archive)
        behind = archive._behind_fold
    assert sum(applied) == behind
    return state, applied


@pytest.mark.slow
def test_a_resume_applies_only_results_behind_the_newest_fold_also_with_all_matches(
    tmp_path, small, monkeypatch
):
    bench.write(tmp_path / "whole", None, small(900))
    whole, applied = resumed(tmp_path / "whole")
    assert sum(applied) == 900
    monkeypatch.setattr("storage.archive.FOLD_MATCHES", 300)
    monkeypatch.setattr("storage.archive.MATCHES_PER_BYTE", 0)
    for matches in (420, 900):  # begun, and resumed from a fold
        bench.write(tmp_path / "run", None, small(matches))
    state, applied = resumed(tmp_path / "run")
    assert sum(applied) == 0  # 900 are thrice 300
    assert state.totals.matches == 900
    same(state, whole)
    bench.write(tmp_path / "run", None, small(1_020))
    bench.write(tmp_path / "whole", None, small(1_020))
    state, applied = resumed(tmp_path / "run")
    assert applied == [60, 60]
    same(state, resumed(tmp_path / "whole")[0])


@pytest.mark.slow
def test_a_fold_of_other_rules_or_version_is_passed_over_while_all_matches_are_there(
    tmp_path, small, monkeypatch
):
    monkeypatch.setattr("storage.archive.FOLD_MATCHES", 120)
    monkeypatch.setattr("storage.archive.MATCHES_PER_BYTE", 0)
    bench.write(tmp_path / "run", None, small(300))
    assert len(resumed(tmp_path / "run")[1]) == 1
    assert len(resumed(tmp_path / "run", load(bench.CONFIG, ["ratings.beta=5.0"]))[1]) == 5
    monkeypatch.setattr(fold, "VERSION", 2)
    assert len(resumed(tmp_path / "run")[1]) == 5
    sum_up_all(tmp_path / "run")
    with Archive.open(tmp_path / "run") as archive, pytest.raises(Mistake, match="by another version of"):
        recall(state_of(load(bench.CONFIG)), archive)
