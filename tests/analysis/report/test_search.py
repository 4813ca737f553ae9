"""The page of a search shows each trial, what mattered, and the score over the settings."""

import numpy as np
import pandas as pd
import pytest

from analysis.report.search import search_page

FORMS = {"learner.lr": "log", "learner.epochs": "int", "learner.loss": "choice"}


@pytest.mark.slow
def test_the_page_has_every_trial_and_a_surface():
    rng = np.random.default_rng(0)
    score = rng.random(8)
    frame = pd.DataFrame(
        {
            "trial": [f"trial-{n}" for n in range(8)],
            "learner.lr": 10 ** rng.uniform(-4, -2, 8),
            "learner.epochs": rng.integers(1, 4, 8).astype(float),
            "learner.loss": ["appo", "impala"] * 4,
            "score": [*score[:7], np.nan],
            "low": [*score[:7] - 0.1, np.nan],
            "high": [*score[:7] + 0.1, np.nan],
            "env_steps": 1000,
            "ended": ["trained"] * 6 + ["stopped", "failed"],
        }
    )
    importance = {"learner.epochs": 0.1, "learner.lr": 0.7, "learner.loss": 0.2}
    page = search_page("mine", frame, FORMS, importance)
    assert page.count("<svg") == 2
    assert "learner.lr: 70%" in page
    assert "Score over learner.lr and learner.epochs" in page
    assert "stopped early" in page
    assert "trial-7" not in page  # nothing is known of it
    few = search_page("mine", frame[:2], FORMS, {})
    assert few.count("<svg") == 1
    assert "Too few trials" in few
