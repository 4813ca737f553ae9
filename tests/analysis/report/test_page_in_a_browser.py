"""Pages as a reader has them, in headless Chromium."""

import pytest
from selenium.webdriver.common.keys import Keys

import analysis
from analysis.report import report_page, sections
from tests.parameters import mostly_long


@pytest.fixture(scope="module")
def page(planted_page, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(planted_page, encoding="utf-8")
    return path


def column(browser, table, number):
    return browser.run(
        "return [...document.getElementById(arguments[0]).tBodies[0].rows].filter(row => !row.hidden)"
        ".map(row => row.cells[arguments[1]].textContent)",
        table,
        number,
    )


CUT = r"""
const cut = [];
for (const cell of document.querySelectorAll('thead th, td')) {
  const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), range = document.createRange();
  while (texts.nextNode()) for (const word of texts.currentNode.data.matchAll(/[\w.,]+/g)) {
    range.setStart(texts.currentNode, word.index);
    range.setEnd(texts.currentNode, word.index + word[0].length);
    const lines = new Set(Array.from(range.getClientRects(), box => Math.round(box.top)));
    if (lines.size > 1) cut.push(cell.closest('table').id + ': ' + word[0]);
  }
}
return cut;
"""
"""Words and numbers of tables that go on in a second line."""


@pytest.mark.slow
@pytest.mark.parametrize("width", mostly_long([400, 1280]))
def test_a_page_fits_its_window_asks_for_nothing_and_complains_of_nothing(browser, page, width):
    browser.open(page.as_uri(), width=width)
    assert browser.overflow() == 0
    assert browser.run(CUT) == []
    assert browser.requests() == []
    assert browser.complaints() == []
    for plot in ("payoff-plot", "ratings-plot"):
        assert (
            browser.run("return document.querySelector(`#${arguments[0]} svg`).clientWidth", plot) > width / 3
        )


@pytest.mark.slow
def test_headings_sort_a_table_and_say_so(browser, page):
    browser.open(page.as_uri())
    button = browser.one("#leaderboard-table-sort-5")
    games = [int(cell.replace(",", "")) for cell in column(browser, "leaderboard-table", 5)]
    button.click()
    assert column(browser, "leaderboard-table", 5) == [f"{n:,}" for n in sorted(games, reverse=True)]
    assert browser.all("#leaderboard-table [aria-sort=descending]")[0].text == "games"
    button.send_keys(Keys.ENTER)
    assert column(browser, "leaderboard-table", 5) == [f"{n:,}" for n in sorted(games)]
    assert len(browser.all("#leaderboard-table [aria-sort]")) == 1


@pytest.mark.slow
def test_a_table_is_searched(browser, page):
    browser.open(page.as_uri())
    browser.one("#leaderboard-table-search").send_keys("EXPLOITER-0@")
    shown = column(browser, "leaderboard-table", 1)
    assert shown
    assert all(name.startswith("main_exploiter-0 · ") for name in shown)  # it is searched by exact names too
    assert browser.one("#leaderboard .search output").text.startswith(f"{len(shown)} of ")


@pytest.mark.slow
def test_the_first_key_leads_past_the_contents(browser, page):
    browser.open(page.as_uri())
    browser.one("body").send_keys(Keys.TAB)
    skip = browser.run("return document.activeElement")
    assert skip.text == "Skip to the report"
    skip.send_keys(Keys.ENTER)
    assert browser.run("return document.activeElement.id") == "main"


@pytest.mark.slow
def test_every_part_has_a_name_for_those_who_cannot_see_it(browser, page):
    browser.open(page.as_uri())
    unnamed = browser.run(
        "const named = e => e.getAttribute('aria-label') || e.querySelector(':scope > title, :scope > "
        "caption')"
        " || document.getElementById((e.getAttribute('aria-labelledby') || ' ').split(' ')[0]);"
        "return [...document.querySelectorAll('main section, nav, [role], table')]"
        ".filter(e => !named(e)).map(e => "
        "e.outerHTML.slice(0, 99))"
    )
    assert unnamed == []
    assert browser.run("return [...document.querySelectorAll('th')].every(th => th.scope)")
    assert browser.run("return document.querySelectorAll('header, main, nav, footer').length") == 4


@pytest.mark.slow
def test_dark_is_dark(browser, page):
    def colours():
        return browser.run(
            "const s = getComputedStyle(document.body);"
            "return [s.backgroundColor, s.color].map(c => c.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + "
            "+b, 0))"
        )

    browser.open(page.as_uri())
    paper, ink = colours()
    assert paper > 700 > 200 > ink
    browser.scheme("dark")
    try:
        paper, ink = colours()
        assert ink > 600 > 100 > paper
    finally:
        browser.scheme("light")


@pytest.mark.slow
def test_a_section_is_replaced_as_the_reader_left_it(browser, page, planted):
    with analysis.open_run(planted) as history:
        board, decided = sections(history, only=["leaderboard", "decisions"])
    browser.open(page.as_uri())
    browser.one("#leaderboard-table-sort-1").click()
    browser.one("#leaderboard-table-search").send_keys("main-0@")
    browser.run("document.querySelector('#decisions details').open = true")
    browser.run("document.querySelector('#decisions .scroll').scrollTop = 40")
    before = column(browser, "leaderboard-table", 1)
    for part in (board, decided):
        browser.run("leagueReport.replaceSection(arguments[0], arguments[1])", part.id, part.html)
    assert column(browser, "leaderboard-table", 1) == before
    assert browser.run("return document.activeElement.id") == "leaderboard-table-search"
    assert browser.run("return document.querySelector('#decisions details').open")
    assert len(browser.all("#leaderboard")) == 1
    browser.one("#leaderboard-table-search").send_keys("0")
    assert len(column(browser, "leaderboard-table", 1)) < len(before)


@pytest.mark.slow
def test_a_hostile_run_runs_nothing(browser, hostile, tmp_path):
    with analysis.open_run(hostile) as history:
        (tmp_path / "hostile.html").write_text(report_page(history), encoding="utf-8")
    browser.open((tmp_path / "hostile.html").as_uri(), width=400)
    assert browser.run("return typeof hacked") == "undefined"
    assert browser.complaints() == []
    assert browser.requests() == []
    assert browser.overflow() == 0


@pytest.mark.slow
def test_injected_script_would_not_run(browser, page):
    """The second line of defence: the page's own policy."""
    browser.open(page.as_uri())
    browser.run(
        "document.getElementById('main').insertAdjacentHTML('beforeend', '<img src=x onerror=hacked=1>')"
    )
    browser.run(
        "const s = document.createElement('script'); s.textContent = 'hacked=1'; document.body.append(s)"
    )
    browser.settle()
    assert browser.run("return typeof hacked") == "undefined"
    assert any("Content Security Policy" in line for line in browser.complaints())
