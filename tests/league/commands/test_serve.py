"""What `league serve` says to mistakes; tests/analysis/server has the page itself."""

import socket
import sys


def test_a_port_that_is_taken_is_one_message(league_here, trained):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = league_here("serve", trained, "--port", port)
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"league: --port {port}: another program listens there; expected a free port"
    )
    assert done.stderr.count("\n") == 1


def test_what_is_no_run_is_one_message(league_here, tmp_path):
    done = league_here("serve", tmp_path, "--port", 0)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_a_server_that_is_not_installed_is_one_message(league_here, trained, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    done = league_here("serve", trained)
    assert done.returncode == 2
    assert "pip install 'checkpoint-league[serve]'" in done.stderr
