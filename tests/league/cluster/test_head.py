"""A head that does not answer is one line in seconds; if it is back the run goes on, else ends in order."""

import signal
import subprocess
import sys
import time

import psutil
import pytest

from league.cluster import head
from league.cluster.head import HeadLost, HeadWatch, _first_ended
from tests.steps import wait_for


class Head:
    """A head that answers as long as it is `here`."""

    def __init__(self, give_up=1000.0, kept=""):
        self.here, self.asked, self.gone, self.said = True, 0, "", []
        self.watch = HeadWatch(
            "the head", self._ask, lambda: self.gone, give_up, kept, say=self.said.append, seconds=0.001
        )

    def _ask(self):
        self.asked += 1
        if not self.here:
            raise ConnectionError

    def asks(self, more=3):
        before = self.asked
        wait_for(lambda: self.asked >= before + more)


def test_silence_is_one_line_and_so_is_its_end():
    there = Head()
    there.asks()
    assert there.said == []
    there.here = False
    there.asks()
    (line,) = there.said
    assert "the head has not answered for 0 s" in line
    assert "after 1000 s without an answer the run ends" in line
    there.here = True
    there.asks()
    assert there.said[1:] == ["the head answers again, after 0 s"]
    there.watch.require()
    there.watch.close()


def test_a_head_that_stays_away_ends_the_run():
    there = Head(give_up=0.0, kept="/tmp/ray/logs")
    there.here = False
    wait_for(lambda: there.said)
    with pytest.raises(HeadLost, match=r"go on with --resume\. Ray's own messages are in /tmp/ray/logs"):
        there.watch.require()


def test_a_process_that_has_ended_here_ends_the_run_at_once():
    sleeping = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = next(p for p in psutil.process_iter(["name"]) if p.pid == sleeping.pid)
    ended = _first_ended([process])
    assert ended() == ""
    sleeping.kill()
    wait_for(ended)
    there = Head()
    there.gone = "raylet"
    wait_for(lambda: there.said)
    assert there.said == [
        "the head is lost: its process raylet on this machine has ended; the run is saved and ends"
    ]
    with pytest.raises(HeadLost, match="its process raylet on this machine has ended"):
        there.watch.require()
    sleeping.communicate()


def test_without_a_session_of_ray_nothing_is_lost():
    head.require_head()
    assert not head.is_lost()


@pytest.fixture
def killed(tiny_config, tmp_path):
    """Trains a league, kills a process of Ray's, and returns what was said and whether it was saved."""

    def train(name):
        run, said = tmp_path / "run", tmp_path / "said"
        command = [sys.executable, "-m", "league", "train", str(tiny_config), "--run", str(run)]
        for setting in ("runners=2", "stop={minutes: 30}", "storage.save_seconds=3000"):
            command += ["--set", setting]
        with said.open("w") as out:
            training = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
        try:
            wait_for(lambda: list((run / "manifests").glob("main-0@*[1-9]*.json")), 240.0)
            started = psutil.Process(training.pid).children(recursive=True)
            (process,) = (p for p in started if p.name() == name)
            process.send_signal(signal.SIGKILL)
            began = time.time()
            assert training.wait(50.0) == 1, said.read_text()  # Ray's own end came after 60
        finally:
            training.kill()
            training.wait()
        left = [p for p in psutil.process_iter(["cmdline"]) if str(run) in (p.info["cmdline"] or [])]
        assert left == []
        ours = ("league:", "[", "(", "Ray on")
        lines = [line for line in said.read_text().splitlines() if line.startswith(ours)]
        return lines, (run / "learners" / "main-0.json").stat().st_mtime > began

    return train


@pytest.mark.alone
def test_a_league_whose_head_dies_saves_what_was_learned_and_ends_in_one_sentence(killed):
    """It went on for up to a minute; then Ray ended the process, with lines of its own, and saved nothing."""
    lines, saved = killed("gcs_server")
    assert len(lines) == 2, lines
    assert "its process gcs_server on this machine has ended; the run is saved and ends" in lines[0]
    assert "go on with --resume. Ray's own messages are in /" in lines[1]
    assert saved


@pytest.mark.alone
def test_a_league_whose_raylet_dies_ends_in_one_sentence_whoever_finds_it_first(killed):
    """Ray ends a process that asks a dead raylet for anything before the watch has seen its end."""
    lines, saved = killed("raylet")
    if len(lines) == 2:  # the watch
        assert "its process raylet on this machine has ended; the run is saved and ends" in lines.pop(0)
    (last,) = lines
    assert saved if "is lost: its process raylet" in last else "ended suddenly: it was killed" in last
    assert "go on with --resume" in lines[-1]
