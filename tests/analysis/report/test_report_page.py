import html
import re
import shutil
from collections import Counter
from html.parser import HTMLParser

import pytest

import analysis
from analysis.report import report_page, sections
from analysis.report.page import OF_A_LEAGUE, OF_A_TOURNAMENT
from analysis.report.sections.game_theory import UNDECIDED
from storage.archive import Archive
from storage.errors import Mistake
from storage.incidents import Incident
from storage.records import YardstickRecord
from storage.snapshots.figures import Measurement, add_measurement, add_yardsticks
from tests.analysis.report.conftest import ATTACK, PLAN, html_of

pytestmark = pytest.mark.slow


class Page(HTMLParser):
    """What of a page matters here, with exact names."""

    def __init__(self, whole: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.handlers: list[str] = []
        self.headings: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.said = ""
        self._open: list[str] = []
        self.tags: Counter[str] = Counter()
        self._exact = ""
        self._table = ""
        self.feed(whole)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags[tag] += 1
        self._exact = str(given.get("title") or "") if tag == "span" else ""
        if tag not in ("meta", "br", "input"):
            self._open.append(tag)
        if given.get("id"):
            self.ids.append(str(given["id"]))
        self.addresses += [str(given[name]) for name in ("href", "src", "xlink:href") if given.get(name)]
        self.handlers += [name for name in given if name.startswith("on")]
        if tag == "table":
            self._table = str(given.get("id"))
            self.tables[self._table] = []
        if tag == "tr":
            self.tables[self._table].append([])
        if tag in ("td", "th"):
            self.tables[self._table][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if {"script", "style"} & set(self._open):
            return
        data, self._exact = self._exact or data, ""
        self.said += data
        if "td" in self._open or "th" in self._open:
            self.tables[self._table][-1][-1] += data
        if "h2" in self._open:
            self.headings.append(data)


@pytest.fixture(scope="module")
def page(planted_page) -> Page:
    return Page(planted_page)


@pytest.fixture
def copied(planted, tmp_path):
    """A copy of the planted league, to write to."""
    return shutil.copytree(planted, tmp_path / "run")


def test_a_page_asks_for_nothing_outside_itself(page, planted_page):
    assert [a for a in page.addresses if not a.startswith(("#", "data:image/png;base64,"))] == []
    policy = html.unescape(planted_page.partition("Content-Security-Policy")[2].partition(">")[0])
    assert "default-src 'none'" in policy
    assert "connect-src 'none'" in policy
    assert "unsafe" not in policy.replace("style-src 'unsafe-inline'", "")
    assert re.findall(r"@import|url\((?!#|data:)", planted_page.partition("<script")[0]) == []


def test_ids_are_unique_and_all_links_lead_somewhere(page):
    assert len(set(page.ids)) == len(page.ids)
    assert {a[1:] for a in page.addresses if a.startswith("#")} <= set(page.ids)
    assert set(OF_A_LEAGUE) <= set(page.ids)


def test_the_summary_says_what_the_run_holds(page, planted):
    with analysis.open_run(planted) as history:
        matches = history.sql("SELECT count(*) AS n FROM matches")["n"].item()
        leader = history.order().best.competitor
        frozen = len(history.snapshots())
    assert f"{matches:,} matches" in page.said
    assert f"{leader}, leads the leaderboard" in page.said
    assert f"{frozen} snapshots were frozen" in page.said
    assert "main-0 is still improving" in page.said


def test_the_leaderboard_is_the_leaderboard(page, planted):
    rows = page.tables["leaderboard-table"][1:]
    with analysis.open_run(planted) as history:
        board = history.standing()
    assert [row[1] for row in rows] == board["competitor"].tolist()
    assert [row[6] for row in rows] == [f"{rate:.2f}" for rate in board["win_rate"]]
    assert rows[0][2].startswith(f"{board['elo'].iloc[0]:+.0f} [{board['elo_low'].iloc[0]:+.0f}, ")
    apart = [row[1] for row in rows if not row[0].isdigit()]
    assert (
        apart == board[board["apart"]]["competitor"].tolist() == board["competitor"].tolist()[-len(apart) :]
    )


def test_shares_of_an_equilibrium_are_decided_or_called_undecided(tournament):
    interval = re.compile(r"[+-]?\d\.\d{2,3} \[([+-]?\d\.\d{2,3}), ([+-]?\d\.\d{2,3})\]")
    rows = Page(html_of(tournament, "beyond")).tables["beyond-table"][1:]
    assert len(rows) == 7
    for row in rows:
        for cell in row[1:4]:
            if cell == UNDECIDED:
                continue
            found = interval.fullmatch(cell)
            assert found, cell
            assert float(found[1]) <= float(cell.split()[0]) <= float(found[2])


def test_each_decision_stands_there_with_its_evidence(planted_page, planted):
    with analysis.open_run(planted) as history:
        decisions = history.decisions()
    part = html_of(planted, "decisions")
    said = Page(part).said
    assert part.count("<li") == len(decisions)
    for row in decisions.to_dict("records"):
        assert str(row["snapshot_id"]) in said
        assert all(f"{value:,.0f}" in said for value in row["evidence"].values())


@pytest.mark.long
def test_the_same_run_gives_the_same_bytes(planted_page, planted):
    with analysis.open_run(planted) as history:
        assert report_page(history) == planted_page


def test_a_section_made_alone_is_the_one_of_the_page(planted_page, planted):
    with analysis.open_run(planted) as history:
        for part in sections(history, only=["overview", "throughput"]):
            assert part.html in planted_page
        with pytest.raises(KeyError, match="expected one of overview"):
            sections(history, only=["nothing"])


@pytest.mark.long
def test_a_page_can_look_back(planted):
    with analysis.open_run(planted) as history:
        then = history.as_of(600)
        page = Page(report_page(then))
        played = then.sql("SELECT count(*) AS n FROM matches")["n"].item()
    assert 0 < played < 200
    assert f"{played:,} matches" in page.said


def test_the_first_picture_is_strength_and_words_are_explained_at_the_end(page, planted):
    first, *_ = re.findall(r'<figure id="([^"]+)"', html_of(planted, "overview"))
    assert first == "strengths-plot"
    *_, last = page.ids
    assert last == "words-title"


def test_a_page_says_how_to_make_the_run_again(page, planted):
    with analysis.open_run(planted) as history:
        config = history.sql("SELECT config FROM runs")["config"].item()
    assert config in page.said
    assert "league train again.yaml" in page.said


def test_a_run_that_has_just_begun_says_so(begun):
    with analysis.open_run(begun) as history:
        page = Page(report_page(history))
    assert "has only just begun" in page.said
    assert "No competitor has been rated yet" in page.said
    assert set(OF_A_LEAGUE) <= set(page.ids)


def test_of_a_game_for_one_the_scores_are_told_and_lasting_to_the_end_is_no_fault(solitary):
    said = Page(html_of(solitary, "overview")).said
    assert "first fifth: main-0 53.50 after 5.50." in said  # of 48 to 59, and of 0 to 11
    assert "ordinary end" not in said


def test_a_tournament_is_reported_with_its_verdict(tournament):
    with analysis.open_run(tournament) as history:
        page = Page(report_page(history))
    assert "main-0@5 is best with probability over 0.99" in page.said
    assert "7 competitors" in page.said
    rows = page.tables["leaderboard-table"][1:]
    assert rows[0][1] == "main-0@5"
    assert rows[-1][1] == "random"
    assert set(OF_A_TOURNAMENT) <= set(page.ids)
    assert "findings" not in page.ids
    assert "league tournament again.yaml" in page.said
    assert re.search(r"\{\w+", page.said.partition("All settings")[0]) is None


def test_a_tournament_cannot_be_looked_back_on(tournament):
    with analysis.open_run(tournament) as history, pytest.raises(Mistake, match="leave the moment out"):
        report_page(history.as_of(600))


def test_what_was_measured_stands_in_a_table(copied):
    name = f"main-0@{PLAN.batches * PLAN.matches * 10}"
    add_measurement(
        copied,
        Measurement(name, "main-0", 2400, 3600, "exact", 0.125, 0.125, 0.125, "score per seat", None, 2e9),
    )
    (row,) = Page(html_of(copied, "exploitability")).tables["exploitability-table"][1:]
    assert row == [name, "exact", "0.1250", "[0.1250, 0.1250]", "score per seat", "–", ""]


def test_a_bound_whose_response_learned_nothing_is_not_passed_off_as_evidence(copied):
    name = f"main-0@{PLAN.batches * PLAN.matches * 10}"
    given = (name, "main-0", 2400, 3600, "lower_bound", 0.0, 0.0, 0.1, "score", 1000, 2e9, "nothing_learned")
    add_measurement(copied, Measurement(*given))
    page = Page(html_of(copied, "exploitability"))
    assert page.tables["exploitability-table"][1][-1] == "nothing learned"
    assert f"Of {name}, a response learned nothing yet" in page.said
    assert "no response has learned yet to exploit what was measured" in page.said  # the plot's title
    assert f"{name} --env-steps" in page.said


def test_measured_mixtures_stand_in_a_table_by_the_size_of_their_pool(copied):
    with analysis.open_run(copied) as history:
        names = history.snapshots().query("player == 'main-0'")["snapshot_id"].tolist()
    for number, value in ((2, 0.125), (0, 0.5)):
        name = f"{names[number]}:nash"
        given = (name, "main-0:nash", 2400, 3600, "exact", value, value, value, "score", None, 2e9 + number)
        add_measurement(copied, Measurement(*given))
    assert Page(html_of(copied, "exploitability")).tables["pools-table"][1:] == [
        ["1", f"{names[0]}:nash", "exact", "0.5000", "score"],
        ["3", f"{names[2]}:nash", "exact", "0.1250", "score"],
    ]


def test_figures_on_yardsticks_are_drawn_and_the_newest_snapshots_stand_in_a_table(copied):
    before = html_of(copied, "yardsticks")
    with analysis.open_run(copied) as history:
        first, *_, last = history.snapshots().query("player == 'main-0'")["snapshot_id"]
    assert "league yardstick" in Page(before).said
    for name, value in ((first, 0.25), (last, 0.5), ("one_ply", 0.75)):
        given = {"competitor": name, "yardstick": "positions", "kind": "positions", "measure": "best"}
        figure = YardstickRecord(
            **given, mode="sample", part="all", value=value, low=0.2, high=0.8, samples=9
        )
        add_yardsticks(copied, [figure])
    part = html_of(copied, "yardsticks")
    rows = Page(part).tables["yardsticks-table"][1:]
    assert [(row[0], row[5], row[7]) for row in rows] == [(last, "0.500", "9"), ("one_ply", "0.750", "9")]
    assert part.count("<svg") == 1


def test_a_report_is_of_one_run(planted, begun):
    with analysis.open_run(planted, begun) as history, pytest.raises(Mistake, match="of one run, found 2"):
        report_page(history)


def test_what_a_stranger_named_is_text_and_nothing_else(hostile, planted_page):
    with analysis.open_run(hostile) as history:
        whole = report_page(history)
    page = Page(whole)
    assert page.handlers == []
    assert page.tags["img"] == 0
    assert page.tags["script"] == Page(planted_page).tags["script"]
    assert page.said.count(ATTACK) > 20
    assert "league report 'hostile<script>hacked=1<'" in page.said  # as a shell may have it


def test_incidents_stand_there_by_kind_and_one_by_one(copied):
    assert "Nothing has died" in html_of(copied, "incidents")
    died = Incident(
        kind="learner",
        who="learners of shard 0 (<main-0>)",
        node="host-7",
        updates=12,
        remedy="a new process goes on",
        happened_at=1.7e9,
    )
    with Archive.open(copied) as archive:
        archive.append_incidents([died, died])
    part = html_of(copied, "incidents")
    assert part.count("learners of shard 0 (&lt;main-0&gt;)") == 2
    assert "host-7" in part
    (_, summed) = Page(part).tables["incidents-by-kind"]
    assert summed == ["learner", "2", "0", "0", "24"]
