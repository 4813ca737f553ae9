"""Shipped configs, as they are, do what configs/README.md says. All: `python -m tests.bench.configs`."""

import pytest

from tests.bench.configs import CASES, trained

pytestmark = pytest.mark.long


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.variant) for seed in (1, 2))])
@pytest.mark.parametrize("name", ["recall", "cartpole", "magnet", "rock_paper_scissors", "psro"])
def test_a_shipped_config_keeps_to_what_is_said_of_it(name, seed, tmp_path):
    case = CASES[name]
    run, _ = trained(name, seed, tmp_path)
    figures = case.measure(run)
    assert figures.keys() == case.limits.keys()
    assert {figure: value for figure, value in figures.items() if not case.kept(figure, [value])} == {}
