"""`make check` ends with the lines that a change adds."""

import shutil
import subprocess
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).parent.parent / "Makefile"


@pytest.fixture
def tree(tmp_path):
    shutil.copy(MAKEFILE, tmp_path)
    for name in ("league", "tests"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text("one\ntwo\nthree\n")
    return tmp_path


def git(tree, *words):
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *who, *words], cwd=tree, check=True, capture_output=True)


def net(tree):
    done = subprocess.run(["make", "-s", "net"], cwd=tree, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_net_lines_are_of_a_branch_against_main_and_of_main_against_its_last_commit(tree):
    git(tree, "init", "-b", "main")
    git(tree, "add", ".")
    git(tree, "commit", "-m", "first")
    (tree / "league" / "a.py").write_text("one\n")
    assert net(tree) == ["league storage analysis: -2 lines (+0 -2)", "tests: +0 lines (+0 -0)"]
    git(tree, "checkout", "-b", "mine")
    git(tree, "commit", "-am", "second")
    (tree / "tests" / "a.py").write_text("one\ntwo\nthree\nfour\n")
    assert net(tree) == ["league storage analysis: -2 lines (+0 -2)", "tests: +1 lines (+1 -0)"]


def test_a_folder_without_a_history_has_no_net_lines_and_no_error(tree):
    assert net(tree) == ["league storage analysis: +0 lines (+0 -0)", "tests: +0 lines (+0 -0)"]
