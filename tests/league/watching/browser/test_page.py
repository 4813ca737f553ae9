"""Whole matches on the page, by clicks and by keys, in a real browser, served by the real commands."""

import contextlib
import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

pytestmark = pytest.mark.alone
ENTER, RIGHT = "\ue007", "\ue014"


@contextlib.contextmanager
def served(*arguments):
    """The address that a command prints; the server ends by Ctrl-C as it should."""
    command = [sys.executable, "-m", "league.commands.app", *map(str, arguments), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        (address,) = re.findall(r"http://\S+", server.stdout.readline())
        try:
            yield address
        finally:
            server.send_signal(signal.SIGINT)
        assert server.communicate(timeout=60)[1] == ""
        assert server.returncode == 0


def is_over(browser):
    return browser.run("return !document.getElementById('again-button').hidden")


def is_ready(browser):
    """Whether an action is due and the page takes one."""
    script = "return document.querySelectorAll('[data-action]:not([aria-disabled])').length"
    return browser.run(script) or is_over(browser)


def press(browser, key):
    browser.driver.switch_to.active_element.send_keys(key)


def answer_to(address, data, **headers):
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(address, data=data, headers=given)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_connect_four_is_played_to_its_end_by_clicks_on_the_board_and_by_keys(make_run, tmp_path, browser):
    run = make_run(tmp_path / "four", "connect_four", snapshots=2)
    with served("play", run, "main-0", "human", "--browser", "--seed", 4) as address:
        browser.open(address)
        browser.wait(lambda: is_ready(browser), 60)
        browser.one("#hint-button").click()
        browser.wait(lambda: len(browser.all("#hint tbody tr")) == 7)
        assert browser.overflow() == 0
        clicks = 0
        while not is_over(browser):
            buttons = browser.all("#spots button")
            assert all(b.get_attribute("aria-label").startswith("column ") for b in buttons)
            before = browser.one("#said").text
            buttons[clicks % len(buttons)].click()
            browser.wait(lambda said=before: browser.one("#said").text != said and is_ready(browser), 20)
            clicks += 1
        assert re.search("You won|You lost|A draw", browser.one("#status").text)
        stones = len(browser.all("#drawn .piece"))
        assert stones == len(browser.all("#said li"))
        assert browser.one("#status").get_attribute("aria-live") == "polite"
        browser.resize(400)
        assert browser.overflow() == 0
        press(browser, ENTER)  # on "Play again", where the focus is
        browser.wait(lambda: not is_over(browser) and is_ready(browser), 20)
        while not is_over(browser):
            press(browser, RIGHT)
            before = browser.one("#said").text
            press(browser, ENTER)
            browser.wait(lambda said=before: browser.one("#said").text != said and is_ready(browser), 20)
        assert browser.run("return document.activeElement.id") == "again-button"
        assert browser.complaints() == []
        host = address.split("/play")[0]
        assert [url for url in browser.requests() if not url.startswith(host)] == []


def test_kuhn_poker_is_played_to_its_end_by_keys_and_by_clicks_from_the_live_page(
    make_run, tmp_path, browser
):
    run = make_run(tmp_path / "kuhn", "kuhn_poker", snapshots=2)
    with served("serve", run) as address:
        browser.open(address)
        browser.wait(lambda: browser.all("#play-link"), 60)
        browser.run("document.getElementById('play-link').focus()")
        press(browser, ENTER)
        browser.wait(lambda: browser.all("#seat-0"), 60)
        browser.run("document.getElementById('seat-1').focus()")
        press(browser, ENTER)  # the form begins a match as it is: the person against the first name
        browser.wait(lambda: "main-0" in browser.one("#match-title").text and is_ready(browser), 60)
        focused = browser.run("return document.activeElement.dataset.action")
        assert focused is not None  # it begins on an action
        assert "?" in browser.one("#drawn").text  # the other card is not shown
        press(browser, "?")
        browser.wait(lambda: browser.all("#hint tr"), 20)
        press(browser, RIGHT)
        assert browser.run("return document.activeElement.dataset.action") != focused
        press(browser, ENTER)
        browser.wait(lambda: is_ready(browser), 20)
        while not is_over(browser):
            before = browser.one("#said").text
            press(browser, browser.all("#moves button")[0].get_attribute("data-key"))
            browser.wait(lambda said=before: browser.one("#said").text != said and is_ready(browser), 20)
        assert "?" not in browser.one("#drawn").text
        assert browser.run("return document.activeElement.id") == "again-button"
        assert re.search("You won|You lost", browser.one("#status").text)

        seated = browser.one("#match-title").text.removeprefix("Match: ").split(" against ")
        browser.one("#swapped-button").click()
        browser.wait(lambda: not is_over(browser) and is_ready(browser), 20)
        assert browser.one("#match-title").text == f"Match: {' against '.join(reversed(seated))}"
        while not is_over(browser):
            before = browser.one("#said").text
            browser.all("#moves button")[0].click()
            browser.wait(lambda said=before: browser.one("#said").text != said and is_ready(browser), 20)

        origin = address.rstrip("/")
        wish = json.dumps({"seats": ["human", "random"]}).encode()
        matches, content = f"{address}play/matches", {"Content_Type": "application/json"}
        assert answer_to(matches, wish, Origin=origin, **content)[0] == 200
        assert answer_to(matches, wish, **content)[0] == 403
        assert answer_to(matches, wish, Origin="http://evil.example", **content)[0] == 403
        assert answer_to(matches, wish, Origin=origin, Content_Type="text/plain")[0] == 415
        assert answer_to(matches, b" " * 10_000, Origin=origin, **content)[0] == 413
        assert answer_to(matches, b"[", Origin=origin, **content) == (400, {"error": "expected JSON"})
        assert answer_to(f"{address}play/about", None, Sec_Fetch_Site="cross-site")[0] == 403
        assert answer_to(f"{address}play/recorded/nan", None)[0] == 400
        bad = json.dumps({"seats": ["human", "nosuch"]}).encode()
        status, said = answer_to(matches, bad, Origin=origin, **content)
        assert status == 400
        assert "'nosuch' is no snapshot, player or bot of this run" in said["error"]
