"""float32 on a card is float32 in all products; TF32 and equal bits are there where they are asked for."""

import pytest
import torch

import league
from league.learning.learner.learner import Learner
from league.learning.settings import LearnerSettings
from league.rollout.playing import Playing
from storage.errors import Mistake
from tests.bench.learners import experience
from tests.gpu.cards import CARD, needs_cards, needs_double
from tests.gpu.test_learning import SETTINGS, spec_of

pytestmark = [pytest.mark.alone, needs_cards()]

RUN = {
    "env": {"id": "tic_tac_toe"},
    "rollout": {"device": "cuda", "matches_per_request": 64},
    "learner": {"batch_steps": 128},
    "evaluation": {"placing": 0},  # it plays in float32
    "resources": {"gpus": 1},
    "stop": {"env_steps": 1500},
}


def tf32():
    return torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32


@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16", "auto"])
def test_a_learner_computes_in_its_precision_whatever_the_process_was_set_to(precision, monkeypatch):
    torch.backends.cudnn.allow_tf32 = True
    learner = Learner("main-0", spec_of("lstm"), LearnerSettings(precision=precision, **SETTINGS), 0, CARD)
    seen, update = set(), learner._update
    noted = lambda *given, **how: (seen.add(tf32()), update(*given, **how))[1]  # noqa: E731
    monkeypatch.setattr(learner, "_update", noted)
    learner.update_from_episodes(experience("main-0", 0))
    assert seen == {(precision == "tf32",) * 2}
    assert tf32() == (False, False)


@pytest.mark.parametrize("precision", ["auto", "tf32"])
def test_a_run_in_one_process_plays_in_its_precision_and_repeats_its_bits(precision, tmp_path, monkeypatch):
    seen, playing = set(), Playing.run

    def run(self, *given):
        seen.add((*tf32(), torch.get_deterministic_debug_mode(), torch.backends.cudnn.deterministic))
        return playing(self, *given)

    monkeypatch.setattr(Playing, "run", run)
    config = {**RUN, "rollout": {**RUN["rollout"], "precision": precision}}
    league.train(config, tmp_path / "run")
    assert seen == {(precision == "tf32", precision == "tf32", 1, True)}
    assert torch.get_deterministic_debug_mode() == 0


@needs_double
def test_a_card_without_tf32_is_refused_in_one_sentence(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: (7, 5))
    with pytest.raises(
        Mistake, match=r"learner\.precision: found tf32 on a double of a GPU, expected float32"
    ):
        Learner("main-0", spec_of(), LearnerSettings(precision="tf32"), 0, CARD)
