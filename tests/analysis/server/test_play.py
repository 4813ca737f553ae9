"""The page of play is sound markup."""

import re

from analysis.server.play import play_page


def test_each_column_of_recorded_matches_has_one_header_cell():
    (head,) = re.findall(r"<thead>.*?</thead>", play_page("a run", "", report=True), re.S)
    names = re.findall(r"<th [^>]*>([^<]*)</th>", head)
    assert names == ["match", "competitors", "outcomes", "decisions", "purpose"]
    assert head.count("<th") - head.count("<thead") == len(names)
