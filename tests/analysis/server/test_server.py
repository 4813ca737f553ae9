"""The live page in a real browser, served by the real command, of a run that goes on meanwhile."""

import contextlib
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import numpy as np
import pytest

from analysis.server import server
from analysis.server.play import play_page
from storage.archive import Archive
from tests.analysis.history.test_history import played
from tests.analysis.planted_runs import Plan, plant
from tests.steps import wait_for

SMALL = Plan(snapshots=3, batches=1, matches=60)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return plant(tmp_path_factory.mktemp("served") / "small", np.random.default_rng(1), SMALL)


@contextlib.contextmanager
def serving(run, *options):
    """The process of `league serve`, which ends by Ctrl-C as it should."""
    command = [sys.executable, "-m", "league.commands.app", "serve", str(run), "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        yield process
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[1] == ""
        assert process.returncode == 0


@pytest.fixture(scope="module")
def served(run):
    """The address of a server."""
    with serving(run) as process:
        (address,) = re.findall(r"http://\S+", process.stdout.readline())
        wait_for(lambda: 'id="leaderboard-table"' in text_of(address))
        yield address


def text_of(address):
    with urllib.request.urlopen(address, timeout=60) as answer:
        return answer.read().decode()


def overview(browser):
    """The section as it is at this instant: an element that was found before may have been replaced."""
    return browser.run("return document.getElementById('overview').innerHTML")


def status_of(address, *, method="GET", **headers):
    request = urllib.request.Request(address, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.mark.slow
@pytest.mark.alone
def test_the_page_follows_the_run_without_reload_and_whoever_reads_keeps_their_place(run, served, browser):
    browser.open(served)
    browser.wait(lambda: "Live" in browser.one("#live-status").text)
    browser.run("window.marked = true")
    field = browser.one("#leaderboard-table-search")
    field.send_keys("main")
    rows = len(browser.all("#leaderboard-table tbody tr"))
    assert "random" not in browser.one("#leaderboard-table").text

    with Archive.open(run) as archive:
        archive.append_results(played((0, 1), (0, 1), first=100_000), [])
    before = overview(browser)
    browser.wait(lambda: overview(browser) != before)  # a busy machine draws slowly, and less often

    assert browser.run("return window.marked")  # it was not loaded anew
    assert browser.run("return document.activeElement.id") == "leaderboard-table-search"
    assert browser.run("return document.activeElement.value") == "main"
    assert len(browser.all("#leaderboard-table tbody tr")) >= rows
    assert browser.complaints() == []
    assert [url for url in browser.requests() if not url.startswith(served)] == []


@pytest.mark.long
@pytest.mark.alone
def test_a_paused_page_stays_as_it_is_until_it_goes_on(run, served, browser):
    browser.open(served, width=400)
    browser.wait(lambda: "Live" in browser.one("#live-status").text)
    assert browser.overflow() == 0
    pause = browser.one("#live-pause")
    browser.run("arguments[0].focus()", pause)
    browser.driver.switch_to.active_element.send_keys("\ue007")  # Enter: it can be worked without a mouse
    assert pause.get_attribute("aria-pressed") == "true"
    before = overview(browser)
    with Archive.open(run) as archive:
        archive.append_results(played((0, 1), first=200_000), [])
    browser.run("window.setTimeout(() => { window.waited = true; }, 3000)")
    browser.wait(lambda: browser.run("return window.waited"))
    assert overview(browser) == before
    pause.click()
    browser.wait(lambda: overview(browser) != before)


@pytest.mark.slow
@pytest.mark.alone
def test_nothing_but_reading_is_answered_and_only_to_this_machine(served):
    assert status_of(served) == 200
    assert status_of(served, method="POST") == 405
    assert status_of(f"{served}../../etc/passwd") == 404
    assert status_of(served, Host="somewhere.example") == 400
    assert status_of(f"{served}events?since={'9' * 5000}") == 200
    port = int(served.rsplit(":")[-1].rstrip("/"))
    with socket.socket() as outside:
        outside.settimeout(2)
        assert outside.connect_ex((own_address(), port)) != 0


def own_address():
    """This machine's address on its network, or another of its loopback's where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return probe.getsockname()[0]
        except OSError:
            return "127.0.0.2"


@pytest.mark.slow
@pytest.mark.alone
def test_a_run_that_comes_later_is_waited_for_and_served_to_whoever_has_the_token(tmp_path):
    run = tmp_path / "later"
    with serving(run, "--host", "0.0.0.0") as process:
        assert process.stdout.readline() == f"{run}: there is no run yet, waiting for one (Ctrl-C ends it)\n"
        plant(run, np.random.default_rng(1), SMALL)
        port, token = re.search(r":(\d+)/\?token=(\S+)", process.stdout.readline()).groups()
        here = f"http://{own_address()}:{port}/"
        assert status_of(here) == status_of(f"{here}events") == status_of(f"{here}?token=guess") == 403
        assert status_of(here, Cookie=f"league-{port}={token}", Host="any.example") == 200
        assert status_of(f"{here}play", Cookie=f"league-{port}={token}") == 404
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(f"{here}?token={token}", timeout=60) as answer:
            assert answer.url == here

        def drawn():
            with opener.open(here, timeout=60) as answer:
                return "main-0@" in answer.read().decode()

        wait_for(drawn)


def test_what_is_there_already_is_not_waited_for_and_what_is_not_is_until_it_is(tmp_path, monkeypatch):
    said, looks = [], []

    def look(seconds):
        looks.append(seconds)
        if len(looks) == 2:
            (tmp_path / "run" / "ledger").mkdir(parents=True)
        if len(looks) == 3:
            (tmp_path / "run" / "FORMAT").touch()

    monkeypatch.setattr(server.time, "sleep", look)
    server.wait_for(tmp_path, lambda: said.append("waiting"))
    assert said == looks == []
    server.wait_for(tmp_path / "run", lambda: said.append("waiting"), every_seconds=0.5)
    assert (said, looks) == (["waiting"], [0.5] * 3)


@pytest.mark.parametrize(
    ("host", "own"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True), ("0.0.0.0", False),
     ("::", False), ("192.168.0.7", False), ("localhost.example", False), ("", False)],
)  # fmt: skip
def test_only_addresses_of_this_machine_alone_need_no_token(host, own):
    assert server.is_loopback(host) is own


def test_each_column_of_recorded_matches_has_one_header_cell():
    (head,) = re.findall(r"<thead>.*?</thead>", play_page("a run", "", report=True), re.S)
    names = re.findall(r"<th [^>]*>([^<]*)</th>", head)
    assert names == ["match", "competitors", "outcomes", "decisions", "purpose"]
    assert head.count("<th") - head.count("<thead") == len(names)
