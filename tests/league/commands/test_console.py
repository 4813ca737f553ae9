"""Progress is drawn on a terminal; elsewhere it is a line now and then. What is printed is plain text."""

import io
import threading

from rich.console import Console

from league.commands import console as module
from league.commands.console import forfeits, print_rows, progress_bars, working


def terminal(monkeypatch, is_terminal):
    drawn = io.StringIO()
    monkeypatch.setenv("TERM", "xterm")
    console = Console(file=drawn, force_terminal=is_terminal, width=80)
    monkeypatch.setattr(module, "Console", lambda stderr: console)
    monkeypatch.setattr(module, "SOON_SECONDS", 0.0)
    return console, drawn


def test_a_bar_says_what_is_done_and_how_much_of_it(monkeypatch):
    _, drawn = terminal(monkeypatch, True)
    with progress_bars() as tell:
        tell("index", 1, 4)
        tell("index", 3, 4)
    assert "index" in drawn.getvalue()
    assert "75%" in drawn.getvalue()


def test_without_a_terminal_what_takes_long_is_a_line_now_and_then(monkeypatch, capsys):
    clock = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    _, drawn = terminal(monkeypatch, False)
    with progress_bars() as tell:
        for clock[0] in (0.0, 1.9, 2.0, 3.0, 11.9, 12.0):
            tell("rows of the index", int(clock[0]), 4_000)
    assert drawn.getvalue() == ""
    assert capsys.readouterr().err == "rows of the index: 2 of 4,000\nrows of the index: 12 of 4,000\n"


def test_when_all_is_done_something_else_may_draw(monkeypatch):
    console, drawn = terminal(monkeypatch, True)
    with progress_bars() as tell:
        tell("index", 3, 4)
        tell("index", 4, 4)
        with console.status("training"):
            pass
        tell("index", 1, 2)
    assert "50%" in drawn.getvalue()


def test_a_bar_that_was_not_finished_is_gone_when_the_block_is_left(monkeypatch):
    console, _ = terminal(monkeypatch, True)
    with progress_bars() as tell:
        tell("index", 1, 4)
    with console.status("something else") as other:  # rich allows one live display at a time
        assert other.status == "something else"


def test_what_is_done_soon_gets_no_bar(monkeypatch):
    _, drawn = terminal(monkeypatch, True)
    monkeypatch.setattr(module, "SOON_SECONDS", 60.0)
    with progress_bars() as tell:
        tell("index", 1, 2)
        tell("index", 2, 2)
    assert drawn.getvalue() == ""


def test_what_takes_long_in_one_piece_says_so_and_what_is_short_says_nothing(monkeypatch, capsys):
    terminal(monkeypatch, False)
    with working("reading runs/a"):
        pass
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(module, "LONG_SECONDS", 0.01)
    written = threading.Event()
    monkeypatch.setattr(module.sys.stderr, "flush", written.set)
    with working("reading runs/a"):
        assert written.wait(30.0)
    assert capsys.readouterr().err == "reading runs/a: 0 s so far\n"


def test_on_a_terminal_the_state_is_gone_when_the_work_is_done(monkeypatch):
    monkeypatch.setattr(module, "LONG_SECONDS", 0.0)
    console, drawn = terminal(monkeypatch, True)
    shown, status = threading.Event(), console.status
    monkeypatch.setattr(console, "status", lambda text: shown.set() or status(text))
    with working("reading runs/a"):
        assert shown.wait(30.0)
    assert "reading runs/a..." in drawn.getvalue()
    assert drawn.getvalue().endswith("\x1b[2K")


def test_of_causes_that_never_repeat_a_few_are_printed():
    failures = {f"answered {n}\x1b[31m": n for n in range(1, 101)}
    *shown, rest = forfeits(failures)
    assert shown[0] == r"100 forfeits: answered 100\u001b[31m"
    assert len(shown) == 5
    assert rest == "4,560 forfeits by 95 other causes"


def test_cells_of_a_table_hold_no_terminal_commands(capsys):
    print_rows(["name"], [("a\x1b[31m\u202e",)], as_json=False)
    assert r"a\u001b[31m\u202e" in capsys.readouterr().out
