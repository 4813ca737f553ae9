"""Names as people read them, and the exact ones beneath the pointer."""

import xml.etree.ElementTree as ElementTree

import numpy as np

from analysis import plots
from analysis.plots.names import short_names
from tests.analysis.plots.leagues import board_of, payoff_of

SVG = "{http://www.w3.org/2000/svg}"


def test_a_snapshot_is_shown_with_its_env_steps_and_everything_else_as_it_is():
    names = ["main-0@55069421", "main-0@0", "main-0@999999:greedy", "main-0 to 16206", "random", "a@b"]
    shown = short_names(names)
    assert [shown[name] for name in names] == [
        "main-0 · 55.1M", "main-0 · 0", "main-0 · 1M:greedy", "main-0 to 16.2k", "random", "a@b"
    ]  # fmt: skip


def test_different_names_differ_as_shown():
    names = ["main-0@55069421", "main-0@55071000", "main-0@1"]
    shown = short_names(names)
    assert [shown[name] for name in names] == ["main-0 · 55.069M", "main-0 · 55.071M", "main-0 · 1"]
    assert short_names(["a@123456789001", "a@123456789002"])["a@123456789001"] == "a@123456789001"


def test_a_text_of_a_plot_has_the_exact_name_for_the_pointer():
    names = ["main-0@55069421", "main-0@5"]
    figure = plots.payoff_heatmap(payoff_of(names, np.full((2, 2), 0.6)), board_of(names))
    found = {
        element.text: element.findtext(f"{SVG}title")
        for element in ElementTree.fromstring(plots.svg(figure, head=False)).iter(f"{SVG}text")
    }
    assert found["1  main-0 · 55.1M"] == "main-0@55069421"
    assert found["2  main-0 · 5"] == "main-0@5"
