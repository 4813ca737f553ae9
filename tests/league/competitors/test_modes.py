"""How a competitor plays is a text of one spelling, and a temperature."""

import pytest

from league.competitors.modes import BadMode, in_mode, mode_of, temperature_of


@pytest.mark.parametrize(
    ("mode", "temperature"),
    [("sample", 1.0), ("greedy", 0.0), ("t=0.5", 0.5), ("t=2", 2.0), ("t=1e-2", 0.01), ("t=.25", 0.25)],
)
def test_a_mode_stands_for_a_temperature(mode, temperature):
    assert temperature_of(mode) == temperature


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("t=0.50", "t=0.5"),
        ("t=2.0", "t=2"),
        ("t=1", "sample"),
        ("t=1e-3", "t=0.001"),
        ("t=0.1234567", "t=0.1234567"),
    ],
)
def test_one_temperature_has_one_spelling(written, canonical):
    assert mode_of(temperature_of(written)) == canonical
    assert temperature_of(canonical) == temperature_of(written)


@pytest.mark.parametrize(
    "mode", ["", "best", "Greedy", "t=", "t=hot", "t=-1", "t=nan", "t=inf", "t=1_0", "t= 1"]
)
def test_what_is_no_mode_is_told_what_is(mode):
    with pytest.raises(BadMode, match=rf"mode '{mode}', expected one of: sample, greedy, t=0\.5"):
        temperature_of(mode)


@pytest.mark.parametrize("mode", ["t=0", "t=0.0009", "t=1001", "t=1e400"])
def test_a_temperature_that_a_network_cannot_play_at_is_refused(mode):
    with pytest.raises(BadMode, match=r"expected a temperature from 0.001 to 1000, or greedy"):
        temperature_of(mode)


def test_the_mode_is_part_of_a_name_unless_it_goes_without_saying():
    assert [in_mode("main-0@7", t) for t in (1.0, 0.0, 0.5)] == [
        "main-0@7",
        "main-0@7:greedy",
        "main-0@7:t=0.5",
    ]
