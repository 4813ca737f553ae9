"""Figures as files and as elements of pages."""

import hashlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import matplotlib
import numpy as np
import pytest

from analysis import plots
from storage.errors import Mistake
from tests.analysis.plots.drawn import PLOTS
from tests.analysis.plots.leagues import board_of, league, payoff_of

pytestmark = pytest.mark.slow

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def frames():
    return league(20)


@pytest.fixture(scope="module")
def elements(frames):
    return {name: plots.svg(draw(frames)) for name, draw in PLOTS.items()}


@pytest.mark.long
def test_the_same_frames_give_the_same_bytes(frames, elements, tmp_path):
    for name, draw in PLOTS.items():
        assert plots.svg(draw(frames)) == elements[name]
    for suffix in ("svg", "png"):
        for place in ("one", "other"):
            plots.save(PLOTS["payoff"](frames), tmp_path / f"{place}.{suffix}")
        assert (tmp_path / f"one.{suffix}").read_bytes() == (tmp_path / f"other.{suffix}").read_bytes()


@pytest.mark.long
def test_another_process_gives_the_same_bytes(elements):
    code = (
        "import hashlib\n"
        "from analysis import plots\n"
        "from tests.analysis.plots.drawn import PLOTS\n"
        "from tests.analysis.plots.leagues import league\n"
        "of = league(20)\n"
        "drawn = ''.join(plots.svg(draw(of)) for draw in PLOTS.values())\n"
        "print(hashlib.sha256(drawn.encode()).hexdigest())\n"
        "import sys; assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == hashlib.sha256("".join(elements.values()).encode()).hexdigest()


def test_a_users_settings_change_nothing_and_stay_as_they_are(frames, elements):
    with matplotlib.rc_context({"font.size": 31, "axes.facecolor": "red", "svg.fonttype": "path"}):
        before = dict(matplotlib.rcParams)
        assert plots.svg(PLOTS["ratings"](frames)) == elements["ratings"]
        assert dict(matplotlib.rcParams) == before


def test_plots_on_one_page_share_no_id_and_refer_to_their_own(elements):
    page = "".join(elements.values())
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    for text in elements.values():
        own = set(re.findall(r'\bid="([^"]+)"', text))
        referred = re.findall(r'href="#([^"]+)"', text) + re.findall(r"url\(#([^)]+)\)", text)
        assert referred
        assert set(referred) <= own


def test_an_element_brings_no_rules_no_addresses_and_the_pages_own_colours(elements):
    for text in elements.values():
        assert "<style" not in text
        assert "<script" not in text
        assert "currentColor" in text
        assert "#1b1f24" not in text
        targets = re.findall(r'href="([^"]*)"', text) + re.findall(r"url\(([^)]*)\)", text)
        assert all(target.startswith(("#", "data:image/png")) for target in targets)
        assert "http" not in text.replace('xmlns="http://www.w3.org/2000/svg"', "")


def test_screen_readers_find_a_title_and_a_description(elements):
    for text in elements.values():
        root = ElementTree.fromstring(text)
        named = [root.find(f"{SVG}{tag}") for tag in ("title", "desc")]
        assert root.get("role") == "img"
        assert root.get("aria-labelledby").split() == [element.get("id") for element in named]
        assert all(element.text.strip() for element in named)


def test_text_stays_text(elements):
    said = [element.text for element in ElementTree.fromstring(elements["ratings"]).iter(f"{SVG}text")]
    assert "TrueSkill rating μ" in said
    assert any(text.startswith("main-0 ") for text in said)


def test_hostile_names_are_shown_and_not_obeyed(tmp_path):
    names = [
        "<script>alert(1)</script>",
        'a" onload="x',
        "$\\frac{1}{2}$ & co",
        "bell\a\x1b[31m\nrow",
        "--><b>",
        "漢字",
    ]
    payoff, board = payoff_of(names, np.full((6, 6), 0.6)), board_of(names)
    for figure in (plots.payoff_heatmap(payoff, board), plots.response_graph(payoff, board)):
        text = plots.svg(figure)
        root = ElementTree.fromstring(text)
        assert not [element for element in root.iter() if element.tag in (f"{SVG}script", f"{SVG}b")]
        assert not [element for element in root.iter() if any(key.startswith("on") for key in element.attrib)]
        said = " ".join(element.text or "" for element in root.iter(f"{SVG}text"))
        assert "<script>alert" in said
        assert "$\\frac{1}{2}$ & co" in said
        assert "漢字" in said
        plots.save(figure, tmp_path / "hostile.svg")
        ElementTree.parse(tmp_path / "hostile.svg")


def test_what_cannot_be_written_is_one_sentence(frames, tmp_path):
    figure = plots.match_mix(frames["match_mix"])
    with pytest.raises(Mistake, match=r"expected \.svg or \.png"):
        plots.save(figure, tmp_path / "plot.pdf")
    (tmp_path / "file").touch()
    with pytest.raises(Mistake, match="cannot be written"):
        plots.save(figure, tmp_path / "file" / "plot.svg")
