"""The worked analysis runs as it is shipped, and comes to what its words say."""

import runpy
from pathlib import Path

import pytest

from league.config.loading import load

EXAMPLES = Path(__file__).parents[2] / "analysis" / "examples"


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """Its variables at the end, and the folder it was run in."""
    folder = tmp_path_factory.mktemp("notebook")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return runpy.run_path(str(EXAMPLES / "kuhn_league.py")), folder


@pytest.mark.slow
def test_every_picture_that_it_names_is_drawn(executed):
    _, folder = executed
    pictures = {path.name: path.read_text() for path in (folder / "pictures").iterdir()}
    assert set(pictures) == {"ratings.svg", "payoff.svg", "cyclic_plane.svg", "exploitability.svg"}
    assert all("</svg>" in picture for picture in pictures.values())


@pytest.mark.slow
def test_what_its_words_say_is_so(executed):
    found, _ = executed
    assert found["curve"]["value"].is_monotonic_decreasing or found["last"] < found["first"] / 2
    assert (found["nash"].high - found["nash"].low).max() > 0.5  # wide: nobody should say which is best
    assert "stagnation" in {finding.kind for finding in found["findings"]}
    assert len(found["halfway"]) < len(found["leaderboard"])


def test_its_run_is_whole_and_was_trained_by_its_config():
    # settings that came later have their defaults
    trained = load(EXAMPLES / "kuhn_league" / "config.yaml").model_dump(mode="json")
    settings = load(EXAMPLES / "kuhn_league.yaml").model_dump(mode="json")
    assert {key: trained[key] for key in ("env", "league", "learner", "stop")} == {
        key: settings[key] for key in ("env", "league", "learner", "stop")
    }
