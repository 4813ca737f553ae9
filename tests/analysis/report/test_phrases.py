import pytest

from analysis.report.phrases import count, listed, moment, number, percent, short, span


@pytest.mark.parametrize(
    ("minutes", "said"),
    [(0.0, "0 seconds"), (0.002, "under a second"), (0.5, "30 seconds"), (1 / 60, "1 second"),
     (4.51, "4.5 minutes"), (95, "95 minutes"), (150, "2.5 hours"), (47 * 60, "47 hours"),
     (5 * 1440, "5 days")],
)  # fmt: skip
def test_spans_of_time_have_a_fitting_unit(minutes, said):
    assert span(minutes) == said


@pytest.mark.parametrize(
    ("value", "said"), [(7, "7"), (999, "999"), (999.9, "1 k"), (12_345, "12.3 k"), (24_700_000, "24.7 M")]
)
def test_large_numbers_are_short(value, said):
    assert short(value).replace("\N{NO-BREAK SPACE}", " ") == said


@pytest.mark.parametrize(
    ("share", "said"),
    [(0.0, "0 %"), (0.001, "under 1 %"), (0.9999, "over 99 %"), (1.0, "100 %"), (0.5, "50 %")],
)
def test_shares_are_never_rounded_to_nothing_or_all(share, said):
    assert percent(share).replace("\N{NO-BREAK SPACE}", " ") == said


def test_plurals_lists_and_gaps():
    assert count(1, "match", "matches") == "1 match"
    assert count(1234, "match", "matches") == "1,234 matches"
    assert listed([]) == ""
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed(list("abcdef")) == "a, b, c, d and 2 more"
    assert number(None) == number(float("nan")) == moment(None) == "–"
