"""Mistakes on the command line: one line as for all mistakes, with the nearest known name."""

import pytest

MISTAKES = {
    ("rating", "runs/x"): "No such command 'rating'. Did you mean 'ratings'",
    ("envs", "lst"): "envs: No such command 'lst'. Did you mean 'list'",
    ("plot", "runs/x", "payof"): "did you mean 'payoff'?",
    ("snapshots", "runs/x", "lst"): "No such command 'lst'. Did you mean 'list'",
    ("ratings",): "ratings: Missing argument 'RUN'",
    ("train", "a.yaml", "--nope"): "train: No such option: --nope",
    ("sql", "runs/x", "SELECT 1", "--timeout", "1e300"): "'--timeout'",
    ("compare", "runs/x", "a", "b", "--seed", str(2**63)): "'--seed'",
    ("exploit", "runs/x", "a", "--seed", "99999999999999999999"): "'--seed'",
    ("serve", "runs/x", "--port", "99999"): "'--port'",
    (
        "export",
        "runs/x",
        "a",
        "new",
        "--to",
        "torchscript",
    ): "torchscript was removed; take onnx",
    ("export", "runs/x", "a", "new", "--to", "pickle"): "'pickle' is not one of 'onnx', 'folder'",
}


@pytest.mark.parametrize("arguments", MISTAKES, ids=" ".join)
def test_a_mistake_on_the_command_line_is_one_line(league_here, arguments):
    done = league_here(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("league: ")
    assert done.stderr.count("\n") == 1
    assert MISTAKES[arguments] in done.stderr
    assert "--help)" in done.stderr


def test_a_group_of_commands_alone_is_answered_with_its_help(league_here):
    done = league_here("envs")
    assert done.returncode == 2
    assert "check" in done.stdout + done.stderr
