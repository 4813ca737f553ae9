"""Recorded matches in a report: the page has every frame of one that the run really played."""

import functools
import html
import json
import re

import analysis
from analysis.report.sections.shown_match import differences, good_match, shown_match
from analysis.report.story import Story
from league.envs import registry
from league.watching.browser.playback import for_report, playback


def rebuilt(frames):
    """The texts of which each is given by what it shares with the one before."""
    found, before = [], ""
    for (head, tail, rest), _ in frames:
        before = before[:head] + rest + before[len(before) - tail :]
        found.append(before)
    return found


def test_a_run_without_a_setting_has_a_match_to_show_and_the_report_has_all_its_frames(trained):
    with analysis.open_run(trained) as history:
        story = Story(history)
        section = shown_match(story, functools.partial(for_report, trained)).html
        shown = playback(trained, good_match(story))
    (frames,) = re.findall(r'data-frames="([^"]*)"', section)
    assert rebuilt(json.loads(html.unescape(frames))) == [frame["picture"] for frame in shown["frames"]]
    assert shown["frames"][-1]["picture"] in section
    assert len(section) < 50_000


def test_differences_lose_nothing_whatever_the_texts():
    texts = ["", "aaa", "aa", "aaaa", "♠K", "x♠Ky", "🎲a🎲", "🎲b🎲", "🎲b🎲"]
    assert rebuilt([(each, "") for each in differences(texts)]) == texts
    assert all(head == tail == 0 for head, tail, _ in differences(texts)[-2:])


def test_a_report_imports_no_game_of_a_stranger(snapshots_run, monkeypatch):
    monkeypatch.setattr(registry, "ids", list)  # as if the run's game were a module's
    monkeypatch.setattr(registry, "make", None)
    assert for_report(snapshots_run, 1) is None
