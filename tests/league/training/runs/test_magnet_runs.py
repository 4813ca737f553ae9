"""With a magnet, the last snapshot of self-play is near an equilibrium: exact NashConv in Kuhn poker."""

from pathlib import Path

import pytest
import yaml

import league
from league.exploit.exact import exact

CONFIG = yaml.safe_load((Path(__file__).parents[4] / "configs" / "magnet.yaml").read_text())


@pytest.mark.long
def test_the_last_policy_of_a_held_player_is_far_less_exploitable(tmp_path):
    found = {}
    for name, changes in (("held", {}), ("free", {"magnet": None})):
        learner = CONFIG["learner"] | changes
        run = league.train(CONFIG | {"learner": learner}, tmp_path / name)
        found[name] = exact(run, "main-0").nash_conv
    assert found["held"] < 0.5 * found["free"]
    assert found["held"] < 0.2
