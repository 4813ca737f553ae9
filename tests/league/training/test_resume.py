"""A run is resumed with settings that fit it, also if the run is older than some of them."""

import pytest
import yaml

from league.config.loading import load
from league.training.resume import ResumeRefused, open_archive
from storage.archive import Archive


@pytest.mark.parametrize("missing", ["value_sees", "learner_connectors"])
def test_a_run_from_before_a_setting_of_the_policy_is_resumed(tiny, tmp_path, missing):
    settings = load(tiny())
    older = settings.model_dump(mode="json")
    del older["policy"][missing]
    row = {"name": settings.name, "env": settings.env.id, "seed": settings.seed, "most_lead": None}
    Archive.create(tmp_path / "run", yaml.safe_dump(older), row).close()
    open_archive(settings, tmp_path / "run", resume=True).close()
    other = load(tiny(policy={"hidden": [8]}))
    with pytest.raises(ResumeRefused, match="a run keeps its network"):
        open_archive(other, tmp_path / "run", resume=True)
