"""The story of the benchmarks is one table whose ratios are of the same run."""

import pytest

from tests.bench import story


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Use global function rate_1vs1:DeprecationWarning")  # the library's own
def test_each_row_of_the_story_has_a_ratio_above_nothing_and_says_what_it_means(capsys):
    story.main(["--quick"])
    title, _, head, rule, *rows = capsys.readouterr().out.splitlines()
    assert "cores, load" in title
    assert head == "| what | ours | beside | ratio | means |"
    assert rule == "|---|---|---|---|---|"
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert [row[0] for row in cells[:4]] == [
        "learning",
        "ratings",
        "matchmaking in a league of 100",
        "16 small snapshots in one call",
    ]
    assert all(float(row[3]) > 0 and len(row[4]) > 20 for row in cells)
