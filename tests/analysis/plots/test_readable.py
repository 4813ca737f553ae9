"""Plots of 3, 60 and 1,000 snapshots: nothing is cut off, covered or too small, and files stay small."""

import itertools

import numpy as np
import pandas as pd
import pytest

from analysis import plots
from storage.errors import Mistake
from tests.analysis.plots.drawn import PLOTS, texts, words
from tests.analysis.plots.leagues import league

pytestmark = pytest.mark.slow

# Alpha-ranks and circles of a thousand take seconds; with more than are drawn by name, sizes look alike.
SIZES = {"responses": (3, 60, 250), "cyclic_plane": (3, 60, 250), "clusters": (3, 60, 250)}
OF_SEVERAL = {"scores", "win_rates", "learning"}
CASES = [(name, size) for name in PLOTS for size in SIZES.get(name, (3, 60, 1_000))]


@pytest.fixture(scope="module")
def leagues():
    made = {}
    return lambda size: made.setdefault(size, made.get(size) or league(size))


@pytest.mark.long
@pytest.mark.parametrize(("name", "size"), CASES)
def test_every_text_is_legible_and_covers_no_other_and_the_svg_is_small(leagues, name, size):
    figure = PLOTS[name](leagues(size))
    assert len(plots.svg(figure).encode()) < 150 * 1024
    assert words(figure, "title")
    assert words(figure, "subtitle")
    width, height = figure.get_size_inches() * 72
    shown = texts(figure)
    assert len(shown) > 3
    for text, (left, bottom, right, top), points in shown:
        assert left >= -0.5, text
        assert bottom >= -0.5, text
        assert right <= width + 0.5, text
        assert top <= height + 0.5, text
        # 360 points across 368 pixels, a phone's screen without its margins
        assert points * 368 / width >= 7.6, text
    for (one, a, _), (other, b, _) in itertools.combinations(shown, 2):
        across, along = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
        assert across < 1 or along < 1.5, f"'{one}' and '{other}' cover one another"


@pytest.mark.long
def test_the_plots_leave_a_page_of_two_megabytes_most_of_its_room(leagues):
    of = leagues(250)
    assert sum(len(plots.svg(draw(of)).encode()) for draw in PLOTS.values()) < 800 * 1024


@pytest.mark.parametrize("name", PLOTS)
def test_a_run_that_has_just_begun_is_told_in_words(name):
    empty = {key: frame.iloc[:0] for key, frame in league(3).items()}
    figure = PLOTS[name](empty)
    assert words(figure, "title")
    assert words(figure, "message").endswith(".")
    assert not figure.axes


@pytest.mark.long
@pytest.mark.parametrize("name", PLOTS)
def test_frames_of_categories_are_drawn_as_those_of_strings(leagues, name):
    plain = leagues(12)
    categories = {
        key: frame.assign(**{c: frame[c].astype("category") for c in frame.columns if _text(frame[c])})
        for key, frame in plain.items()
    }
    assert plots.svg(PLOTS[name](categories)) == plots.svg(PLOTS[name](plain))


def _text(column: pd.Series) -> bool:
    return column.map(lambda value: isinstance(value, str)).any()


@pytest.mark.long
def test_names_of_any_length_find_room():
    frames = league(6)
    longer = {
        name: f"{'a_player_with_a_very_long_name_' * 3}{name}" for name in frames["leaderboard"]["competitor"]
    }
    for frame in frames.values():
        for column in ("competitor", "snapshot_id", "parent_id", "player", "home", "away"):
            if column in frame:
                frame[column] = frame[column].map(lambda value: longer.get(value, value))
    for name, draw in PLOTS.items():
        figure = draw(frames)
        width = figure.get_size_inches()[0] * 72
        assert np.all([box[2] <= width + 0.5 for _, box, _ in texts(figure)]), name
        assert np.all([box[0] >= -0.5 for _, box, _ in texts(figure)]), name


@pytest.mark.parametrize("name", sorted(PLOTS.keys() - OF_SEVERAL))
def test_frames_of_several_runs_are_refused(name):
    both = {
        key: pd.concat([frame, frame.assign(run="other")], ignore_index=True)
        for key, frame in league(3).items()
    }
    with pytest.raises(Mistake, match=r"2 runs \(other, planted\), expected one"):
        PLOTS[name](both)


@pytest.mark.parametrize("name", sorted(OF_SEVERAL))
def test_in_learning_curves_of_several_runs_players_have_their_run_in_front(name):
    curves = league(3)["curves"]
    both = pd.concat([curves, curves.assign(run="other")], ignore_index=True)
    seen = [text for text, _, _ in texts(PLOTS[name]({"curves": both}))]
    for run in ("planted", "other"):
        assert f"{run}/main-0" in seen
